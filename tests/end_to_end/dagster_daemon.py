"""Dagster's real daemon, which looks at sensors and launches runs, for as long as a test needs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.end_to_end.dagster_server import REPOSITORY, SETTINGS, ends_with_children


@contextmanager
def dagster_daemon(module: str, home: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Serve the definitions of a module to the daemon. At the end it is killed, with its code server and the runs."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "dagster.yaml").write_text(SETTINGS)
    own = {"DAGSTER_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "yes", "TMPDIR": str(home)}
    command = [sys.executable, "-m", "dagster._daemon", "run", "-m", module]
    with (home / "daemon.log").open("a") as log:
        daemon = subprocess.Popen(command, env={**os.environ, **environment, **own}, cwd=REPOSITORY, stdout=log, stderr=log)
        with ends_with_children(lambda: daemon):
            yield
            assert daemon.poll() is None, (home / "daemon.log").read_text()[-3000:]
