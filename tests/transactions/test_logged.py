"""Files as a table's log has them, whatever the order of its columns."""

from __future__ import annotations

from dagster_operators.transactions.effects import TableStatus
from dagster_operators.transactions.logged import as_read, bounds_of
from dagster_operators.transactions.manifest import FileEntry


def test_statistics_are_equal_whose_columns_are_in_another_order() -> None:
    """A table whose columns were reordered would be damaged, as ``doctor --deep`` compared texts."""
    file = FileEntry("e1-g1-0a/a", 9, 2, '{"numRecords": 2, "minValues": {"v": 1, "n": 3}, "maxValues": {"v": 2, "n": 4}}')
    status = TableStatus(1, "p", 1, columns=(("n", "long"), ("v", "long")))
    read = {"num_records": 2, "min.n": 3, "min.v": 1, "max.n": 4, "max.v": 2}
    assert as_read(file, status).stats == bounds_of(read)
    assert as_read(file, status).stats != bounds_of({**read, "max.v": 3})
