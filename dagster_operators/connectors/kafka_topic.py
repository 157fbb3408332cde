"""One topic of Kafka, as a source sees it: its partitions, where they begin and end, and the records between two offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from dagster_operators.connectors.kafka_client import client, error_of, settings, told_as
from dagster_operators.errors import BadInputError, MissingInputError, OperatorsError

if TYPE_CHECKING:
    from types import TracebackType

    import confluent_kafka as kafka

_AT_ONCE: Final = 2_000
_TURN: Final = 0.1
_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""What brokers that give topics no identity say."""
_READER: Final[Mapping[str, Any]] = {
    "group.id": "dagster_operators",  # the client wants one; offsets are kept in the ledger, so nothing is stored under it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": 32_768,
}


@dataclass(frozen=True)
class TopicState:
    """What there is of a topic.

    Attributes:
        identity: The topic's own identity: one that is deleted and created again has another. None if the brokers have none.
        bounds: For each partition its first offset, and the one behind the last record that is committed.
    """

    identity: str | None
    bounds: Mapping[int, tuple[int, int]]


class KafkaTopic:
    """A topic, read within a ``with``: only what transactions have committed counts.

    Args:
        servers: The brokers' addresses.
        topic: The topic.
        options: Of the client.
        timeout: Seconds to wait for brokers.
        errors: What it is if trying again may help, and if not.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        options: Mapping[str, Any] | None,
        timeout: float,
        errors: tuple[type[OperatorsError], type[OperatorsError]] = (MissingInputError, BadInputError),
    ) -> None:
        self._servers, self._topic, self._options, self._timeout = servers, topic, options, timeout
        self._errors = errors
        self._consumer: Any = None

    def __enter__(self) -> Self:
        with self._guard():
            group = {name: value for name, value in (self._options or {}).items() if name == "group.id"}
            self._consumer = client().Consumer(settings(self._servers, self._options, {**_READER, **group}))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._consumer.close()

    def look(self) -> TopicState:
        """What there is now.

        Raises:
            MissingInputError: There is no such topic, or no broker answers.
        """
        bounds = self.bounds()
        with self._guard():
            return TopicState(self._identity(), bounds)

    def exists(self) -> bool:
        """Whether there is such a topic."""
        with self._guard():
            error = self._found().error
            return error is None or error.code() != client().KafkaError.UNKNOWN_TOPIC_OR_PART

    def bounds(self) -> dict[int, tuple[int, int]]:
        """For each partition its first offset, and the one behind the last record that is committed."""
        with self._guard():
            found = self._found()
            if found.error is not None:
                raise self._error(found.error)
            bounds = {}
            for number in sorted(found.partitions):
                place = client().TopicPartition(self._topic, number)
                bounds[number] = self._consumer.get_watermark_offsets(place, timeout=self._timeout, cached=False)
            return bounds

    def written(self) -> dict[int, int]:
        """For each partition the offset behind the last record, committed or not."""
        from confluent_kafka.admin import AdminClient

        library = client()
        with self._guard():
            found = self._found()
            if found.error is not None:
                raise self._error(found.error)
            admin = AdminClient(settings(self._servers, self._options, {}))
            asked = admin.list_offsets(
                {library.TopicPartition(self._topic, number): library.admin.OffsetSpec.latest() for number in found.partitions},
                isolation_level=library.IsolationLevel.READ_UNCOMMITTED,
                request_timeout=self._timeout,
            )
            return {place.partition: told.result().offset for place, told in asked.items()}

    def _found(self) -> Any:
        return self._consumer.list_topics(self._topic, timeout=self._timeout).topics[self._topic]

    def at(self, moment: int, partitions: Sequence[int]) -> dict[int, int | None]:
        """For each partition the offset of the first record from a time on, in milliseconds; None if there is none yet."""
        with self._guard():
            asked = [client().TopicPartition(self._topic, number, moment) for number in partitions]
            found = self._consumer.offsets_for_times(asked, timeout=self._timeout)
            return {place.partition: place.offset if place.offset >= 0 else None for place in found}

    def records(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[list[kafka.Message]]:
        """The records of each partition from one offset up to before another, some at a time, those of a partition in order."""
        with self._guard():
            places = [client().TopicPartition(self._topic, number, first) for number, (first, _) in sorted(ranges.items())]
            self._consumer.assign(places)
            self._consumer.resume(places)  # a partition that was paused stays so, whatever is assigned
            left = {number: end for number, (_, end) in ranges.items()}
            heard = time.monotonic()
            while left:
                found = self._consumer.consume(_AT_ONCE, timeout=_TURN)  # which takes that long unless so many came
                heard = time.monotonic() if found else heard
                if time.monotonic() - heard > self._timeout:
                    raise self._errors[0](
                        f"no record came within {self._timeout} s",
                        topic=self._topic,
                        remedy="check the brokers, or give timeout=",
                    )
                if records := self._taken(found, left):
                    yield records
            self._consumer.unassign()

    def _taken(self, found: Sequence[kafka.Message], left: dict[int, int]) -> list[kafka.Message]:
        """Of what came the records that are wanted; partitions that are done leave ``left``."""
        records = []
        for message in found:
            error, number, offset = message.error(), message.partition(), message.offset()
            if error is not None and error.code() != client().KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                raise self._error(error)
            if number is None or offset is None or number not in left:
                continue
            if error is None and offset < left[number]:
                records.append(message)
            if offset >= left[number] - (error is None):  # the last one, one beyond the end, or the end of all there is
                del left[number]
                self._consumer.pause([client().TopicPartition(self._topic, number)])
        return records

    def _identity(self) -> str | None:
        from confluent_kafka.admin import AdminClient

        library = client()
        admin = AdminClient(settings(self._servers, self._options, {}))
        asked = admin.describe_topics(library.TopicCollection([self._topic]), request_timeout=self._timeout)
        try:
            identity = str(asked[self._topic].result().topic_id)
        except library.KafkaException as error:
            if error.args[0].code() == library.KafkaError._UNSUPPORTED_FEATURE:  # noqa: SLF001 - its public name
                return None
            raise
        return None if identity == _NO_ID else identity

    def _guard(self) -> AbstractContextManager[None]:
        return told_as(*self._errors, self._options, topic=self._topic)

    def _error(self, error: kafka.KafkaError) -> Exception:
        return error_of(error, *self._errors, self._options, topic=self._topic)
