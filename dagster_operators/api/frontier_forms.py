"""The fluent methods that build operators as timely dataflow has them: closures over input, frontier and output.

Names and the order of arguments are timely dataflow's. The constructor runs in the workers, in every epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.frontier.definition import State
    from dagster_operators.operators.frontier.pacts import Pact


class FrontierForms:
    """Operators with capabilities, behind a stream of a pipeline or one within a scope.

    The event time of a stream is their time, in whole microseconds since 1970.
    """

    def unary(
        self,
        pact: Pact,
        name: str,
        constructor: Callable[..., Any],
        *,
        schema: str | pa.Schema | None = None,
        state: State | None = None,
        chain: bool = True,
    ) -> Self:
        """An operator that is not told about frontiers.

        Args:
            pact: Which rows meet: ``Pipeline()`` or ``Exchange("column")``.
            name: The operator's name, which its state is addressed by.
            constructor: ``constructor(capability, info)`` gives ``logic(input, output)``, which is called when rows came.
            schema: The output's columns without the time; by default those of the stream.
            state: What lives on between epochs, which the constructor finds in ``info.state``.
            chain: Whether it may share a stage with the operator before it.

        Raises:
            PipelineError: Something of it does not fit.
            SchemaError: The stream has no event time, or lacks a column.

        >>> from dagster_operators import FileSource, Pipeline, frontier
        >>> def doubled(capability, info):
        ...     def logic(input, output):
        ...         for time, batch in input:
        ...             output.session(time).give_batches([batch, batch])
        ...     return logic
        >>> source = FileSource("in", schema="word string, t timestamp")
        >>> words = Pipeline("p", root="data").source("words", source, event_time="t")
        >>> words.unary(frontier.Pipeline(), "doubled", doubled).columns
        ('word', 't')
        """
        return self._frontier("unary", [(self, pact)], name, constructor, chain=chain, schema=schema, state=state)

    def unary_frontier(
        self,
        pact: Pact,
        name: str,
        constructor: Callable[..., Any],
        *,
        schema: str | pa.Schema | None = None,
        state: State | None = None,
        chain: bool = True,
    ) -> Self:
        """An operator that is told which times its input may still bring, and can hold capabilities from epoch to epoch.

        Args:
            pact: Which rows meet.
            name: The operator's name.
            constructor: ``constructor(capability, info)`` gives ``logic(input, output)``, which is called when rows came and
                when ``input.frontier`` moved.
            schema: The output's columns without the time; by default those of the stream.
            state: What lives on between epochs: state tables, ``StashState``, ``CapabilityState``, ``NotifyState``.
            chain: Whether it may share a stage with the operator before it.

        Raises:
            PipelineError: Something of it does not fit.
            SchemaError: The stream has no event time, or lacks a column.

        >>> from dagster_operators import FileSource, KeyedState, Pipeline, frontier
        >>> def sorted_by_time(capability, info):
        ...     stash = info.state["stash"]
        ...     def logic(input, output):
        ...         for time, batches in input.by_time():
        ...             stash.add(time, batches)
        ...         for time, rows in stash.complete(input.frontier):
        ...             output.session(time).give_batch(rows)
        ...     return logic
        >>> source = FileSource("in", schema="word string, t timestamp")
        >>> words = Pipeline("p", root="data").source("words", source, event_time="t")
        >>> exchange, state = frontier.Exchange("word"), {"stash": frontier.StashState()}
        >>> words.unary_frontier(exchange, "in_order", sorted_by_time, state=state).name
        'in_order'
        """
        return self._frontier("unary_frontier", [(self, pact)], name, constructor, chain=chain, schema=schema, state=state)

    def unary_notify(
        self,
        pact: Pact,
        name: str,
        init: Sequence[int],
        logic: Callable[..., Any],
        *,
        schema: str | pa.Schema | None = None,
        state: State | None = None,
        chain: bool = True,
    ) -> Self:
        """An operator that is notified, in the order of time, of times that are complete.

        Args:
            pact: Which rows meet.
            name: The operator's name.
            init: Times to be notified of from the beginning.
            logic: ``logic(input, output, notificator)``; ``notificator.info.state`` has what is declared.
            schema: The output's columns without the time; by default those of the stream.
            state: What lives on between epochs, beside the notifications.
            chain: Whether it may share a stage with the operator before it.

        Raises:
            PipelineError: Something of it does not fit.
            SchemaError: The stream has no event time, or lacks a column.

        >>> from dagster_operators import FileSource, Pipeline, frontier
        >>> def ends(input, output, notificator):
        ...     input.for_each(lambda time, batch: notificator.notify_at(time))
        ...     for capability, count in notificator:
        ...         output.session(capability).give(batches=count)
        >>> source = FileSource("in", schema="word string, t timestamp")
        >>> words = Pipeline("p", root="data").source("words", source, event_time="t")
        >>> words.unary_notify(frontier.Pipeline(), "ends", [], ends, schema="batches long").columns
        ('batches', 't')
        """
        more = {"schema": schema, "state": state, "initial": init}
        return self._frontier("unary_notify", [(self, pact)], name, logic, chain=chain, **more)

    def sink(
        self,
        pact: Pact,
        name: str,
        constructor: Callable[..., Any],
        *,
        state: State | None = None,
        chain: bool = True,
    ) -> Self:
        """An operator that puts nothing out, for what it does elsewhere; it is told about frontiers.

        An epoch that fails is worked on again, so the logic may see rows more than once: what it does elsewhere must bear that.
        What is to be written exactly once belongs into a table, or a :class:`~dagster_operators.Sink`.

        Args:
            pact: Which rows meet.
            name: The operator's name.
            constructor: ``constructor(info)`` gives ``logic(input)``.
            state: What lives on between epochs.
            chain: Whether it may share a stage with the operators before it.

        Returns:
            A stream without rows, whose time is that of the operator.

        Raises:
            PipelineError: Something of it does not fit, or the name is that of another sink.
            SchemaError: The stream has no event time, or lacks a column.

        >>> from dagster_operators import FileSource, Pipeline, frontier
        >>> def shown(info):
        ...     def logic(input):
        ...         for time, batch in input:
        ...             print(time.time, batch.num_rows, input.frontier)
        ...     return logic
        >>> source, pipeline = FileSource("in", schema="word string, t timestamp"), Pipeline("p", root="data")
        >>> words = pipeline.source("words", source, event_time="t")
        >>> words.sink(frontier.Pipeline(), "shown", shown).name, list(pipeline.dataflow.sinks)
        ('shown', ['shown'])
        """
        return self._ended(self._frontier("sink", [(self, pact)], name, constructor, chain=chain, state=state))

    def binary(
        self,
        other: Self,
        pact: Pact,
        other_pact: Pact,
        name: str,
        constructor: Callable[..., Any],
        *,
        schema: str | pa.Schema | None = None,
        state: State | None = None,
        chain: bool = True,
    ) -> Self:
        """An operator over two streams that is not told about frontiers.

        Args:
            other: The second stream.
            pact: Which rows of this stream meet.
            other_pact: Which rows of the second stream meet, and with which of this one.
            name: The operator's name.
            constructor: ``constructor(capability, info)`` gives ``logic(input, other_input, output)``.
            schema: The output's columns without the time; by default those of this stream.
            state: What lives on between epochs.
            chain: Whether it may share a stage with the operators before it.

        Raises:
            PipelineError: Something of it does not fit.
            SchemaError: A stream has no event time, or lacks a column.

        >>> from dagster_operators import FileSource, Pipeline, frontier
        >>> def merged(capability, info):
        ...     def logic(left, right, output):
        ...         for side in (left, right):
        ...             side.for_each(lambda time, batch: output.session(time).give_batch(batch))
        ...     return logic
        >>> pipeline, pact = Pipeline("p", root="data"), frontier.Pipeline()
        >>> source = FileSource("in", schema="word string, t timestamp")
        >>> one, two = (pipeline.source(name, source, event_time="t") for name in ("one", "two"))
        >>> one.binary(two, pact, pact, "merged", merged).columns
        ('word', 't')
        """
        streams = [(self, pact), (other, other_pact)]
        return self._frontier("binary", streams, name, constructor, chain=chain, schema=schema, state=state)

    def binary_frontier(
        self,
        other: Self,
        pact: Pact,
        other_pact: Pact,
        name: str,
        constructor: Callable[..., Any],
        *,
        schema: str | pa.Schema | None = None,
        state: State | None = None,
        chain: bool = True,
    ) -> Self:
        """An operator over two streams, each with its frontier; it can hold capabilities from epoch to epoch.

        Args:
            other: The second stream.
            pact: Which rows of this stream meet.
            other_pact: Which rows of the second stream meet, and with which of this one.
            name: The operator's name.
            constructor: ``constructor(capability, info)`` gives ``logic(input, other_input, output)``.
            schema: The output's columns without the time; by default those of this stream.
            state: What lives on between epochs.
            chain: Whether it may share a stage with the operators before it.

        Raises:
            PipelineError: Something of it does not fit.
            SchemaError: A stream has no event time, or lacks a column.

        >>> from dagster_operators import FileSource, Pipeline, frontier
        >>> def when_both_are_complete(capability, info):
        ...     stash = info.state["stash"]
        ...     def logic(left, right, output):
        ...         for side in (left, right):
        ...             side.for_each(stash.add)
        ...         for time, rows in stash.complete([left.frontier, right.frontier]):
        ...             output.session(time).give_batch(rows)
        ...     return logic
        >>> pipeline, pact = Pipeline("p", root="data"), frontier.Exchange("word")
        >>> source = FileSource("in", schema="word string, t timestamp")
        >>> one, two = (pipeline.source(name, source, event_time="t") for name in ("one", "two"))
        >>> state = {"stash": frontier.StashState()}
        >>> one.binary_frontier(two, pact, pact, "both", when_both_are_complete, state=state).columns
        ('word', 't')
        """
        streams = [(self, pact), (other, other_pact)]
        return self._frontier("binary_frontier", streams, name, constructor, chain=chain, schema=schema, state=state)

    def binary_notify(  # noqa: PLR0917 - the order is timely dataflow's
        self,
        other: Self,
        pact: Pact,
        other_pact: Pact,
        name: str,
        init: Sequence[int],
        logic: Callable[..., Any],
        *,
        schema: str | pa.Schema | None = None,
        state: State | None = None,
        chain: bool = True,
    ) -> Self:
        """An operator over two streams that is notified of times that are complete in both.

        Args:
            other: The second stream.
            pact: Which rows of this stream meet.
            other_pact: Which rows of the second stream meet, and with which of this one.
            name: The operator's name.
            init: Times to be notified of from the beginning.
            logic: ``logic(input, other_input, output, notificator)``.
            schema: The output's columns without the time; by default those of this stream.
            state: What lives on between epochs, beside the notifications.
            chain: Whether it may share a stage with the operators before it.

        Raises:
            PipelineError: Something of it does not fit.
            SchemaError: A stream has no event time, or lacks a column.

        >>> from dagster_operators import FileSource, Pipeline, frontier
        >>> def ends(left, right, output, notificator):
        ...     for side in (left, right):
        ...         side.for_each(lambda time, batch: notificator.notify_at(time))
        ...     notificator.for_each(lambda capability, count, _: output.session(capability).give(batches=count))
        >>> pipeline, pact = Pipeline("p", root="data"), frontier.Pipeline()
        >>> source = FileSource("in", schema="word string, t timestamp")
        >>> one, two = (pipeline.source(name, source, event_time="t") for name in ("one", "two"))
        >>> one.binary_notify(two, pact, pact, "ends", [], ends, schema="batches long").columns
        ('batches', 't')
        """
        streams, more = [(self, pact), (other, other_pact)], {"schema": schema, "state": state, "initial": init}
        return self._frontier("binary_notify", streams, name, logic, chain=chain, **more)

    def _frontier(
        self,
        shape: str,
        streams: Sequence[tuple[Any, Pact]],
        name: str,
        function: Callable[..., Any],
        *,
        chain: bool,
        **settings: Any,
    ) -> Self:
        """Put an operator of a shape behind streams that are exchanged by these pacts."""
        raise NotImplementedError

    def _ended(self, stream: Self) -> Self:
        """The stream without rows of an operator that puts nothing out."""
        raise NotImplementedError
