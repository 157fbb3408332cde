"""The package as others install it: a wheel, away from the repository, runs what README shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outside.environment import REPOSITORY, Environment

ENDED = """
print(do.__file__)
print(pipeline.history()[-1].rows)
print(sorted(row["dest"] for row in pipeline.to_arrow("routes").to_pylist()))
print(len(defs.resolve_all_job_defs()) > 4)
"""
ENGINES = [pytest.param("sail", marks=pytest.mark.sail), pytest.param("local[1]", marks=pytest.mark.spark, id="spark")]


def test_the_twenty_lines_of_readme_run_where_the_wheel_is_installed(sail: object, tmp_path: Path) -> None:
    assert sail is not None
    environment = Environment.make(tmp_path / "environment")
    environment.install(_sources(tmp_path))
    shutil.rmtree(tmp_path / "sources")
    _readme_runs(environment, tmp_path, "sail")


@pytest.mark.timeout(1200)  # of what no test has installed before a hundred packages come over the network
@pytest.mark.parametrize("engine", ENGINES)
def test_they_run_where_nothing_is_installed_but_the_wheel_and_what_it_asks_for(engine: str, tmp_path: Path) -> None:
    """An environment that sees nothing of the tests' own. The versions are those of the lock, so that no release breaks this."""
    environment = Environment(tmp_path / "environment")
    done = _uv("build", "--wheel", "--no-build-isolation", "--out-dir", str(tmp_path), str(_sources(tmp_path)))
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    made = _uv("venv", "--python", sys.executable, str(environment.folder))
    assert made.returncode == 0, made.stderr
    _install(f"{wheel}[sail]" if engine == "sail" else str(wheel), environment, tmp_path)
    shutil.rmtree(tmp_path / "sources")
    found = _uv("pip", "list", "--python", environment.python).stdout
    assert "dagster-operators" in found
    assert not re.search(r"^(pytest|polars|duckdb|dagster-webserver) ", found, re.MULTILINE), found
    assert ("pysail" in found) == (engine == "sail")
    _readme_runs(environment, tmp_path, engine)


def _install(wanted: str, environment: Environment, folder: Path) -> None:
    """From uv's cache if all is there; else from the package index. The test is skipped only where that does not answer at all.

    Also in CI: what it lacks then is the network, which nothing can be installed against.
    """
    command = ["pip", "install", "--python", environment.python, "--constraints", str(_versions(folder)), wanted]
    if _uv(*command, "--offline").returncode == 0:
        return
    probe = ["pip", "install", "--python", environment.python, "--dry-run", "--no-deps", "--no-cache", "iniconfig"]
    answer = _uv(*probe)
    if answer.returncode != 0:
        pytest.skip(f"no package index can be reached: {answer.stderr[-500:]}")
    done = _uv(*command)
    assert done.returncode == 0, done.stderr


def _uv(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "uv", *arguments], capture_output=True, text=True, check=False)


def _versions(folder: Path) -> Path:
    """The lock without its hashes: with them, the wheel would have to have one, too."""
    lines = (REPOSITORY / "requirements.lock").read_text().splitlines()
    kept = folder / "versions.txt"
    kept.write_text("\n".join(line.removesuffix(" \\") for line in lines if re.match(r"\w", line)))
    return kept


def _sources(folder: Path) -> Path:
    """A copy of what the wheel is built from."""
    sources = folder / "sources" / "dagster_operators"
    sources.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, sources / name)
    shutil.copytree(REPOSITORY / "dagster_operators", sources / "dagster_operators", ignore=shutil.ignore_patterns("__pycache__"))
    return sources


def _readme_runs(environment: Environment, folder: Path, engine: str) -> None:
    """README's program and input as they stand, then the command line; in processes with a home of their own."""
    work, home = folder / "work", folder / "home"
    (work / "input" / "flights").mkdir(parents=True)
    home.mkdir()
    readme = (REPOSITORY / "README.md").read_text()
    program = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[0]
    (flights,) = re.findall(r"```\n(origin,.*?)```", readme, re.DOTALL)
    (work / "input" / "flights" / "day.csv").write_text(flights)
    (work / "definitions.py").write_text(program + ENDED)
    left_out = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "DAGSTER_HOME"}
    variables = {name: value for name, value in os.environ.items() if name not in left_out}
    variables |= {"HOME": str(home), "DAGSTER_OPERATORS_ENGINE": engine, "DAGSTER_OPERATORS_CACHE": str(home / "copies")}

    def told(*command: str | Path) -> list[str]:
        done = subprocess.run(command, cwd=work, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.splitlines()

    *shown, where, rows, routes, jobs = told(environment.python, "definitions.py")
    assert [line for line in shown if re.fullmatch(r"\|\s*JFK\|.*\|\s*1\|\s*25.0\|", line)], shown
    assert Path(where).is_relative_to(environment.packages)
    assert rows == "{'clean_flights': 2, 'hourly_delays': 1, 'routes': 2}"
    assert routes == "['LAX', 'ORD']"
    assert jobs == "True"
    status = told(environment.folder / "bin" / "dagster-operators", "status", "data/flights")
    assert [line for line in status if "table routes: 2 rows, version 1" in line], status
