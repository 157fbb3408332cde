"""``do.frontier.Scope``: operators in a loop within one subtask, with times of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from dagster_operators.api.additions import Built, building_methods, marks_of
from dagster_operators.api.frontier_rounds import in_rounds
from dagster_operators.api.frontier_scoped_stream import ScopedStream
from dagster_operators.api.frontier_stream import exchanged
from dagster_operators.errors import PipelineError
from dagster_operators.graph.ports import MAIN
from dagster_operators.operators.frontier.definition import Columns, Definition
from dagster_operators.operators.frontier.frontier_operator import FrontierOperator
from dagster_operators.operators.frontier.library.computing import Computed
from dagster_operators.operators.frontier.pacts import Broadcast, Exchange, Pact, Pipeline
from dagster_operators.operators.frontier.scope_body import ENTER, FEEDBACK, LEAVE, ScopeBody, ScopeNode, Source
from dagster_operators.time.product import Product
from dagster_operators.time.scopes import Enter, Leave
from dagster_operators.time.summary import IDENTITY, Direction, direction

if TYPE_CHECKING:
    from dagster_operators.api.pipeline_graph import PipelineGraph
    from dagster_operators.api.stream import Stream


@building_methods
class Scope(Built):
    """A part of a pipeline in which rows can go around: one operator to the outside, as many as one likes within.

    All of it runs in the subtasks that the rows enter. If an operator within asks for other rows to meet than those that entered
    together, that is one subtask, in which all do; or, with ``within_subtask=False``, rows go where they meet, in rounds that are
    stages of their own. Rows within have no column for their time.

    Args:
        name: The scope's name, which its state is addressed by.
        pipeline: The pipeline, or the scope that it is in: what it builds then are streams of that one.
        iterative: Whether times within are ``Product(time outside, round)``; otherwise they are those outside, and what goes
            around gets a later one.
        limit: How often rows may go around; that of the outermost scope holds for all in it.
        within_subtask: Whether all stays in one subtask where an operator within asks for other rows to meet than entered so.
            If not, rows go where they meet in rounds; each is written, and a run that dies goes on with the one that was not
            done. What operators keep from round to round is what they declare, as from epoch to epoch. Of scopes within one
            another that of the outermost counts.

    >>> import dagster_operators as do
    >>> pipeline = do.Pipeline("p", root="data")
    >>> numbers = pipeline.source("numbers", do.FileSource("in", schema="v long, t timestamp"), event_time="t")
    >>> scope = Scope("countdown", pipeline)
    >>> handle, cycle = scope.feedback(1)
    >>> rows = scope.enter(numbers).concat(cycle)
    >>> _, again = do.frontier.branch_when(rows, lambda time: time < 100)
    >>> handle.connect(again)
    >>> scope.leave(rows)
    0
    >>> scope.build().columns
    ('v', 't')
    """

    def __init__(
        self,
        name: str,
        pipeline: PipelineGraph | Scope,
        *,
        iterative: bool = False,
        limit: int = 10_000,
        within_subtask: bool = True,
    ) -> None:
        self.name = name
        self._within_subtask = within_subtask
        self.iterative = iterative
        self.parent = pipeline if isinstance(pipeline, Scope) else None
        self.root: Scope = self if self.parent is None else self.parent.root
        self.depth: int = 0 if self.parent is None else self.parent.depth + iterative
        self._limit = limit
        self._entered: list[Source] = []
        self._entries: list[tuple[Stream, Pact]] = []
        self._handles: list[LoopHandle] = []
        self._leaves: list[ScopedStream] = []
        self._built = False
        self._asked: list[tuple[Pact, Sequence[Source]]] = []
        self.nodes: list[ScopeNode] = []

    def enter(self, stream: Stream | ScopedStream, pact: Pact | None = None) -> ScopedStream:
        """A stream from outside, within the scope.

        Args:
            stream: The stream.
            pact: Which of its rows meet. The first stream that enters says which keys a subtask has: further ones enter by the
                same, or by ``Broadcast()``, with all their rows in every subtask.

        Raises:
            PipelineError: It is of another scope than the one that this is in.
        """
        if self.parent is not None:
            self.parent.check(stream)
            assert isinstance(stream, ScopedStream)  # noqa: S101 - which check has seen to
            given, asked = exchanged(stream, pact or Pipeline())
            self.root._asked.append((asked, given.sources))  # noqa: SLF001 - of its own class
            sources = self._way(given, Enter())
            self._entered.append(sources[0])
            return ScopedStream(self, sources, given)
        if isinstance(stream, ScopedStream):
            raise PipelineError(
                f"a stream of the scope {stream.scope.name!r} is no stream outside of scopes", operator=self.name,
                remedy="leave that scope first",
            )  # fmt: skip
        self._entries.append((stream, pact or Pipeline()))
        self._entered.append((ENTER, len(self._entries) - 1))
        return ScopedStream(self, [(ENTER, len(self._entries) - 1)])

    def feedback(self, summary: Any = 1) -> tuple[LoopHandle, ScopedStream]:
        """A stream of what goes around, and the handle to be connected with what is sent around.

        Args:
            summary: By how much a way around advances the time: a whole number, or for times of several parts a summary of these,
                ``(0, 1)`` or ``Product(0, 1)``. In an iterative scope it is the round that advances, by a whole number.

        Raises:
            PipelineError: It does not advance time, so the loop would never end.
        """
        if self.depth + self.iterative and type(summary) is not int:
            raise PipelineError(
                f"the rounds of {self.name!r} cannot advance by {summary!r}", operator=self.name,
                remedy="rounds are whole numbers: give such a one, or a scope that is not iterative",
            )  # fmt: skip
        if direction(summary) is not Direction.FORWARD:
            raise PipelineError(
                f"the loop in {self.name!r} does not advance time by {summary}, so it would never end", operator=self.name,
                remedy="advance it by 1 or more",
            )  # fmt: skip
        handle = self._link(Product(IDENTITY, summary) if self.depth else summary)
        return handle, ScopedStream(self, [(FEEDBACK, handle.number)])

    def loop_variable(self, summary: int = 1) -> tuple[LoopHandle, ScopedStream]:
        """The same as :meth:`feedback`, in an iterative scope.

        Raises:
            PipelineError: The scope is not iterative, or the summary does not advance the round.
        """
        if not self.iterative:
            raise PipelineError(
                f"the scope {self.name!r} has no rounds", operator=self.name, remedy="make it iterative, or use feedback"
            )
        return self.feedback(summary)

    def leave(self, stream: ScopedStream, *, schema: Columns = None) -> int:
        """Bring a stream out, with the times outside.

        Args:
            stream: The stream.
            schema: Its columns without the time; by default those that were declared for it, or of the first stream that enters.

        Returns:
            The number of the output.

        Raises:
            PipelineError: It is of another scope.
        """
        self.check(stream)
        if stream.computed and schema is None and self.parent is None:
            raise PipelineError(
                f"rows that leave {self.name!r} have the column {stream.computed[0]!r}, which an exchange within computed",
                operator=self.name, remedy="say the columns of what leaves: leave(stream, schema=...)",
            )  # fmt: skip
        sources = stream.sources if self.parent is None else self._way(stream, Leave())
        self._leaves.append(ScopedStream(self.parent or self, sources, stream, schema=schema))
        return len(self._leaves) - 1

    def build(self) -> Any:
        """Put the scope into the pipeline.

        Returns:
            The stream that leaves, or a tuple of several.

        Raises:
            PipelineError: Nothing enters or leaves, a feedback is not connected, or the scope is built already.
            SchemaError: A stream that enters has no event time, or lacks a column.
        """
        open_ = next((handle for handle in self.root._handles if handle.scope is self and not handle.sources), None)  # noqa: SLF001
        if self._built or not self._entered or not self._leaves or open_ is not None:
            told = "is built already" if self._built else "lacks streams that enter and leave, or what goes around"
            raise PipelineError(
                f"the scope {self.name!r} {told}", operator=self.name, remedy="enter, leave, handle.connect(...), then build once"
            )
        self._built = True
        if self.parent is not None:
            return tuple(self._leaves) if len(self._leaves) > 1 else self._leaves[0]
        body = ScopeBody(
            self.nodes, [(handle.summary, handle.sources) for handle in self._handles], [left.sources for left in self._leaves],
            entries=len(self._entries), iterative=self.iterative, limit=self._limit, likes=self._likes(),
        )  # fmt: skip
        body.reachability()  # which refuses loops that do not advance time
        return self._placed(body)

    def _placed(self, body: ScopeBody) -> Any:
        """The streams that leave, of the operator that the scope is outside."""
        before = [(node, dict(vars(node)), node.definition.pacts) for node in self.nodes]
        try:
            return self._put(body)
        except BaseException:
            for node, own, pacts in before:
                vars(node).clear()
                vars(node).update(own)
                node.definition.pacts = pacts
            raise

    def _put(self, body: ScopeBody) -> Any:
        entered = [exchanged(stream, pact) for stream, pact in self._entries]
        schema = tuple(left.schema for left in self._leaves)
        everywhere = body.everywhere([number for number, (_, pact) in enumerate(entered) if isinstance(pact, Broadcast)])
        if not self._within_subtask and self._crosses(entered[0][1].by, everywhere):
            return in_rounds(self.name, body, entered, schema)
        given = self._settled(entered, everywhere)
        definition = Definition("scope", [pact for _, pact in given], self.name, body, schema=schema)  # type: ignore[arg-type]
        first, *others = [stream for stream, _ in given]
        main = first.through(FrontierOperator, *others, name=self.name, definition=definition)
        streams = tuple(main if port == MAIN else main.side_output(port) for port in definition.ports)
        return streams if len(streams) > 1 else main

    @override
    def _taking_back(self) -> Callable[[], None]:
        """What takes back all that is added from now on, to the scopes around it and their pipeline too."""
        lists: tuple[list[Any], ...] = (
            self._entered, self._entries, self._leaves, self.nodes, self._handles, self._asked,
        )  # fmt: skip
        sizes, built = tuple(map(len, lists)), self._built
        open_ = [handle for handle in self._handles if not handle.sources]
        around = list(marks_of(stream for stream, _ in self._entries) if self.parent is None else marks_of([self.parent]))

        def undo() -> None:
            for entries, size in zip(lists, sizes, strict=True):
                del entries[size:]
            for handle in open_:
                handle.sources = ()
            self._built = built
            for take_back in around:
                take_back()

        return undo

    # --- what streams within need -------------------------------------------------------------------------------------

    def entering(self, source: Source) -> Iterator[Sequence[str]]:
        """The columns with which rows of a source have entered; none of rows that go around, or that an operator has made."""
        name, number = source
        node = next((node for node in self.nodes if node.name == name), None)
        if name == ENTER:
            stream = self._entries[number][0]
            yield [column for column in stream.columns or () if column != stream.event_time]
        elif node is not None and isinstance(node.definition.constructor, Computed):
            for before in node.inputs[0]:
                yield from self.entering(before)
        else:
            yield ()

    def fresh_name(self, stem: str) -> str:
        """A name that no operator within has yet."""
        taken = {node.name.removeprefix(self._prefix) for node in self.root.nodes}
        numbers = (stem if number == 1 else f"{stem}_{number}" for number in range(1, len(taken) + 2))
        return next(name for name in numbers if name not in taken)

    @property
    def dataflow(self) -> Scope:
        """What streams within are built into, as they are into that of a pipeline."""
        return self

    def advancing(self, summary: Any) -> Any:
        """A summary as one of times within: where there are rounds, a whole number advances the innermost."""
        rounds = self.depth or self.root.iterative
        return Product(IDENTITY, summary) if rounds and type(summary) is int and summary else summary

    def check(self, stream: Any) -> None:
        """Raise PipelineError unless the stream is of this scope."""
        if not isinstance(stream, ScopedStream) or stream.scope is not self:
            told = f"of the scope {stream.scope.name!r}" if isinstance(stream, ScopedStream) else "outside of it"
            raise PipelineError(
                f"a stream {told} is used in the scope {self.name!r}", operator=self.name,
                remedy="leave the other scope, and enter this one with scope.enter(stream)",
            )  # fmt: skip

    def add(self, name: str, definition: Definition, streams: Sequence[ScopedStream]) -> ScopedStream:
        """Put an operator into the scope."""
        for stream in streams:
            self.check(stream)
        full, taken = self._prefix + name, {ENTER, FEEDBACK, LEAVE, *(node.name for node in self.root.nodes)}
        if not full.isidentifier() or "__" in full or full in taken:
            raise PipelineError(
                f"{name!r} cannot be the name of an operator in a scope", operator=self.name, remedy="use another"
            )
        self.root._asked += zip(definition.pacts, (stream.sources for stream in streams), strict=True)  # noqa: SLF001 - as above
        self.root.nodes.append(ScopeNode(full, definition, [stream.sources for stream in streams], self.depth))
        return ScopedStream(self, [(full, 0)], streams[0], schema=definition.schemas[0], definition=definition)

    @property
    def _prefix(self) -> str:
        """What names begin with in the outermost scope."""
        return "" if self.parent is None else f"{self.parent._prefix}{self.name}_"  # noqa: SLF001 - of its own class

    def _link(self, summary: Any) -> LoopHandle:
        handle = LoopHandle(self, len(self.root._handles), summary)  # noqa: SLF001 - as above
        self.root._handles.append(handle)  # noqa: SLF001
        return handle

    def _way(self, stream: ScopedStream, summary: Any) -> list[Source]:
        """The sources of a stream behind a way into this scope, or out of it."""
        if not self.iterative:
            return list(stream.sources)
        handle = self._link(summary)
        handle.sources = stream.sources
        return [(FEEDBACK, handle.number)]

    def _likes(self) -> dict[int, Source]:
        """Sources with the columns of the ways into scopes within and out of them, and of what goes around there."""
        inner = [handle for handle in self._handles if handle.scope is not self]
        return {
            handle.number: handle.sources[0] if isinstance(handle.summary, Enter | Leave) else handle.scope._entered[0]  # noqa: SLF001
            for handle in inner
        }

    def _settled(self, given: Sequence[tuple[Stream, Pact]], everywhere: frozenset[Source]) -> Sequence[tuple[Stream, Pact]]:
        """How streams enter: by the keys asked for, unless something within asks for rows to meet that do not enter together."""
        keys = given[0][1].by
        if keys and self._crosses(keys, everywhere):
            return [(stream, Pipeline()) for stream, _ in given]
        for node in self.nodes if keys else ():
            asked = tuple(number for number, pact in enumerate(node.definition.pacts) if isinstance(pact, Exchange))
            if asked:
                node.exchanged = asked
            own, spread = Exchange(*keys), [not everywhere.isdisjoint(sources) for sources in node.inputs[1:]]
            node.definition.pacts = (own, *(Broadcast() if found else own for found in spread))
        return given

    def _crosses(self, keys: Sequence[str], everywhere: frozenset[Source]) -> bool:
        """Whether something within asks for rows to meet that do not enter together."""
        return any(
            not everywhere.issuperset(sources) if isinstance(pact, Broadcast) else pact.by not in ((), tuple(keys))
            for pact, sources in self._asked
        )


def check_outside(given: Any, what: str) -> None:
    """Refuse a scope, or a stream of one, where there must be a pipeline or one of its streams.

    Args:
        given: The scope, pipeline or stream.
        what: What is asked for.

    Raises:
        PipelineError: It is of a scope.
    """
    if isinstance(given, Scope):
        raise PipelineError(
            f"{what} cannot be in the scope {given.name!r}", operator=given.name,
            remedy="give the pipeline, and let the stream enter: scope.enter(stream)",
        )  # fmt: skip
    if isinstance(given, ScopedStream):
        raise PipelineError(
            f"{what} cannot be in the scope {given.scope.name!r}", operator=given.scope.name,
            remedy="do it with the stream that enters, or with what leaves: scope.leave(stream), scope.build()",
        )  # fmt: skip


@building_methods
class LoopHandle(Built):
    """What is to be connected with the rows that go around."""

    def __init__(self, scope: Scope, number: int, summary: Any) -> None:
        self.scope = scope
        self.number = number
        self.summary = summary
        self.sources: Sequence[Source] = ()

    @override
    def _taking_back(self) -> Callable[[], None]:
        return self.scope._taking_back()  # noqa: SLF001 - as all that builds it

    def connect(self, stream: ScopedStream) -> None:
        """Send a stream around.

        Raises:
            PipelineError: One is sent around already, or the stream is of another scope.
        """
        self.scope.check(stream)
        if self.sources:
            raise PipelineError("a stream is sent around already", operator=self.scope.name, remedy="concat the two before")
        self.sources = stream.sources
