"""Flink 1.20, asked for plans and rows of random programs: its jars come from Maven Central, and Java runs them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
TOGETHER: Final = 12
"""So many programs are one job of Flink's, since a cluster begins with each job."""


class NotThereError(Exception):
    """Flink cannot be asked here, and why."""


def java_command(folder: Path) -> list[str]:
    """The command that answers programs; compiled into a folder, with Flink's jars.

    Raises:
        NotThereError: Java or Maven are missing, or Maven Central is not reached.
    """
    for command in ("mvn", "java", "javac"):
        if shutil.which(command) is None:
            raise NotThereError(f"there is no {command}")
    pom = shutil.copy(HERE / "pom.xml", folder)
    _run(
        ["mvn", "-q", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={folder}/lib"],
        "Maven Central is not reached",
    )
    _run(["javac", "-nowarn", "-cp", f"{folder}/lib/*", "-d", f"{folder}/out", str(HERE / "FlinkPrograms.java")], "javac failed")
    opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("util", "lang")]
    return ["java", "-Xmx1500m", *opened, "-cp", f"{folder}/lib/*:{folder}/out", "FlinkPrograms"]


def _run(command: Sequence[str], problem: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotThereError(f"{problem}: {(done.stdout + done.stderr).strip()[-300:]}")


def answers(command: Sequence[str], programs: Sequence[Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    """Flink's answer to each program, by the program's number: its plan and its rows, or an error."""
    lines = "\n".join(json.dumps(several) for several in _jobs(programs))
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    found = map(json.loads, done.stdout.splitlines())
    return {answer["id"]: answer for answer in found}


def _jobs(programs: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    def alike(program: Mapping[str, Any]) -> tuple[int, bool]:
        return program["parallelism"], bool(program.get("batch"))

    for _, several in groupby(sorted(programs, key=alike), alike):
        group = list(several)
        yield from (group[begin : begin + TOGETHER] for begin in range(0, len(group), TOGETHER))
