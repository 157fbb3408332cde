"""The book of sinks in Kafka: a topic that keeps, of each sink, the last epoch that is there and the newest run that was.

An epoch is noted in the transaction that has its records, so the book has it if and only if they are there. Of a topic only what
lies before the first open transaction can be read, whoever opened that: what is not found may be hidden behind it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final

from dagster_operators.connectors.kafka_client import client, settings, told_as
from dagster_operators.connectors.kafka_topic import KafkaTopic
from dagster_operators.errors import SinkError, SinkUnavailableError

_LONGEST: Final = 249
_TURN: Final = 0.05
_CONFIG: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",  # what is written to last is never compacted, and by default is that for a week, or 1 GB
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.01",
}


def book_of(pipeline: str, sink: str) -> str:
    """The topic that is a sink's own book, unless it is given another.

    Kafka takes topics that differ in a dot and an underscore only for one, and some letters and lengths not at all.

    >>> book_of("0f3c", "routes")
    'dagster_operators_epochs-0f3c-routes'
    >>> book_of("0f3c", "routes.eu")
    'dagster_operators_epochs-0f3c-routes-eu-111c9635ce651689'
    """
    name = f"dagster_operators_epochs-{pipeline}-{sink}"
    legal = re.sub("[^A-Za-z0-9_-]", "-", name)
    if legal == name and len(name) <= _LONGEST:
        return name
    mark = sha256(name.encode()).hexdigest()[:16]
    return f"{legal[: _LONGEST - len(mark) - 1]}-{mark}"


@dataclass(frozen=True)
class Writer:
    """Who wrote a note.

    Attributes:
        root: The storage root; a copy has another one, though the same pipeline's uuid.
        host: The machine.

    >>> str(Writer("/data/flights", "alpha"))
    '/data/flights on alpha'
    """

    root: str
    host: str

    def __str__(self) -> str:
        return f"{self.root} on {self.host}"


@dataclass(frozen=True)
class Noted:
    """What the book says of a sink.

    Attributes:
        epoch: The last epoch whose records are there; 0 for none.
        generation: The newest run that was; 0 for none.
        attempt: The attempt whose rows these are; empty where nobody said, as in notes of earlier versions and by hand.
        writer: Who wrote the epoch.
        run: Who began the newest run.
    """

    epoch: int = 0
    generation: int = 0
    attempt: str = ""
    writer: Writer | None = None
    run: Writer | None = None

    def to_bytes(self) -> bytes:
        """As the value of a record.

        >>> Noted.of(Noted(3, 1, "e3-g1-0badcafe", Writer("/data", "alpha")).to_bytes()).attempt
        'e3-g1-0badcafe'
        """
        return json.dumps(asdict(self)).encode()

    @classmethod
    def of(cls, value: bytes | None) -> Noted:
        """From the value of a record; a record without one takes back what was noted.

        >>> Noted.of(b'{"epoch": 3, "generation": 1}')
        Noted(epoch=3, generation=1, attempt='', writer=None, run=None)
        """
        found = json.loads(value) if value is not None else {}
        who = {name: Writer(**found[name]) if found.get(name) else None for name in ("writer", "run")}
        return cls(found.get("epoch", 0), found.get("generation", 0), found.get("attempt", ""), **who)

    def is_of(self, epoch: int, attempt: str) -> bool:
        """Whether the epoch is there with the rows of this attempt."""
        return self.epoch == epoch and self.attempt in {"", attempt}


@dataclass(frozen=True)
class KafkaBook:
    """The book, for one sink.

    Args:
        servers: The brokers' addresses.
        topic: The book's topic; made if there is none.
        options: Of the client.
        timeout: Seconds to wait for brokers.
        key: What the sink is called there.
    """

    servers: str
    topic: str
    options: Mapping[str, Any] | None
    timeout: float
    key: bytes

    def read(self, wait: float = 0.0) -> tuple[Noted, bool]:
        """What it says at least, and whether that is all: no transaction is open that was when it was asked.

        Args:
            wait: Seconds to wait until none is.
        """
        noted = Noted()
        with KafkaTopic(self.servers, self.topic, self.options, self.timeout, (SinkUnavailableError, SinkError)) as book:
            if not book.exists():
                self._make()
                return noted, True
            written = book.written()
            until = time.monotonic() + wait
            while is_open := _ends_before(bounds := book.bounds(), written):
                if time.monotonic() >= until:
                    break
                time.sleep(_TURN)
            ranges = {number: bound for number, bound in bounds.items() if bound[0] < bound[1]}
            for records in book.records(ranges) if ranges else ():
                for record in records:
                    if record.key() == self.key:
                        noted = Noted.of(record.value())
        return noted, not is_open

    def _make(self) -> None:
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        with told_as(SinkUnavailableError, SinkError, self.options, topic=self.topic):
            admin = AdminClient(settings(self.servers, self.options, {}))
            topic = NewTopic(self.topic, num_partitions=1, replication_factor=-1, config=dict(_CONFIG))
            made = admin.create_topics([topic], operation_timeout=self.timeout, request_timeout=self.timeout)
            try:
                made[self.topic].result()
            except client().KafkaException as error:
                if error.args[0].code() != client().KafkaError.TOPIC_ALREADY_EXISTS:
                    raise


def _ends_before(bounds: Mapping[int, tuple[int, int]], written: Mapping[int, int]) -> bool:
    return any(number not in bounds or bounds[number][1] < end for number, end in written.items())
