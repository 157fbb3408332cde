"""Routes: numbers by which the shuffle brings rows to the subtask of a key group, whatever the rows' own keys are.

Operators of one scope exchange by different columns, and a stage has one shuffle. Of each key group one number is known whose
hash falls into it, so rows with that number get where rows of the group belong, at any parallelism.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import SchemaError
from dagster_operators.graph.key_group import KEY_GROUPS, key_group
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

ROUTE: Final = "do_route_"
"""The column with a row's route."""


@cache
def routes() -> tuple[int, ...]:
    """The route to each key group.

    >>> len(routes()), min(routes()) >= 0
    (128, True)
    """
    import numpy as np
    import pyarrow as pa

    from dagster_operators.state.key_hash import hash_columns, key_groups

    groups = key_groups(hash_columns([pa.array(np.arange(16 * KEY_GROUPS))]))
    found, places = np.unique(groups, return_index=True)
    if len(found) != KEY_GROUPS:
        raise AssertionError(f"only {len(found)} of {KEY_GROUPS} key groups have a route")
    return tuple(places.tolist())


def route_of(columns: Sequence[str]) -> str:
    """The route of rows by these columns, as Spark SQL; without any all take that to the first group.

    >>> route_of(["v"])[:30], route_of([])[:5]
    ("CAST(element_at(split('745 184", 'CAST(')
    """
    if not columns:
        return f"CAST({routes()[0]} AS BIGINT)"
    numbers = " ".join(map(str, routes()))
    group = key_group([quoted(name) for name in columns])
    return f"CAST(element_at(split('{numbers}', ' '), CAST({group} + 1 AS INT)) AS BIGINT)"


def groups_of(rows: pa.Table, columns: Sequence[str], types: Sequence[pa.DataType | None], operator: str) -> np.ndarray:
    """The key group of each row by these columns, which are hashed as these types.

    Raises:
        SchemaError: A column is missing, or cannot be cast.
    """
    import numpy as np

    from dagster_operators.state.key_hash import hash_columns, key_groups, normal_key

    if not columns:
        return np.zeros(rows.num_rows, np.int64)
    found: list[Any] = []
    for name, kind in zip(columns, types, strict=True):
        if name not in rows.column_names:
            raise SchemaError(
                f"the rows have no column {name!r}, by which they are exchanged", operator=operator, column=name,
                remedy=f"they have: {', '.join(rows.column_names)}",
            )  # fmt: skip
        column = rows[name].combine_chunks()
        found.append(normal_key(column if kind is None or column.type == kind else column.cast(kind)))
    return key_groups(hash_columns(found))


def by_group(rows: pa.Table, groups: np.ndarray) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each key group, those of one in their order.

    >>> import pyarrow as pa, numpy as np
    >>> [(group, part["v"].to_pylist()) for group, part in by_group(pa.table({"v": [1, 2, 3]}), np.array([7, 5, 7]))]
    [(5, [2]), (7, [1, 3])]
    """
    import numpy as np
    import pyarrow as pa

    order = np.argsort(groups, kind="stable")
    found, starts = np.unique(groups[order], return_index=True)
    ordered = rows.take(pa.array(order))
    for group, start, end in zip(found.tolist(), starts.tolist(), [*starts[1:].tolist(), len(groups)], strict=True):
        yield group, ordered.slice(start, end - start)
