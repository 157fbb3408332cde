"""The book of sinks in Kafka: a topic that keeps, of each sink, the last epoch that is there and the newest run that was.

An epoch is noted in the transaction that has its records, so the book has it if and only if they are there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dagster_operators.connectors.kafka_client import client, settings, told_as
from dagster_operators.connectors.kafka_topic import KafkaTopic
from dagster_operators.errors import SinkError, SinkUnavailableError


@dataclass(frozen=True)
class Noted:
    """What the book says of a sink.

    Attributes:
        epoch: The last epoch whose records are there; 0 for none.
        generation: The newest run that was; 0 for none.
    """

    epoch: int = 0
    generation: int = 0

    def to_bytes(self) -> bytes:
        """As the value of a record.

        >>> Noted.of(Noted(3, 1).to_bytes())
        Noted(epoch=3, generation=1)
        """
        return json.dumps({"epoch": self.epoch, "generation": self.generation}).encode()

    @classmethod
    def of(cls, value: bytes) -> Noted:
        """From the value of a record."""
        found = json.loads(value)
        return cls(found["epoch"], found["generation"])


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

    def read(self) -> Noted:
        """What it says; only what is committed counts."""
        noted = Noted()
        with KafkaTopic(self.servers, self.topic, self.options, self.timeout, (SinkUnavailableError, SinkError)) as book:
            if not book.exists():
                self._make()
                return noted
            ranges = {number: bound for number, bound in book.bounds().items() if bound[0] < bound[1]}
            for records in book.records(ranges) if ranges else ():
                for record in records:
                    if record.key() == self.key and (value := record.value()) is not None:
                        noted = Noted.of(value)
        return noted

    def _make(self) -> None:
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        with told_as(SinkUnavailableError, SinkError, self.options, topic=self.topic):
            admin = AdminClient(settings(self.servers, self.options, {}))
            topic = NewTopic(self.topic, num_partitions=1, replication_factor=-1, config={"cleanup.policy": "compact"})
            made = admin.create_topics([topic], operation_timeout=self.timeout, request_timeout=self.timeout)
            try:
                made[self.topic].result()
            except client().KafkaException as error:
                if error.args[0].code() != client().KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
