"""Lists of rows, one for each group, taken apart and given to a function group by group or all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import OperatorsError
from dagster_operators.functions.values import given, raised

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Groups:
    """The rows of several groups, column by column.

    Attributes:
        ends: Where the rows of each group end; there is one more, the first group's start.
        columns: The values of all groups, one group after the other.

    >>> import pyarrow as pa
    >>> lists = pa.array([[{"a": 1, "b": "x"}, {"a": 2, "b": None}], None, [{"a": 3, "b": "z"}]])
    >>> groups = Groups.of_rows(lists)
    >>> groups.ends, [column.to_pylist() for column in groups.columns]
    ([0, 2, 2, 3], [[1, 2, 3], ['x', None, 'z']])
    """

    ends: list[int]
    columns: Sequence[pa.Array]

    @classmethod
    def of_values(cls, lists: pa.ListArray) -> Groups:
        """Lists of single values; a null list has none."""
        import pyarrow.compute as pc

        ends = [0]
        for length in pc.fill_null(pc.list_value_length(lists), 0).to_pylist():
            ends.append(ends[-1] + length)
        return cls(ends, [lists.flatten()])

    @classmethod
    def of_rows(cls, lists: pa.ListArray) -> Groups:
        """Lists of structs, whose fields become the columns."""
        groups = cls.of_values(lists)
        return cls(groups.ends, groups.columns[0].flatten())

    def lists(self) -> list[pa.ListArray]:
        """Each column as one list for each group."""
        import pyarrow as pa

        offsets = pa.array(self.ends, pa.int32())
        return [pa.ListArray.from_arrays(offsets, column) for column in self.columns]

    def apply(self, function: Callable[..., Any], forms: Sequence[str], name: str) -> list[Any]:
        """What the function makes of each group's columns."""
        results = []
        for start, end in zip(self.ends, self.ends[1:], strict=False):
            columns = [column.slice(start, end - start) for column in self.columns]
            try:
                results.append(plain(function(*given(columns, forms))))
            except OperatorsError:
                raise
            except (Exception, SystemExit) as error:
                raise raised(name, error, columns) from error
        return results


def plain(value: Any) -> Any:
    """A value without Arrow's or numpy's scalars in it.

    >>> import pyarrow as pa
    >>> plain({"total": pa.scalar(2.5), "n": 3})
    {'total': 2.5, 'n': 3}
    """
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    if hasattr(value, "as_py"):
        return value.as_py()
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") and not value.shape else value
