"""A topic of Kafka as a sink: each epoch is one transaction there, which also notes the epoch in the sink's book.

Between the decision and the commit a process may die, and with it its transaction: Kafka lets no other process go on with it. But
an epoch's rows stay staged in the storage root until it is complete. So whoever completes the epoch begins the transaction anew,
which ends what was open, and asks the book: the epoch is there, with all its records, or nothing of it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, TypeAlias

from typing_extensions import override

from dagster_operators.connectors.debezium_events import check_types
from dagster_operators.connectors.debezium_reader import DEBEZIUM, keys_of
from dagster_operators.connectors.kafka_book import KafkaBook, Noted, book_of
from dagster_operators.connectors.kafka_client import check_place
from dagster_operators.connectors.kafka_messages import event_messages, row_messages
from dagster_operators.connectors.kafka_topic import KafkaTopic
from dagster_operators.connectors.kafka_transaction import KafkaTransaction
from dagster_operators.connectors.sink import Sink, SinkAttempt, SinkRows
from dagster_operators.errors import FencedError, NotPreparedError, PipelineError, SchemaError, SinkError, SinkUnavailableError
from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.slice import JSON
from dagster_operators.graph.values import Fields, check_fields

SinkFormat: TypeAlias = Literal["json", "debezium-json"]
"""What messages are: rows, or what changes of them."""

_SETTINGS: Final = ("servers", "topic", "format", "key", "book", "timeout", "transaction_timeout")


class KafkaSink(Sink):
    """Writes a stream to a topic of Kafka, exactly once for readers of what is committed (``isolation.level=read_committed``).

    Args:
        servers: The brokers' addresses, ``"host:port,host:port"``.
        topic: The topic; it must exist.
        format: ``"json"``: each row is an object. Of an updating stream a row replaces the earlier one of its key, and one that
            leaves the stream is a message without a value, so that the topic can be compacted. ``"debezium-json"``, of a stream
            of changes: the net effect of an epoch on each key is a change event.
        key: The columns of messages' keys, which are objects too. By default an updating stream's own, else none.
        options: Further settings of the client (librdkafka's); ``"env:NAME"`` takes a value from an environment variable. Never
            stored or shown.
        book: The topic that remembers the sink's epochs; made, compacted, if there is none. By default one of its own,
            ``dagster_operators_epochs-<pipeline's uuid>-<sink's name>``.
        timeout: Seconds to wait for the brokers.
        transaction_timeout: Seconds until brokers end a transaction that a dead process left open, if no run does before.

    Example:
        >>> import dagster_operators as do
        >>> pipeline = do.Pipeline("flights", root="data/flights")
        >>> flights = pipeline.source("flights", do.FileSource("in/*.csv", schema="origin string, dep_delay int"))
        >>> routes = flights.key_by("origin").aggregate(flights="count(*)", name="routes")
        >>> stream = routes.to_sink(do.KafkaSink("localhost:9092", "routes"))
        >>> pipeline.dataflow.sinks["routes"].config["topic"]
        'routes'
    """

    kind: ClassVar[str] = "kafka_sink"

    def __init__(
        self,
        servers: str,
        topic: str,
        format: SinkFormat = "json",  # noqa: A002 - as KafkaSource calls it
        *,
        key: str | Sequence[str] | None = None,
        options: Mapping[str, Any] | None = None,
        book: str | None = None,
        timeout: float = 30.0,
        transaction_timeout: float = 300.0,
    ) -> None:
        check_place(servers, topic, options, timeout)
        check_place(servers, topic if book is None else book, None, transaction_timeout)
        if format not in {"json", DEBEZIUM}:
            raise PipelineError(f"a KafkaSink writes json and {DEBEZIUM}, not {format!r}")
        if format == DEBEZIUM and not keys_of(key):
            raise PipelineError("change events need a key", remedy="name the columns that tell the rows apart: key='id'")
        self.servers, self.topic, self.format, self.book = servers, topic, format, book
        self.key = keys_of(key) or ()
        self.timeout, self.transaction_timeout = float(timeout), float(transaction_timeout)
        self.updates, self.takes_changes = format == "json", format == DEBEZIUM
        self._options = dict(options) if options else None
        self._left_out: tuple[str, ...] = ()
        self._given: tuple[str, SinkRows] | None = None
        self._open: tuple[str, KafkaTransaction] | None = None
        self._done = 0

    def encode(self) -> Fields:
        """All settings as values: what plans store; of the client's options only that there are some."""
        left_out = self._left_out or (("options",) if self._options else ())
        return {**{name: getattr(self, name) for name in _SETTINGS}, "left_out": left_out}

    @classmethod
    def decode(cls, fields: Fields) -> KafkaSink:
        """The sink that was encoded; it connects to nothing.

        Raises:
            PlanError: A setting is unknown or missing.
        """
        check_fields("a sink of the kind 'kafka_sink'", fields, {**dict.fromkeys(_SETTINGS, True), "left_out": False})
        made = cls(**{name: fields[name] for name in _SETTINGS})
        made._left_out = tuple(fields.get("left_out") or ())
        return made

    @property
    def left_out(self) -> tuple[str, ...]:
        """The secrets that a plan left out and that were not given again yet."""
        return self._left_out

    def with_secrets(self, secrets: Mapping[str, Any]) -> KafkaSink:
        """The sink with options that were left out."""
        if not self._left_out or "options" not in secrets:
            return self
        return KafkaSink(**{name: getattr(self, name) for name in _SETTINGS}, options=secrets["options"])

    def __repr__(self) -> str:
        return f"KafkaSink({self.servers!r}, {self.topic!r}, {self.format!r})"

    @override
    def config(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in ("servers", "topic", "format")}
        book = {} if self.book is None else {"book": self.book}
        return {"sink": self.kind, **told, **book, "key": list(self.key)}

    @override
    def check(self, stream: StreamType) -> None:
        if stream.retracting != (self.format == DEBEZIUM):
            if stream.retracting:
                raise SchemaError("the stream is one of changes", topic=self.topic, remedy=f"write format={DEBEZIUM!r} and key=")
            way = "to_changes()" if stream.updating else "to_changes(key, order_by=...)"
            raise SchemaError(
                "change events are made of changes, with the row before", topic=self.topic, remedy=f"write {way} before it"
            )
        for name in self.key:
            if stream.resolve(name) is None:
                raise SchemaError(
                    f"key= names the column {name!r}, which the stream does not have", column=name, topic=self.topic,
                    remedy=f"use one of: {', '.join(stream.columns or ())}",
                )  # fmt: skip
        keys = set(map(str.lower, stream.keys or ()))
        if stream.updating and not keys:
            raise SchemaError(
                "an aggregate over all rows has no key to replace its row by", topic=self.topic,
                remedy="use key_by with a constant",
            )  # fmt: skip
        if stream.updating and self.key and set(map(str.lower, self.key)) != keys:
            raise SchemaError(
                f"the stream has one row per {', '.join(stream.keys or ())}, and the key is another", topic=self.topic,
                remedy="leave key= out",
            )  # fmt: skip

    # --- the calls of the commit -----------------------------------------------------------------------------------------

    @override
    def write(self, rows: SinkRows, attempt: SinkAttempt) -> JSON:
        """Remember where the rows are staged, which is durable; nothing is sent yet, for a transaction would hold readers up.

        Raises:
            FencedError: A newer run has taken over.
            SchemaError: A column has a type that no message can hold.
            SinkError: There is no such topic, or the book is of another moment than the ledger.
            SinkUnavailableError: No broker answers, or a transaction of another sink is open in the book.
        """
        noted, is_all = self._looked(attempt.generation)
        if not is_all and not attempt.decided:  # what is open may be what a dead process of this sink left
            self._drop()
            _, noted = self._alone(attempt.generation)
        with KafkaTopic(self.servers, self.topic, self._options, self.timeout, (SinkUnavailableError, SinkError)) as topic:
            if not topic.exists():
                raise SinkError("there is no such topic", topic=self.topic, remedy="create it, or correct its name")
        if not attempt.decided and (noted.epoch < attempt.after or noted.epoch >= attempt.epoch):
            raise SinkError(
                f"the book has epoch {noted.epoch} as the last of this sink, and the pipeline has epoch {attempt.after}: "
                "one of them was put back to an earlier state, or the brokers are others",
                topic=self.topic,
                remedy="put both back to one moment; or go on behind the gap with another name of the sink: "
                "to_sink(..., name=...)",
            )
        check_types(rows.schema)
        self._given = attempt.attempt, rows
        return {"attempt": attempt.attempt}

    @override
    def prepare(self, epoch: int, commit_data: JSON, generation: int) -> None:
        """Send the records and the note of the epoch in a transaction, and wait until the brokers have them."""
        attempt = _attempt(commit_data)
        if self._open is not None and self._open[0] == attempt:
            return
        if self._given is None or self._given[0] != attempt:
            raise NotPreparedError("another process was given the rows", topic=self.topic)
        rows = self._given[1]
        transaction, noted = self._alone(generation)
        if noted.epoch >= epoch:
            self._done = noted.epoch
            return
        with transaction:
            key = self.key or rows.keys or ()
            transaction.put(self.topic, event_messages(rows, key) if self.format == DEBEZIUM else row_messages(rows, key))
            transaction.put(self._book, [(self._name, Noted(epoch, max(generation, noted.generation)).to_bytes())])
        self._open = attempt, transaction

    @override
    def commit(self, epoch: int, commit_data: JSON) -> None:
        """Commit the transaction. If it is gone, the book tells whether it was committed.

        Where the book is silent, :meth:`prepare` asks it again, when nothing can be hidden, before anything is sent.
        """
        if self._done < epoch and self._open is not None and self._open[0] == _attempt(commit_data):
            try:
                self._open[1].commit()
            except NotPreparedError:
                self._open = None
                raise
            self._done = epoch
        if self._done < epoch and self._looked(None)[0].epoch < epoch:
            raise NotPreparedError("the transaction is gone, and the book does not show the epoch", topic=self.topic)
        self._open = self._given = None

    @override
    def abort(self, epoch: int, generation: int) -> None:
        """End what is open."""
        self._looked(generation)
        self._drop()
        self._begun(generation)

    @override
    def recover(self, decided_epoch: int, generation: int) -> None:
        """Shut earlier runs out, which ends what they left open; the decided epoch is asked about when it is committed."""
        if self._looked(None)[0].generation >= generation:
            return
        self._drop()
        transaction, noted = self._alone(generation)
        with transaction:
            transaction.put(self._book, [(self._name, Noted(noted.epoch, generation).to_bytes())])
        try:
            transaction.commit()
        except NotPreparedError as error:
            raise SinkUnavailableError(
                f"another run takes the sink over at the same time: {error.problem}", topic=self.topic, remedy="run again"
            ) from error

    # --- the brokers -----------------------------------------------------------------------------------------------------

    @property
    def _name(self) -> bytes:
        return f"{self.pipeline}/{self.name}".encode()

    @property
    def _book(self) -> str:
        return self.book if self.book is not None else book_of(self.pipeline, self.name)

    def _looked(self, generation: int | None, wait: float = 0.0) -> tuple[Noted, bool]:
        """What the book says at least, and whether that is all.

        Raises:
            FencedError: It knows a newer run than the one given.
        """
        book = KafkaBook(self.servers, self._book, self._options, self.timeout, self._name)
        noted, is_all = book.read(wait)
        if generation is not None and noted.generation > generation:
            raise FencedError("a newer run of the pipeline has taken the sink over", topic=self.topic)
        return noted, is_all

    def _begun(self, generation: int) -> KafkaTransaction:
        """A transaction to be begun; what the sink's earlier ones left open is ended.

        The book is asked before, so that an earlier run that comes late shuts nobody out.
        """
        self._looked(generation)
        name = f"dagster_operators/{self._name.decode()}"
        return KafkaTransaction(self.servers, name, self._options, timeout=self.timeout, lasts=self.transaction_timeout)

    def _alone(self, generation: int) -> tuple[KafkaTransaction, Noted]:
        """A transaction to be begun, and all that the book says when nobody else can write to it for the sink any more.

        Raises:
            SinkUnavailableError: Another sink's transaction is open in the book, and the sink's note may be hidden behind it.
        """
        made = self._begun(generation)
        noted, is_all = self._looked(generation, self.timeout)
        if not is_all:
            raise SinkUnavailableError(
                f"another transaction is open in the book {self._book}, and hides what was written after it",
                topic=self.topic,
                remedy="run again when that one is committed, or brokers have ended it (transaction_timeout=)",
            )
        return made, noted

    def _drop(self) -> None:
        if self._open is not None:
            self._open[1].abort()
        self._open = self._given = None


def _attempt(commit_data: JSON) -> str:
    if not isinstance(commit_data, dict) or not isinstance(commit_data.get("attempt"), str):
        raise SinkError(f"this is no commit data of a KafkaSink: {commit_data!r}")
    return str(commit_data["attempt"])
