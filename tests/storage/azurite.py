"""Azurite, Microsoft's emulator of Azure's blobs, in memory: it checks signatures, and writes a blob only if there is none.

It runs on Node, and is installed once by npm.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import subprocess
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.storage.programs import free_port, lacks, program

_VERSION: Final = "3.35.0"
_KEPT: Final = Path(__file__).parents[2] / ".cache" / f"azurite-{_VERSION}"
_PROGRAM: Final = "node_modules/azurite/dist/src/blob/main.js"
_SERVICE: Final = "2021-08-06"
_ACCOUNT: Final = "devstoreaccount1"


class AzureServer:
    """The server as tests see it, with an account whose key is of this run."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}/{_ACCOUNT}"
        self.key = base64.b64encode(os.urandom(48)).decode()

    def options(self, **more: str) -> dict[str, str]:
        """The ``storage_options`` of its containers."""
        return {"account_name": _ACCOUNT, "account_key": self.key, "endpoint": self.endpoint, "allow_http": "true", **more}

    def bucket(self) -> str:
        """Make a container with a name of its own; its URI."""
        name = f"b-{uuid.uuid4().hex[:12]}"
        date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        what = f"x-ms-date:{date}\nx-ms-version:{_SERVICE}\n/{_ACCOUNT}/{_ACCOUNT}/{name}\nrestype:container"
        mark = hmac.new(base64.b64decode(self.key), ("PUT" + "\n" * 12 + what).encode(), hashlib.sha256).digest()
        headers = {
            "x-ms-date": date, "x-ms-version": _SERVICE, "Content-Length": "0",
            "Authorization": f"SharedKey {_ACCOUNT}:{base64.b64encode(mark).decode()}",
        }  # fmt: skip
        request = urllib.request.Request(f"{self.endpoint}/{name}?restype=container", headers=headers, method="PUT")  # noqa: S310
        urllib.request.urlopen(request).close()  # noqa: S310 - our own server
        return f"az://{name}"


@contextmanager
def azurite(folder: Path) -> Iterator[AzureServer]:
    """A server without containers."""
    port = free_port()
    server = AzureServer(port)
    command = ["node", str(_installed()), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence"]
    command += ["--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    environment = {**os.environ, "AZURITE_ACCOUNTS": f"{_ACCOUNT}:{server.key}"}
    with program(command, port, folder / "azurite.log", environment):
        yield server


def _installed() -> Path:
    """The program, installed if it is not."""
    program = _KEPT / _PROGRAM
    if program.exists():
        return program
    npm = shutil.which("npm")
    if npm is None:
        lacks("Azurite needs Node and npm")
    partial = _KEPT.with_name(f"{_KEPT.name}.{os.getpid()}")
    partial.mkdir(parents=True)
    command = [npm, "install", "--prefix", str(partial), "--ignore-scripts", "--no-audit", "--no-fund", f"azurite@{_VERSION}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            lacks(f"Azurite cannot be installed: {done.stderr[-500:]}")
        if not program.exists():
            partial.rename(_KEPT)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return program
