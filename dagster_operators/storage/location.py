"""Which files a path, a glob or a URI means right now."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import BadInputError, LedgerError, MissingInputError, PipelineError
from dagster_operators.graph.slice import JSON
from dagster_operators.storage.access import Access
from dagster_operators.storage.globs import glob_regex
from dagster_operators.storage.undecoded_names import decoded_paths
from dagster_operators.storage.uri import is_local, split_uri

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

_GLOB = re.compile(r"[*?\[{]")
_UNFINISHED = (".tmp", ".part", ".crc")


@dataclass(frozen=True, order=True)
class SourceFile:
    """One file as it was when it was listed; another size or time means another content.

    Args:
        modified: Time of the last change, in microseconds since 1970.
        path: The path below the source's folder.
        size: The size in bytes.
        digest: The digest of its content; empty where it is not known.
        changed_at: When the file system last changed it, in microseconds since 1970, which no program can set; 0 if not known.
    """

    modified: int
    path: str
    size: int
    digest: str = field(default="", compare=False)
    changed_at: int = field(default=0, compare=False)

    def to_json(self) -> list[JSON]:
        """The file as the ledger stores it."""
        return [*self.listed(), self.digest, self.changed_at] if self.digest else self.listed()

    def listed(self) -> list[JSON]:
        """What a listing says of it."""
        return [self.path, self.size, self.modified]

    @classmethod
    def from_json(cls, value: Any) -> SourceFile:
        """The file that ``to_json`` wrote."""
        path, size, modified, *content = value
        if ".." in path.split("/") or "\0" in path:
            raise LedgerError(
                "a file that an epoch read is outside of its source's folder", file=path.replace("\0", "\\0"),
                remedy="the ledger is forged or damaged: put the storage root back from a backup",
            )  # fmt: skip
        return cls(modified, path, size, *content)


def working_folder() -> str:
    """The working folder as it is now; nothing if somebody removed it."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


