"""Commands that the package prints: as a shell takes them, and as the command line reads them."""

from __future__ import annotations

import re
import shlex
import subprocess

from dagster_operators.cli.main import main

_TOLD = re.compile(r"(?:^\s*|`|To do: |; or |by: )(dagster-operators [^`\n]*?)(?=`|$)", re.MULTILINE)


def commands_in(text: str) -> list[list[str]]:
    """The words of each command in a text that stands on a line, at its end, or in backticks; each is one, as it stands."""
    found = _TOLD.findall(text)
    return [words_of(command) for command in found]


def words_of(command: str) -> list[str]:
    """The words of a command as a shell has them, which are those of one that there is."""
    script = f'dagster-operators() {{ printf "%s\\0" "$@"; }}\n{command}\n'
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=True, timeout=20)
    words = done.stdout.split("\0")[:-1]
    assert words == shlex.split(command, comments=True)[1:], command
    name, *arguments = words
    with main.commands[name].make_context(name, arguments):
        return words
