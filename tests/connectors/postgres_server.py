"""A PostgreSQL server of the tests' own, on loopback, in a temporary folder, with prepared transactions."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_prepared_transactions": "10",
    "max_connections": "30",
    "shared_buffers": "16MB",
    "autovacuum": "off",
    "log_min_messages": "fatal",
    "fsync": "off",  # the tests kill processes; the operating system lives on
}


def binaries() -> Path | None:
    """The folder of the server's programs: on the path, or where Debian puts them."""
    found = shutil.which("postgres")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


@dataclass(frozen=True)
class Database:
    """A database of the server."""

    dsn: str

    def query(self, text: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def prepared(self) -> list[str]:
        return [gid for (gid,) in self.query("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")]

    def version(self) -> int:
        return int(self.query("SHOW server_version_num")[0][0]) // 10_000


class PostgresServer:
    """Started with :meth:`start`, killed with :meth:`kill`, gone after :meth:`stop`."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = int(listener.getsockname()[1])
        # The server refuses to run as root.
        self._user = _unprivileged() if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        self._run("initdb", "--auth=trust", "--username=tester", "--encoding=UTF8", "--locale=C", "--no-sync")

    def dsn(self, database: str = "postgres") -> str:
        return f"host=127.0.0.1 port={self.port} user=tester dbname={database}"

    @contextmanager
    def database(self) -> Iterator[Database]:
        """A new database, dropped afterwards."""
        name = f"test_{uuid.uuid4().hex[:8]}"
        admin = Database(self.dsn())
        admin.query(f"CREATE DATABASE {name} STRATEGY file_copy" if admin.version() >= 15 else f"CREATE DATABASE {name}")
        made = Database(self.dsn(name))
        try:
            yield made
        finally:
            for gid in made.prepared():
                made.query(f"ROLLBACK PREPARED '{gid}'")
            admin.query(f"DROP DATABASE {name} WITH (FORCE)")

    def start(self, **settings: str) -> None:
        options = [f"--{name}={value}" for name, value in {**_SETTINGS, **settings}.items()]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, f"--port={self.port}", *options],
                stdout=log, stderr=log, cwd=self._folder, **self._as_user(),
            )  # fmt: skip
        deadline = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(self.dsn()).close()
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self._folder / "log").read_text()
                assert time.monotonic() < deadline, (self._folder / "log").read_text()
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """The power goes off."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
        # Its children notice on their own; a new server may only start when they are gone.
        lock, deadline = self._data / "postmaster.pid", time.monotonic() + 30
        lock.unlink(missing_ok=True)
        while _children_of(self._data) and time.monotonic() < deadline:
            time.sleep(0.02)

    def restart(self, **settings: str) -> None:
        self._end()
        self.start(**settings)

    def stop(self) -> None:
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, "-D", self._data, *arguments],
            capture_output=True, text=True, check=False, cwd=self._folder, **self._as_user(),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def _as_user(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise AssertionError("no user to run the server as")


def _children_of(data: Path) -> list[int]:
    found = psutil.process_iter(["name", "cwd"])
    return [process.pid for process in found if process.info["name"] == "postgres" and process.info["cwd"] == str(data)]