@dataclass(frozen=True)
class FileLocation:
    """A folder with all below it, the files a glob matches, or one file, on any file system that Arrow knows.

    Args:
        path: A local path or URI; ``*``, ``**``, ``?``, ``[...]`` and ``{a,b}`` match as in a shell.
        access: Access to an object store.
        begin: The folder that a relative path begins in: the working folder when the location is made.
        is_folder: The path is a folder, whatever characters its name has, and files are named relative to it.

    Files whose name, or whose folder's name, starts with "." or "_", or whose name ends in ".tmp", ".part" or ".crc", are being
    written or are not data: they are left out.
    """

    path: str
    access: Access = field(default_factory=Access)
    is_folder: bool = False
    begin: str = field(default_factory=working_folder, compare=False, repr=False)

    def __post_init__(self) -> None:
        if re.search(r"//[^/@:]*:[^/@]*@", self.path):
            raise PipelineError("a source's path has a password in it", remedy="give it in storage_options or the environment")

    def find(self) -> list[SourceFile]:
        """All files there are, by time of change and then name.

        Raises:
            MissingInputError: The folder or file is missing or may not be read.
        """
        from pyarrow.fs import FileType

        place = self._resolve()
        filesystem, _ = self._filesystem()
        try:
            if is_local(self.path) and place.recursive:
                _refuse_circle(place.folder)
            listed = [filesystem.get_file_info(place.folder)]
            if listed[0].type != FileType.File:
                listed = self._listed(filesystem, place)
        except OSError as error:
            raise self._missing(place.folder, error) from None
        files = []
        for entry in listed:
            path = entry.path[len(place.base) :].lstrip("/")
            if entry.type == FileType.Directory or not place.is_input(entry.path):
                continue
            if entry.type != FileType.File:
                what = "vanished or is a broken link" if entry.type == FileType.NotFound else "is no file but a pipe or a device"
                raise MissingInputError(f"an input file {what}", file=entry.path, remedy="remove it, or narrow the source's path")
            files.append(_source_file(path, entry))
        return sorted(files)

    def _listed(self, filesystem: FileSystem, place: _Place) -> list[FileInfo]:
        from pyarrow.fs import FileSelector

        try:
            listed = filesystem.get_file_info(FileSelector(place.folder, recursive=place.recursive))
            return [entry for entry in listed if entry.path]  # which is decoded only now
        except UnicodeDecodeError:
            if not is_local(self.path):
                raise
            return list(
                filesystem.get_file_info(list(decoded_paths(place.folder, recursive=place.recursive, is_input=place.is_input)))
            )

    def base(self) -> tuple[str, str]:
        """The folder that files are named relative to, as far as the path tells, and what their names begin with there.

        >>> FileLocation("/in/2024/*.csv").base(), FileLocation("/in/2024").base(), FileLocation("s3://lake/in/**").base()
        (('/in/2024', ''), ('/in', '2024'), ('s3://lake/in', ''))
        """
        path = spelled_out(self.path, self.begin)
        glob = None if self.is_folder else _GLOB.search(path)
        if self.is_folder or glob is not None:
            return (path[: glob.start()].rpartition("/")[0] if glob else path), ""
        folder, _, name = path.rpartition("/")
        return folder, name

    def require(self, files: Sequence[SourceFile]) -> None:
        """Make sure that files are still what they were when they were listed.

        Raises:
            MissingInputError: One has vanished or may not be read.
            BadInputError: One has changed.
        """
        from pyarrow.fs import FileType

        base = self._resolve().base
        try:
            entries = self._filesystem()[0].get_file_info([f"{base}/{file.path}" for file in files])
        except OSError as error:
            raise self._missing(base, error) from None
        for file, entry in zip(files, entries, strict=True):
            if entry.type != FileType.File:
                raise vanished(entry.path)
            if _source_file(file.path, entry) != file:
                raise changed_file(entry.path, file, _source_file(file.path, entry))

    def set_time(self, file: SourceFile, modified: int) -> None:
        """Give a file a time of change, in microseconds since 1970.

        Raises:
            PipelineError: An object store has no such thing, or the file is somebody else's.
        """
        path = self.full_path(file)
        if not is_local(self.path):
            raise PipelineError(
                "an object store lets nobody set the time of a file", file=path,
                remedy='read all files anew, into tables that begin anew: pipeline.reset(source, 0, tables="restart")',
            )  # fmt: skip
        try:
            os.utime(path, ns=(modified * 1000, modified * 1000))
        except OSError as error:
            raise PipelineError(
                f"the time of a file cannot be set ({error.strerror})", file=path, remedy="do it as the user whose file it is"
            ) from None

    def sizes(self, files: Sequence[SourceFile]) -> dict[str, int | None]:
        """How large files are, by their full paths; None for those that are not there."""
        from pyarrow.fs import FileType

        base = self._resolve().base
        entries = self._filesystem()[0].get_file_info([f"{base}/{file.path}" for file in files])
        return {entry.path: entry.size if entry.type == FileType.File else None for entry in entries}

    def full_path(self, file: SourceFile) -> str:
        """The file's path on its file system."""
        return f"{self._resolve().base}/{file.path}"

    def folder_uri(self) -> str:
        """The folder as a URI, with nothing escaped or encoded."""
        return self.file_uris([SourceFile(0, "", 0)])[0].rstrip("/")

    def file_uris(self, files: Sequence[SourceFile]) -> list[str]:
        """Files as URIs, with nothing escaped or encoded."""
        base = self._resolve().base
        _, root = self._filesystem()
        scheme, authority, _ = split_uri(self.path)
        return [f"{scheme or 'file'}://{authority}" + f"{base}/{file.path}"[len(root) :] for file in files]

    @contextmanager
    def opened(self, file: SourceFile, *, decompress: bool = False) -> Iterator[Any]:
        """The file's bytes: as a stream, decompressed by what its name ends in, or as they are, for random access.

        Raises:
            MissingInputError: It cannot be opened.
        """
        path = self.full_path(file)
        try:
            filesystem, _ = self._filesystem()
            source = filesystem.open_input_stream(path) if decompress else filesystem.open_input_file(path)
        except FileNotFoundError as error:
            raise vanished(path) from error
        except PermissionError as error:
            raise MissingInputError(
                "an input file may not be read", file=path, remedy="allow reading it, or remove it"
            ) from error
        except OSError as error:
            raise MissingInputError(
                f"an input file cannot be read ({self.access.redact(str(error))})",
                file=path,
                remedy="see that it can, and run again",
            ) from None
        with source:
            yield source

    def _filesystem(self) -> tuple[FileSystem, str]:
        try:
            return self.access.open(self.path)
        except OSError as error:
            raise self._missing(self.path, error) from None

    def _missing(self, path: str, error: OSError) -> MissingInputError:
        """The cause is cut off by those who raise it: its text may hold what redact() takes out."""
        if isinstance(error, FileNotFoundError):
            return MissingInputError(
                "the input folder or file does not exist", file=path, remedy="create it, or correct the source's path"
            )
        told = "may not be read" if isinstance(error, PermissionError) else f"cannot be read ({self.access.redact(str(error))})"
        return MissingInputError(f"the input folder {told}", file=path, remedy="correct the source's path, or the access to it")

    def _resolve(self) -> _Place:
        """What the path means now. Asked anew each time: the working directory or what is on disk may have changed."""
        from pyarrow.fs import FileType

        filesystem, root = self._filesystem()
        path = split_uri(self.path)[2]
        full = spelled_out(path, self.begin) if is_local(self.path) else root + path.rstrip("/")
        if self.is_folder:
            return _Place(full, full, None, recursive=True)
        glob = _GLOB.search(full)
        if glob is None or filesystem.get_file_info(full).type != FileType.NotFound:
            return _Place(full.rpartition("/")[0], full, None, recursive=True)
        base = full[: glob.start()].rpartition("/")[0]
        tail = full[len(base) + 1 :]
        return _Place(base, base or "/", re.compile(glob_regex(tail), re.DOTALL), recursive="/" in tail or "**" in tail)


