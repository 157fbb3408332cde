"""The storage root: a local folder or an object store, with errors that name the path and never a secret."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import OperatorsError, StorageError

if TYPE_CHECKING:
    from pyarrow import fs as arrow_fs

_SECRET = re.compile(r"secret|token|key|password|credential|sas", re.IGNORECASE)
_USER_INFO = re.compile(r"(://)[^/@\s]+@")


class Root:
    """A place under which everything of one pipeline is stored.

    Args:
        uri: A local path (made absolute) or the URI of an object store (``s3://bucket/flights``).
        storage_options: As deltalake takes them; they are kept out of errors and of everything that is written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     root = Root(folder)
    ...     root.write("owners/g1", b"alive")
    ...     root.read("owners/g1"), root.children("owners"), root.read("owners/g2")
    (b'alive', ['g1'], None)
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.storage_options = dict(storage_options) if storage_options else None
        self.is_local = "://" not in uri or uri.startswith("file://")
        self.uri = str(Path(uri.removeprefix("file://")).expanduser().absolute()) if self.is_local else uri.rstrip("/")
        with self.guard("", "the storage root cannot be opened"):
            self.files, self._base = self._open()

    def _open(self) -> tuple[arrow_fs.FileSystem, str]:
        from pyarrow import fs

        if self.is_local:
            return fs.LocalFileSystem(), self.uri
        if self.uri.startswith("s3://") and self.storage_options:
            return fs.S3FileSystem(**_s3_arguments(self.storage_options)), self.uri.removeprefix("s3://")
        files, path = fs.FileSystem.from_uri(self.uri)
        return files, path

    def join(self, *parts: str) -> str:
        """A path below the root, as deltalake and Spark take it."""
        return "/".join((self.uri, *parts))

    def path(self, *parts: str) -> str:
        """A path below the root, as ``files`` takes it."""
        return "/".join((self._base, *parts))

    def read(self, path: str) -> bytes | None:
        """A file's content; None when there is no such file."""
        with self.guard(path, "a file cannot be read"):
            try:
                with self.files.open_input_stream(self.path(path)) as stream:
                    content: bytes = stream.read()
            except FileNotFoundError:
                return None
            return content

    def write(self, path: str, content: bytes) -> None:
        """Write a file, and its folder if there is none."""
        with self.guard(path, "a file cannot be written"):
            try:
                stream = self.files.open_output_stream(self.path(path))
            except FileNotFoundError:
                self.files.create_dir(self.path(path).rpartition("/")[0])
                stream = self.files.open_output_stream(self.path(path))
            with stream:
                stream.write(content)

    def create(self, path: str, content: bytes) -> tuple[int, int] | None:
        """Write a file of a local root, all of it at once, unless there is one.

        Returns:
            Its modification time (nanoseconds) and size, as they were before anyone could see it; None when there was one.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Root(folder).create("1.json", b"ours")[1], Root(folder).create("1.json", b"theirs"), Root(folder).read("1.json")
        (4, None, b'ours')
        """
        *folders, name = path.split("/")
        scrap = self.path(*folders, f".{name}.{uuid.uuid4().hex[:8]}.tmp")
        with self.guard(path, "a file cannot be written"):
            try:
                Path(scrap).write_bytes(content)
                about = Path(scrap).stat()
                os.link(scrap, self.path(path))
            except FileExistsError:
                return None
            finally:
                Path(scrap).unlink(missing_ok=True)
            return about.st_mtime_ns, about.st_size

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        return self.modified(path) is not None

    def modified(self, path: str) -> float | None:
        """When it was written, in seconds since 1970 (0: a folder of an object store); None when not there."""
        from pyarrow import fs

        with self.guard(path, "a file cannot be looked up"):
            info = self.files.get_file_info(self.path(path))
            return None if info.type == fs.FileType.NotFound else (info.mtime_ns or 0) / 1e9

    def children(self, path: str) -> list[str]:
        """The names in a folder, sorted; none when there is no such folder."""
        from pyarrow import fs

        with self.guard(path, "a folder cannot be listed"):
            found = self.files.get_file_info(fs.FileSelector(self.path(path), allow_not_found=True))
            return sorted(info.base_name for info in found)

    def delete_folder(self, path: str) -> None:
        """Delete a folder with all in it; nothing happens when there is none."""
        with self.guard(path, "a folder cannot be deleted"):
            try:
                self.files.delete_dir(self.path(path))
            except FileNotFoundError:
                return

    def delete_file(self, path: str) -> None:
        """Delete a file; nothing happens when there is none."""
        with self.guard(path, "a file cannot be deleted"):
            try:
                self.files.delete_file(self.path(path))
            except FileNotFoundError:
                return

    @contextmanager
    def guard(self, path: str, problem: str) -> Iterator[None]:
        """Turn errors of the file system and of deltalake into StorageError."""
        from deltalake.exceptions import DeltaError

        try:
            yield
        except OperatorsError:
            raise
        except (OSError, DeltaError) as error:
            # The cause is cut off on purpose: its text may hold what redact() takes out.
            raise StorageError(
                f"{problem}: {self.redact(str(error))}",
                file=_USER_INFO.sub(r"\1***@", self.join(path) if path else self.uri),
                remedy="check that the storage root can be reached and written and has free space, then run again",
            ) from None

    def redact(self, text: str) -> str:
        """The text without any secret of the storage options."""
        for name, value in (self.storage_options or {}).items():
            if _SECRET.search(name) and value:
                text = text.replace(value, "***")
        return _USER_INFO.sub(r"\1***@", text)


def _s3_arguments(options: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of pyarrow's S3 file system for deltalake's storage options, whose names have an optional ``aws_`` prefix."""
    given = {name.lower().removeprefix("aws_"): value for name, value in options.items()}
    names = {
        "access_key_id": "access_key",
        "secret_access_key": "secret_key",
        "session_token": "session_token",
        "region": "region",
        "endpoint": "endpoint_override",
        "endpoint_url": "endpoint_override",
    }
    arguments: dict[str, Any] = {names[name]: value for name, value in given.items() if name in names}
    if given.get("allow_http", "").lower() == "true":
        arguments["scheme"] = "http"
    return arguments
