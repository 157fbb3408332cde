"""Finding out, once a stage has failed, whether a file of the pipeline's own is to blame: engines hardly say which one it was."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import StorageError
from dagster_operators.storage.presence import lost_files
from dagster_operators.transactions.lost import PUT_BACK, RUN_AGAIN, lost_error

if TYPE_CHECKING:
    from dagster_operators.errors import LostFileError
    from dagster_operators.runtime.stages.stage_work import StageWork
    from dagster_operators.storage.presence import Written
    from dagster_operators.storage.root import Root

_DECODED: Final = 1 << 28
"""So many bytes of files are read through, the newest first; of the others only the footers."""


def unreadable_file(work: StageWork) -> LostFileError | StorageError | None:
    """The error for a file of the stage's state, tables or streams that is damaged, lost or not given; None if none is."""
    files = dict(_files_read(work))
    try:
        lost = lost_files(work.coordinator.root, files) or undecodable(
            work.coordinator.root, {path: file.size for path, file in files.items()}
        )
    except StorageError as error:
        return error
    if not lost:
        return None
    staged = all(path.startswith("streams/") for path in lost)
    return lost_error(lost, "rows cannot be read", RUN_AGAIN if staged else PUT_BACK, view=work.coordinator.view())


def _files_read(work: StageWork) -> Iterator[tuple[str, Written]]:
    """The path below the root of each file, and the file as it was written, of each file that the stage may have read."""
    stage, bases = work.stage, work.attempt.begin.base_versions
    states = (state.rpartition(".") for state in work.plan.states)
    own = [work.state_dataset(operator, table) for operator, _, table in states if operator in stage.nodes]
    for dataset in {*own, *(output.dataset for output in stage.outputs)} & bases.keys():
        for entry in work.before(dataset):
            yield f"{dataset}/{entry.path}", entry.as_written
    for manifest in work.attempt.upstream.values():
        for change in manifest.changes:
            for entry in change.adds if change.dataset.startswith(("streams/", "tables/")) else ():
                yield f"{change.dataset}/{entry.path}", entry.as_written


def undecodable(root: Root, files: Mapping[str, int], *, at_most: int | None = _DECODED) -> dict[str, str]:
    """Those of some files that cannot be decoded, and what is wrong with each.

    Args:
        root: The storage root.
        files: The size in bytes of each, by its path below the root.
        at_most: So many bytes are read through, of other files only the footers; None for all.

    Raises:
        StorageError: One is not given now, which says nothing of what is in it.
    """
    left, found = sum(files.values()) if at_most is None else at_most, dict[str, str]()
    for path, size in reversed(list(files.items())):
        left -= size
        if problem := _problem(root, path, whole=left >= 0):
            if not root.is_local or not os.access(root.path(path), os.R_OK):
                root.tail(path, size, 1)  # raises if that is all that is wrong
            found[path] = problem
    return found


def _problem(root: Root, path: str, *, whole: bool) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with root.files.open_input_file(root.path(path)) as source:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            for _ in file.iter_batches(use_threads=False) if whole else ():
                pass
    except (OSError, pa.ArrowException) as error:
        return f"cannot be decoded ({str(error).strip().splitlines()[0]})"
    return ""
