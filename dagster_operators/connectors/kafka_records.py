"""Records of Kafka as a file of the spool: all there is of them as Parquet, or their values as text, one a line."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol, Self

from dagster_operators.connectors.sql_text import literal
from dagster_operators.errors import BadInputError
from dagster_operators.storage.parquet_writer import ParquetWriter
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    import confluent_kafka as kafka
    from pyarrow import fs

RECORD: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)
"""The columns of records that are read as they are, named as Spark names them."""

PLACE_IN_TOPIC: Final = "_dagster_operators_kafka"
"""What lines of text say of their record: partition and offset, as ``0:12``."""

_PLACED: Final = re.compile(rf'^(?:\{{"{PLACE_IN_TOPIC}":"|{PLACE_IN_TOPIC} )([0-9]+):([0-9]+)(?:",?| )')
_UNFIT: Final = b"no value of one line: "
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class RecordFile(Protocol):
    """A file that is written within a ``with``; without any row there is none."""

    @property
    def rows(self) -> int:
        """How many rows were added."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def add(self, records: Sequence[kafka.Message]) -> None:
        """Add records."""


class ParquetRecords:
    """All there is of records.

    Args:
        files: The file system.
        path: The file.
    """

    def __init__(self, files: fs.FileSystem, path: str) -> None:
        self._schema = Schema.of(RECORD).to_arrow()
        self._writer = ParquetWriter(files, path, self._schema)

    @property
    def rows(self) -> int:
        """How many rows were added."""
        return self._writer.rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._writer.__exit__(kind, error, trace)

    def add(self, records: Sequence[kafka.Message]) -> None:
        """Add records."""
        import pyarrow as pa

        columns: list[list[object]] = [
            [record.key() for record in records],
            [record.value() for record in records],
            [record.topic() for record in records],
            [record.partition() for record in records],
            [record.offset() for record in records],
            [_time(record) for record in records],
            [_headers(record) for record in records],
        ]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, self._schema.types, strict=True)]
        self._writer.write(pa.table(arrays, schema=self._schema))


class JsonLines:
    """The values of records, one a line.

    A value that is no JSON becomes a line that cannot be parsed, however its line breaks are, so that the reader tells of it.

    Args:
        files: The file system.
        path: The file.
        skip_empty: Whether records without a value count as nothing, and not as ones that cannot be parsed.
    """

    def __init__(self, files: fs.FileSystem, path: str, *, skip_empty: bool) -> None:
        self.rows = 0
        self._files, self._path, self._skip_empty = files, path, skip_empty
        self._stack = ExitStack()
        self._stream: fs.NativeFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def add(self, records: Sequence[kafka.Message]) -> None:
        """Add records."""
        lines = [
            placed_line(json_line(record.value()), record.partition(), record.offset())
            for record in records
            if record.value() is not None or not self._skip_empty
        ]
        if lines and self._stream is None:
            self._files.create_dir(self._path.rpartition("/")[0], recursive=True)
            self._stream = self._stack.enter_context(self._files.open_output_stream(self._path))
        if lines and self._stream is not None:
            self._stream.write(b"".join(line + b"\n" for line in lines))
        self.rows += len(lines)


def json_line(value: bytes | None) -> bytes:
    r"""A value as one line: a JSON text as it is, but for line breaks between its parts; what is none as what is none.

    >>> json_line(b'{"a":\n 1.10}')
    b'{"a":  1.10}'
    >>> json_line(b'{"a": "line\nbreak"}'), json_line(None)
    (b'no value of one line: {"a": "line break"}', b'no value of one line: ')
    """
    if value and not any(end in value for end in (b"\n", b"\r")):
        return value if value.strip() else _UNFIT + value
    flat = (value or b"").replace(b"\r", b" ").replace(b"\n", b" ")
    try:
        json.loads(value or b"")  # which takes line breaks between the parts of a text, and none within
    except ValueError:
        return _UNFIT + flat
    return flat


