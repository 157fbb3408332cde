"""An epoch of the landing pipeline in a process of its own, for what a test process cannot do to itself: lose rights, or Java."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from dagster_operators import errors
from dagster_operators.runtime.engine import Spark
from tests.end_to_end.landing import Landing, keys_of
from tests.forked import PROCESSES

ENGINES = {"sail": Spark(remote="sail"), "spark": Spark(master="local[1]")}
ROOT_IS_NOT_BOUND = "root may read and write everything, and only on Linux a process can give that up"
_CAPABILITIES_3 = 0x20080522
"""The version of what capget and capset are given."""

_DAC = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""


@dataclass(frozen=True)
class Outcome:
    """What came of the epoch.

    Attributes:
        keys: The keys in the table ``clean``, if the epoch went through.
        kind: The class of the error, if there was one.
        text: The error's text.
        where: The place it names.
        remedy: What it says is to be done.
    """

    keys: list[str] | None
    kind: str = ""
    text: str = ""
    where: Mapping[str, Any] | None = None
    remedy: str = ""

    def assert_refused(self, kind: type[errors.OperatorsError], problem: str, **where: object) -> None:
        """It failed with such an error, which names its place and a remedy."""
        assert self.kind == kind.__name__, self.text
        assert problem in self.text
        assert self.where
        assert {"pipeline": "landed", **where}.items() <= self.where.items()
        assert self.remedy, self.text


def run_alone(
    landing: Landing, *, engine: str = "sail", bound_by_modes: bool = False, environment: Mapping[str, str] | None = None
) -> Outcome:
    """Run an epoch in a process of its own.

    Args:
        landing: Its folder and root are used, with the settings of its source.
        engine: ``sail`` or ``spark``.
        bound_by_modes: The modes of files and folders hold for it even if root runs the tests.
        environment: Instead of this process's.
    """
    bound = bound_by_modes and os.geteuid() == 0
    if bound and sys.platform != "linux":
        pytest.skip(ROOT_IS_NOT_BOUND)
    ours, theirs = PROCESSES.Pipe(duplex=False)
    arguments = (theirs, bound, dict(environment or os.environ), engine, str(landing.folder), str(landing.root))
    process = PROCESSES.Process(target=child, args=arguments, daemon=True)
    process.start()
    theirs.close()
    try:
        assert ours.poll(120), "still running after 120 s"
        return Outcome(**ours.recv())
    except EOFError:
        process.join(20)
        raise AssertionError(f"ended with {process.exitcode}") from None
    finally:
        process.kill()
        process.join(20)
        ours.close()


def child(told: Connection, bound: bool, environment: dict[str, str], *arguments: str) -> None:  # noqa: FBT001 - of a process
    os.environ.clear()
    os.environ.update(environment)
    if bound:
        give_up_roots_rights()
    told.send(main(*arguments))


def give_up_roots_rights() -> None:
    """Modes of files and folders hold for this thread, and all that it starts, also if it is root's (capset(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0), (ctypes.c_uint32 * 6)()
    for call in (libc.capget, libc.capset):
        if call(header, sets):
            raise OSError(ctypes.get_errno(), "the rights of root cannot be given up")
        for number in range(3):  # effective, permitted, inheritable
            sets[number] &= ~_DAC


def main(engine: str, folder: str, root: str) -> dict[str, Any]:
    landing = Landing(Path(root).parent, ENGINES[engine], folder=Path(folder), root=Path(root))
    pipeline = landing.pipeline()
    try:
        pipeline.run_epoch()
    except errors.OperatorsError as error:
        where = {name: str(value) for name, value in error.where.items()}
        return {"keys": None, "kind": type(error).__name__, "text": str(error), "where": where, "remedy": error.remedy}
    return {"keys": keys_of(pipeline)}
