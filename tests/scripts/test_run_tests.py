"""The script that runs the tests, with a program in pytest's place."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

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


def told_folders(folder: Path, marks: str, room: int, free: int = 10**9, **variables: str) -> list[str]:
    """Where the tests are told to write, and who may look there, with so many KB of room in /dev/shm and of free memory."""
    for name, says in {"df": f'echo "Filesystem\ntmpfs 1 1 {room} 1% /dev/shm"', "python": TELLS}.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\n{says}\n")
        program.chmod(0o755)
    meminfo = folder / "meminfo"
    meminfo.write_text(f"MemTotal: 1 kB\nMemAvailable: {free} kB\n")
    variables = {"TMPDIR": "", "MEMINFO": str(meminfo), "PATH": f"{folder}:{os.environ['PATH']}", **variables}
    command = ["sh", str(SCRIPT), str(folder / "python"), marks]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=True).stdout.split()


def programs_run_in_memory() -> bool:
    """Whether this machine lets a new folder in memory be made, and a program in it be run."""
    try:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            program = Path(folder, "program")
            program.write_text("#!/bin/sh\n")
            program.chmod(0o700)
            return subprocess.run([str(program)], check=False).returncode == 0
    except OSError:
        return False


def test_tests_write_to_memory_and_nothing_stays_there(tmp_path: Path) -> None:
    if not programs_run_in_memory():
        pytest.skip("no folder in memory from which programs can be run")
    written, allowed, *spark = told_folders(tmp_path, "not slow", 10**9)
    assert (Path(written).parent, allowed) == (MEMORY, "711")  # a server of another user finds its folder in it
    assert spark == [written, allowed]
    assert not Path(written).exists()


@pytest.mark.parametrize(
    ("marks", "room", "free"), [("not slow", 10**6, 10**9), ("not slow", 10**9, 10**7), ("slow", 10**9, 10**9)]
)
def test_tests_write_to_the_disk_where_memory_has_no_room_or_matters(tmp_path: Path, marks: str, room: int, free: int) -> None:
    assert told_folders(tmp_path, marks, room, free) == ["nowhere", "nowhere"]


def test_a_folder_that_somebody_chose_is_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert told_folders(tmp_path, "not slow", 10**9, TMPDIR=str(tmp_path)) == [str(tmp_path), "755"] * 2
