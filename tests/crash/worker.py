"""What a child process of the crash tests does: run the pipeline to its end, and die or stop at a failpoint on the way."""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dagster_operators.api.pipeline import Pipeline
from dagster_operators.errors import FencedError, PipelineBusyError
from dagster_operators.transactions.failpoints import VARIABLE, watch

FENCED: Final = 12
BUSY: Final = 11
"""Exit codes that say which error ended the process."""
_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True)
class Task:
    """What a child is to do.

    Attributes:
        trace: The file to which every failpoint that is reached is written at once.
        kill: The failpoint to die at, as the environment variable takes it.
        stop: The failpoint to stop at (SIGSTOP) until the test lets it go on.
        epoch: The failpoints count from the run of this epoch on; 0: from the start.
        wait_seconds: How long to wait for another run to end.
        rounds: Run so many epochs, then end; None: until caught up.
        concurrent_stages: How many stages run at the same time.
        flow: The module with the pipeline's ``build``.
    """

    root: str
    feed: str
    trace: str
    engine: str = "sail"
    kill: str = ""
    stop: str = ""
    epoch: int = 0
    wait_seconds: float = 0
    lease_seconds: float = 30
    rounds: int | None = None
    concurrent_stages: int = 1
    flow: str = "tests.crash.flow"


def run(task: Task) -> None:
    """Run the pipeline; what would be printed goes to a file beside the trace."""
    _settle_in(task)
    build = importlib.import_module(task.flow).build
    pipeline = build(task.root, task.feed, lease_seconds=task.lease_seconds, concurrent_stages=task.concurrent_stages)
    try:
        with watch(_Watcher(task, pipeline)):
            _run_epochs(task, pipeline)
    except PipelineBusyError as error:
        _note(task, f"busy {error}")
        sys.exit(BUSY)
    except FencedError as error:
        _note(task, f"fenced {error}")
        sys.exit(FENCED)
    _note(task, "done")


def _settle_in(task: Task) -> None:
    _die_with_the_tests()
    log = os.open(f"{task.trace}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    scratch = Path(f"{task.trace}.scratch")
    scratch.mkdir(exist_ok=True)
    os.chdir(scratch)
    os.environ.update({
        "DAGSTER_OPERATORS_ENGINE": task.engine, "RUST_LOG": "off", "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch),
        "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={scratch}",
    })  # fmt: skip


def _die_with_the_tests() -> None:
    """Have Linux kill this process when the server it was forked from ends: a stopped process would otherwise stay for ever."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _run_epochs(task: Task, pipeline: Pipeline) -> None:
    rounds = 0
    while task.rounds is None or rounds < task.rounds:
        if pipeline.run_epoch(wait_seconds=task.wait_seconds).empty:
            return
        rounds += 1


class _Watcher:
    """Writes down every failpoint; stops the process at one, or makes the one to die at count from some epoch on."""

    def __init__(self, task: Task, pipeline: Pipeline) -> None:
        self._task = task
        self._place, _, times = task.stop.partition("#")
        self._left = int(times or 1)
        self._epoch = pipeline.epochs.coordinator.view().last_epoch + 1 if task.epoch else 0
        self._completed = 0
        self._arm()

    def __call__(self, name: str) -> None:
        _note(self._task, name)
        if name == "after:append_complete":
            self._completed += 1
        elif name == "before:append_begin" and self._epoch:  # a run that rolls an epoch forward goes on with the next one
            self._epoch += self._completed
            self._completed = 0
            self._arm()
        if name == self._place:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGSTOP)

    def _arm(self) -> None:
        if self._task.kill and self._epoch == self._task.epoch:
            os.environ[VARIABLE] = self._task.kill


def _note(task: Task, line: str) -> None:
    file = os.open(task.trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{line}\n".encode())
    os.close(file)
