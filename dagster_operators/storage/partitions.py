"""The partitions of a Delta table: each of its files has one value in each partition column, and the log says which.

The files have the columns themselves, too, as Delta's protocol allows: whoever reads a file needs no log to have whole rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from dagster_operators.errors import SchemaError, StorageError
from dagster_operators.storage.parquet_stats import read_footer
from dagster_operators.storage.presence import lost_files

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.storage.root import Root

Values: TypeAlias = tuple[tuple[str, str | None], ...]
"""The partition columns of a file with their values, as the log writes them."""

TYPES: Final = frozenset({"string", "boolean", "byte", "short", "integer", "long", "date"})
"""The types of columns, as Delta's schemas have them, whose values every reader reads alike from the log."""

_AT_ONCE: Final = 65_536


def values_of(root: Root, path: str, by: Sequence[str]) -> Values:
    """The values that all rows of a file have in the partition columns.

    Raises:
        SchemaError: One is empty text, which the log cannot tell from null.
        StorageError: Rows differ.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not by:
        return ()
    found: set[Values] = set()
    with root.files.open_input_file(root.path(path)) as source, pq.ParquetFile(source) as file:
        for batch in file.iter_batches(_AT_ONCE, columns=list(by)):
            distinct = pa.Table.from_batches([batch]).group_by(list(by), use_threads=False).aggregate([])
            found.update(values for values, _ in parts_of(distinct, by))
    if len(found) != 1:
        raise StorageError("the rows of a file are of several partitions", file=path, remedy="run again, and report this")
    return without_empty(found.pop())


def files_without(root: Root, sizes: Mapping[str, int], columns: Sequence[str]) -> list[str]:
    """The files, of those that are there, without some of the columns: other writers leave partition columns out.

    Args:
        root: The storage root.
        sizes: Files by their paths, with their sizes.
        columns: The columns.
    """
    lost = lost_files(root, sizes)
    found = []
    for path in sizes.keys() - lost.keys():
        with root.guard(path, "a file of the table cannot be read"):
            names = set(read_footer(root, path, sizes[path]).schema.to_arrow_schema().names)
        if not names.issuperset(columns):
            found.append(path)
    return sorted(found)


def without_empty(values: Values) -> Values:
    """The values themselves.

    Raises:
        SchemaError: One is empty text, which the log cannot tell from null.
    """
    if empty := [name for name, value in values if value == ""]:
        raise SchemaError(
            f"the partition column {empty[0]!r} has a row with empty text, which a Delta log cannot tell from null",
            remedy=f"put .with_columns({{{empty[0]!r}: \"nullif(`{empty[0]}`, '')\"}}) before it, or another text for it",
        )
    return values


def parts_of(rows: pa.Table | pa.RecordBatch, by: Sequence[str]) -> Iterator[tuple[Values, pa.Table | pa.RecordBatch]]:
    """The rows of each partition.

    >>> import pyarrow as pa
    >>> rows = pa.table({"n": [1, 2, 3], "day": ["a", None, "a"]})
    >>> [(values, part["n"].to_pylist()) for values, part in parts_of(rows, ["day"])]
    [((('day', 'a'),), [1, 3]), ((('day', None),), [2])]
    """
    import pyarrow as pa

    if not by or not rows.num_rows:
        yield (), rows
        return
    keys = {f"k{number}": rows.column(name).cast(pa.string()) for number, name in enumerate(by)}
    numbered = pa.table({**keys, "row": pa.array(range(rows.num_rows), pa.int64())})
    grouped = numbered.group_by(list(keys), use_threads=False).aggregate([("row", "list")])
    for group in grouped.to_pylist():
        values = tuple((name, group[key]) for name, key in zip(by, keys, strict=True))
        yield values, rows if len(group["row_list"]) == rows.num_rows else rows.take(pa.array(group["row_list"]))
