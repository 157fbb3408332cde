"""The counts of a stage agree before its manifest is written, as far as they come from different places.

This package's writers and the ports of workers count rows, which are compared with the footers of their files. The manifest's
own counts are compared with its files and with their statistics. Rows that an engine writes have footers alone; of tables with
checks the engine counts them, too, and files whose rows it only writes anew say how many these are. What this process reads back
of files, for sinks and for updating tables, is compared with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import StageFailedError
from dagster_operators.transactions.lost import lost_error
from dagster_operators.transactions.manifest import FileEntry, Manifest
from dagster_operators.transactions.plan import DatasetRecord

if TYPE_CHECKING:
    from pyarrow import RecordBatch

COUNT_AGAIN: Final = "run again, which computes the stage anew; if it comes again, report it with the engine's version"
"""What to do about counts that differ."""

_ROWS: Final = re.compile(r'\{\s*"numRecords":\s*(-?\d+)')


def check_counts(manifest: Manifest, datasets: Mapping[str, DatasetRecord]) -> None:
    """Compare the counts of a stage.

    Args:
        manifest: What the stage prepared.
        datasets: The tables of the plan: of one that only grows, the files added hold the rows that the stage counted.

    Raises:
        StageFailedError: They differ.

    >>> from dagster_operators.transactions.manifest import Change
    >>> change = Change("tables/clean", (FileEntry("e1-g1-0a/a", 9, 2, '{"numRecords": 2}'),))
    >>> table = DatasetRecord("{}", "append")
    >>> check_counts(Manifest("p", 1, "clean", "g1-0a", "f", changes=(change,), rows={"clean": 2}), {"tables/clean": table})
    >>> try:
    ...     check_counts(Manifest("p", 1, "clean", "g1-0a", "f", changes=(change,), rows={"clean": 3}), {"tables/clean": table})
    ... except StageFailedError as error:
    ...     print(error.problem)
    rows are missing or too many: the stage counted 3, its files hold 2
    """
    for dataset, what, counted, held in _differences(manifest, datasets):
        raise StageFailedError(
            f"rows are missing or too many: {what} {counted}, its files hold {held}",
            pipeline=manifest.pipeline, stage=manifest.stage, epoch=manifest.epoch, table=dataset,
            remedy=COUNT_AGAIN,
        )  # fmt: skip


def check_written(written: int, files: Iterable[FileEntry], dataset: str) -> None:
    """Compare the rows that a writer of this package was given with those of the footers of its files.

    Raises:
        StageFailedError: They differ.

    >>> check_written(2, [FileEntry("e1-g1-0a/a", 9, 2)], "tables/clean")
    """
    held = sum(file.rows for file in files)
    if held != written:
        raise StageFailedError(
            f"rows are missing or too many: {written} were written, the files hold {held}", table=dataset, remedy=COUNT_AGAIN
        )


def check_kept(held: int, group: Sequence[FileEntry], dataset: str, *, all_stay: bool) -> None:
    """Compare the rows that an engine wrote anew with those of the files that it read; it counts neither.

    Args:
        held: The rows of the new files, by their footers.
        group: The files whose rows they are; those whose rows the log does not say are not compared.
        dataset: For example ``tables/clean``.
        all_stay: Whether all rows stay, as where small files are joined; else some may have left.

    Raises:
        StageFailedError: Rows are missing, or there are more than before.

    >>> check_kept(2, [FileEntry("e1-g1-0a/a", 9, 2)], "tables/clean", all_stay=True)
    >>> check_kept(1, [FileEntry("e1-g1-0a/a", 9, 2)], "tables/clean", all_stay=False)
    """
    before = sum(file.rows for file in group)
    if all(file.rows for file in group) and (held > before or (all_stay and held < before)):
        raise StageFailedError(
            f"rows are missing or too many: {before} were to be written anew, the files hold {held}", table=dataset,
            remedy=COUNT_AGAIN,
        )  # fmt: skip


def counted(
    batches: Iterable[RecordBatch], expected: int, dataset: str, paths: Sequence[str], remedy: str
) -> Iterator[RecordBatch]:
    """The same batches, whose rows are as many as the ledger says of their files.

    Args:
        batches: The rows of the files.
        expected: How many they are.
        dataset: For example ``tables/clean``.
        paths: The files, relative to the dataset.
        remedy: What to do where they are not.

    Raises:
        LostFileError: They are more or fewer, behind the last batch.

    >>> import pyarrow as pa
    >>> rows = pa.table({"v": [1, 2]})
    >>> [batch.num_rows for batch in counted(rows.to_batches(), 2, "tables/clean", ["e1-g1-0a/a"], "run again")]
    [2]
    """
    found = 0
    for batch in batches:
        found += batch.num_rows
        yield batch
    if found != expected:
        wrong = {f"{dataset}/{path}": f"or one of {len(paths)} has not its rows" for path in paths}
        raise lost_error(wrong, f"rows cannot be read, {found} rows instead of {expected}", remedy)


def _differences(manifest: Manifest, datasets: Mapping[str, DatasetRecord]) -> Iterator[tuple[str, str, int, int]]:
    held: dict[str, int] = {}
    for change in manifest.changes:
        for file in (*change.adds, *change.feed):
            logged = _logged(file)
            if logged is not None and logged != file.rows:
                yield change.dataset, "the table's log would tell", logged, file.rows
        held[change.dataset] = sum(file.rows for file in change.adds)
    for name, counted in manifest.rows.items():
        dataset = f"tables/{name}"
        grows = dataset in datasets and datasets[dataset].kind == "append"
        if grows and held.get(dataset, 0) != counted:
            yield dataset, "the stage counted", counted, held.get(dataset, 0)


def _logged(file: FileEntry) -> int | None:
    """The rows that a file's statistics tell; None without any that begin with them."""
    found = _ROWS.match(file.stats)
    return int(found[1]) if found else None
