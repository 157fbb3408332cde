"""One of two checkouts of the code that are compared, running pipelines in a process of its own, epoch by epoch in turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

_HERE: Final = Path(__file__).parent
OURS: Final = _HERE.parent
"""This checkout."""


class Side:
    """A process that runs the epochs that it is told to.

    Args:
        checkout: Whose code it runs.
        folder: Its input and tables.
        engine: The engine's name.
        options: Of the server, ``epoch_server.py``.

    Attributes:
        folder: Its input and tables.
        epochs: What each epoch took, by the name of its pipeline.
    """

    def __init__(self, checkout: Path, folder: Path, engine: str, *options: str) -> None:
        self.folder = folder
        self.epochs: dict[str, list[dict[str, Any]]] = {}
        folder.mkdir()
        self._process = subprocess.Popen(  # noqa: S603 - our own server
            [sys.executable, str(_HERE / "epoch_server.py"), str(folder), *options],
            env={**os.environ, "PYTHONPATH": str(checkout.absolute()), "DAGSTER_OPERATORS_ENGINE": engine},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise OSError("the server has no pipes")
        self._orders, self._answers = self._process.stdin, self._process.stdout

    def run_epoch(self, pipeline: str) -> None:
        """Run one epoch of a pipeline and wait for its end."""
        print(pipeline, file=self._orders, flush=True)
        answer = self._answers.readline()
        if not answer:
            raise RuntimeError(f"the process of {self.folder.name} died, with {self._process.wait()}; what it said is above")
        self.epochs.setdefault(pipeline, []).append(json.loads(answer))

    def of(self, pipeline: str, figure: str, warm_up: int) -> list[float]:
        """A figure of every measured epoch."""
        return [epoch[figure] for epoch in self.epochs[pipeline][warm_up:]]

    def median(self, pipeline: str, figure: str, warm_up: int) -> float:
        """The median of a figure of all measured epochs."""
        return statistics.median(self.of(pipeline, figure, warm_up))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._orders.close()
        self._process.wait(60)
