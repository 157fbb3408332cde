"""Unnest: a row for each element of an array or entry of a map, written as what flat map runs.

```
 id | items                unnest("items AS item")     id | items  | item
 1  | [a, b]               ----------------------->    1  | [a, b] | a
 2  | []                                               1  | [a, b] | b
```
"""

from __future__ import annotations

import re

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import parse_alias
from dagster_operators.types.names import quoted

_SEVERAL = re.compile(r"(?is)(?P<what>.*?)\s+AS\s*\((?P<names>[^()]*)\)\s*")


def unnest_call(text: str, position: str | None = None) -> str:
    """The generator call that unnests a column.

    Args:
        text: ``"array AS element"`` or ``"map AS (key, value)"``.
        position: A column for the element's place, from 0.

    Raises:
        SchemaError: The elements have no name, or the text is no expression.

    >>> unnest_call("items AS item"), unnest_call("prices AS (product, price)", position="n")
    ('explode(items) AS (`item`)', 'posexplode(prices) AS (`n`, `product`, `price`)')
    """
    if several := _SEVERAL.fullmatch(text):
        what, names = several["what"], [name.strip().strip("`") for name in several["names"].split(",")]
    else:
        what, name = parse_alias(text)
        names = [] if name is None else [name]
    if not all(names) or not names:
        raise SchemaError(
            f"the elements of {text!r} have no name", expression=text,
            remedy=f"write '{what} AS element' for an array, '{what} AS (key, value)' for a map",
        )  # fmt: skip
    made = ", ".join(map(quoted, [*([position] if position is not None else []), *names]))
    return f"{'explode' if position is None else 'posexplode'}({what}) AS ({made})"
