"""The script that runs the tests, with a program in pytest's place."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "run-tests"
MEMORY = Path("/dev/shm")  # noqa: S108 - folders below it are the script's own


def run(
    folder: Path, marks: str, *arguments: str, spark: int, others: int, alone: int = 5, says: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """What it says and how it ends when the tests with and without Spark, and those that nothing runs beside, end like this."""
    python = folder / "python"
    ends = {"not spark": ("=others", others), "and spark": ("spark", spark), "and alone": ("alone", alone)}
    cases = "".join(f' *"{mark}"*) echo "{name}: $*"; exit {code} ;;' for mark, (name, code) in ends.items())
    says = says or f'case "$*" in{cases} *) echo "$*" ;; esac'
    python.write_text(f"#!/bin/sh\n{says}\n")
    python.chmod(0o755)
    command = ["sh", SCRIPT, python, marks, "-k", "some", *arguments]
    variables = {"FILES_OF_A_PART": "100000", **variables}
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("marks", ["not slow", "slow"])
@pytest.mark.parametrize(
    ("on_spark", "others", "ends"),
    [(0, 0, 0), (5, 0, 0), (0, 5, 0), (5, 5, 5), (1, 0, 1), (0, 1, 1), (1, 5, 1), (5, 1, 1), (2, 1, 1)],
)
def test_it_fails_if_either_kind_does(tmp_path: Path, marks: str, on_spark: int, others: int, ends: int) -> None:
    assert run(tmp_path, marks, spark=on_spark, others=others).returncode == ends


@pytest.mark.parametrize("marks", ["not slow", "slow"])
def test_it_runs_both_kinds_and_slow_ones_that_are_to_be_alone_at_the_end(tmp_path: Path, marks: str) -> None:
    named = str(Path(__file__).parent)
    apart = " and not alone" if marks == "slow" else ""
    assert run(tmp_path, marks, named, spark=0, others=0).stdout.splitlines() == [
        f"=others: -m pytest -m ({marks}) and not spark{apart} -n 2 --dist worksteal -k some {named}",
        f"spark: -m pytest -m ({marks}) and spark{apart} -k some {named}",
        *([f"alone: -m pytest -m ({marks}) and alone -k some {named}"] if apart else []),
    ]


@pytest.mark.parametrize(("others", "alone", "ends"), [(0, 1, 1), (5, 0, 0), (5, 5, 5), (2, 1, 2)])
def test_it_fails_if_one_that_runs_alone_does(tmp_path: Path, others: int, alone: int, ends: int) -> None:
    assert run(tmp_path, "slow", spark=5, others=others, alone=alone).returncode == ends


def test_fast_tests_run_in_parts_that_have_each_file_once(tmp_path: Path) -> None:
    *parts, spark = run(tmp_path, "not slow", spark=0, others=0, WORKERS="1", FILES_OF_A_PART="100").stdout.splitlines()
    asked = "=others: -m pytest -m (not slow) and not spark -p no:cacheprovider -k some "
    files = sorted(file for part in parts for file in part.removeprefix(asked).split())
    assert len(parts) > 1
    assert files == sorted(["dagster_operators", "jobs", *map(str, Path("tests").rglob("test_*.py"))])
    assert spark == "spark: -m pytest -m (not slow) and spark -k some"


def test_slow_tests_run_in_parts_that_have_each_file_once_and_begin_with_those_that_kill(tmp_path: Path) -> None:
    *parts, spark, alone = run(tmp_path, "slow", spark=0, others=0, WORKERS="1", FILES_OF_A_PART="100").stdout.splitlines()
    asked = "=others: -m pytest -m (slow) and not spark and not alone -p no:cacheprovider -k some "
    files = [part.removeprefix(asked).split() for part in parts]
    assert sorted(file for part in files for file in part) == sorted(map(str, Path("tests").rglob("test_*.py")))
    assert len(files[0]) == 4
    assert {Path(file).parts[1] for file in files[0]} == {"crash"}
    assert spark == "spark: -m pytest -m (slow) and spark and not alone -k some"
    assert alone == "alone: -m pytest -m (slow) and alone -k some"


@pytest.mark.parametrize(("first", "others", "ends"), [(5, 5, 5), (5, 0, 0), (0, 5, 0), (1, 0, 1), (0, 2, 2), (5, 1, 1)])
def test_it_fails_if_a_part_does_and_says_all_of_it(tmp_path: Path, first: int, others: int, ends: int) -> None:
    half = str(len(list(Path(__file__).parents[1].rglob("test_*.py"))) // 2 + 2)
    says = 'case "$*" in *"not spark"*) ;; *) exit 5 ;; esac; echo said; echo =last; echo leaks'
    says += f'; case "$*" in *jobs*) exit {first} ;; esac'
    ended = run(tmp_path, "not slow", spark=0, others=others, says=f"{says}; exit {others}", FILES_OF_A_PART=half)
    assert ended.returncode == ends
    failed = sum(code not in {0, 5} for code in (first, others))
    assert ended.stdout.split() == ["=last"] * 2 if not failed else ended.stdout.count("said") == failed


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
    command = ["sh", str(SCRIPT), str(folder / "python"), marks, str(Path(__file__))]
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


def test_slow_ones_do_but_for_those_that_are_to_be_alone(tmp_path: Path) -> None:
    if not programs_run_in_memory():
        pytest.skip("no folder in memory from which programs can be run")
    written, allowed, *more = told_folders(tmp_path, "slow", 10**9)
    assert (Path(written).parent, more) == (MEMORY, [written, allowed, "nowhere"])


@pytest.mark.parametrize(("marks", "room", "free"), [("not slow", 10**6, 10**9), ("slow", 10**9, 10**7)])
def test_tests_write_to_the_disk_where_memory_has_no_room(tmp_path: Path, marks: str, room: int, free: int) -> None:
    assert set(told_folders(tmp_path, marks, room, free)) == {"nowhere"}


def test_a_folder_that_somebody_chose_is_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert told_folders(tmp_path, "not slow", 10**9, TMPDIR=str(tmp_path)) == [str(tmp_path), "755"] * 2