def spelled_out(path: str, begin: str = "") -> str:
    """A local path as an absolute one, from a folder or the working folder, ``~`` being the home folder; a URI as it is."""
    if not is_local(path):
        return path.rstrip("/")
    whole = os.path.expanduser(path)  # noqa: PTH111  # signs of globs stay as they are
    if not os.path.isabs(whole):  # noqa: PTH117  # the working folder may be gone, and matters to no other path
        whole = os.path.join(begin or Path.cwd(), whole)  # noqa: PTH118
    up, dots, below = whole.rpartition("/..")
    if dots and below[:1] in {"", "/"}:  # what is above a link is above the folder that it names
        whole = os.path.realpath(up + dots) + below
    return os.path.abspath(whole)  # noqa: PTH100


@dataclass(frozen=True)
class _Place:
    """A location on its file system: files are named relative to ``base``, and listed below ``folder``, which may be one file."""

    base: str
    folder: str
    pattern: re.Pattern[str] | None
    recursive: bool

    def is_input(self, file: str) -> bool:
        """Whether a file below the folder is one of the location's."""
        path, below = (file[len(folder) :].lstrip("/") for folder in (self.base, self.folder))
        return not _is_hidden(below) and (self.pattern is None or self.pattern.fullmatch(path) is not None)


def _refuse_circle(folder: str) -> None:
    """Refuse links below a folder that lead back to one on the way to them: files would be found, and read, forty times over.

    They are looked at before they are followed: with two of them in one folder, following would not end.
    """
    for path, below, _ in os.walk(folder, followlinks=True):
        for link in (one for name in below if (one := Path(path, name)).is_symlink()):
            there = link.resolve()
            if any(above.resolve().is_relative_to(there) for above in link.parents):
                raise BadInputError(
                    "a link in the input folder leads back to a folder that it is in", file=str(link),
                    remedy="remove the link, or narrow the source's path",
                )  # fmt: skip


def vanished(path: str) -> MissingInputError:
    """The error for a file that is not there any more."""
    remedy = "put it back: the epoch was to read it and is not committed yet"
    return MissingInputError("an input file of the epoch has vanished", file=path, remedy=remedy)


OF_SOURCE: Final = "pipeline.restore_times(source)"
"""A call for a source whose name those who catch the error know."""

SAME_FILE: Final = (
    f"if it is the same file, as after a copy or a touch, give it its time again, and all others of the source: {OF_SOURCE}"
)
"""What helps where a file has its size, and another time of change."""


def changed_file(path: str, before: SourceFile, now: SourceFile) -> BadInputError:
    """The error for a file that is not what it was."""
    sized = before.size != now.size
    what = f"size {before.size} -> {now.size}" if sized else f"time of change {_told(before)} -> {_told(now)}"
    restore = "restore it, and put new rows into a new file; write files elsewhere and move them in when complete"
    return BadInputError(
        f"an input file changed after it was taken up ({what}); reading it again would repeat or lose rows",
        file=path,
        remedy=restore if sized else f"{SAME_FILE}; else {restore}",
    )


def _told(file: SourceFile) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=file.modified)).isoformat()


def older_extract(path: str, last: str) -> BadInputError:
    """The error for a file that would put an older state in the place of a newer one."""
    return BadInputError(
        f"an extract that was not read is older than the last one that was, {last}: it would undo what that one changed",
        file=path,
        remedy="take it away; if it is the newest state all the same, give it a new time of change (touch)",
    )


def _source_file(path: str, entry: FileInfo) -> SourceFile:
    return SourceFile((entry.mtime_ns or 0) // 1000, path, entry.size)


def _is_hidden(path: str) -> bool:
    return any(part.startswith((".", "_")) for part in path.split("/")) or path.endswith(_UNFINISHED)
