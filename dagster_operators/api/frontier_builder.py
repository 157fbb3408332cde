"""``do.frontier.OperatorBuilder``: an operator with any number of inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from dagster_operators.api.additions import Built, building_methods, marks_of
from dagster_operators.api.frontier_scope import Scope, check_outside
from dagster_operators.api.frontier_scoped_stream import ScopedStream
from dagster_operators.api.frontier_source import CALLS, WithoutInput, empty, source
from dagster_operators.api.frontier_stream import FrontierStream, ended, exchanged
from dagster_operators.errors import PipelineError
from dagster_operators.graph.ports import MAIN
from dagster_operators.operators.frontier.definition import ALWAYS, IF_CAPABILITY, NEVER, Columns, Definition, State
from dagster_operators.operators.frontier.frontier_operator import FrontierOperator
from dagster_operators.operators.frontier.pacts import Pact, Pipeline
from dagster_operators.operators.frontier.without_input import WithoutInputs
from dagster_operators.time.antichain import Antichain

if TYPE_CHECKING:
    from dagster_operators.api.pipeline_graph import PipelineGraph
    from dagster_operators.api.stream import Stream

_INTERESTS = (NEVER, IF_CAPABILITY, ALWAYS)


@building_methods
class OperatorBuilder(Built):
    """Puts an operator together: inputs, outputs, and which of them are connected.

    Args:
        name: The operator's name, which its state is addressed by.
        pipeline: The pipeline that it belongs to, or the scope. Within a scope with rounds a summary that is a whole number
            advances the round; ``Product(1, 0)`` advances the time outside.

    >>> import dagster_operators as do
    >>> def split(capabilities, info):
    ...     def logic(inputs, outputs):
    ...         for time, batch in inputs[0]:
    ...             for number, output in enumerate(outputs):
    ...                 output.session(time.retain(number)).give_batch(batch.slice(number, 1))
    ...     return logic
    >>> pipeline = do.Pipeline("p", root="data")
    >>> words = pipeline.source("words", do.FileSource("in", schema="word string, t timestamp"), event_time="t")
    >>> builder = OperatorBuilder("split", pipeline)
    >>> builder.new_input(words, do.frontier.Pipeline()), builder.new_output(), builder.new_output()
    (0, 0, 1)
    >>> first, second = builder.build(split)
    >>> first.name, second.name
    ('split', 'split_output_1')
    """

    def __init__(self, name: str, pipeline: PipelineGraph | Scope) -> None:
        self.name = name
        self._pipeline = pipeline
        self._inputs: list[tuple[Stream | ScopedStream, Pact]] = []
        self._schemas: list[Columns] = []
        self._summaries: dict[tuple[int, int], Sequence[Any]] = {}
        self._notify: dict[int, str] = {}
        self._built = False

    def new_input(self, stream: Stream | ScopedStream, pact: Pact) -> int:
        """An input that is connected to all outputs that there are; times stay as they are on the way.

        Returns:
            Its number.
        """
        return self.new_input_connection(stream, pact, [(output, [0]) for output in range(len(self._schemas))])

    def new_input_connection(
        self, stream: Stream | ScopedStream, pact: Pact, connection: Iterable[tuple[int, Iterable[Any]]]
    ) -> int:
        """An input that is connected to some outputs.

        Args:
            stream: What is read.
            pact: Which rows meet.
            connection: Pairs of an output's number and what the ways there do to times: summaries, as ``1``, which adds one.
                Without any summary the two are not connected; nor are outputs that are not named.

        Returns:
            Its number.

        Raises:
            PipelineError: There is no such output, or it is named twice.
        """
        number = len(self._inputs)
        self._connect([((number, output), ways) for output, ways in connection], "output", len(self._schemas))
        self._inputs.append((stream, pact))
        return number

    def new_output(self, schema: Columns = None) -> int:
        """An output that is connected to all inputs that there are; times stay as they are on the way.

        Args:
            schema: Its columns without the time; by default those of the first input.

        Returns:
            Its number.
        """
        return self.new_output_connection([(number, [0]) for number in range(len(self._inputs))], schema)

    def new_output_connection(self, connection: Iterable[tuple[int, Iterable[Any]]], schema: Columns = None) -> int:
        """An output that is connected to some inputs.

        Args:
            connection: Pairs of an input's number and what the ways from there do to times.
            schema: Its columns without the time; by default those of the first input.

        Returns:
            Its number.

        Raises:
            PipelineError: There is no such input, or it is named twice.
        """
        number = len(self._schemas)
        self._connect([((given, number), ways) for given, ways in connection], "input", len(self._inputs))
        self._schemas.append(schema)
        return number

    def set_notify_for(self, number: int, interest: str) -> None:
        """Say when the logic is called because an input's frontier moved, without rows.

        Args:
            number: The input's number.
            interest: A ``FrontierInterest`` or its text: ``"never"``, ``"if_capability"`` (only while the operator holds
                capabilities), or ``"always"``, the default.

        Raises:
            PipelineError: There is no such input, or no such interest.
        """
        self._check_number(number, "input", len(self._inputs))
        if interest not in _INTERESTS:
            raise PipelineError(f"there is no interest {interest!r}", operator=self.name, remedy=f"use {', '.join(_INTERESTS)}")
        self._notify[number] = str(interest)

    def build(self, constructor: Callable[..., Any], *, state: State | None = None, chain: bool = True) -> Any:
        """Put the operator into the pipeline.

        Args:
            constructor: ``constructor(capabilities, info)`` gives ``logic(inputs, outputs)``; ``capabilities`` are the initial
                ones, one for each output, and each of ``inputs`` has its ``frontier``.
            state: What lives on between epochs.
            chain: Whether it may share a stage with the operators before it.

        An operator without an input is a source, whose capabilities are for the time 0 at first and whose column with the time
        is ``t``. One of one output without state tables is as :func:`~dagster_operators.api.frontier_source.source` makes it:
        ``info.state`` is a dictionary of plain JSON. Any other keeps what it declares. It is called once in an epoch, and again
        when it asks for it by ``info.activator``; and what it has left makes another epoch begin, if :meth:`build_reschedule`
        built it. One without an output is a sink.

        Returns:
            The stream of the only output, or a tuple of those of all outputs; without an output a stream that has no rows.

        Raises:
            PipelineError: It has neither input nor output, was built already, or something of it does not fit.
            SchemaError: A stream has no event time, or lacks a column.

        >>> import dagster_operators as do
        >>> def once(capabilities, info):
        ...     def logic(inputs, outputs):
        ...         outputs[0].session(capabilities[0]).give(v=1)
        ...         capabilities.clear()
        ...     return logic
        >>> def shown(capabilities, info):
        ...     def logic(inputs, outputs):
        ...         inputs[0].for_each(lambda time, batch: print(time.time, batch.num_rows))
        ...     return logic
        >>> pipeline = do.Pipeline("p", root="data")
        >>> first, last = OperatorBuilder("one", pipeline), OperatorBuilder("shown", pipeline)
        >>> first.new_output("v long"), last.new_input(first.build(once), do.frontier.Pipeline())
        (0, 0)
        >>> last.build(shown).name
        'shown'
        """
        return self._put("build", constructor, state, chain)

    def build_reschedule(
        self, constructor: Callable[..., Any], *, state: State | None = None, calls: int | None = None, chain: bool = True
    ) -> Any:
        """Put the operator into the pipeline; its logic says whether it is incomplete.

        True keeps the operator from being done, and does not have it called again in this epoch: that is asked for by
        ``info.activator.activate()``, as in timely dataflow. But an operator that is incomplete when the epoch ends is called in
        the next one, which begins though no source has anything new: what is left cannot be forgotten.

        Args:
            constructor: As that of :meth:`build`; its logic returns whether the operator is incomplete.
            state: What lives on between epochs.
            calls: How often the logic may ask to be called again in an epoch; what is then left is left to the next one.
            chain: Whether it may share a stage with the operators before it.

        Returns:
            The stream of the only output, or a tuple of those of all outputs.

        Raises:
            PipelineError: It has neither input nor output, was built already, or something of it does not fit.
            SchemaError: A stream has no event time, or lacks a column.

        >>> import dagster_operators as do
        >>> def a_row_at_a_time(capabilities, info):
        ...     stash = info.state["stash"]
        ...     def logic(inputs, outputs):
        ...         inputs[0].for_each(stash.add)
        ...         for capability in [held.clone() for held in stash.capabilities()[:1]]:
        ...             rows = stash.pop(capability.time)
        ...             outputs[0].session(capability).give_batch(rows.slice(0, 1))
        ...             if rows.num_rows > 1:
        ...                 stash.add(capability, rows.slice(1))
        ...         if len(stash):
        ...             info.activator.activate()
        ...         return len(stash) > 0
        ...     return logic
        >>> pipeline = do.Pipeline("p", root="data")
        >>> words = pipeline.source("words", do.FileSource("in", schema="word string, t timestamp"), event_time="t")
        >>> builder = OperatorBuilder("slow", pipeline)
        >>> builder.new_input(words, do.frontier.Pipeline()), builder.new_output()
        (0, 0)
        >>> builder.build_reschedule(a_row_at_a_time, state={"stash": do.frontier.StashState()}, calls=100).columns
        ('word', 't')
        """
        return self._put("reschedule", constructor, state, chain, calls)

    @override
    def _taking_back(self) -> Callable[[], None]:
        """What takes back all that is added from now on, to what it is built with too."""
        inputs, schemas, built = len(self._inputs), len(self._schemas), self._built
        summaries, notify = dict(self._summaries), dict(self._notify)
        around = list(marks_of([self._pipeline, *(stream for stream, _ in self._inputs)]))

        def undo() -> None:
            del self._inputs[inputs:], self._schemas[schemas:]
            self._summaries, self._notify, self._built = summaries, notify, built
            for take_back in around:
                take_back()

        return undo

    def _put(self, shape: str, constructor: Any, state: State | None, chain: bool, calls: int | None = None) -> Any:  # noqa: FBT001
        if self._built or not (self._inputs or self._schemas):
            told = "is built already" if self._built else "needs an input or an output"
            raise PipelineError(f"the operator {told}", operator=self.name, remedy="new_input, new_output, then build once")
        if not self._inputs:
            pipeline = self._check_source()
            if len(self._schemas) == 1 and not state:
                made = WithoutInput(constructor)
                own = CALLS if calls is None else calls
                put = source(pipeline, self.name, made, schema=str(self._schemas[0]), calls=own)
                self._built = True
                return put
            constructor = WithoutInputs(constructor)
        schemas: tuple[Columns, ...] = tuple(self._schemas) or (None,)
        for stream, _ in self._inputs:
            self._check_stream(stream)
        given = [exchanged(stream, pact) for stream, pact in self._inputs]
        pacts = [pact for _, pact in given] or [Pipeline()]
        definition = Definition(
            shape if self._schemas else f"{shape}_sink", pacts, self.name, constructor, schema=schemas,
            state=state,
            summaries=self._connections(), notify=[self._notify.get(number, ALWAYS) for number in range(len(pacts))],
            calls=calls,
        )  # fmt: skip
        streams = [stream for stream, _ in given] or [empty(pipeline, f"{self.name}_input", schema="nothing int")]
        first, *others = streams
        main = first.through(FrontierOperator, *others, name=self.name, chain=chain, definition=definition)
        self._built = True
        if not self._schemas:
            return main if isinstance(self._pipeline, Scope) else ended(main)
        outputs = tuple(main if port == MAIN else main.side_output(port) for port in definition.ports)
        return outputs if len(outputs) > 1 else main

    def _check_stream(self, stream: Any) -> None:
        """Raise PipelineError unless a stream is of the pipeline, or the scope, that this is built with."""
        if not isinstance(stream, FrontierStream | ScopedStream):
            raise PipelineError(f"{stream!r} is no stream", operator=self.name, remedy="give what an operator or a source gave")
        if isinstance(self._pipeline, Scope):
            self._pipeline.check(stream)
        elif isinstance(stream, ScopedStream):
            raise PipelineError(
                f"a stream of the scope {stream.scope.name!r} is read outside of it", operator=self.name,
                remedy="build the operator with the scope: OperatorBuilder(name, scope); or leave the scope before",
            )  # fmt: skip
        elif stream._dataflow is not self._pipeline.dataflow:  # noqa: SLF001
            raise PipelineError(
                f"the stream {stream.name!r} is of another pipeline", operator=self.name, pipeline=self._pipeline.name,
                remedy="build the operator with the pipeline of its streams",
            )  # fmt: skip

    def _check_source(self) -> PipelineGraph:
        """The pipeline, if this may be a source: outside of scopes, with the columns of all outputs told.

        Raises:
            PipelineError: It may not.
        """
        check_outside(self._pipeline, "an operator without an input")
        if not all(isinstance(schema, str) for schema in self._schemas):
            raise PipelineError(
                "the columns of its output are not told", operator=self.name, remedy='say them: new_output("word string, n long")'
            )
        assert not isinstance(self._pipeline, Scope)  # noqa: S101 - which was seen to
        return self._pipeline

    def _connections(self) -> list[list[Sequence[Any]]]:
        outputs = range(len(self._schemas))
        if not self._schemas:
            return [[(0,)] for _ in self._inputs]
        return [[self._summaries.get((number, output), ()) for output in outputs] for number in range(len(self._inputs) or 1)]

    def _connect(self, ways: Iterable[tuple[tuple[int, int], Iterable[Any]]], what: str, count: int) -> None:
        found: dict[tuple[int, int], Sequence[Any]] = {}
        for pair, summaries in ways:
            self._check_number(pair[what == "output"], what, count)
            if pair in found:
                raise PipelineError(
                    f"the {what} {pair[what == 'output']} is connected twice", operator=self.name,
                    remedy="give all summaries of a connection together",
                )  # fmt: skip
            own = [self._pipeline.advancing(one) for one in summaries] if isinstance(self._pipeline, Scope) else summaries
            found[pair] = _least(own)
        self._summaries.update(found)

    def _check_number(self, number: int, what: str, count: int) -> None:
        if not 0 <= number < count:
            raise PipelineError(
                f"there is no {what} {number} yet", operator=self.name, remedy=f"make it first: new_{what}; there are {count}"
            )


def _least(summaries: Iterable[Any]) -> Sequence[Any]:
    """Summaries without those that another one makes superfluous, where that can be told."""
    found = list(summaries)
    return Antichain(found).elements if all(type(summary) is int for summary in found) else tuple(found)
