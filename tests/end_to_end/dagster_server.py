"""A real Dagster webserver on loopback, with a home of its own, for as long as a test needs it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

SETTINGS = """\
telemetry: {enabled: false}
nux: {enabled: false}
run_coordinator: {module: dagster._core.run_coordinator, class: DefaultRunCoordinator}
code_servers: {local_startup_timeout: 300}
"""
"""Runs start without the daemon, nothing is sent anywhere, and no dialog asks for an address."""

_LOADED = """
{ workspaceOrError { ... on Workspace { locationEntries { locationOrLoadError {
    __typename ... on PythonError { message }
} } } } }
"""
"""Asks for the definitions, or the error that they could not be loaded for; the server comes up in either case."""

REPOSITORY = Path(__file__).parents[2]


@contextmanager
def dagster_server(modules: Sequence[str], home: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Serve the definitions of modules, each a code location of its own; gives the address."""
    home.mkdir(parents=True)
    (home / "dagster.yaml").write_text(SETTINGS)
    port = _free_port()
    command = [sys.executable, "-m", "dagster_webserver", "-h", "127.0.0.1", "-p", str(port)]
    command += [argument for module in modules for argument in ("-m", module)]
    own = {
        "DAGSTER_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "TMPDIR": str(home),
        "DAGSTER_GRPC_TIMEOUT_SECONDS": "240",
    }
    with (home / "webserver.log").open("w") as log:
        server = subprocess.Popen(command, env={**os.environ, **environment, **own}, cwd=REPOSITORY, stdout=log, stderr=log)
        with ends_with_children(lambda: server):
            address = f"http://127.0.0.1:{port}"
            _wait(address, len(modules), server, home / "webserver.log")
            yield address


@contextmanager
def ends_with_children(process: Callable[[], subprocess.Popen[bytes] | None]) -> Iterator[None]:
    """Kill a process and all that it has started, however the block ends and whatever they are doing."""
    try:
        yield
    finally:
        parent = process()
        if parent is not None and parent.poll() is None:
            family = [*psutil.Process(parent.pid).children(recursive=True), psutil.Process(parent.pid)]
            for member in family:
                member.kill()
            parent.wait(20)
            psutil.wait_procs(family, timeout=20)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait(address: str, locations: int, server: subprocess.Popen[bytes], log: Path) -> None:
    """Until the definitions are loaded, or it is clear that they will not be."""
    deadline, said = time.monotonic() + 300, ""
    query = urllib.request.Request(  # noqa: S310 - our own loopback address
        f"{address}/graphql", json.dumps({"query": _LOADED}).encode(), {"Content-Type": "application/json"}
    )
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(query, timeout=60) as answer:  # noqa: S310
                said = answer.read().decode()
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
            continue
        if "PythonError" in said:
            break
        if said.count('"RepositoryLocation"') == locations:
            return
        time.sleep(0.3)
    raise AssertionError(f"the definitions were not loaded: {said}\n{log.read_text()[-3000:]}")
