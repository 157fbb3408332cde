"""What the crash tests share: inputs, the rows of runs that nobody interrupts, and processes to kill."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.crash import flow as plain_flow
from tests.crash.processes import Launcher
from tests.crash.soundness import Rows, check_sound, rows_of


class Reference:
    """An input of some epochs, and what a run that nobody interrupts makes of it."""

    def __init__(self, folder: Path, epochs: int, flow: ModuleType = plain_flow) -> None:
        self.epochs = epochs
        self.flow = flow.__name__
        self.feed = flow.write_feed(folder / "feed", epochs)
        with Launcher(folder, self.feed, flow=self.flow) as launcher:
            self.reached = launcher.run(folder / "root").reached()
        check_sound(folder / "root", epochs)
        self.rows: dict[str, Rows] = rows_of(folder / "root")

    def check(self, root: Path, *, woke_up: bool = False) -> None:
        """A storage root is sound and has the same rows in every table."""
        check_sound(root, self.epochs, woke_up=woke_up)
        assert rows_of(root) == self.rows


@pytest.fixture(scope="session")
def references(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Reference]:
    """Gives the reference for a number of epochs, made when first asked for."""
    known: dict[int, Reference] = {}

    def reference(epochs: int) -> Reference:
        if epochs not in known:
            known[epochs] = Reference(tmp_path_factory.mktemp("reference"), epochs)
        return known[epochs]

    return reference


@pytest.fixture
def two(references: Callable[[int], Reference]) -> Reference:
    """As few as it takes to go on from what is there."""
    return references(2)


@pytest.fixture
def three(references: Callable[[int], Reference]) -> Reference:
    """Three epochs: a first, a middle and a last one."""
    return references(3)


@pytest.fixture
def many(references: Callable[[int], Reference]) -> Reference:
    """Enough epochs for the ledger and the state to be folded several times."""
    return references(20)


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Callable[..., Launcher]]:
    """Makes launchers; none of their processes outlives the test."""
    with ExitStack() as launchers:

        def make(feed: Path, **settings: Any) -> Launcher:
            folder = Path(tempfile.mkdtemp(prefix="launcher-", dir=tmp_path))
            return launchers.enter_context(Launcher(folder, feed, **settings))

        yield make
