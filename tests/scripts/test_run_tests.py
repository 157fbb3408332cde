"""The script that runs the tests, with a program in pytest's place."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psutil
import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "run-tests"
MEMORY = Path("/dev/shm")  # noqa: S108 - folders below it are the script's own


def run(folder: Path, marks: str, *, spark: int, others: int, **variables: str) -> subprocess.CompletedProcess[str]:
    """What it says and how it ends when the tests with and without Spark end like this."""
    python = folder / "python"
    says = f'case "$*" in *"not spark"*) echo "others: $*"; exit {others} ;; *) echo "spark: $*"; exit {spark} ;; esac'
    python.write_text(f"#!/bin/sh\n{says}\n")
    python.chmod(0o755)
    command = ["sh", SCRIPT, python, marks, "-k", "some"]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("marks", ["not slow", "slow"])
@pytest.mark.parametrize(
    ("on_spark", "others", "ends"),
    [(0, 0, 0), (5, 0, 0), (0, 5, 0), (5, 5, 5), (1, 0, 1), (0, 1, 1), (1, 5, 1), (5, 1, 1), (2, 1, 1)],
)
def test_it_fails_if_either_kind_does(tmp_path: Path, marks: str, on_spark: int, others: int, ends: int) -> None:
    assert run(tmp_path, marks, spark=on_spark, others=others).returncode == ends


@pytest.mark.parametrize("marks", ["not slow", "slow"])
def test_it_runs_both_kinds_and_tells_of_spark_last(tmp_path: Path, marks: str) -> None:
    assert run(tmp_path, marks, spark=0, others=0).stdout.splitlines() == [
        f"others: -m pytest -m ({marks}) and not spark -n 2 --dist worksteal -k some",
        f"spark: -m pytest -m ({marks}) and spark -k some",
    ]


@pytest.mark.parametrize(("forbidden", "compiled"), [("1", True), ("", False)])
def test_the_package_is_compiled_once_where_no_process_may_keep_it(tmp_path: Path, forbidden: str, *, compiled: bool) -> None:
    told = run(tmp_path, "slow", spark=0, others=0, PYTHONDONTWRITEBYTECODE=forbidden)
    assert told.returncode == 0
    assert ("-m compileall -q dagster_operators jobs" in told.stderr) is compiled


TELLS = 'echo "${TMPDIR:-nowhere}"; [ -z "${TMPDIR:-}" ] || { : >"$TMPDIR/file"; stat -c %a "$TMPDIR"; }'


def told_folders(folder: Path, marks: str, room: int, **variables: str) -> list[str]:
    """Where the tests are told to write, and who may look there, on a machine that has so many KB in /dev/shm."""
    for name, says in {"df": f'echo "Filesystem\ntmpfs 1 1 {room} 1% /dev/shm"', "python": TELLS}.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\n{says}\n")
        program.chmod(0o755)
    variables = {**os.environ, "TMPDIR": "", "PATH": f"{folder}:{os.environ['PATH']}", **variables}
    told = subprocess.run(["sh", SCRIPT, folder / "python", marks], env=variables, capture_output=True, text=True, check=True)
    return told.stdout.split()


@pytest.mark.skipif(
    not MEMORY.is_dir() or psutil.virtual_memory().available < 12 * 1024**3, reason="too little memory for files in it"
)
def test_tests_write_to_memory_and_nothing_stays_there(tmp_path: Path) -> None:
    written, allowed, *spark = told_folders(tmp_path, "not slow", 10**9)
    assert (Path(written).parent, allowed) == (MEMORY, "711")  # a server of another user finds its folder in it
    assert spark == [written, allowed]
    assert not Path(written).exists()


@pytest.mark.parametrize(("marks", "room"), [("not slow", 10**6), ("slow", 10**9)])
def test_tests_write_to_the_disk_where_memory_has_no_room_or_matters(tmp_path: Path, marks: str, room: int) -> None:
    assert told_folders(tmp_path, marks, room) == ["nowhere", "nowhere"]


def test_a_folder_that_somebody_chose_is_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert told_folders(tmp_path, "not slow", 10**9, TMPDIR=str(tmp_path)) == [str(tmp_path), "755"] * 2
