"""``do.frontier.probe``: how far the time of a stream has come, for the program that runs the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import override

from dagster_operators.api.additions import Built, building, building_methods
from dagster_operators.api.frontier_scope import check_outside
from dagster_operators.errors import PipelineError
from dagster_operators.runtime.event_time import Frontiers, at_beginning, held_in
from dagster_operators.time.frontier import Frontier
from dagster_operators.time.timestamp import Time
from dagster_operators.time.watermark import MIN_WATERMARK

if TYPE_CHECKING:
    from dagster_operators.api.pipeline import Pipeline
    from dagster_operators.api.stream import Stream
    from dagster_operators.connectors.source_operator import SourceOperator

Found = TypeVar("Found")


@building
def probe(pipeline: Pipeline, stream: Stream) -> ProbeHandle:
    """A handle that tells which times a stream may still bring, as of the last completed epoch.

    Args:
        pipeline: The pipeline.
        stream: One of its streams.

    Raises:
        PipelineError: The stream is of another pipeline.

    >>> import dagster_operators as do
    >>> pipeline = do.Pipeline("p", root="data")
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = pipeline.source("rows", source, event_time="t")
    >>> isinstance(do.frontier.probe(pipeline, rows), do.frontier.ProbeHandle)
    True
    """
    return ProbeHandle(pipeline, stream)


@building
def probe_with(stream: Stream, handle: ProbeHandle) -> Stream:
    """The stream, which a handle that was made before tells of from now on: for a source that is to wait for what comes of it.

    Args:
        stream: The stream.
        handle: The handle; it tells of one stream.

    Raises:
        PipelineError: The stream is of another pipeline, or the handle tells of another stream already.

    >>> import dagster_operators as do
    >>> def counting(capability, info):
    ...     def logic(output):
    ...         output.session(capability).give(v=capability.time)
    ...         capability.downgrade(capability.time + 1)
    ...     return logic
    >>> pipeline = do.Pipeline("p", root="data")
    >>> handle = do.frontier.ProbeHandle(pipeline)
    >>> numbers = do.frontier.source(pipeline, "numbers", counting, schema="v long", waits_for=handle)
    >>> probe_with(do.frontier.limit_rate(numbers, 10), handle).columns
    ('v', 't')
    """
    handle.attach(stream)
    return stream


@building_methods
class ProbeHandle(Built):
    """How far a stream's time has come; read from the ledger whenever it is asked, so any process may ask.

    Before the first epoch every time may still come.

    Args:
        pipeline: The pipeline.
        stream: One of its streams; by default the one that :func:`probe_with` will give it.
    """

    def __init__(self, pipeline: Pipeline, stream: Stream | None = None) -> None:
        check_outside(pipeline, "a probe")
        self._pipeline = pipeline
        self._stream: Stream | None = None
        self._waiting: list[SourceOperator] = []
        if stream is not None:
            self.attach(stream)

    @override
    def _taking_back(self) -> Callable[[], None]:
        stream, waiting = self._stream, tuple((source, source.waits_for) for source in self._waiting)

        def undo() -> None:
            self._stream, self._waiting = stream, [source for source, _ in waiting]
            for source, name in waiting:
                source.waits_for = name

        return undo

    def attach(self, stream: Stream) -> None:
        """Tell of a stream from now on, as :func:`probe_with` has it.

        Raises:
            PipelineError: The stream is of another pipeline, or there is one already.
        """
        check_outside(stream, "a probe")
        if stream._dataflow is not self._pipeline.dataflow:  # noqa: SLF001
            raise PipelineError(
                f"the stream {stream.name!r} is of another pipeline", pipeline=self._pipeline.name,
                remedy="probe it with the pipeline that it belongs to",
            )  # fmt: skip
        if self._stream is not None:
            raise PipelineError(
                f"the handle tells of {self._stream.name!r} already", pipeline=self._pipeline.name,
                remedy="make another handle for another stream",
            )  # fmt: skip
        self._stream = stream
        for source in self._waiting:
            source.waits_for = str(stream._ref)  # noqa: SLF001

    def hold_up(self, source: SourceOperator) -> None:
        """Have a source wait until the stream has come as far as it."""
        self._waiting.append(source)
        source.waits_for = "" if self._stream is None else str(self._stream._ref)  # noqa: SLF001

    @property
    def frontier(self) -> Frontier:
        """The least of the times that may still come; none if nothing will.

        >>> import dagster_operators as do
        >>> from tempfile import TemporaryDirectory
        >>> source = do.MemorySource([], schema="v long, t timestamp")
        >>> with TemporaryDirectory() as root:
        ...     pipeline = do.Pipeline("p", root=root)
        ...     probe = do.frontier.probe(pipeline, pipeline.source("rows", source, event_time="t"))
        ...     len(probe.frontier.elements)
        1
        """
        if self._stream is None:
            raise PipelineError(
                "the probe was given no stream", pipeline=self._pipeline.name, remedy="give it one: probe_with(stream, handle)"
            )
        last = next(iter(self._pipeline.history()[-1:]), None)
        if last is None:
            return Frontier([MIN_WATERMARK])
        found = Frontiers(self._pipeline.dataflow, at_beginning(last.watermarks), held_in(last.held))
        return found.of(self._stream._ref)  # noqa: SLF001

    def less_than(self, time: Time) -> bool:
        """Whether a time before this one may still come: ``while probe.less_than(time): pipeline.run_epoch()``.

        >>> import dagster_operators as do
        >>> from tempfile import TemporaryDirectory
        >>> source = do.MemorySource([], schema="v long, t timestamp")
        >>> with TemporaryDirectory() as root:
        ...     pipeline = do.Pipeline("p", root=root)
        ...     probe = do.frontier.probe(pipeline, pipeline.source("rows", source, event_time="t"))
        ...     probe.less_than(5)
        True
        """
        return self.frontier.less_than(time)

    def less_equal(self, time: Time) -> bool:
        """Whether this time, or one before it, may still come.

        >>> import dagster_operators as do
        >>> from tempfile import TemporaryDirectory
        >>> source = do.MemorySource([], schema="v long, t timestamp")
        >>> with TemporaryDirectory() as root:
        ...     pipeline = do.Pipeline("p", root=root)
        ...     probe = do.frontier.probe(pipeline, pipeline.source("rows", source, event_time="t"))
        ...     probe.less_equal(5)
        True
        """
        return self.frontier.less_equal(time)

    def done(self) -> bool:
        """Whether nothing will ever come again.

        >>> import dagster_operators as do
        >>> from tempfile import TemporaryDirectory
        >>> source = do.MemorySource([], schema="v long, t timestamp")
        >>> with TemporaryDirectory() as root:
        ...     pipeline = do.Pipeline("p", root=root)
        ...     probe = do.frontier.probe(pipeline, pipeline.source("rows", source, event_time="t"))
        ...     probe.done()
        False
        """
        return self.frontier.finished

    def with_frontier(self, function: Callable[[Frontier], Found]) -> Found:
        """What a function makes of the frontier.

        >>> import dagster_operators as do
        >>> from tempfile import TemporaryDirectory
        >>> source = do.MemorySource([], schema="v long, t timestamp")
        >>> with TemporaryDirectory() as root:
        ...     pipeline = do.Pipeline("p", root=root)
        ...     probe = do.frontier.probe(pipeline, pipeline.source("rows", source, event_time="t"))
        ...     probe.with_frontier(lambda frontier: frontier.less_equal(0))
        True
        """
        return function(self.frontier)
