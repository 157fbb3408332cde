"""A topic of Kafka as a sink: each epoch is one transaction there, which also notes the epoch in the sink's book.

Between the decision and the commit a process may die, and with it its transaction: Kafka lets no other process go on with it. But
an epoch's rows stay staged in the storage root until it is complete. So whoever completes the epoch begins the transaction anew,
which ends what was open, and asks the book: the epoch is there, with all its records, or nothing of it is.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal, TypeAlias

from typing_extensions import override

from dagster_operators.arguments import checked_constructor
from dagster_operators.connectors.debezium_events import check_types
from dagster_operators.connectors.debezium_reader import DEBEZIUM, keys_of
from dagster_operators.connectors.kafka_book import KafkaBook, Noted, Writer, book_of
from dagster_operators.connectors.kafka_client import check_place
from dagster_operators.connectors.kafka_messages import event_messages, row_messages
from dagster_operators.connectors.kafka_topic import KafkaTopic
from dagster_operators.connectors.kafka_transaction import KafkaTransaction
from dagster_operators.connectors.sink import (
    LET_GO_ON,
    OF_ANOTHER_SINK,
    WRITTEN_AGAIN,
    Sink,
    SinkAttempt,
    SinkRows,
    check_columns,
    check_key_of_updates,
)
from dagster_operators.errors import FencedError, NotPreparedError, PipelineError, SchemaError, SinkError, SinkUnavailableError
from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.slice import JSON
from dagster_operators.graph.values import Fields, check_fields

SinkFormat: TypeAlias = Literal["json", "debezium-json"]
"""What messages are: rows, or what changes of them."""

_SETTINGS: Final = ("servers", "topic", "format", "key", "book", "timeout", "transaction_timeout")


@checked_constructor
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
            raise PipelineError(f"a KafkaSink writes json and {DEBEZIUM}, not {format!r}", remedy="choose one of them")
        if format == DEBEZIUM and not keys_of(key):
            raise PipelineError("change events need a key", remedy="name the columns that tell the rows apart: key='id'")
        self.servers, self.topic, self.format, self.book = servers, topic, format, book
        self.key = keys_of(key) or ()
        self.timeout, self.transaction_timeout = float(timeout), float(transaction_timeout)
        self.updates, self.takes_changes = format == "json", format == DEBEZIUM
        self._options = dict(options) if options else None
        self._left_out: tuple[str, ...] = ()
        self._given: tuple[SinkAttempt, SinkRows] | None = None
        self._asked: JSON = None
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
        check_columns(stream, "key", self.key, topic=self.topic)
        check_key_of_updates(stream, self.key or None, topic=self.topic)

    # --- the calls of the commit -----------------------------------------------------------------------------------------

    @override
    def write(self, rows: SinkRows, attempt: SinkAttempt) -> JSON:
        """Remember where the rows are staged, which is durable; nothing is sent yet, for a transaction would hold readers up.

        The commit data name the book, so that the epoch is asked about, and noted, where it was written: ``book=`` may be another
        by then.

        Raises:
            FencedError: A newer run has taken over.
            SchemaError: A column has a type that no message can hold.
            SinkError: There is no such topic, or the book is of another moment than the ledger, or of another root.
            SinkUnavailableError: No broker answers, or a transaction of another sink is open in the book.
        """
        asked = self._asked if self._asked is not None and _attempt(self._asked) == attempt.attempt else None
        data = asked if asked is not None else {"attempt": attempt.attempt, "book": self._book}
        book = self._book_of(data)
        noted, is_all = self._looked(None, book=book)
        if is_all:
            self._require_ours(noted, attempt, book)
        self._require_newest(noted, attempt.generation, book)
        if not is_all and not attempt.decided:  # what is open may be what a dead process of this sink left
            self._drop()
            _, noted = self._alone(attempt.generation, book)
            self._require_ours(noted, attempt, book)
        with KafkaTopic(self.servers, self.topic, self._options, self.timeout, (SinkUnavailableError, SinkError)) as topic:
            if not topic.exists():
                raise SinkError("there is no such topic", topic=self.topic, remedy="create it, or correct its name")
        if not attempt.decided and noted.epoch >= attempt.epoch:
            raise SinkError(
                f"the book {book} has epoch {noted.epoch} as the last of this sink, and the pipeline has epoch {attempt.after}: "
                "the pipeline was put back to an earlier state",
                topic=self.topic,
                remedy="put both back to one moment; or go on behind it with another name of the sink (name= of to_sink); "
                f"or {self._by_hand(Noted(attempt.after, attempt.generation), book)}",
            )
        check_types(rows.schema)
        self._given = attempt, rows
        return data

    @override
    def prepare(self, epoch: int, commit_data: JSON, generation: int) -> None:
        """Send the records and the note of the epoch in a transaction, and wait until the brokers have them."""
        attempt, book = _attempt(commit_data), self._book_of(commit_data)
        self._asked = commit_data
        if self._open is not None and self._open[0] == attempt:
            return
        if self._given is None or self._given[0].attempt != attempt:
            raise NotPreparedError("another process was given the rows", topic=self.topic, remedy=WRITTEN_AGAIN)
        given, rows = self._given
        transaction, noted = self._alone(generation, book)
        self._require_ours(noted, given, book)
        if noted.epoch >= epoch:
            self._done = epoch
            return
        with transaction:
            key = self.key or rows.keys or ()
            transaction.put(self.topic, event_messages(rows, key) if self.format == DEBEZIUM else row_messages(rows, key))
            run = noted.run if noted.generation > generation else self._writer
            note = Noted(epoch, max(generation, noted.generation), attempt, self._writer, run)
            transaction.put(book, [(self._name, note.to_bytes())])
        self._open = attempt, transaction

    @override
    def commit(self, epoch: int, commit_data: JSON) -> None:
        """Commit the transaction. If it is gone, the book tells whether it was committed.

        Where the book is silent, or has what the ledger does not know, :meth:`prepare` asks it again, when nothing can be hidden,
        before anything is sent.
        """
        attempt = _attempt(commit_data)
        self._asked = commit_data
        if self._done < epoch and self._open is not None and self._open[0] == attempt:
            try:
                self._open[1].commit()
            except NotPreparedError:
                self._open = None
                raise
            self._done = epoch
        if self._done < epoch:
            noted, _ = self._looked(None, book=self._book_of(commit_data))
            if not noted.is_of(epoch, attempt) and not (noted.epoch > epoch and self._is_ours(noted)):
                raise NotPreparedError(
                    "the transaction is gone, and the book does not show the epoch", topic=self.topic, remedy=WRITTEN_AGAIN
                )
        self._open = self._given = None

    @override
    def abort(self, epoch: int, generation: int) -> None:
        """End what is open."""
        self._looked(generation)
        self._drop()
        self._begun(generation, self._book)

    @override
    def recover(self, decided_epoch: int, generation: int) -> None:
        """Shut earlier runs out, which ends what they left open; the decided epoch is asked about when it is committed."""
        if self._looked(None)[0].generation >= generation:
            return
        self._drop()
        transaction, noted = self._alone(generation, self._book)
        with transaction:
            taken = replace(noted, generation=generation, run=self._writer)
            transaction.put(self._book, [(self._name, taken.to_bytes())])
        try:
            transaction.commit()
        except NotPreparedError as error:
            raise SinkUnavailableError(
                f"another run takes the sink over at the same time: {error.problem}", topic=self.topic, remedy="run again"
            ) from error

    # --- the book --------------------------------------------------------------------------------------------------------

    @property
    def _name(self) -> bytes:
        return f"{self.pipeline}/{self.name}".encode()

    @property
    def _book(self) -> str:
        return self.book if self.book is not None else book_of(self.pipeline, self.name)

    def _book_of(self, commit_data: JSON) -> str:
        named = commit_data.get("book") if isinstance(commit_data, dict) else None
        return named if isinstance(named, str) else self._book

    @property
    def _writer(self) -> Writer:
        return Writer(self.root, socket.gethostname())

    def _is_ours(self, noted: Noted) -> bool:
        """Whether the ledger has what is noted as the last epoch."""
        known = not noted.epoch or not noted.attempt or self.is_decided is None
        return known or (self.is_decided is not None and self.is_decided(noted.epoch, noted.attempt))

    def _require_ours(self, noted: Noted, attempt: SinkAttempt, book: str) -> None:
        """Refuse a book that lacks what the pipeline gave the sink, or has what it did not give it.

        Raises:
            SinkError: With both ways on, the one that gives this root up and the one that goes on with it.
        """
        wanted = Noted(attempt.after, attempt.generation)
        if noted.epoch < attempt.after:
            raise SinkError(
                f"the book {book} has epoch {noted.epoch} as the last of this sink, and the pipeline has epoch {attempt.after}: "
                "the brokers were put back to an earlier state, or they or the book are others than before",
                topic=self.topic,
                remedy="give servers= and book= as they were, or put both back to one moment; or, if the sink has another place "
                f"from here on: {self._by_hand(wanted, book)}",
            )
        if noted.is_of(attempt.epoch, attempt.attempt) or self._is_ours(noted):
            return
        raise SinkError(
            f"epoch {noted.epoch} of this sink was written from the storage root {noted.writer}, as attempt {noted.attempt}, "
            f"which the ledger of this one, {self._writer}, does not have: one of them is a copy of the other that runs beside "
            "it, or this one was put back to a backup",
            topic=self.topic,
            remedy="let one of them go on alone, and delete the other; or, if this one is to go on in the same topic, behind "
            f"what the other one wrote, which stays: stop the other one, and {self._by_hand(wanted, book)}",
        )

    def _require_newest(self, noted: Noted, generation: int, book: str) -> None:
        """Refuse what an earlier run does.

        Raises:
            FencedError: The book knows a newer run.
            SinkError: The newer one is of another root, so that this one would wait for ever.
        """
        if noted.generation <= generation:
            return
        if noted.run is not None and self.root not in {"", noted.run.root}:
            raise SinkError(
                f"run {noted.generation} of the storage root {noted.run} has taken the sink over, and this is run {generation} "
                f"of {self._writer}: one of them is a copy of the other that runs beside it",
                topic=self.topic,
                remedy="let one of them go on alone, and delete the other; if that is this one, stop the other one, and "
                f"{self._by_hand(replace(noted, generation=generation, run=None), book)}",
            )
        raise FencedError("a newer run of the pipeline has taken the sink over", topic=self.topic, remedy=LET_GO_ON)

    def _by_hand(self, note: Noted, book: str) -> str:
        """How to have the book say what the ledger does."""
        value = note.to_bytes().decode()
        return f"write a record to the topic {book} with the key {self._name.decode()} and the value {value}"

    # --- the brokers -----------------------------------------------------------------------------------------------------

    def _looked(self, generation: int | None, wait: float = 0.0, book: str | None = None) -> tuple[Noted, bool]:
        """What the book says at least, and whether that is all.

        Raises:
            FencedError: It knows a newer run than the one given.
        """
        read = KafkaBook(self.servers, book or self._book, self._options, self.timeout, self._name)
        noted, is_all = read.read(wait)
        if generation is not None:
            self._require_newest(noted, generation, read.topic)
        return noted, is_all

    def _begun(self, generation: int, book: str) -> KafkaTransaction:
        """A transaction to be begun; what the sink's earlier ones left open is ended.

        The book is asked before, so that an earlier run that comes late shuts nobody out.
        """
        self._looked(generation, book=book)
        name = f"dagster_operators/{self._name.decode()}"
        return KafkaTransaction(self.servers, name, self._options, timeout=self.timeout, lasts=self.transaction_timeout)

    def _alone(self, generation: int, book: str) -> tuple[KafkaTransaction, Noted]:
        """A transaction to be begun, and all that the book says when nobody else can write to it for the sink any more.

        Raises:
            SinkUnavailableError: Another sink's transaction is open in the book, and the sink's note may be hidden behind it.
        """
        made = self._begun(generation, book)
        noted, is_all = self._looked(generation, self.timeout, book)
        if not is_all:
            raise SinkUnavailableError(
                f"another transaction is open in the book {book}, and hides what was written after it",
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
        raise SinkError(f"this is no commit data of a KafkaSink: {commit_data!r}", remedy=OF_ANOTHER_SINK)
    return str(commit_data["attempt"])
