"""Named places at which a test may kill the process or look around.

Every durable effect of the commit protocol has a failpoint before and after it; the runtime adds its own with ``reach``. The
environment variable ``DAGSTER_OPERATORS_FAILPOINT`` names one: the process kills itself (SIGKILL) when it gets there, as
``after:append_decision``, ``before:commit_table:2`` (the second table of the epoch) or ``before:write_manifest#3`` (the third
time). Those of a stage can be named for one of them, in a loop for one of its rounds: ``stage:half_files@clean``,
``after:append_prepared@steps@2`` (the third round).

>>> names = []
>>> with watch(names.append):
...     reach("stage:files_written")
>>> names
['stage:files_written']
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

VARIABLE: Final = "DAGSTER_OPERATORS_FAILPOINT"

_DURABLE: Final = (
    "create_ledger",
    "append_generation",
    "append_begin",
    "create_table",
    "write_manifest",
    "append_prepared",
    "prepare_participant",
    "append_decision",
    "commit_table",
    "commit_participant",
    "append_complete",
    "delete_attempts",
    "abort_participant",
    "recover_participant",
    "append_repair",
    "append_clean",
    "append_decide",
    "append_drop",
    "drop_dataset",
    "delete_outdated",
    "restore_table",
    "mend_log",
    "fold_ledger",
)
_STAGE: Final = ("stage:half_files", "stage:files_written")

FAILPOINTS: Final[tuple[str, ...]] = (*(f"{when}:{name}" for name in _DURABLE for when in ("before", "after")), *_STAGE)
"""All names. Those of tables and participants also exist for one of several only: ``before:commit_table:2``."""

_reached: Counter[str] = Counter()
_watchers: list[Callable[[str], None]] = []
_counting = threading.Lock()


def reach(name: str, index: int | None = None, stage: str | None = None) -> None:
    """Say that the place ``name`` (the ``index``-th of its kind, from 1) has been reached, perhaps in the work on a stage."""
    for watcher in tuple(_watchers):
        watcher(name if index is None else f"{name}:{index}")
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    place, _, times = wanted.partition("#")
    if place == name or (index is not None and place == f"{name}:{index}") or (stage and place == f"{name}@{stage}"):
        with _counting:
            _reached[wanted] += 1
            if _reached[wanted] == int(times or 1):
                os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def watch(callback: Callable[[str], None]) -> Iterator[None]:
    """While this is open, ``callback`` is called with every failpoint's name; what it raises comes out there."""
    _watchers.append(callback)
    try:
        yield
    finally:
        _watchers.remove(callback)
