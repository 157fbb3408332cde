"""A pipeline that runs in a process of its own, one epoch whenever it is told to: so that two engines can take turns."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from benchmarks.events import profile

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from dagster_operators import Pipeline

Build = Callable[[Path, Path, str], "Pipeline"]
"""Makes a pipeline of a storage root, the input's folder, and the engine's name."""


class OtherProcess:
    """Runs a pipeline's epochs elsewhere.

    Args:
        build: A function of a module (it is called in the other process).
        root: The pipeline's storage root.
        folder: The folder of its input.
        on: The engine's name.

    Attributes:
        profiles: Where the time of each epoch went.
    """

    def __init__(self, build: Build, root: Path, folder: Path, on: str) -> None:
        self.profiles: list[dict[str, float]] = []
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, build, root, folder, on), daemon=True)
        self._process.start()

    def run_epoch(self) -> None:
        """Run one epoch and wait for its end."""
        self._connection.send("epoch")
        self.profiles.append(self._connection.recv())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._connection.close()
        self._process.join(timeout=10)
        self._process.kill()


def _serve(connection: Connection, build: Build, root: Path, folder: Path, on: str) -> None:
    pipeline = build(root, folder, on)
    try:
        while connection.recv() == "epoch":
            result = pipeline.run_epoch()
            connection.send({**{f"total.{step}": seconds for step, seconds in result.seconds.items()}, **profile(pipeline)})
    except EOFError:
        return
