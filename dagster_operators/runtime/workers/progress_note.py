"""How far a subtask has come, for whoever waits for a long stage: a small file beside what the attempt stages.

Workers reach nobody but the engine and the storage root. The file is written at most every ten seconds, so short epochs write
none, between two batches, so no thread is needed, and it is gone when the subtask is over.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

NAME: Final = "_progress-"
"""What its name begins with; readers of a folder leave out names with an underscore."""

EVERY: Final = 10.0
"""Seconds between two writes."""


class ProgressNote:
    """The file of a subtask.

    Args:
        files: The file system.
        folder: The attempt's folder, as the file system has it; without one nothing is written.
        subtask: Which subtask it is.
        clock: Tells seconds.
    """

    def __init__(self, files: Any, folder: str, subtask: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._files, self._folder = files, folder
        self._path = f"{folder}/{NAME}{subtask:05d}"
        self._clock, self._told = clock, clock()
        self._rows = self._batches = 0
        self._written = False

    def passed(self, rows: int) -> None:
        """Count a batch that was worked on."""
        self._rows, self._batches = self._rows + rows, self._batches + 1
        if self._folder and self._clock() - self._told >= EVERY:
            with suppress(OSError):  # that nothing can be told is not the work's failure
                self._write(json.dumps({"rows": self._rows, "batches": self._batches}).encode())
            self._told = self._clock()

    def over(self) -> None:
        """Delete the file, if there is one."""
        if self._written:
            self._written = False
            with suppress(OSError):
                self._files.delete_file(self._path)

    def _write(self, content: bytes) -> None:
        if self._files.type_name == "local":
            self._files.create_dir(self._folder, recursive=True)
        self._written = True
        with self._files.open_output_stream(self._path) as out:
            out.write(content)
