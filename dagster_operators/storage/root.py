"""The storage root: a local folder or an object store, with errors that name the path and never a secret."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import OperatorsError, StorageError
from dagster_operators.storage.access import Access, ShippedFiles
from dagster_operators.storage.causes import way_out
from dagster_operators.storage.flushing import flush
from dagster_operators.storage.local_tree import delete_entry, delete_tree, entries_in, remove_link
from dagster_operators.storage.object_store import UNMARKED, ObjectAbout, ObjectStore
from dagster_operators.storage.root_path import below_root, check_root_path
from dagster_operators.storage.uri import OBJECT_STORES, absolute, is_local, split_uri, without_user

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo

    from dagster_operators.storage.presence import KnownDigests

_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EXDEV})
"""What file systems without hard links answer."""


class Root:
    """A place under which everything of one pipeline is stored.

    Args:
        uri: A local path (made absolute) or the URI of an object store (``s3://bucket/flights``, or ``s3a://``).
        storage_options: As deltalake takes them; they are kept out of errors and of everything that is written.
        durable: Whether what is written to a local root is flushed to the disk.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     root = Root(folder)
    ...     root.write("owners/g1", b"alive")
    ...     root.read("owners/g1"), root.children("owners"), root.read("owners/g2")
    (b'alive', ['g1'], None)
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None, *, durable: bool = False) -> None:
        check_root_path(uri)
        self.access = Access.of(storage_options)
        self.is_local = is_local(uri)
        self.durable = durable and self.is_local
        self.uri = absolute(uri)
        with self.guard("", "the storage root cannot be opened"):
            self.files, base = self.access.open(self.uri)
        self._base = base + split_uri(self.uri)[2]
        self.known_digests: KnownDigests = lambda _: {}
        """Whom to ask for the digests of files below the root."""
        self.creates = self.is_local or split_uri(self.uri)[0] in OBJECT_STORES
        """Whether a file can be created only if there is none."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Keys are in no pickle: the root is opened anew where it gets to, with the keys that are known there."""
        return _opened, (self.uri, self.access, self.durable)

    @functools.cached_property
    def _objects(self) -> ObjectStore | None:
        """The object store that the root is on."""
        return None if self.is_local or not self.creates else ObjectStore(self.uri, self.access)

    def _key(self, *parts: str) -> str:
        """A path below the root, as the object store takes it."""
        return "/".join((split_uri(self.uri)[2], *map(below_root, parts))).strip("/")

    @property
    def shipped(self) -> ShippedFiles:
        """The root's file system for other processes, which pickles without keys."""
        return ShippedFiles(self.uri, self.access)

    def options_for(self, uri: str) -> dict[str, str] | None:
        """The root's own options for something else that lies on the same store; None for what does not.

        >>> import tempfile
        >>> Root(tempfile.gettempdir(), {"endpoint": "http://localhost:9000"}).options_for("s3://bucket/input") is None
        True
        """
        return self.access.for_deltalake() if self.access.reaches(self.uri, uri) else None

    def join(self, *parts: str) -> str:
        """A path below the root, as deltalake takes it."""
        return "/".join((self.uri, *map(below_root, parts)))

    def engine_uri(self, *parts: str) -> str:
        """A path below the root as a URI with nothing encoded, of which each engine makes its own spelling."""
        return f"file://{self.join(*parts)}" if self.is_local else self.join(*parts)

    def path(self, *parts: str) -> str:
        """A path below the root, as ``files`` takes it."""
        return "/".join((self._base, *map(below_root, parts)))

    def read(self, path: str) -> bytes | None:
        """A file's content; None when there is no such file."""
        with self.guard(path, "a file cannot be read"):
            if self._objects:
                return self._objects.get(self._key(path))
            try:
                with self.files.open_input_stream(self.path(path)) as stream:
                    content: bytes = stream.read()
            except FileNotFoundError:
                return None
            return content

    def write(self, path: str, content: bytes, *, in_place: bool = False) -> None:
        """Write a file, and its folder if there is none; on a local root as in object stores all of it at once, or nothing.

        Args:
            path: The file.
            content: What it has then.
            in_place: On a local root it may be seen in part; a file that is there is written anew also where the disk is full.
        """
        with self.guard(path, "a file cannot be written"):
            if self.is_local and not in_place:
                self._replace(Path(self.path(path)), content)
                return
            if self._objects:
                self._objects.put(self._key(path), content)
                return
            if self.is_local:
                remove_link(self.path(path))
            try:
                stream = self.files.open_output_stream(self.path(path))
            except FileNotFoundError:
                self.files.create_dir(self.path(path).rpartition("/")[0])
                stream = self.files.open_output_stream(self.path(path))
            with stream:
                stream.write(content)
        self.flush([path])

    def _replace(self, file: Path, content: bytes) -> None:
        temporary = file.with_name(f".{file.name}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            try:
                temporary.write_bytes(content)
            except FileNotFoundError:
                file.parent.mkdir(parents=True, exist_ok=True)
                temporary.write_bytes(content)
            if self.durable:
                flush(temporary)
            temporary.replace(file)
        finally:
            with contextlib.suppress(OSError):  # it has its name, or the error says more
                temporary.unlink(missing_ok=True)
        self.flush([file.relative_to(self._base).as_posix()])

    def flush(self, paths: Iterable[str]) -> None:
        """If the root is durable, have files and the folders that they lie in on the disk when this returns; else nothing.

        Args:
            paths: Files below the root; none that is not there is missed.
        """
        if not self.durable:
            return
        folders: dict[Path, None] = {}
        with self.guard("", "files cannot be flushed to the disk"):
            for path in paths:
                file = Path(self.path(path))
                if file.exists():
                    flush(file)
                    folders |= dict.fromkeys(folder for folder in file.parents if folder.is_relative_to(self._base))
            for folder in sorted(folders, key=lambda folder: -len(folder.parts)):
                flush(folder)

    def create(self, path: str, content: bytes) -> tuple[int, int] | None:
        """Write a file, all of it at once, unless there is one.

        Args:
            path: The file.
            content: What it has then. Nobody else writes the same: where a store's answer was lost, it is known by that.

        Returns:
            Its :meth:`stamp`, as it was before anyone could see it; None when there was one.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Root(folder).create("1.json", b"ours")[1], Root(folder).create("1.json", b"theirs"), Root(folder).read("1.json")
        (4, None, b'ours')
        """
        if self._objects:
            with self.guard(path, "a file cannot be written"):
                made = self._objects.create(self._key(path), content)
                return (made.mark, made.size) if made else None
        *folders, name = path.split("/")
        temporary = self.path(*folders, f".{name}.{uuid.uuid4().hex[:8]}.tmp")
        with self.guard(path, "a file cannot be written"):
            try:
                Path(temporary).write_bytes(content)
                if self.durable:
                    flush(Path(temporary))
                about = Path(temporary).stat()
                self._link(temporary, path)
            except FileExistsError:
                # NFS may ask again for a link that it has made, when the answer was lost.
                if not Path(temporary).samefile(self.path(path)):
                    return None
            finally:
                with contextlib.suppress(OSError):  # the file is there, or its error says more; scraps are cleaned up later
                    Path(temporary).unlink(missing_ok=True)
            if self.durable:
                flush(Path(temporary).parent)
            return about.st_mtime_ns, about.st_size

    def _link(self, temporary: str, path: str) -> None:
        try:
            os.link(temporary, self.path(path))
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            raise StorageError(
                f"the file system of the storage root makes no hard links ({error.strerror}), by which an entry of a log becomes "
                "visible all at once and only if there is none",
                file=self.join(path),
                remedy="choose a storage root on a file system that has them (ext4, XFS, APFS, NTFS, NFS), or an object store",
            ) from None

    def link(self, path: str, to: str) -> None:
        """Have a file at another path, too: by a hard link where the file system has them, else by a copy.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     root = Root(folder)
        ...     root.write("a/1", b"content")
        ...     root.link("a/1", "b/c/1")
        ...     root.delete_folder("a")
        ...     root.read("b/c/1")
        b'content'
        """
        with self.guard(to, "a file cannot be written"):
            if self._objects:
                self._objects.copy(self._key(path), self._key(to))
                return
            if not self.is_local:
                self.files.copy_file(self.path(path), self.path(to))
                return
            Path(self.path(to)).parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(self.path(path), self.path(to))
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                self.files.copy_file(self.path(path), self.path(to))

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        return self.modified(path) is not None

    def modified(self, path: str) -> float | None:
        """When it was written, in seconds since 1970; None when not there, and object stores have no folders."""
        from pyarrow import fs

        with self.guard(path, "a file cannot be looked up"):
            if self._objects:
                about = self._objects.about(self._key(path))
                return about.modified if about else None
            info = self.files.get_file_info(self.path(path))
            return None if info.type == fs.FileType.NotFound else (info.mtime_ns or 0) / 1e9

    def read_written(self, path: str) -> tuple[bytes, float] | None:
        """A file's content and when it was written, in seconds since 1970; None when there is no such file."""
        if self._objects:
            with self.guard(path, "a file cannot be read"):
                found = self._objects.got(self._key(path))
                return (found[0], found[1].modified) if found else None
        content, at = self.read(path), self.modified(path)
        return None if content is None or at is None else (content, at)

    def written(self, path: str) -> dict[str, float]:
        """When the files in a folder were written, in seconds since 1970, by their names in order: a listing tells of all."""
        from pyarrow import fs

        with self.guard(path, "a folder cannot be listed"):
            if self._objects:
                key = f"{self._key(path)}/"
                found = {name.removeprefix(key): about.modified for name, about in self._objects.below(key[:-1]).items()}
            else:
                listed = self.files.get_file_info(fs.FileSelector(self.path(path), allow_not_found=True))
                found = {info.base_name: (info.mtime_ns or 0) / 1e9 for info in listed if info.is_file}
        return {name: found[name] for name in sorted(found) if "/" not in name}

    def stamp(self, path: str) -> tuple[int, int]:
        """What tells a file from another one of that name: when it was written or a store's ETag, and its size; else zeros."""
        with self.guard(path, "a file cannot be looked up"):
            if self._objects:
                about = self._objects.about(self._key(path))
                return (about.mark, about.size) if about else (0, 0)
            info = self.files.get_file_info(self.path(path))
            return info.mtime_ns or 0, info.size or 0

    def sizes(self, path: str) -> dict[str, int]:
        """The sizes of all files below a folder, by path."""
        return {name: about.size for name, about in self.abouts(path).items()}

    def about(self, path: str) -> ObjectAbout | None:
        """What a store says of a file; None when there is none."""
        with self.guard(path, "a file cannot be looked up"):
            if self._objects:
                return self._objects.about(self._key(path))
            return _about(self.files.get_file_info(self.path(path)))

    def abouts(self, path: str) -> dict[str, ObjectAbout]:
        """What a store says of all files below a folder, by path."""
        from pyarrow import fs

        with self.guard(path, "files cannot be looked up"):
            if self._objects:
                key = self._key(path)
                return {path + name.removeprefix(key): found for name, found in self._objects.below(key).items()}
            listed = self.files.get_file_info(fs.FileSelector(self.path(path), allow_not_found=True, recursive=True))
            each = {path + info.path.removeprefix(self.path(path)): _about(info) for info in listed}
            return {name: found for name, found in each.items() if found}

    def entries_below(self, path: str) -> list[str]:
        """All that is below a folder and no folder: on a local root links themselves, and nothing behind them."""
        if not self.is_local:
            return list(self.sizes(path))
        with self.guard(path, "a folder cannot be listed"):
            return [f"{path}/{name}" for name in entries_in(self.path(path))]

    def tail(self, path: str, size: int, length: int) -> bytes:
        """The last bytes of a file of that size."""
        with self.guard(path, "a file cannot be read"):
            if self._objects:
                return self._objects.part(self._key(path), max(size - length, 0), min(size, length))
            with self.files.open_input_file(self.path(path)) as source:
                content: bytes = source.read_at(min(size, length), max(size - length, 0))
                return content

    def stamps(self, folder: str, names: Sequence[str]) -> list[tuple[int, int]]:
        """The stamps of files of a folder whose names follow each other there, in one request where a store can say so much."""
        if self._objects is None or not self._objects.lists_from:
            return [self.stamp(f"{folder}/{name}") for name in names]
        with self.guard(folder, "files cannot be looked up"):
            found = self._objects.behind(self._key(folder), names[0][:-1])
        return [(found[name].mark, found[name].size) if name in found else (0, 0) for name in names]

    def stamps_behind(self, folder: str, name: str) -> dict[str, tuple[int, int]]:
        """The stamps of the files of a folder on an object store whose names come behind one in the order of text."""
        if self._objects is None:
            raise TypeError(f"only an object store lists from a name on, and {self.join(folder)} is in none")
        with self.guard(folder, "a folder cannot be listed"):
            return {found: (about.mark, about.size) for found, about in self._objects.behind(self._key(folder), name).items()}

    def children(self, path: str) -> list[str]:
        """The names in a folder, sorted; none when there is no such folder."""
        from pyarrow import fs

        with self.guard(path, "a folder cannot be listed"):
            if self._objects:
                return self._objects.children(self._key(path))
            found = self.files.get_file_info(fs.FileSelector(self.path(path), allow_not_found=True))
            return sorted(info.base_name for info in found)

    def move(self, path: str, to: str) -> None:
        """Give a file, or a folder with all in it, another name; that need not happen at once."""
        with self.guard(path, "a file cannot be moved"):
            if self._objects is None:
                self.files.create_dir(self.path(to).rpartition("/")[0])
                self.files.move(self.path(path), self.path(to))
                return
            key = self._key(path)
            found = [*self._objects.below(key)] or [key]
            for name in found:
                with contextlib.suppress(FileNotFoundError):  # what stands for a folder is no object that can be copied
                    self._objects.copy(name, self._key(to) + name.removeprefix(key))
            self._objects.delete(found)

    def put_aside(self, path: str, name: str) -> str:
        """Give a folder another name, at once, where the file system can; what it is called then."""
        if not self.is_local:
            return path
        with self.guard(path, "a folder cannot be moved"):
            try:
                Path(self.path(path)).rename(self.path(name))
            except FileNotFoundError:
                return path
        return name

    def delete_folder(self, path: str) -> None:
        """Delete a folder with all in it; nothing happens when there is none."""
        with self.guard(path, "a folder cannot be deleted"):
            if self._objects:
                found = self._objects.below(self._key(path))
                if all(about.size for about in found.values()):
                    self._objects.delete(list(found))
                    return
                # Spark and Arrow leave empty objects that stand for folders, which obstore cannot name.
            if self.is_local:
                delete_tree(self._base, self.path(path))
                return
            try:
                self.files.delete_dir(self.path(path))
            except FileNotFoundError:
                return

    def delete_file(self, path: str) -> None:
        """Delete a file; nothing happens when there is none."""
        with self.guard(path, "a file cannot be deleted"):
            if self._objects:
                self._objects.delete([self._key(path)])
                return
            if self.is_local:
                delete_entry(self._base, self.path(path))
                return
            try:
                self.files.delete_file(self.path(path))
            except FileNotFoundError:
                return

    def delete_files(self, paths: Sequence[str]) -> None:
        """Delete files, in any order, in few requests where a store can; none that is not there is missed."""
        if self._objects is None:
            for path in paths:
                self.delete_file(path)
            return
        with self.guard(paths[0] if paths else "", "files cannot be deleted"):
            self._objects.delete([self._key(path) for path in paths])

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
                file=without_user(self.join(path) if path else self.uri),
                remedy=way_out(error, without_user(self.uri)),
            ) from None

    def redact(self, text: str) -> str:
        """The text without any secret of the storage options."""
        return self.access.redact(text)


def _about(info: FileInfo) -> ObjectAbout | None:
    return ObjectAbout(info.size, (info.mtime_ns or 0) / 1e9, UNMARKED) if info.is_file else None


def _opened(uri: str, access: Access, durable: bool) -> Root:  # noqa: FBT001 - of a pickle
    return Root(uri, dict(access.options), durable=durable)
