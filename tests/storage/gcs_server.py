"""A server that speaks the protocol of Google Cloud Storage as far as obstore, deltalake and Sail do: moto, behind a translation.

Of emulators that can be installed none has what is needed: gcp-storage-emulator answers neither with ETags nor lists by the XML
protocol, which these libraries use, and fake-gcs-server takes no objects by it. It is S3's protocol but for a few headers. A
translation of ours says nothing about Google's own servers: what is tested is what we and these libraries ask for.
"""

from __future__ import annotations

import hashlib
import json
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.storage.s3_server import S3Server, s3_server

_ANYBODY = "AWS4-HMAC-SHA256 Credential=AKIATEST/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
_TRANSLATED = {"HTTP_X_GOOG_COPY_SOURCE": "HTTP_X_AMZ_COPY_SOURCE"}


class GoogleServer(S3Server):
    """The server as tests see it."""

    def options(self, **more: str) -> dict[str, str]:
        """The ``storage_options`` of its buckets: a service account, whose key is of use to nobody as no token is asked for."""
        account = {
            "gcs_base_url": self.endpoint, "disable_oauth": True, "client_email": "", "private_key_id": "",
            "private_key": "hidden-from-all",
        }  # fmt: skip
        return {"service_account_key": json.dumps(account), "allow_http": "true", **more}

    def bucket(self) -> str:
        """Make a bucket with a name of its own; its URI."""
        name = f"b{uuid.uuid4().hex[:12]}"  # a hyphen is escaped by obstore, which moto does not undo in a bucket's name
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")  # noqa: S310 - our own server
        urllib.request.urlopen(request).close()  # noqa: S310
        self.requests()
        return f"gs://{name}"


@contextmanager
def gcs_server() -> Iterator[GoogleServer]:
    """A server without buckets."""
    with s3_server(module="tests.storage.gcs_server") as server:
        yield GoogleServer(int(server.endpoint.rpartition(":")[2]))


class Translated:
    """Google's protocol in front of S3's."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        asked = {_TRANSLATED.get(name, name): value for name, value in environ.items()} | {"HTTP_AUTHORIZATION": _ANYBODY}
        condition = asked.pop("HTTP_X_GOOG_IF_GENERATION_MATCH", None)
        if condition == "0":
            asked["HTTP_IF_NONE_MATCH"] = "*"
        elif condition is not None:
            start_response("501 Not Implemented", [("Content-Length", "0")])
            return [b""]

        def answered(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            tag = next((value for name, value in headers if name.lower() == "etag"), "")
            generation = str(int(hashlib.sha256(tag.encode()).hexdigest()[:12], 16))
            return start_response(status, [*headers, ("x-goog-generation", generation)], exc_info)

        return self._app(asked, answered)


if __name__ == "__main__":
    from tests.storage.s3_server import moto, serve

    serve(Translated(moto()))
