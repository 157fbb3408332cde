"""One transaction of Kafka: records and a note in the book, which come to be there together or not at all.

A transaction cannot be taken over by another process: beginning one under the same name ends what was open under it, and shuts
out whoever began it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from dagster_operators.connectors.kafka_client import client, error_of, settings, told_as
from dagster_operators.connectors.sink import WRITTEN_AGAIN
from dagster_operators.errors import NotPreparedError, OperatorsError, SinkError, SinkUnavailableError

if TYPE_CHECKING:
    import confluent_kafka as kafka

    from dagster_operators.connectors.kafka_messages import Message


class KafkaTransaction:
    """A transaction; whatever was open under its name is ended when it is made.

    Args:
        servers: The brokers' addresses.
        name: The transactional id.
        options: Of the client.
        timeout: Seconds to wait for brokers.
        lasts: Seconds until brokers end it by themselves.
    """

    def __init__(self, servers: str, name: str, options: Mapping[str, Any] | None, *, timeout: float, lasts: float) -> None:
        self._options, self._timeout = options, timeout
        self._failed: list[kafka.KafkaError] = []
        own = {"transactional.id": name, "enable.idempotence": True, "transaction.timeout.ms": int(lasts * 1000)}
        with told_as(SinkUnavailableError, SinkError, options):
            given = {"partitioner": "murmur2_random", **(options or {})}
            self._producer = client().Producer(settings(servers, given, own))
            self._producer.init_transactions(timeout)

    def __enter__(self) -> Self:
        """Begin."""
        with told_as(SinkUnavailableError, SinkError, self._options):
            self._producer.begin_transaction()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Take it back if it failed."""
        if kind is not None:
            self.abort()

    def put(self, topic: str, messages: Iterable[Message]) -> None:
        """Add messages, and wait until the brokers have them.

        Raises:
            SinkError: A message is too large, or the user may not write there.
            SinkUnavailableError: The brokers do not take them.
        """
        with self._guard(topic):
            for key, value in messages:
                self._put(topic, key, value)
            left = self._producer.flush(self._timeout)
        if self._failed:
            raise self._error(self._failed[0], topic)
        if left:
            raise SinkUnavailableError(
                f"Kafka did not take {left} messages within {self._timeout} s", topic=topic, remedy="check the brokers"
            )

    def commit(self) -> None:
        """Have all of it there.

        Raises:
            NotPreparedError: It is gone; whether it was committed tells the book.
            SinkUnavailableError: It is not known yet; ask again.
        """
        library = client()
        try:
            self._producer.commit_transaction(self._timeout)
        except library.KafkaException as failure:
            error = failure.args[0]
            if error.retriable():
                raise self._error(error, None) from None
            if error.txn_requires_abort():
                self.abort()
            raise NotPreparedError(f"Kafka did not commit the transaction: {error.str()}", remedy=WRITTEN_AGAIN) from None

    def abort(self) -> None:
        """Take all of it back, as far as it is not taken back already."""
        library = client()
        try:
            self._producer.purge()
            self._producer.abort_transaction(self._timeout)
        except library.KafkaException:
            return  # brokers end what nobody ends, and the next one of the name does so at once

    def _put(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._delivered)
            except BufferError:  # there are more than wait at once
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def _delivered(self, error: kafka.KafkaError | None, _: object) -> None:
        if error is not None:
            self._failed.append(error)

    @contextmanager
    def _guard(self, topic: str) -> Iterator[None]:
        library = client()
        try:
            yield
        except library.KafkaException as error:
            raise self._error(error.args[0], topic) from None

    def _error(self, error: kafka.KafkaError, topic: str | None) -> OperatorsError:
        if error.name() == "MSG_SIZE_TOO_LARGE":
            remedy = (
                "raise message.max.bytes (an option of the sink) and max.message.bytes of the topic, or make the rows smaller"
            )
            return SinkError("a message is larger than Kafka takes", topic=topic, remedy=remedy)
        return error_of(error, SinkUnavailableError, SinkError, self._options, topic=topic)
