"""The client's own brokers that live in this process: they have topics, offsets and transactions, and no identities of topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import Producer


class MockBrokers:
    """Brokers on loopback, as long as the object lives; topics come to be by their first record."""

    def __init__(self) -> None:
        self._producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0})
        self.servers = ",".join(f"{one.host}:{one.port}" for one in self._producer.list_topics(timeout=60).brokers.values())

    def put(
        self, topic: str, values: Sequence[bytes | str | None], *, partition: int = 0, key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None, timestamp: int = 0,
    ) -> None:  # fmt: skip
        for value in values:
            more = {"headers": list(headers.items())} if headers else {}
            self._producer.produce(topic, value, key=key, partition=partition, timestamp=timestamp, **more)
        assert self._producer.flush(60) == 0

    def close(self) -> None:
        del self._producer


@contextmanager
def mock_brokers() -> Iterator[MockBrokers]:
    brokers = MockBrokers()
    try:
        yield brokers
    finally:
        brokers.close()
