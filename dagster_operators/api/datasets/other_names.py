"""Names that whoever comes from Flink or Spark writes, and what is written here in their place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn

_OTHERS: Final = {
    **dict.fromkeys(
        ("collect", "print", "print_to_err"),
        "rows are computed when an epoch runs: write them with to_table(...) and read the table, or run them by "
        "do.data_sets.LocalProgram().collect(...) in a test",
    ),
    **dict.fromkeys(("output", "write", "write_as_csv", "write_as_text"), "rows go out by to_table(...) or to_sink(...)"),
    **dict.fromkeys(("with_columns", "where", "agg"), "it is a call of streams: write it before data_set()"),
    "returns": "declare columns where the function is given: map(function, schema='k string, v long')",
    "sort": "sort_partition(field) sorts within parts, and all rows behind set_parallelism(1)",
    "order_by": "sort_partition(field) sorts within parts, and all rows behind set_parallelism(1)",
}


def missing(kind: type, name: str, ends: str, finished: type | None) -> AttributeError:
    """The error for a name that a class does not have.

    Args:
        kind: The class.
        name: The name.
        ends: How a call is ended that has no rows yet; empty of a data set.
        finished: The class that the end of the call gives, where it has more names.
    """
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
    shown = f"{kind.__name__!r} object has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(shown)
    if snake != name and hasattr(kind, snake):
        return AttributeError(f"{shown}: it is {snake!r} here")
    if ends and finished is not None and (hasattr(finished, snake) or snake in _OTHERS):
        return AttributeError(f"{shown}: there are no rows yet; {ends}")
    return AttributeError(f"{shown}: {_OTHERS[snake]}" if snake in _OTHERS else shown)


class OtherNames:
    """A class that says of a name which it does not have what is written in its place."""

    _ends: ClassVar[str] = ""

    # Type checkers are to refuse such names, which they do without it.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """A name that is no attribute.

            Raises:
                AttributeError: Always.
            """
            from dagster_operators.api.datasets.data_set import DataSet

            raise missing(type(self), name, self._ends, DataSet)
