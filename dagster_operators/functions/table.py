"""``do.udtf``: functions that make several rows of one, used with ``stream.flat_map``.

On the engine it is a scalar function that returns an array of structs, which ``inline`` turns into rows; so it can also be used
with ``LATERAL VIEW inline(...)`` and within any expression over arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from dagster_operators.arguments import checked
from dagster_operators.errors import UserFunctionError
from dagster_operators.functions.scalar import ArrowCall, ScalarFunction
from dagster_operators.functions.shipping import EngineFunction
from dagster_operators.functions.values import as_array, forms_of
from dagster_operators.graph.user_functions import find, register
from dagster_operators.types.arrow_schema import arrow_type
from dagster_operators.types.ddl import parse_ddl, parse_type

if TYPE_CHECKING:
    import pyarrow as pa


class TableFunction(ScalarFunction):
    """A table function of the user's own; made by :func:`udtf`. Calling it calls the Python function itself.

    Attributes:
        columns: The names of the columns of its rows.
    """

    def __init__(self, function: Callable[..., Any], name: str, returns: str) -> None:
        fields = parse_ddl(returns)
        self.schema = returns
        self.columns = tuple(field.name for field in fields)
        super().__init__(function, name, f"array<struct<{returns}>>")

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.function, self.name, self.schema)

    @override
    def engine_functions(self) -> Sequence[EngineFunction]:
        call = TableCall(self.name, self.function, arrow_type(parse_type(self.returns)), forms_of(self.function))
        return [EngineFunction(self.name, self.returns, call, self.function.__module__)]


@dataclass(frozen=True)
class TableCall(ArrowCall):
    """What a worker runs: from Arrow arrays to an array of lists of rows."""

    @override
    def column(self, result: Any, rows: int) -> pa.Array:
        import pyarrow as pa

        if not isinstance(result, pa.Array | pa.ChunkedArray):
            if not hasattr(result, "__iter__") or isinstance(result, str | bytes):
                raise UserFunctionError(
                    f"the function {self.name!r} returned {result!r}, not a list of rows for each row", function=self.name,
                    remedy="return a list with one list of rows (tuples or dicts) for each row",
                )  # fmt: skip
            result = [None if made is None else [self._row(row) for row in made] for made in result]
        return as_array(result, self.kind, rows, self.name)

    def _row(self, row: Any) -> Any:
        """A row as a tuple or dict; of one column the plain value will do."""
        return row if isinstance(row, tuple | dict) or self.kind.value_type.num_fields > 1 else (row,)


@checked
def udtf(returns: str, *, name: str | None = None) -> Callable[[Callable[..., Any]], TableFunction]:
    """Make a table function known by its name: it returns any number of rows for each row.

    The function is called with columns as a :func:`~dagster_operators.functions.scalar.udf` is, and returns one list of rows for
    each row: a list (or generator) of lists of tuples or dicts, or a ``pyarrow.ListArray`` of structs. Rows of one column may be
    plain values. No rows, or None, drop the row.

    Args:
        returns: The columns of its rows as in a schema: ``"word string, n int"``.
        name: What expressions call it; by default the function's name.

    Example:
        >>> from dagster_operators import FileSource, Pipeline, udtf
        >>> @udtf("word string, position int")
        ... def split_words(text):
        ...     for line in text.to_pylist():
        ...         yield [(word, n) for n, word in enumerate((line or "").split())]
        >>> lines = Pipeline("p", root="data/p").source("lines", FileSource("in/*.csv", schema="id long, text string"))
        >>> lines.flat_map("split_words(text)").columns
        ('id', 'text', 'word', 'position')
    """

    def declare(function: Callable[..., Any]) -> TableFunction:
        return register(TableFunction(function, name or function.__name__, returns))

    return declare


def table_named(name: str) -> TableFunction | None:
    """The table function of that name, if there is one."""
    found = find(name)
    return found if isinstance(found, TableFunction) else None
