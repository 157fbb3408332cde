"""Loops in the fluent interface: into a loop, round in it, and out of it."""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import override

from dagster_operators.api.additions import Built
from dagster_operators.api.checked_streams import checked_stream
from dagster_operators.api.stream import Stream
from dagster_operators.errors import PipelineError
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.loops.edges import Enter, Leave, LoopVariable


@checked_stream
class Loop(Built):
    """A part of a pipeline in which rows go round until none is left, all within one epoch.

    Streams are brought in with :meth:`enter`; the rows that :meth:`feed` gives a :meth:`variable` are that variable's rows in the
    next round; :meth:`leave` gives the rows of all rounds outside. Operators inside work on one round at a time, and the state of
    operators lasts from round to round, and from epoch to epoch. Every round is durable: a run that dies goes on with the round
    that was not done. (The scopes and their feedback are timely dataflow's.)

    Example:
        >>> from dagster_operators import MemorySource, Pipeline
        >>> pipeline = Pipeline("numbers", root="data")
        >>> start = pipeline.source("start", MemorySource([], schema="n long"))
        >>> halving = pipeline.loop("halving")
        >>> again = halving.variable("again", "n long")
        >>> halves = halving.enter(start).union(again).filter("n > 1").select("n div 2 AS n")
        >>> halving.feed(again, halves)
        >>> halving.leave(halves).to_table("halves").columns
        ('n',)
    """

    def __init__(self, dataflow: Dataflow, name: str) -> None:
        self._dataflow = dataflow
        self.name = name

    @override
    def _taking_back(self) -> Callable[[], None]:
        return self._dataflow.mark()

    def __repr__(self) -> str:
        return f"Loop({self._dataflow.name}.{self.name})"

    def enter(self, stream: Stream, *, name: str | None = None) -> Stream:
        """A stream within the loop: its rows are there in the first round of each epoch.

        Args:
            stream: A stream that is in no loop; for a loop within another one, a stream of that.
            name: The operator's name.

        Raises:
            PipelineError: The stream is in another loop, or depends on what comes out of this one.

        >>> from dagster_operators import MemorySource, Pipeline
        >>> pipeline = Pipeline("numbers", root="data")
        >>> start = pipeline.source("start", MemorySource([], schema="n long"))
        >>> halving = pipeline.loop("halving")
        >>> halving.enter(start).columns
        ('n',)
        """
        self._check_outside(stream)
        return stream._add(Enter, name, chain=True, scope=self.name)  # noqa: SLF001

    def variable(self, name: str, schema: str, *, retracting: bool = False) -> Stream:
        """The rows that go round: none in the first round, then those that were fed in the round before.

        Args:
            name: The operator's name.
            schema: The columns, as Spark DDL.
            retracting: Whether they are changes, as :meth:`~dagster_operators.Stream.as_changes` reads them. What entered goes
                round once more when it is taken back, so only operators that work on each change alone may be on the way.

        Raises:
            SchemaError: The text is no schema.

        >>> from dagster_operators import MemorySource, Pipeline
        >>> pipeline = Pipeline("numbers", root="data")
        >>> start = pipeline.source("start", MemorySource([], schema="n long"))
        >>> halving = pipeline.loop("halving")
        >>> halving.variable("again", "n long, rounds int").columns
        ('n', 'rounds')
        """
        node = self._dataflow.add(LoopVariable(name=name, scope=self.name, schema=schema, retracting=retracting))
        return Stream(self._dataflow, StreamRef(node.name))

    def feed(self, variable: Stream, rows: Stream) -> None:
        """Let rows go round: in the next round they are the variable's.

        Args:
            variable: What :meth:`variable` gave.
            rows: A stream of the loop with the variable's columns, in this order.

        Raises:
            PipelineError: The variable is none of this loop or fed already, or the rows are not in the loop.
            SchemaError: The columns differ.

        >>> from dagster_operators import MemorySource, Pipeline
        >>> pipeline = Pipeline("numbers", root="data")
        >>> start = pipeline.source("start", MemorySource([], schema="n long"))
        >>> halving = pipeline.loop("halving")
        >>> again = halving.variable("again", "n long")
        >>> halves = halving.enter(start).union(again).filter("n > 1").select("n div 2 AS n")
        >>> halving.feed(again, halves)
        >>> halving.feed(again, halves)
        Traceback (most recent call last):
        dagster_operators.errors.PipelineError: the loop variable is fed already [pipeline 'numbers', operator 'again', ...
        """
        node = self._dataflow.nodes.get(variable.name)
        if node is None or not isinstance(node.operator, LoopVariable) or node.scope != self.name:
            raise PipelineError(
                f"{variable.name!r} is no variable of the loop", pipeline=self._dataflow.name, loop=self.name,
                remedy="feed what loop.variable(...) gave",
            )  # fmt: skip
        self._dataflow.feed(variable.name, rows._ref)  # noqa: SLF001

    def leave(self, stream: Stream, *, name: str | None = None) -> Stream:
        """A stream's rows of all rounds, outside of the loop; of a loop within another one, in that.

        Args:
            stream: A stream of the loop.
            name: The operator's name.

        Raises:
            PipelineError: The stream is not in the loop.

        >>> from dagster_operators import MemorySource, Pipeline
        >>> pipeline = Pipeline("numbers", root="data")
        >>> start = pipeline.source("start", MemorySource([], schema="n long"))
        >>> halving = pipeline.loop("halving")
        >>> again = halving.variable("again", "n long")
        >>> halves = halving.enter(start).union(again).filter("n > 1").select("n div 2 AS n")
        >>> halving.feed(again, halves)
        >>> halving.leave(halves, name="every_half").to_table("halves").columns
        ('n',)
        """
        if self._dataflow.nodes[stream._ref.operator].scope != self.name:  # noqa: SLF001
            raise PipelineError(
                f"{stream.name!r} is not in the loop", pipeline=self._dataflow.name, loop=self.name,
                remedy="let a stream leave that is made of what entered",
            )  # fmt: skip
        return stream._add(Leave, name, chain=True, scope=self._dataflow.scopes[self.name].parent)  # noqa: SLF001

    def _check_outside(self, stream: Stream) -> None:
        where = {"pipeline": self._dataflow.name, "loop": self.name}
        nodes, around = self._dataflow.nodes, self._dataflow.scopes[self.name].parent
        found = nodes[stream._ref.operator].scope  # noqa: SLF001
        if found != around:
            places = [f"in the loop {one!r}" if one else "in no loop" for one in (found, around)]
            raise PipelineError(
                f"{stream.name!r} is {places[0]}, and what enters this loop has to be {places[1]}", **where,
                remedy=f"let it leave that loop first; or declare this one within it, with within={found!r}"
                if found and found != self.name
                else f"bring it into the loop {around!r} first" if around and not found else "let it leave this loop first",
            )  # fmt: skip
        waiting, seen = [stream._ref.operator], set[str]()  # noqa: SLF001
        while waiting:
            node = nodes[waiting.pop()]
            if node.scope == self.name:
                raise PipelineError(
                    f"{stream.name!r} is made of what leaves this loop, which is there only when the loop has come to rest",
                    **where,
                    remedy="feed a variable for what is to go round",
                )
            unseen = [other.operator for other in node.inputs if other.operator not in seen]
            seen.update(unseen)
            waiting += unseen
