"""Servers of other people's for tests, each a program of its own with a port of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def program(command: Sequence[str], port: int, log: Path, environment: Mapping[str, str] | None = None) -> Iterator[None]:
    """A program while it runs, once it listens at its port.

    Args:
        command: The program with its arguments.
        port: Where it listens.
        log: Where it writes what it says, in the folder that it runs in.
        environment: What it knows; by default what this process does.
    """
    with log.open("w") as said, subprocess.Popen(command, stdout=said, stderr=said, env=environment, cwd=log.parent) as process:
        try:
            _wait(port, process, log)
            yield
        finally:
            process.kill()


def lacks(reason: str) -> NoReturn:
    """Skip the test, but in CI, which has all."""
    pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"{log.stem} did not start: {log.read_text()[-3000:]}")
