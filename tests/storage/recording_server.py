"""An HTTP server in a process of its own that answers 404 to everything and tells what clients of S3 asked it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class RecordingServer:
    """The requests so far, as ``METHOD path authorization`` lines in a file."""

    def __init__(self, port: int, log: Path) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self._log = log

    def requests(self) -> list[str]:
        """The requests since the last call."""
        told = self._log.read_text() if self._log.exists() else ""
        self._log.write_text("")
        return told.splitlines()


@contextmanager
def recording_server(folder: Path) -> Iterator[RecordingServer]:
    """A server that writes into the folder. It is no thread, for deltalake holds Python's lock while it waits for an answer."""
    log = folder / "requests"
    with subprocess.Popen([sys.executable, __file__, str(log)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield RecordingServer(int(process.stdout.readline()), log)
        finally:
            process.kill()  # it inherits that SIGTERM is ignored where SIGINT is, for Dagster gives both one handler


def _serve(log: Path) -> None:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            with log.open("a") as file:
                file.write(f"{self.command} {self.path} {self.headers.get('Authorization')}\n")
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD = do_PUT = do_POST = answer  # noqa: N815 - the names http.server calls

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
