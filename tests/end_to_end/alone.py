"""An epoch of the landing pipeline in a process of its own, for what a test process cannot do to itself: lose rights, or Java."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dagster_operators import errors
from dagster_operators.runtime.engine import Spark
from tests.end_to_end.landing import Landing, keys_of

REPOSITORY = Path(__file__).parents[2]
ENGINES = {"sail": Spark(remote="sail"), "spark": Spark(master="local[1]")}
ROOT_IS_NOT_BOUND = "root may read and write everything, and there is no setpriv to take that from a process"


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
    command = [sys.executable, "-m", "tests.end_to_end.alone", engine, str(landing.folder), str(landing.root)]
    if bound_by_modes and os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip(ROOT_IS_NOT_BOUND)
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
    told = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    return Outcome(**json.loads(told.stdout.splitlines()[-1]))


def main(engine: str, folder: str, root: str) -> dict[str, Any]:
    landing = Landing(Path(root).parent, ENGINES[engine], folder=Path(folder), root=Path(root))
    pipeline = landing.pipeline()
    try:
        pipeline.run_epoch()
    except errors.OperatorsError as error:
        where = {name: str(value) for name, value in error.where.items()}
        return {"keys": None, "kind": type(error).__name__, "text": str(error), "where": where, "remedy": error.remedy}
    return {"keys": keys_of(pipeline)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])) + "\n")
