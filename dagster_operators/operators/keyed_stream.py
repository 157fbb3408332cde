"""The fluent interface behind ``key_by`` and ``window``: a stream that is grouped and waits for its aggregates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.operators.keyed_aggregate import KeyedAggregate
from dagster_operators.operators.projection import as_pairs
from dagster_operators.operators.window_aggregate import WindowAggregate
from dagster_operators.operators.windows import Window

from dagster_operators.operators.session import Session
from dagster_operators.operators.session_aggregate import SessionAggregate
if TYPE_CHECKING:
    from dagster_operators.graph.operator import LogicalOperator
    from dagster_operators.operators.stream import Stream


class KeyedStream:
    """A stream grouped by key columns, waiting for a window or an aggregate.

    Attributes:
        keys: The key columns; none for one group of all rows.
    """

    def __init__(self, stream: Stream, keys: tuple[str, ...]) -> None:
        self._stream = stream
        self.keys = keys

    def window(self, window: Window | Session) -> WindowedStream:
        """Group by windows over the event time as well.

        Raises:
            SchemaError: The stream has no event time.
        """
        pipeline, time = self._stream._dataflow.name, self._stream.event_time  # noqa: SLF001
        if time is None:
            raise SchemaError(
                "a window needs an event time, and the stream has none",
                pipeline=pipeline,
                operator=self._stream.name,
                remedy="give the source event_time=..., and hand that column on unchanged",
            )
        if not isinstance(window, Window | Session):
            raise PipelineError(
                f"{window!r} is no window",
                pipeline=pipeline,
                operator=self._stream.name,
                remedy="use Tumbling, Sliding or Session",
            )
        return WindowedStream(self, window, time)

    def aggregate(self, aggregates: Mapping[str, str] | None = None, /, *, name: str | None = None, **more: str) -> Stream:
        """One row per key with the aggregates over all of the key's rows so far: an updating stream.

        Args:
            aggregates: Output column -> Spark SQL aggregate, for names that are no Python words.
            name: The operator's name; its state is addressed by it.
            more: Output column = Spark SQL aggregate, for example ``flights="count(*)"``.
        """
        return self._add(KeyedAggregate, name, (), {**(aggregates or {}), **more}, event_time=self._stream.event_time)

    def _add(
        self,
        operator: type[LogicalOperator],
        name: str | None,
        stem: tuple[str, ...],
        aggregates: Mapping[str, str],
        **settings: Any,
    ) -> Stream:
        dataflow = self._stream._dataflow  # noqa: SLF001
        named = name or dataflow.fresh_name("_".join(("aggregate", *map(_word, self.keys), *stem)))
        if not aggregates:
            raise PipelineError(
                "there is nothing to aggregate",
                pipeline=dataflow.name,
                operator=named,
                remedy="write aggregate(rows='count(*)'), say",
            )
        return self._stream._add(operator, named, keys=self.keys, aggregates=as_pairs(aggregates), **settings)  # noqa: SLF001


class WindowedStream:
    """A stream grouped by key columns and windows, waiting for its aggregates.

    Attributes:
        window: The windows.
    """

    def __init__(self, keyed: KeyedStream, window: Window | Session, event_time: str) -> None:
        self._keyed = keyed
        self._event_time = event_time
        self.window = window

    def aggregate(self, aggregates: Mapping[str, str] | None = None, /, *, name: str | None = None, **more: str) -> Stream:
        """One row per key and window, once the window is closed: the keys, ``window_start``, ``window_end`` and the aggregates.

        Args:
            aggregates: Output column -> Spark SQL aggregate, for names that are no Python words.
            name: The operator's name; its state is addressed by it.
            more: Output column = Spark SQL aggregate, for example ``mean_delay="avg(dep_delay)"``.
        """
        size = _word("per " + str(self.window).removeprefix("tumbling ").removeprefix("sliding "))
        wanted, settings = {**(aggregates or {}), **more}, {"window": self.window, "event_time": self._event_time}
        operator = SessionAggregate if isinstance(self.window, Session) else WindowAggregate
        return self._keyed._add(operator, name, (size,), wanted, **settings)  # noqa: SLF001


def _word(text: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in text)
