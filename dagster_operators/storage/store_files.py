"""Files on Azure and Google Cloud Storage for Arrow, through obstore: with the credentials that all else there is reached with.

Arrow's own file systems of these stores know neither the names nor all kinds of credentials that deltalake and the engine know.
"""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import fs

from dagster_operators.storage.object_store import ObjectAbout, ObjectStore

if TYPE_CHECKING:
    from dagster_operators.storage.access import Access

_READ_AHEAD: Final = 1 << 20
"""Bytes that are read at once where a file is read from its begin to its end."""

WITHOUT_FOLDERS: Final = "objects"
"""What such a file system says it is, behind ``py::``: a store, in which folders are no more than beginnings of names."""


def store_files(uri: str, access: Access) -> fs.FileSystem:
    """Arrow's file system of a bucket or container.

    Args:
        uri: It, with nothing behind it; paths begin with its authority, as they do on Arrow's own file systems.
        access: How it is reached.
    """
    return fs.PyFileSystem(StoreFiles(uri, access))


class StoreFiles(fs.FileSystemHandler):  # type: ignore[misc]
    """What Arrow asks of a file system."""

    def __init__(self, uri: str, access: Access) -> None:
        self._place = (uri, access)
        self._start = f"{uri.partition('://')[2]}/"
        self._store = ObjectStore(uri, access)

    def __reduce__(self) -> tuple[Any, ...]:
        """Keys are in no pickle: it is opened anew where it gets to, with those that are known there."""
        return StoreFiles, self._place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoreFiles) and self._place == other._place

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._place)

    def __repr__(self) -> str:
        return f"StoreFiles({self._place[0]!r})"

    def get_type_name(self) -> str:
        """A name for the kind of file system."""
        return WITHOUT_FOLDERS

    def normalize_path(self, path: str) -> str:
        """Paths are taken as they are."""
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        """What is at each of some paths."""
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> fs.FileInfo:
        key = self._key(path)
        if key and (found := self._store.about(key)):
            return _file(path, found)
        kind = fs.FileType.Directory if not key or self._store.children(key) else fs.FileType.NotFound
        return fs.FileInfo(path, kind)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """The files and folders below a folder.

        Raises:
            FileNotFoundError: There is none, which may be only if the selector says so.
        """
        base = selector.base_dir.rstrip("/")
        found = self._store.below(self._key(base))
        if not found and not selector.allow_not_found and self._key(base):
            raise FileNotFoundError(base)
        folders: dict[str, None] = {}
        infos = []
        for name, about in found.items():
            path = self._start + name
            *between, _ = path.removeprefix(f"{base}/").split("/")
            shown = between if selector.recursive else between[:1]
            folders |= dict.fromkeys("/".join((base, *shown[: count + 1])) for count in range(len(shown)))
            if selector.recursive or not between:
                infos.append(_file(path, about))
        return [*(fs.FileInfo(folder, fs.FileType.Directory) for folder in folders), *infos]

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001 - as Arrow calls it
        """Nothing: there are no folders."""

    def delete_dir(self, path: str) -> None:
        """Delete all below a folder.

        Raises:
            FileNotFoundError: There is nothing.
        """
        found = list(self._store.below(self._key(path)))
        if not found:
            raise FileNotFoundError(path)
        self._store.delete(found)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - as Arrow calls it
        """Delete all below a folder."""
        self._store.delete(list(self._store.below(self._key(path))))

    def delete_root_dir_contents(self) -> None:
        """Never asked for.

        Raises:
            OSError: Always.
        """
        raise OSError("a whole bucket is not deleted")

    def delete_file(self, path: str) -> None:
        """Delete a file.

        Raises:
            FileNotFoundError: There is none.
        """
        if self._store.about(self._key(path)) is None:
            raise FileNotFoundError(path)
        self._store.delete([self._key(path)])

    def move(self, src: str, dest: str) -> None:
        """Give a file another name."""
        self._store.copy(self._key(src), self._key(dest))
        self._store.delete([self._key(src)])

    def copy_file(self, src: str, dest: str) -> None:
        """Have a file at another path, too."""
        self._store.copy(self._key(src), self._key(dest))

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """A file, to be read from its begin on."""
        return pa.PythonFile(io.BufferedReader(self._reader(path), _READ_AHEAD), mode="r")

    def open_input_file(self, path: str) -> pa.NativeFile:
        """A file, to be read anywhere."""
        return pa.PythonFile(self._reader(path), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:  # noqa: ARG002 - as Arrow calls it
        """A file to be written; it is there once it is closed."""
        return pa.PythonFile(self._store.writer(self._key(path)), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:  # noqa: ARG002 - as Arrow calls it
        """Never asked for.

        Raises:
            OSError: Always.
        """
        raise OSError("nothing is appended to an object")

    def _reader(self, path: str) -> _Reader:
        found = self._store.about(self._key(path))
        if found is None:
            raise FileNotFoundError(path)
        return _Reader(self._store, self._key(path), found.size)

    def _key(self, path: str) -> str:
        return f"{path.rstrip('/')}/".removeprefix(self._start).strip("/")


class _Reader(io.RawIOBase):
    """An object as a file: each read is a request for just that."""

    def __init__(self, store: ObjectStore, key: str, size: int) -> None:
        self._store, self._name, self._size, self._at = store, key, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def size(self) -> int:
        return self._size

    def read(self, size: int | None = -1) -> bytes:
        rest = max(self._size - self._at, 0)
        length = rest if size is None or size < 0 else min(size, rest)
        content = self._store.part(self._name, self._at, length) if length else b""
        self._at += len(content)
        return content

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


def _file(path: str, about: ObjectAbout) -> fs.FileInfo:
    return fs.FileInfo(path, fs.FileType.File, size=about.size, mtime=datetime.fromtimestamp(about.modified, UTC))
