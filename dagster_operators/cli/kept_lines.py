"""Lines of standard input for a source: each is on the disk, in a file that the source reads, before an epoch begins with it."""

from __future__ import annotations

import fcntl
import json
import os
import queue
import re
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import BadInputError, PipelineBusyError, PipelineError, SourceError
from dagster_operators.operators.events.wiring import table_of
from dagster_operators.storage.flushing import replace

if TYPE_CHECKING:
    from dagster_operators.api.pipeline import Pipeline

_NAME: Final = re.compile(r"lines-([0-9]{15})-([0-9]{6})-[0-9a-f]{8}\.json")
"""The number of lines before those in a file, and how many it has."""

_AHEAD: Final = 20_000
"""How many lines may have been read and not been kept yet."""

_CHUNK: Final = 2**16
_MOST: Final = 50_000
"""How many lines a file has at most."""


_BREAKS: Final = bytes.maketrans(b"\r\n", b"  ")
"""Line breaks between the parts of an object become spaces: readers of files take each for the end of a line."""

_LOCK: Final = ".lines.lock"


def _refuse(constant: str) -> None:
    raise ValueError(constant)


_STRICT: Final = json.JSONDecoder(parse_constant=_refuse)
"""Takes no ``NaN`` and no ``Infinity``, which are not JSON."""


class KeptLines:
    r"""The files with the lines, in the folder that a source reads.

    Args:
        folder: The folder.

    Attributes:
        count: How many lines were kept, by earlier runs too.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     KeptLines(Path(folder)).keep([b'{"n": 1}\n', b'{"n": 2}\n'])
    ...     KeptLines(Path(folder)).count
    2
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        found = [_NAME.fullmatch(one.name) for one in folder.iterdir()]
        self.count = max((int(one[1]) + int(one[2]) for one in found if one), default=0)

    def keep(self, lines: Sequence[bytes]) -> None:
        """Put lines into a file of their own, whole or not at all.

        Raises:
            BadInputError: One is no JSON object; those before it are kept.
        """
        right = next((place for place, line in enumerate(lines) if not _is_object(line)), len(lines))
        if right:
            self._write([line.strip().translate(_BREAKS) for line in lines[:right]])
        if right < len(lines):
            raise BadInputError(
                f"line {self.count + 1} is no JSON object: {lines[right][:60]!r}",
                remedy='write one object in each line, in UTF-8: {"t": "2026-01-01 00:00:00", "v": 1}; those before it are kept',
            )

    def _write(self, lines: Sequence[bytes]) -> None:
        name = f"lines-{self.count:015d}-{len(lines):06d}-{uuid.uuid4().hex[:8]}.json"
        replace(self._folder / name, b"\n".join([*lines, b""]), beside=f".{name}")
        self.count += len(lines)


class Lines:
    """Lines that a thread reads as they come; empty ones are none.

    Args:
        stream: Where they come from.
        after: How many are passed over.
    """

    def __init__(self, stream: Iterable[bytes], after: int = 0) -> None:
        self._stream = stream
        self._after = after
        self._read: queue.Queue[bytes | Exception | None] = queue.Queue(_AHEAD)
        self._failure: Exception | None = None
        self.is_over = False
        threading.Thread(target=self._run, daemon=True).start()

    def take(self, seconds: float) -> list[bytes]:
        """All that have come; if there are none, what comes first in some seconds.

        Raises:
            SourceError: They cannot be read any more; those before were taken.
        """
        found: list[bytes] = []
        try:
            while not self.is_over and self._failure is None and len(found) < _MOST:
                line = self._read.get(timeout=seconds) if seconds and not found else self._read.get_nowait()
                if line is None:
                    self.is_over = True
                elif isinstance(line, Exception):
                    self._failure = line
                else:
                    found.append(line)
        except queue.Empty:
            pass
        if self._failure is not None and not found:
            remedy = "run again, with --same-lines if it begins with the lines of before; those that were kept are not lost"
            raise SourceError(f"standard input cannot be read: {self._failure}", remedy=remedy) from self._failure
        return found

    def _run(self) -> None:
        try:
            self._put_all()
        except Exception as error:  # noqa: BLE001 - whoever takes the lines is told
            self._read.put(error)
        else:
            self._read.put(None)

    def _put_all(self) -> None:
        passed = 0
        for line in self._stream:
            if line.strip():
                passed += 1
                if passed > self._after:
                    self._read.put(line)


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """No other run keeps lines in a folder: two would count theirs as one.

    Raises:
        PipelineBusyError: Another one does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("ab") as file:  # closing it, or dying, lets go
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            remedy = "end it first, or give both runs' lines to one of them"
            raise PipelineBusyError(f"another run keeps lines of standard input in {folder}", remedy=remedy) from None
        yield


def lines_of(descriptor: int) -> Iterator[bytes]:
    """The lines that come from a descriptor; read without the locks of a Python file, so that a thread may be at it at the end.

    >>> reading, writing = os.pipe()
    >>> os.write(writing, b"one|two|thr".replace(b"|", bytes([10]))), os.close(writing), list(lines_of(reading))
    (11, None, [b'one', b'two', b'thr'])
    """
    parts: list[bytes] = []  # of a line that has not ended, put together once
    while read := os.read(descriptor, _CHUNK):
        end, *others = read.split(b"\n")
        parts.append(end)
        if others:
            yield b"".join(parts)
            *whole, rest = others
            yield from whole
            parts = [rest]
    if rest := b"".join(parts):
        yield rest


def source_of(pipeline: Pipeline, name: str) -> str:
    """The source that a name is of: its own, or the id of its node."""
    return name if name in pipeline.dataflow.nodes else table_of(name)


def folder_of(pipeline: Pipeline, source: str) -> Path:
    """The folder that a source reads files with JSON lines from; the id of a node stands for its source.

    Raises:
        PipelineError: There is no such source, or it reads something else.
    """
    from dagster_operators.connectors.file_source import FileSource

    sources = {node.operator.name: node.operator for node in pipeline.dataflow if node.operator.kind == "source"}
    source = source_of(pipeline, source)
    if source not in sources:
        remedy = f"there are: {', '.join(sources) or 'none'}"
        raise PipelineError(f"there is no source {source!r} for the lines of standard input", remedy=remedy)
    connector = getattr(sources[source], "connector", None)
    if isinstance(connector, FileSource) and connector.format == "json" and "://" not in connector.uri:
        path = Path(connector.uri)
        folder = path.parent if path.name in ("*", "*.json") else path
        if not re.search(r"[*?\[{]", str(folder)) and folder.suffix != ".json":
            return folder
    raise PipelineError(
        f"the source {source!r} does not read a folder of JSON lines, which those of standard input are put into",
        remedy="write source: {files: {path: in/*.json, format: json, schema: ...}, event_time: ...}",
    )


def _is_object(line: bytes) -> bool:
    """Whether a line is what every reader of JSON lines takes for an object: UTF-8 without a mark, and no NaN or Infinity."""
    try:
        return isinstance(_STRICT.decode(line.strip().decode()), dict)
    except (ValueError, RecursionError):
        return False
