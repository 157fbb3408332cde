"""An S3 server in a process of its own that counts its requests, and is slow, busy or loses answers when it is told to.

It is moto, or in front of another server. It is no thread, for deltalake holds Python's lock while it waits for an answer.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CONTROL = "/_control"


class S3Server:
    """The server as tests see it."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"

    def options(self, **more: str) -> dict[str, str]:
        """The ``storage_options`` of its buckets."""
        return {
            "aws_endpoint": self.endpoint, "aws_access_key_id": "AKIATEST", "aws_secret_access_key": "hidden-from-all",
            "aws_region": "us-east-1", "aws_allow_http": "true", **more,
        }  # fmt: skip

    def bucket(self) -> str:
        """Make a bucket with a name of its own; its URI."""
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        name, keys = f"b-{uuid.uuid4().hex[:12]}", self.options()
        signed = AWSRequest("PUT", f"{self.endpoint}/{name}")
        who = Credentials(keys["aws_access_key_id"], keys["aws_secret_access_key"])
        S3SigV4Auth(who, "s3", keys["aws_region"]).add_auth(signed)
        request = urllib.request.Request(signed.url, headers=dict(signed.headers), method="PUT")  # noqa: S310 - our own server
        urllib.request.urlopen(request).close()  # noqa: S310
        self.requests()
        return f"s3://{name}"

    def requests(self) -> list[str]:
        """The requests since the last call, as ``METHOD path?query status``."""
        found: list[str] = self._ask({})
        return found

    def behave(
        self,
        *,
        delay: float = 0,
        throttle: int = 0,
        lose: str = "",
        after: int = 0,
        refuse: str = "",
        times: int = 1 << 30,
        unconditional: bool = False,
    ) -> None:
        """What becomes of requests from now on.

        Args:
            delay: Each takes so many seconds longer.
            throttle: So many are told to slow down (503).
            lose: The first one that this regular expression is found in takes effect, but its connection breaks then.
            refuse: Each that this regular expression is found in is denied access (403).
            after: So many that it is found in are answered before.
            times: So many are refused then.
            unconditional: Conditions of requests are left out, as by old servers.
        """
        told = {"delay": delay, "throttle": throttle, "lose": lose, "after": after, "refuse": refuse, "times": times}
        self._ask({**told, "unconditional": unconditional})

    def _ask(self, told: dict[str, Any]) -> Any:
        with urllib.request.urlopen(self.endpoint + CONTROL, json.dumps(told).encode()) as answer:  # noqa: S310 - our own server
            return json.load(answer)


@contextmanager
def s3_server(behind: int | None = None, module: str = __name__) -> Iterator[S3Server]:
    """A server without buckets.

    Args:
        behind: The port of the server that answers; moto by default.
        module: The module that serves.
    """
    command = [sys.executable, "-m", module, *([] if behind is None else [str(behind)])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout
        try:
            yield S3Server(int(process.stdout.readline()))
        finally:
            process.kill()  # where SIGINT is ignored, Dagster makes SIGTERM ignored too, and children take that over


class _Faults:
    """A WSGI application around another one."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app
        self._turn = threading.Lock()
        self._requests: list[str] = []
        self._told: dict[str, Any] = {"delay": 0, "throttle": 0, "lose": "", "after": 0, "refuse": "", "times": 0}

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == CONTROL:
            return self._control(environ, start_response)
        time.sleep(self._told["delay"])
        if self._told.get("unconditional"):
            environ = {name: value for name, value in environ.items() if name not in {"HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"}}
        query = environ["QUERY_STRING"]
        line = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}{query and '?' + query}"
        with self._turn:
            if self._told["throttle"] > 0:
                self._told["throttle"] -= 1
                self._requests.append(f"{line} 503")
                start_response("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(_BUSY)))])
                return [_BUSY]
            if self._is_refused(line):
                self._requests.append(f"{line} 403")
                start_response("403 Forbidden", [("Content-Type", "application/xml"), ("Content-Length", str(len(_DENIED)))])
                return [_DENIED]
            statuses: list[str] = []

            def noted(status: str, headers: Any, exc_info: Any = None) -> Any:
                statuses.append(status[:3])
                return start_response(status, headers, exc_info)

            answer = list(self._app(environ, noted))
            self._requests.append(f"{line} {statuses[-1]}")
            if self._told["lose"] and re.search(self._told["lose"], line):
                self._told["after"] -= 1
                if self._told["after"] < 0:
                    self._told["lose"] = ""
                    environ["werkzeug.socket"].shutdown(2)
            return answer

    def _is_refused(self, line: str) -> bool:
        if not self._told["refuse"] or not re.search(self._told["refuse"], line):
            return False
        self._told["after"] -= 1
        if self._told["after"] >= 0 or self._told["times"] <= 0:
            return False
        self._told["times"] -= 1
        return True

    def _control(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        told = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        with self._turn:
            self._told.update(told)
            answer = json.dumps([] if told else self._requests).encode()
            if not told:
                self._requests.clear()
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
        return [answer]


class _Behind:
    """A WSGI application that asks the server of a port, as it was asked: by the same name, for the signature has it."""

    def __init__(self, port: int) -> None:
        self._port = port

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        asked = [(name[5:].replace("_", "-"), value) for name, value in environ.items() if name.startswith("HTTP_")]
        asked = [(name, value) for name, value in asked if name.lower() not in _OF_A_CONNECTION]
        length = environ.get("CONTENT_LENGTH") or ("" if _is_chunked(environ) else "0")
        body = environ["wsgi.input"].read(*([int(length)] if length else []))
        asked += [("Content-Type", environ["CONTENT_TYPE"])] if environ.get("CONTENT_TYPE") else []
        asked += [("Content-Length", str(len(body)))] if body or environ.get("CONTENT_LENGTH") else []
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.putrequest(environ["REQUEST_METHOD"], environ["REQUEST_URI"], skip_host=True, skip_accept_encoding=True)
            for name, value in asked:
                connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _OF_A_CONNECTION]
        if environ["REQUEST_METHOD"] != "HEAD" and not answer.getheader("Content-Length"):
            kept.append(("Content-Length", str(len(content))))
        start_response(f"{answer.status} {answer.reason or 'Answered'}", kept)
        return [content]


def _is_chunked(environ: dict[str, Any]) -> bool:
    return bool(environ.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked")


_OF_A_CONNECTION = frozenset({"connection", "transfer-encoding", "keep-alive", "expect", "server"})
_DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
_BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


def serve(app: Callable[..., Iterable[bytes]]) -> None:
    """Answer by an application, at a port that is told on standard output, until killed."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept, as those of real stores

        def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    server = make_server("127.0.0.1", 0, _Faults(app), threaded=True, request_handler=Quiet)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    sys.stderr = open("/dev/null", "w")  # noqa: SIM115, PTH123 - a connection that we broke is reported there
    server.serve_forever()


def moto() -> Callable[..., Iterable[bytes]]:
    """The S3 of moto."""
    from moto.moto_server.werkzeug_app import create_backend_app

    made: Callable[..., Iterable[bytes]] = create_backend_app("s3")
    return made


if __name__ == "__main__":
    serve(_Behind(int(sys.argv[1])) if sys.argv[1:] else moto())
