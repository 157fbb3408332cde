"""Real processes to kill, which run a pipeline."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Self

import psutil

from tests.crash import worker
from tests.forked import PROCESSES

KILLED = -signal.SIGKILL


@dataclass
class Child:
    """A process that runs the pipeline."""

    process: ForkServerProcess
    trace: Path
    patience: float

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def end(self) -> int:
        """Wait for its end and give its exit code, negative for the signal that ended it."""
        self.process.join(self.patience)
        assert self.process.exitcode is not None, f"still running after {self.patience} s, {self.tail()}"
        return self.process.exitcode

    def kill(self) -> None:
        """End it at once, whatever it is doing; also when it is stopped, which SIGTERM would not."""
        if self.process.is_alive():
            os.kill(self.pid, signal.SIGKILL)
            self.process.join(20)

    def go_on(self) -> None:
        """Wake it up after it has stopped itself."""
        os.kill(self.pid, signal.SIGCONT)

    def wait_until_stopped(self) -> None:
        self.wait_until(lambda: psutil.Process(self.pid).status() == psutil.STATUS_STOPPED)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        assert self.comes_to(condition), f"ended with {self.process.exitcode}, {self.tail()}"

    def comes_to(self, condition: Callable[[], bool]) -> bool:
        """Wait until the condition holds; False if the process ends before that."""
        deadline = time.monotonic() + self.patience
        while self.process.is_alive() and not condition():
            assert time.monotonic() < deadline, f"did not come to it in {self.patience} s, {self.tail()}"
            time.sleep(0.01)
        return self.process.is_alive()

    def lines(self) -> list[str]:
        """What it has written to its trace so far."""
        return self.trace.read_text(encoding="utf-8").splitlines() if self.trace.exists() else []

    def reached(self) -> Counter[str]:
        """How often it reached each failpoint."""
        return Counter(line for line in self.lines() if " " not in line and ":" in line)

    def tail(self) -> str:
        """For messages: the end of its trace and of what it printed."""
        log = Path(f"{self.trace}.log")
        printed = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        return f"trace ...{self.lines()[-5:]}, output ...{printed[-2000:]}"


@dataclass
class Launcher:
    """Starts children with traces in one folder; when it is closed, those that are left are killed, however the test ended."""

    folder: Path
    feed: Path
    engine: str = "sail"
    flow: str = "tests.crash.flow"
    patience: float = 120
    """How many seconds a child may take before the test fails."""
    children: list[Child] = field(default_factory=list)

    def start(self, root: Path, **settings: Any) -> Child:
        """Start a child on the storage root; ``settings`` are those of :class:`~tests.crash.worker.Task`."""
        trace = self.folder / f"trace-{len(self.children) + 1}"
        ours = {"feed": str(self.feed), "trace": str(trace), "engine": self.engine, "flow": self.flow}
        task = worker.Task(str(root), **{**ours, **settings})
        child = Child(PROCESSES.Process(target=worker.run, args=(task,), daemon=True), trace, self.patience)
        self.children.append(child)
        child.process.start()
        return child

    def run(self, root: Path, **settings: Any) -> Child:
        """Run a child to its end, which has to be a good one."""
        child = self.start(root, **settings)
        assert child.end() == 0, child.tail()
        return child

    def run_until_killed(self, root: Path, kill: str, **settings: Any) -> Child:
        """Run a child that has to die at the failpoint ``kill``."""
        child = self.start(root, kill=kill, **settings)
        code, place = child.end(), kill.partition("#")[0]
        assert code == KILLED, f"it ended with {code} and was not killed at {kill}, {child.tail()}"
        last = child.lines()[-settings.get("concurrent_stages", 1) :]  # other threads go on until the process is gone
        assert any(place in {line, line.rpartition(":")[0]} for line in last), f"it was killed at {last} instead of {kill}"
        return child

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as ends:
            for child in self.children:
                ends.callback(child.kill)
