"""A topic of Kafka as a source: an epoch reads each partition from where the last one ended; the offsets are in the ledger.

Brokers delete records by age and by key, so an epoch that is tried again could not read the same ones there: what it read is kept
in the storage root, in the source's spool, until the next epoch begins.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from typing_extensions import override

from dagster_operators.arguments import checked_constructor
from dagster_operators.connectors.connector import PART, Connector, OnCorrupt, Parts, SliceChoice, Unknown
from dagster_operators.connectors.debezium_reader import DEBEZIUM, OnUnknown, check_events
from dagster_operators.connectors.file_source import FileSource
from dagster_operators.connectors.kafka_client import check_place
from dagster_operators.connectors.kafka_offsets import check_offsets, check_there, end_offsets, first_offsets, with_others
from dagster_operators.connectors.kafka_records import (
    PLACE_IN_TOPIC,
    RECORD,
    JsonLines,
    ParquetRecords,
    RecordFile,
    place_of,
    stored,
    without_place,
)
from dagster_operators.connectors.kafka_topic import KafkaTopic
from dagster_operators.connectors.read_failure import SET_ASIDE
from dagster_operators.connectors.rejects import CORRUPT_FILE, CORRUPT_RECORD
from dagster_operators.connectors.spool import tidy
from dagster_operators.connectors.sql_text import literal
from dagster_operators.connectors.written_position import check_keys
from dagster_operators.errors import PipelineError, SourceError
from dagster_operators.graph.changes import OF_SEVERAL
from dagster_operators.graph.slice import JSON, SourceSlice
from dagster_operators.storage.root import Root
from dagster_operators.time.watermark import parse_duration, require_unit
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KafkaFormat: TypeAlias = Literal["raw", "json", "debezium-json"]
"""What is read of records: all there is, values that are JSON, or values that are change events."""

_SET_ASIDE: Final = (
    'read on and set such records aside, in a table: KafkaSource with corrupt="reject"; nobody can correct a '
    "record that is in a topic"
)
_FORMATS: Final = ("raw", "json", DEBEZIUM)


@checked_constructor
@dataclass(frozen=True, eq=False)
class KafkaSource(Connector):
    """The records of a topic of Kafka, each once, in the order of its partition; of transactions what was committed.

    Args:
        servers: The brokers' addresses, ``"host:port,host:port"``.
        topic: The topic.
        format: ``"raw"``: the columns ``key``, ``value``, ``topic``, ``partition``, ``offset``, ``timestamp`` and ``headers``, as
            Spark has them. ``"json"``: values that are JSON objects, in the columns of the schema. ``"debezium-json"``: values
            that are change events of a table, which makes the source a stream of changes.
        schema: The columns of ``"json"``, or those of the table's rows, as DDL.
        start: Where the first epoch begins: ``"earliest"``, ``"latest"``, or a time (``"2026-01-31 12:00"``, UTC), from which on
            records count. Partitions that are added later are read from their first record on.
        max_records: How many offsets an epoch goes on, at most; all partitions that have records take part.
        corrupt: What happens to a value that cannot be parsed: ``"fail"`` the epoch, or ``"reject"`` the value.
        key: Of ``"debezium-json"``: the columns of the table's key.
        unknown: Of these, what an update or deletion of a key does that is not there: ``"repair"`` (the default),
            ``"ignore"`` or ``"fail"``.
        options: Further settings of the client (librdkafka's), such as ``security.protocol``; ``"env:NAME"`` takes a value from
            an environment variable. Never stored or shown.
        timeout: Seconds to wait for the brokers.
        idle_after: Where the source has an event time: how long a partition without new records holds the watermark back.
        order_by: Of ``"debezium-json"``, the field of an event that says its place among those of its key, a whole number such as
            ``"source.lsn"``: then events may come in any order, and again. By default they come in that of their partition.

    >>> source = KafkaSource("localhost:9092", "orders", format="json", schema="id long, price double", max_records=100_000)
    >>> source.uri, source.declared_schema
    ('kafka://localhost:9092/orders', 'id long, price double')
    """

    kind: ClassVar[str] = "kafka"
    secrets: ClassVar[tuple[str, ...]] = ("options",)

    servers: str
    topic: str
    format: KafkaFormat = "raw"
    schema: str | None = None
    start: str = "earliest"
    max_records: int | None = None
    corrupt: OnCorrupt = "fail"
    key: str | Sequence[str] | None = None
    unknown: OnUnknown | None = None
    options: Mapping[str, Any] | None = field(default=None, repr=False)
    timeout: float = 30.0
    idle_after: str = "5 minutes"
    order_by: str | None = None
    _name: str = field(init=False, repr=False, default="")
    _root: Root | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        check_place(self.servers, self.topic, self.options, self.timeout)
        if self.format not in _FORMATS:
            raise PipelineError(f"a KafkaSource reads {', '.join(_FORMATS)}, not {self.format!r}", remedy="choose one of them")
        if (self.format == "raw") != (self.schema is None):
            told = "records as they are have columns of their own" if self.schema else f"{self.format} needs the columns"
            raise PipelineError(told, remedy='leave schema= out, or give format="json"' if self.schema else "give schema=")
        if self.format == "raw" and self.corrupt != "fail":
            raise PipelineError("records as they are can all be read", remedy="leave corrupt= out")
        check_events(self.format == DEBEZIUM, self.schema, self.key, None, unknown=self.unknown, order_by=self.order_by)
        most: object = self.max_records
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise PipelineError(f"max_records is a count, not {most!r}", remedy="write max_records=100_000, say")
        object.__setattr__(self, "timeout", float(self.timeout))
        self._moment()
        self._idle_seconds()
        self._files("spool")

    # --- settings ----------------------------------------------------------------------------------------------------------

    @override
    def placed(self, source: str, root: str, storage_options: Mapping[str, str] | None) -> KafkaSource:
        made = replace(self)
        object.__setattr__(made, "_left_out", self.left_out)
        object.__setattr__(made, "_name", source)
        object.__setattr__(made, "_root", Root(root, storage_options))
        return made

    @property
    def uri(self) -> str:
        """The topic."""
        return f"kafka://{self.servers}/{self.topic}"

    @property
    @override
    def declared_schema(self) -> str:
        return self._files("spool").declared_schema or RECORD

    @property
    @override
    def row_keys(self) -> tuple[str, ...] | None:
        return self._files("spool").row_keys

    @property
    @override
    def row_order(self) -> str | None:
        return self._files("spool").row_order

    @property
    @override
    def on_corrupt(self) -> OnCorrupt:
        return self.corrupt

    @property
    @override
    def may_be_corrupt(self) -> bool:
        return self.format != "raw"

    def config(self) -> dict[str, JSON]:
        """All settings but the client's options."""
        events: dict[str, JSON] = {} if self.row_keys is None else {"key": list(self.row_keys), "unknown": self.on_unknown}
        return {
            "servers": self.servers,
            "topic": self.topic,
            "format": self.format,
            "schema": self.schema,
            "start": self.start,
            "max_records": self.max_records,
            "corrupt": self.corrupt,
            "idle_after": self.idle_after,
            **events,
            **({} if self.order_by is None else {"order_by": self.order_by}),
        }

    def identity(self) -> dict[str, JSON]:
        """The topic; brokers may move."""
        return {"topic": self.topic}

    @override
    def check_position(self, position: JSON) -> None:
        check_keys(position, {"offsets": dict}, ("identity", "spool", "others", "others_of", "heard"))
        check_offsets(position)
        if self.left_out:  # nobody gets in without these: the next epoch tells what does not fit
            return
        found = None
        with suppress(SourceError), replace(self, timeout=min(self.timeout, 10.0))._topic() as topic:  # noqa: SLF001 - of its own
            found = topic.look()
        if found is not None:
            check_there(position, found)

    @override
    def written_position(self, position: JSON, before: JSON | None) -> JSON:
        return with_others(position, before)

    def infer_schema(self, session: SparkSession) -> str:
        """The columns of records, or of the schema."""
        return self._spooled.infer_schema(session)

    # --- slices ------------------------------------------------------------------------------------------------------------

    @property
    @override
    def forgets(self) -> str:
        return "its records are kept until the epoch that read them is complete"

    def choose(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> SliceChoice | None:  # noqa: ARG002
        """Read what is new of each partition into the spool.

        Raises:
            MissingInputError: There is no such topic, or no broker answers.
            BadInputError: The topic is another one than the one that was read, or lost records before they were read.
        """
        known: dict[str, Any] = start if isinstance(start, dict) else {}
        root = self._placed_root
        tidy(root, self._folder, known.get("spool", ()))
        with self._topic() as topic:
            found = topic.look()
            first = first_offsets(known, found, self.topic, lambda: self._begin(topic, list(found.bounds)))
            end = end_offsets(first, found, self.max_records)
            store = partial(self._spool, root, topic, several=len(found.bounds) > 1)
            name, rows, end = stored(first, end, store)
        offsets: dict[str, JSON] = {str(number): offset for number, offset in sorted(end.items())}
        heard = self._heard(known, first, end, found.bounds)
        if offsets == known.get("offsets"):
            if heard.keys() == known.get("heard", {}).keys():
                return None
            return SliceChoice(SourceSlice(start, {**known, "spool": [], "heard": heard}, None), more=False, news=False)
        position: dict[str, JSON] = {
            "offsets": offsets, "identity": found.identity, "spool": [name] if rows else [], "heard": heard
        }  # fmt: skip
        more = any(end[number] < high for number, (_, high) in found.bounds.items())
        return SliceChoice(SourceSlice(start, position, self._items(name) if rows else None), more=more)

    def _heard(
        self, known: Mapping[str, Any], first: Mapping[int, int], end: Mapping[int, int], bounds: Mapping[int, tuple[int, int]]
    ) -> dict[str, JSON]:
        """When the partitions last had records, those that are not idle: one with unread records never is."""
        now, before = int(time.time()), known.get("heard", {})
        moved = {number: now for number in end if first[number] < end[number] or end[number] < bounds[number][1]}
        since = {str(number): moved.get(number, before.get(str(number), 0)) for number in sorted(end)}
        return {number: at for number, at in since.items() if now - at < self._idle_seconds()}

    @override
    def by_clock(self, start: JSON | None) -> JSON | None:
        if not isinstance(start, dict) or not isinstance(known := start.get("heard"), dict):
            return start
        now, most = int(time.time()), self._idle_seconds()
        return {**start, "heard": {number: at for number, at in known.items() if isinstance(at, int) and now - at < most}}

    def _idle_seconds(self) -> float:
        try:
            require_unit(self.idle_after)
            seconds = parse_duration(self.idle_after) / 1_000_000
        except ValueError as error:
            raise PipelineError(f"idle_after: {error}", remedy='write idle_after="5 minutes", say') from None
        if seconds <= 0:
            raise PipelineError(f"idle_after is more than nothing, not {self.idle_after!r}", remedy='write "5 minutes", say')
        return seconds

    @override
    def parts(self, piece: SourceSlice) -> Parts | None:
        end: Any = piece.end
        if not isinstance(end, dict) or "heard" not in end or self.format == DEBEZIUM:
            return None
        start: Any = piece.start if isinstance(piece.start, dict) else {}
        before = start.get("offsets", {})
        read = tuple(number for number, offset in end["offsets"].items() if before.get(number) != offset)
        idle = tuple(number for number in end["offsets"] if number not in end["heard"])
        return Parts(read if piece.items is not None else (), tuple(end["heard"]), idle)

    def _spool(self, root: Root, topic: KafkaTopic, ranges: Mapping[int, tuple[int, int]], *, several: bool) -> tuple[str, int]:
        """The name of a new file with the records, and how many rows it has; there is none without any."""
        raw = self.format == "raw"
        suffix = ".parquet" if raw else OF_SEVERAL if several else ".json"
        name = f"{uuid.uuid4().hex}{suffix}"
        path = root.path(self._folder, name)
        with root.guard(self._folder, "a source's rows cannot be stored"):
            file: RecordFile = ParquetRecords(root.files, path) if raw else JsonLines(
                root.files, path, skip_empty=self.format == DEBEZIUM
            )  # fmt: skip
            with file:
                for records in topic.records(ranges) if ranges else ():
                    file.add(records)
        return name, file.rows

    def _items(self, name: str) -> JSON:
        choice = self._spooled.choose(None, lambda: iter(()))
        listed: Any = choice.slice.items if choice else []
        return [item for item in listed if item[0].rpartition("/")[2] == name]

    @override
    def news(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> JSON | None:
        """Where the partitions end, if that is further than they were read; nothing is read."""
        unread = self._unread(start)
        offsets = {str(number): end for number, (begin, end) in sorted(unread.items()) if end > begin}
        is_first = not isinstance(start, dict) or start.get("offsets") is None
        return {"offsets": dict[str, JSON](offsets)} if offsets or is_first else None

    @override
    def backlog(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> Mapping[str, int]:
        """Offsets, which are as many records unless the topic is compacted or has transactions."""
        return {"offsets": sum(end - begin for begin, end in self._unread(start).values())}

    def _unread(self, start: JSON | None) -> dict[int, tuple[int, int]]:
        """Where each partition is read from, and where it ends."""
        known: dict[str, Any] = start if isinstance(start, dict) else {}
        with self._topic() as topic:
            found = topic.look()
            first = first_offsets(known, found, self.topic, lambda: self._begin(topic, list(found.bounds)))
        return {number: (first[number], high) for number, (_, high) in found.bounds.items()}

    def _begin(self, topic: KafkaTopic, partitions: Sequence[int]) -> Mapping[int, int | None] | None:
        """Where the first epoch begins: offsets, None for the end; or None at all for the first records."""
        moment = self._moment()
        if self.start == "earliest":
            return None
        return dict.fromkeys(partitions) if moment is None else topic.at(moment, partitions)

    def _moment(self) -> int | None:
        """The time to begin at, in milliseconds."""
        if self.start in {"earliest", "latest"}:
            return None
        try:
            moment = datetime.fromisoformat(self.start)
        except (TypeError, ValueError):
            raise PipelineError(
                f'start is "earliest", "latest" or a time, not {self.start!r}', remedy='write start="2026-01-31 12:00", say'
            ) from None
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)

    def _topic(self) -> KafkaTopic:
        return KafkaTopic(self.servers, self.topic, self.options, self.timeout)

    # --- the spool ---------------------------------------------------------------------------------------------------------

    @property
    def _placed_root(self) -> Root:
        if self._root is None:
            raise PipelineError(
                "a KafkaSource is read by the pipeline that it is a source of", remedy="pipeline.source(name, it)"
            )
        return self._root

    @property
    def _folder(self) -> str:
        return f"spool/{self._name}"

    @property
    def _spooled(self) -> FileSource:
        found = self._files(self._placed_root.join(self._folder)).below(self._placed_root)
        return found.with_places() if self.gives_places else found

    @property
    @override
    def knows_places(self) -> bool:
        return self.format != DEBEZIUM

    def _files(self, folder: str) -> FileSource:
        """What reads the spool."""
        if self.format == "raw":
            return FileSource(folder, format="parquet", schema=RECORD)
        return FileSource(
            folder, format="debezium-json" if self.format == DEBEZIUM else "json", schema=self.schema, corrupt=self.corrupt,
            key=self.key, unknown=self.unknown, order_by=self.order_by,
        )  # fmt: skip

    def verify(self, items: JSON, schema_json: str) -> None:
        """Look whether the spool is there."""
        self._spooled.verify(items, schema_json)

    @override
    def verify_again(self, items: JSON, schema_json: str) -> None:
        self._spooled.verify_again(items, schema_json)

    @override
    def with_content(self, items: JSON) -> JSON:
        return self._spooled.with_content(items)

    def read(self, session: SparkSession, items: JSON, schema_json: str, *, corrupt: OnCorrupt = "fail") -> DataFrame:
        """The rows of the spool; what is rejected is of the topic, since the spool's file is soon gone."""
        return self._told(self._spooled.read(session, items, schema_json, corrupt=corrupt))

    @override
    def read_parts(self, session: SparkSession, items: JSON, schema_json: str, *, corrupt: OnCorrupt = "fail") -> DataFrame:
        if self.format == "raw":
            return self.read(session, items, schema_json).selectExpr("*", f"CAST(partition AS STRING) AS {PART}")
        columns = json.loads(schema_json)
        place = {"name": PLACE_IN_TOPIC, "type": "string", "nullable": True, "metadata": {}}
        with_place = json.dumps({**columns, "fields": [*columns["fields"], place]})
        rows = self._told(self._spooled.read(session, items, with_place, corrupt=corrupt))
        part = f"substring_index({PLACE_IN_TOPIC}, ':', 1) AS {PART}"
        return rows.selectExpr("*", part).drop(PLACE_IN_TOPIC)

    def _told(self, rows: DataFrame) -> DataFrame:
        """Rows with rejects as they were in the topic, and where."""
        if CORRUPT_FILE not in rows.columns:
            return rows
        record, partition, offset = place_of(CORRUPT_RECORD)
        there = f"concat({literal(self.uri)}, IF({partition} = '', '', concat('#partition=', {partition}, ',offset=', {offset})))"
        told = {
            CORRUPT_FILE: f"CASE WHEN {CORRUPT_FILE} IS NOT NULL THEN {there} END AS {CORRUPT_FILE}",
            CORRUPT_RECORD: f"{record} AS {CORRUPT_RECORD}",
        }
        return rows.selectExpr(*(told.get(name) or quoted(name) for name in rows.columns))

    def explain_failure(self, session: SparkSession, error: BaseException, items: JSON, schema_json: str) -> SourceError | None:
        """The record that made the engine fail, by its place in the topic."""
        told = self._spooled.explain_failure(session, error, items, schema_json)
        if told is None or told.remedy != SET_ASIDE:
            return told
        where = {name: value for name, value in told.where.items() if name != "file"}
        record, partition, offset = without_place(str(where.get("record", "")))
        there = {"topic": self.topic, "partition": partition, "offset": offset, "record": record}
        return type(told)(told.problem, **{**where, **there}, remedy=_SET_ASIDE)

    def largest_event_time(self, items: JSON, column: str) -> int | Unknown | None:
        """From the spool's footers; unknown for text."""
        return self._spooled.largest_event_time(items, column)

    def null_count(self, items: JSON, column: str) -> int | Unknown:
        """From the spool's footers; unknown for text."""
        return self._spooled.null_count(items, column)

    def pin(self) -> JSON:
        """Refused: a topic gives each record once."""
        raise PipelineError("a KafkaSource cannot be a lookup table", topic=self.topic, remedy="write it to a table first")

    @override
    def read_pinned(self, session: SparkSession, pin: JSON, schema_json: str) -> DataFrame:
        """Refused, as ``pin``."""
        raise PipelineError("a KafkaSource cannot be a lookup table", topic=self.topic, remedy="write it to a table first")
