"""An object store through obstore: each question and each write is one request, and a file is created only if there is none.

Arrow opens the Parquet files; it has no conditional writes, and asks twice or three times where one request is enough.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import StorageError
from dagster_operators.storage.access import Access
from dagster_operators.storage.uri import S3, split_uri

if TYPE_CHECKING:
    from datetime import datetime

LISTED_FROM: Final = S3 | {"gs", "gcs"}

ETAG: Final = "etag:"
"""What the mark of an object begins with in the ledger, where local files have the digest of their content."""

QUESTIONS: Final = 32
"""So many questions a store is asked at a time."""

_SAVED: Final = {"s3a": "s3", "gcs": "gs"}


@dataclass(frozen=True)
class ObjectAbout:
    """What a store says of an object.

    Attributes:
        size: In bytes.
        modified: When it was written, in seconds since 1970, by the store's clock.
        mark: A number that tells this content, or this writing of it, from others.
    """

    size: int
    modified: float
    mark: int

    @property
    def digest(self) -> str:
        """What the ledger has in place of a digest of the content; empty where the store gives neither ETag nor version.

        >>> ObjectAbout(5, 1.0, 7).digest
        'etag:00000000000007'
        """
        return "" if self.mark == UNMARKED else f"{ETAG}{self.mark:014x}"


class ObjectStore:
    """The objects of one bucket or container.

    Args:
        uri: Any URI in it.
        access: How it is reached.

    Errors are OSError, so that they are treated like those of file systems.
    """

    def __init__(self, uri: str, access: Access) -> None:
        try:
            from obstore.store import from_url
        except ImportError:
            raise StorageError(
                "an object store needs the package obstore, by which a file is created only if there is none",
                file=uri,
                remedy="pip install 'dagster_operators[objects]'",
            ) from None
        scheme, authority, _ = split_uri(uri)
        self.lists_from = scheme in LISTED_FROM
        """Whether the store itself leaves out what comes before a name; else a list would grow with what is there."""
        access.check(uri)
        config, client = access.for_obstore(uri)
        given: dict[str, Any] = {"config": config or None, "client_options": client or None}
        with _errors():
            self._store: Any = from_url(f"{_SAVED.get(scheme, scheme)}://{authority}", **given)

    def get(self, path: str) -> bytes | None:
        """An object's content; None when there is none."""
        found = self.got(path)
        return None if found is None else found[0]

    def got(self, path: str) -> tuple[bytes, ObjectAbout] | None:
        """An object's content, and what the store says of it; None when there is none."""
        with _errors():
            try:
                found = self._store.get(path)
                return bytes(found.bytes()), _about(found.meta)
            except FileNotFoundError:
                return None

    def part(self, path: str, start: int, length: int) -> bytes:
        """Some bytes of an object."""
        with _errors():
            return bytes(self._store.get_range(path, start=start, length=length))

    def put(self, path: str, content: bytes) -> None:
        """Write an object, in place of what is there."""
        with _errors():
            self._store.put(path, content)

    def writer(self, path: str) -> io.RawIOBase:
        """An object to be written piece by piece, in place of what is there; it is there once this is closed."""
        return _Writer(self._store, path)

    def create(self, path: str, content: bytes) -> ObjectAbout | None:
        """Write an object unless there is one.

        The answer to a request may be lost although it took effect; the client asks again then and hears that there is one. So
        what is there is compared: content that nobody else can have written is ours.

        Args:
            path: The object.
            content: What it has then; nobody else writes the same.

        Returns:
            What the store says of it; None when there was another one.
        """
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

        try:
            made = self._store.put(path, content, mode="create")
        except (AlreadyExistsError, PreconditionError):
            return self._ours(path, content)
        except BaseError as error:
            with _errors():
                if found := self._ours(path, content):
                    return found
            raise OSError(_first_line(error)) from None
        return ObjectAbout(len(content), 0.0, _mark(made))

    def _ours(self, path: str, content: bytes) -> ObjectAbout | None:
        found = self.got(path)
        return found[1] if found and found[0] == content else None

    def copy(self, path: str, to: str) -> None:
        """Have an object at another path, too."""
        with _errors():
            self._store.copy(path, to)

    def about(self, path: str) -> ObjectAbout | None:
        """What the store says of an object; None when there is none."""
        with _errors():
            try:
                return _about(self._store.head(path))
            except FileNotFoundError:
                return None

    def below(self, prefix: str) -> dict[str, ObjectAbout]:
        """All objects whose path begins with a folder's, by their path."""
        with _errors():
            return {found["path"]: _about(found) for page in self._store.list(f"{prefix}/") for found in page}

    def behind(self, folder: str, name: str) -> dict[str, ObjectAbout]:
        """The objects of a folder whose names come behind a name in the order of text."""
        with _errors():
            pages = self._store.list(f"{folder}/", offset=f"{folder}/{name}")
            found = {about["path"].removeprefix(f"{folder}/"): _about(about) for page in pages for about in page}
        return {path: about for path, about in found.items() if "/" not in path}

    def children(self, prefix: str) -> list[str]:
        """The names in a folder, of objects and of folders, sorted."""
        with _errors():
            listed = self._store.list_with_delimiter(f"{prefix}/")
        paths = [*listed["common_prefixes"], *(found["path"] for found in listed["objects"])]
        names = {path.rstrip("/").removeprefix(f"{prefix}/") for path in paths if path.startswith(f"{prefix}/")}
        return sorted(name for name in names if name)

    def delete(self, paths: list[str]) -> None:
        """Delete objects; none that is not there is missed."""
        if not paths:
            return
        with _errors():
            with suppress(FileNotFoundError):  # which Azure and Google say, where S3 does not, of one among many
                self._store.delete(paths)
                return
            for path in paths if len(paths) > 1 else ():
                with suppress(FileNotFoundError):
                    self._store.delete([path])


class _Writer(io.RawIOBase):
    """An object that is being written: small ones are one request, large ones go in parts."""

    def __init__(self, store: Any, path: str) -> None:
        import obstore

        with _errors():
            self._file: Any = obstore.open_writer(store, path)

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        with _errors():
            return int(self._file.write(bytes(content)))

    def flush(self) -> None:
        """Nothing: what is not closed is not there."""

    def close(self) -> None:
        if not self.closed:
            super().close()
            with _errors():
                self._file.close()


def _about(found: Mapping[str, Any]) -> ObjectAbout:
    written: datetime = found["last_modified"]
    return ObjectAbout(found["size"], written.timestamp(), _mark(found))


def _mark(found: Mapping[str, Any]) -> int:
    """Of the ETag, or of the version where a store has no ETags; never 0, and UNMARKED where it says neither."""
    text = str(found.get("e_tag") or found.get("version") or "")
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big") | 1


@contextmanager
def _errors() -> Iterator[None]:
    """Errors of obstore as OSError, without what it shows of the request behind them."""
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(_first_line(error)) from None
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(_first_line(error)) from None
    except BaseError as error:
        raise OSError(_first_line(error)) from None


def _first_line(error: BaseException) -> str:
    """Without the debug output behind it, which may have the whole request."""
    return str(error).strip().partition("\n")[0]


UNMARKED: Final = _mark({})
"""The mark of what a store gives neither an ETag nor a version of: it tells nothing."""
