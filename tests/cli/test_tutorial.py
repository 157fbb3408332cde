"""The tutorial is followed as it is written, and prints what it says."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dagster_operators.runtime.engine import ENGINE_VARIABLE

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
PROGRAM = "definitions.py"


def run(command: str, folder: Path) -> str:
    bin_folder = Path(sys.executable).parent
    environment = {**os.environ, ENGINE_VARIABLE: "sail", "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S602
    return done.stdout + (done.stderr if done.returncode else "")


def in_order(table: str) -> str:
    columns, *rows = table.splitlines(keepends=True)
    return "".join([columns, *sorted(rows)])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tutorial_prints_what_it_says(tmp_path: Path) -> None:
    folder, commands = tmp_path, 0
    page = PAGE.read_text(encoding="utf-8")
    for note, place, info, block in re.findall(r"^(?:<!-- ([\w ]+): (.*) -->\n)?```(\w.*)\n((?s:.*?))^```$", page, re.MULTILINE):
        if title := re.fullmatch(r'\w+ title="(.*)"', info):
            (folder / title[1]).write_text(block)
        elif note:
            text = (folder / PROGRAM).read_text()
            old, new = (f"\n{place}", f"\n{block}{place}") if note == "before" else (place, block.rstrip("\n"))
            assert text.count(old) == 1
            (folder / PROGRAM).write_text(text.replace(old, new))
        elif info == "python":
            assert all(line in (folder / PROGRAM).read_text() for line in block.splitlines())
        elif info == "console":
            for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
                if command.startswith("cd "):
                    folder /= command.removeprefix("cd ")
                elif not command.startswith("export "):
                    commands += 1
                    said = run(command, folder)
                    order = in_order if " read " in command else str  # rows of a table have none
                    agrees = doctest.OutputChecker().check_output(order(expected), order(said), doctest.ELLIPSIS)
                    assert agrees, f"{command}\n{said}"
    assert commands > 10
