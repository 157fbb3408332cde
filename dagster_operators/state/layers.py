"""What a state table consists of while an epoch runs: runs in files, rows that were loaded, and what this epoch spilled."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

from dagster_operators.state.run import Run
from dagster_operators.state.run_files import RunFiles, stored_batch
from dagster_operators.state.state_file import StateFile, newest_first
from dagster_operators.state.table_part import TablePart
from dagster_operators.storage.cache import make_private
from dagster_operators.storage.mapped_file import read_mapped, write_mapped


class Layers:
    """The runs of one state table, newest first.

    Args:
        part: Whose table it is.
        files: The table's files as of the previous epoch, in any order.
        run_files: Reads them.
        memory_limit: How many bytes an epoch's writes may take before they are spilled.
        spill_folder: A folder of this machine for spilled runs; a temporary one if None.
    """

    def __init__(
        self, part: TablePart, files: Sequence[StateFile], run_files: RunFiles, memory_limit: int, spill_folder: str | None
    ) -> None:
        self.part = part
        self.memory_limit = memory_limit
        self.spilled: list[Run] = []
        self.loaded: list[Run] = []
        self.files = self.mine(files)
        self._run_files = run_files
        self._open: dict[str, Run] = {}
        self._spill_folder = spill_folder

    def mine(self, files: Iterable[StateFile]) -> list[StateFile]:
        """The files that may hold rows of this subtask, newest first."""
        return newest_first(file for file in files if file.low_hash <= self.part.high and file.high_hash >= self.part.low)

    def open(self, file: StateFile) -> Run:
        """A file's rows that belong to this subtask."""
        if file.name not in self._open:
            self._open[file.name] = self._run_files.read(file)
        return self._open[file.name]

    @property
    def stored(self) -> list[Run]:
        """The runs in files."""
        return [self.open(file) for file in self.files]

    @property
    def runs(self) -> list[Run]:
        """All runs, newest first."""
        return [*self.spilled, *self.loaded, *self.stored]

    def spill(self, run: Run) -> None:
        """Put what the epoch wrote so far aside, in a local file that is gone when the process is."""
        folder = self._spill_folder or tempfile.gettempdir()
        make_private(Path(folder))
        path = Path(folder) / f"dagster_operators-{uuid.uuid4().hex}.spill"
        try:
            write_mapped(path, stored_batch(run, self.part.declaration.stored_schema))
            stored = read_mapped(path, check=False)
        finally:
            path.unlink(missing_ok=True)  # the map keeps its content
        self.spilled.insert(0, Run.of(stored, run.epochs, run.subtask))