def placed_line(line: bytes, partition: int | None, offset: int | None) -> bytes:
    r"""A line with the place of its record in the topic: in an object a value more, before a text that is no JSON a word.

    A list stays as it is, since some readers take one for several rows.

    >>> placed_line(b'{"a": 1}', 0, 12), placed_line(b"{ }", 0, 12)
    (b'{"_dagster_operators_kafka":"0:12","a": 1}', b'{"_dagster_operators_kafka":"0:12"}')
    >>> placed_line(b"oops", 0, 12), placed_line(b"[{}]", 0, 12)
    (b'_dagster_operators_kafka 0:12 oops', b'[{}]')
    """
    text = line.lstrip()
    if text.startswith(b"["):
        return line
    place = f"{partition}:{offset}"
    if not text.startswith(b"{"):
        return f"{PLACE_IN_TOPIC} {place} ".encode() + line
    rest = text[1:].lstrip()
    return f'{{"{PLACE_IN_TOPIC}":"{place}"{"" if rest.startswith(b"}") else ","}'.encode() + rest


def without_place(line: str) -> tuple[str, int | None, int | None]:
    """A line as its record was, and the partition and offset, if it tells them.

    >>> without_place('{"_dagster_operators_kafka":"0:12","a": 1'), without_place("[1]")
    (('{"a": 1', 0, 12), ('[1]', None, None))
    """
    found = _PLACED.match(line)
    if found is None:
        return line, None, None
    return ("{" if line.startswith("{") else "") + line[found.end() :], int(found[1]), int(found[2])


def place_of(record: str) -> tuple[str, str, str]:
    """The same as SQL over a column: the record as it was, the partition and the offset, empty if it tells none."""
    pattern = literal(_PLACED.pattern)
    opening = f"IF(startswith({record}, '{{') AND {record} RLIKE {pattern}, '{{', '')"
    parts = (f"regexp_extract({record}, {pattern}, {number})" for number in (1, 2))
    return (f"concat({opening}, regexp_replace({record}, {pattern}, ''))", *parts)  # type: ignore[return-value]  # two of them


class UnfitTimeError(Exception):
    """A record has a timestamp that is no time up to the year 9999.

    Args:
        record: The record.
        moment: Its timestamp, in milliseconds since 1970.
    """

    def __init__(self, record: kafka.Message, moment: int) -> None:
        super().__init__(moment)
        self.topic, self.moment = record.topic(), moment
        self.partition, self.offset = record.partition() or 0, record.offset() or 0

    def as_input(self, first: Mapping[int, int]) -> BadInputError:
        """The error of an epoch that would begin with the record; a position by hand names all partitions.

        Args:
            first: The offset that each partition is read from.
        """
        behind = {str(number): offset for number, offset in sorted({**first, self.partition: self.offset + 1}.items())}
        return BadInputError(
            f"the record at offset {self.offset} of partition {self.partition} has the timestamp {self.moment} milliseconds, "
            "which is no time up to the year 9999",
            topic=self.topic,
            remedy=f"go on without this 1 record: pipeline.reset(source, {{'offsets': {behind}}}, tables='keep')",
        )


def stored(
    first: Mapping[int, int], end: dict[int, int], store: Callable[[Mapping[int, tuple[int, int]]], tuple[str, int]]
) -> tuple[str, int, dict[int, int]]:
    """Have records stored up to the first one that cannot be: an epoch takes all before it, the next one begins with it.

    Args:
        first: The offset that each partition is read from.
        end: The offset that each partition is to be read up to.
        store: What stores the records of ranges of offsets, and gives the file's name and its rows.

    Returns:
        The name, the rows, and the offsets that were come to.

    Raises:
        BadInputError: The first record of a partition cannot be stored.

    >>> stored({0: 5, 1: 7}, {0: 9, 1: 7}, lambda ranges: (str(ranges), 4))
    ('{0: (5, 9)}', 4, {0: 9, 1: 7})
    """
    while True:
        try:
            return *store({number: (first[number], end[number]) for number in first if first[number] < end[number]}), end
        except UnfitTimeError as unfit:
            if unfit.offset == first[unfit.partition]:
                raise unfit.as_input(first) from None
            end = {**end, unfit.partition: unfit.offset}


def _time(record: kafka.Message) -> datetime | None:
    kind, moment = record.timestamp()
    try:
        return _EPOCH + timedelta(milliseconds=moment) if kind else None
    except OverflowError as error:
        raise UnfitTimeError(record, moment) from error


def _headers(record: kafka.Message) -> list[dict[str, object]] | None:
    found = record.headers()
    if found is None:
        return None
    pairs = found.items() if isinstance(found, dict) else found
    return [{"key": name, "value": value.encode() if isinstance(value, str) else value} for name, value in pairs]
