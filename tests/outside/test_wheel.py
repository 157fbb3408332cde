"""The package as others install it: a wheel, away from the repository, runs what README shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.outside.environment import REPOSITORY, Environment

FLIGHTS = """origin,dest,tailnum,dep_delay,sched_dep
JFK,LAX,N1,25,2024-01-01T08:10:00Z
JFK,LAX,N2,,2024-01-01T08:40:00Z
LGA,ORD,N3,5,2024-01-01T11:05:00Z
"""
ENDED = """
result = pipeline.run_epoch()
print(do.__file__)
print(result.rows)
print(len(defs.resolve_all_job_defs()) > 4)
"""


def test_the_twenty_lines_of_readme_run_where_the_wheel_is_installed(sail: object, tmp_path: Path) -> None:
    assert sail is not None
    sources = tmp_path / "sources" / "dagster_operators"
    sources.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, sources / name)
    shutil.copytree(REPOSITORY / "dagster_operators", sources / "dagster_operators", ignore=shutil.ignore_patterns("__pycache__"))
    environment = Environment.make(tmp_path / "environment")
    environment.install(sources)
    shutil.rmtree(tmp_path / "sources")

    (tmp_path / "work" / "input" / "flights").mkdir(parents=True)
    (tmp_path / "work" / "input" / "flights" / "day.csv").write_text(FLIGHTS)
    program = re.findall(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)[0]
    (tmp_path / "work" / "definitions.py").write_text(program + ENDED)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"DAGSTER_OPERATORS_ENGINE": "sail"}
    command = [environment.python, "definitions.py"]
    done = subprocess.run(command, cwd=tmp_path / "work", env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    where, rows, jobs = done.stdout.splitlines()[-3:]
    assert Path(where).is_relative_to(environment.packages)
    assert rows == "{'clean_flights': 2, 'hourly_delays': 1, 'routes': 2}"
    assert jobs == "True"
    script = [environment.folder / "bin" / "dagster-operators", "status", "data/flights"]
    told = subprocess.run(script, cwd=tmp_path / "work", env=variables, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    assert "table routes: 2 rows, version 1" in told.stdout
