"""The commands that build the operators and nodes of a dataflow's file, which run where somebody asks for it."""

from __future__ import annotations

import shlex
import site
import subprocess
import sys
from collections.abc import Iterator
from importlib import invalidate_caches
from pathlib import Path
from typing import Final

from dagster_operators.api.events.dataflow_file import text_of
from dagster_operators.api.events.modules import expanded
from dagster_operators.api.events.noted import Noted
from dagster_operators.api.queries.located import Located, read_yaml
from dagster_operators.errors import PipelineError

_HERE: Final = {"pip": [sys.executable, "-m", "pip"], "pip3": [sys.executable, "-m", "pip"], "python": [sys.executable]}
"""Programs that are meant to be those of the environment that runs the dataflow."""


def commands_of(root: Located) -> Iterator[str]:
    """The lines under ``build`` of all nodes and operators, in their order, each once.

    >>> text = "nodes: [{id: a, path: a.py, build: make a}, {id: b, operators: [{id: c, build: make a}, {build: make c}]}]"
    >>> list(commands_of(read_yaml(text)))
    ['make a', 'make c']
    """
    found: dict[str, None] = {}
    waiting = [root]
    while waiting:
        given = waiting.pop(0)
        if isinstance(given.data, tuple):
            waiting[:0] = given.data
        elif isinstance(given.data, dict):
            build = given.data.get("build")
            if build is not None and isinstance(build.data, str):
                found.update(dict.fromkeys(line.strip() for line in build.data.splitlines() if line.strip()))
            waiting[:0] = [given.data[key] for key in ("nodes", "operator", "operators") if key in given.data]
    return iter(found)


def build_all(file: Path, *, quiet: bool = False) -> None:
    """Run the commands of a dataflow's file, each without a shell, in the folder of the file.

    Args:
        file: The file.
        quiet: Whether what they print goes to standard error.

    Raises:
        PipelineError: A command fails, or there is no such program.
        QueryError: The file is no YAML.
    """
    _run_all(file, quiet=quiet)
    for folder in site.getsitepackages():
        site.addsitedir(folder)  # what was installed in place is found by a file that Python reads when it starts
    invalidate_caches()


def _run_all(file: Path, *, quiet: bool) -> None:
    noted = Noted(str(file), is_checked=True)
    root = read_yaml(text_of(file))
    if isinstance(root.data, dict):
        root, _ = expanded(root, file.parent, noted)
    noted.raise_all()
    for command in commands_of(root):
        try:
            program, *rest = shlex.split(command)
            done = subprocess.run(  # noqa: S603 - as the file says, and somebody asked for
                [*_HERE.get(program, [program]), *rest], cwd=file.parent, check=False, stdout=sys.stderr if quiet else None
            )
        except (OSError, ValueError) as error:
            raise PipelineError(f"{command!r} cannot be run: {error}", file=str(file), remedy="correct build:") from error
        if done.returncode:
            raise PipelineError(
                f"{command!r} ended with the exit code {done.returncode}", file=str(file),
                remedy=f"see what it printed; it ran in {str(file.parent)!r}",
            )  # fmt: skip
