"""A dataflow under construction: operators by name, the edges between them, and the tables their outputs go to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dagster_operators.errors import OperatorsError, PipelineError, SchemaError
from dagster_operators.graph.alternatives import CostModel
from dagster_operators.graph.changes import ChangeKind
from dagster_operators.graph.choices import Choices
from dagster_operators.graph.operator import RETIME, LogicalOperator, StreamType
from dagster_operators.graph.outputs import SinkOutput, Table
from dagster_operators.graph.ports import MAIN, StreamRef, check_taken_back
from dagster_operators.graph.row_expressions import columns_of_row
from dagster_operators.graph.scope import OUTSIDE, Scope, check_scope

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_LONGEST_NAME = 200
"""Names are part of files' names, which have at most 255 bytes."""

_WAYS_ROUND: Mapping[ChangeKind, str] = {
    ChangeKind.APPEND: """make insertions of the rows: as_changes("'insert'"); or declare the variable without retracting=True""",
    ChangeKind.UPSERT: "put the operator whose rows change before loop.enter(...), or behind loop.leave(...)",
    ChangeKind.RETRACT: "declare the variable for changes: loop.variable with retracting=True",
}
"""What to do about a stream of some kind that cannot go round to a variable of another one."""


@dataclass(frozen=True)
class Node:
    """An operator with its place in the dataflow.

    Attributes:
        operator: The operator.
        inputs: The streams that it reads.
        outputs: The type of the stream at each of its output ports, the main one first.
        scope: The loop that it is in.
    """

    operator: LogicalOperator
    inputs: tuple[StreamRef, ...]
    outputs: Mapping[str, StreamType]
    scope: str = OUTSIDE

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.operator.name

    @property
    def type(self) -> StreamType:
        """The type of its main output."""
        return self.outputs[MAIN]

    @property
    def children(self) -> tuple[str, ...]:
        """The operators that it reads, each once."""
        return tuple(dict.fromkeys(stream.operator for stream in self.inputs))

    def with_inputs(self, inputs: Sequence[StreamRef], types: Sequence[StreamType]) -> Node:
        """The operator behind other streams of these types; those of its outputs follow from them.

        Raises:
            SchemaError: It does not fit them.
        """
        for port, stream, kind in zip(self.operator.inputs(types), inputs, types, strict=True):
            port.check(self.operator.label, str(stream), kind.changes)
        return replace(self, inputs=tuple(inputs), outputs=self.operator.outputs(types))


class Dataflow:
    """The graph behind a pipeline. Nodes are added in topological order, since a stream must exist before it is used."""

    def __init__(self, name: str) -> None:
        check_name("pipeline", name)
        self.name = name
        self.nodes: dict[str, Node] = {}
        self.tables: dict[str, Table] = {}
        self.sinks: dict[str, SinkOutput] = {}
        self.side_streams: dict[StreamRef, str] = {}
        """The streams of ports other than the main one that somebody asked for, with their names."""
        self.choices = Choices()
        """Which way each operator goes that can be lowered in several ways."""
        self.rules_off: frozenset[str] = frozenset()
        """The names of the planner's rules that are not applied."""
        self.scopes: dict[str, Scope] = {}
        self.feedback: dict[str, StreamRef] = {}
        """The streams that go round, by the loop variable that has their rows in the next round."""
        self.automatic: set[str] = set()
        """The operators that nobody named: their names follow from the order in which they were added."""
        self.renamed: dict[str, str] = {}
        """What operators were called before, of those whose author says so."""
        self.backfilled: set[str] = set()
        """The tables that are to have the rows of before they were added."""
        self._made_up: dict[str, None] = {}
        self._named: Counter[str] = Counter()
        self._counted: list[str] = []
        """The stems of names that were made up, in this order."""
        self._taken: set[str] = set()
        self._tables_taken: set[str] = set()
        self._table_at: dict[StreamRef, Table] = {}
        self._sinks_at: dict[StreamRef, tuple[SinkOutput, ...]] = {}

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    @property
    def cost_model(self) -> CostModel:
        """Chooses where an operator can be lowered in several ways."""
        return self.choices.costs

    @cost_model.setter
    def cost_model(self, costs: CostModel) -> None:
        self.choices.costs = costs

    def type_of(self, stream: StreamRef) -> StreamType:
        """The type of a stream."""
        return self.nodes[stream.operator].outputs[stream.port]

    def name_of(self, stream: StreamRef) -> str:
        """What a stream is called: by its operator, or as it was named when it was asked for."""
        return stream.operator if stream.is_main else self.side_streams[stream]

    def input_types(self, node: Node) -> list[StreamType]:
        """The types of the streams that a node reads."""
        return [self.type_of(stream) for stream in node.inputs]

    def fresh_name(self, stem: str) -> str:
        """A name that no operator has yet: the stem, or the stem with the next number."""
        while True:
            self._named[stem] += 1
            self._counted.append(stem)
            name = stem if self._named[stem] == 1 else f"{stem}_{self._named[stem]}"
            if name not in self._taken:
                self._made_up[name] = None
                return name

    def add(self, operator: LogicalOperator, inputs: Sequence[StreamRef] = ()) -> Node:
        """Put an operator behind its inputs, checking what can be checked without an engine.

        Raises:
            PipelineError: The name is taken or not a name.
            SchemaError: The operator does not fit its inputs.
        """
        self._check_name(operator.name)
        scope = self._scope(operator, inputs)
        types = [self.type_of(stream) for stream in inputs]
        try:
            for port, stream, kind in zip(operator.inputs(types), inputs, types, strict=True):
                port.check(operator.label, self.name_of(stream), kind.changes)
                if kind.whole:
                    port.check_whole(operator.label, self.name_of(stream))
            outputs = operator.outputs(types)
            check_times(operator, types, outputs[MAIN])
            check_taken_back(operator.sql(), [kind.changes for kind in types])
        except OperatorsError as error:
            raise error.at(pipeline=self.name, operator=operator.name) from None
        self._check_changes_in_loop(operator, scope, (*types, *outputs.values()))
        for kind in outputs.values():
            self._check_columns(operator.name, kind)
        self.nodes[operator.name] = node = Node(operator, tuple(inputs), outputs, scope)
        self._taken.add(operator.name)
        self.automatic |= self._made_up.keys() & {operator.name}
        return node

    def _scope(self, operator: LogicalOperator, inputs: Sequence[StreamRef]) -> str:
        """The loop that an operator behind these streams is in."""
        scopes = {self.nodes[stream.operator].scope for stream in inputs}
        if operator.leads_to is not None:
            return operator.leads_to
        if len(scopes) > 1:
            names = " and ".join(f"{self.name_of(stream)!r} ({self._place(stream)})" for stream in inputs)
            raise PipelineError(
                f"the operator reads streams of different places: {names}", pipeline=self.name, operator=operator.name,
                remedy="bring all into the loop with loop.enter(stream), or the others out of it with loop.leave(stream)",
            )  # fmt: skip
        scope = next(iter(scopes), OUTSIDE)
        if scope and operator.unfit_for_loops:
            raise PipelineError(
                f"the operator cannot be in a loop: {operator.unfit_for_loops}", pipeline=self.name, operator=operator.name,
                loop=scope, remedy="put it behind loop.leave(...)",
            )  # fmt: skip
        return scope

    def _check_changes_in_loop(self, operator: LogicalOperator, scope: str, types: Sequence[StreamType]) -> None:
        """Refuse an operator in a loop that takes or gives changes by what came in other rounds."""
        if scope and not operator.linear and operator.leads_to is None and any(kind.retracting for kind in types):
            raise PipelineError(
                f"in a loop, changes pass operators that work on each of them alone, and {operator.label} does not",
                pipeline=self.name, operator=operator.name, loop=scope, remedy="put it behind loop.leave(...)",
            )  # fmt: skip

    def _place(self, stream: StreamRef) -> str:
        scope = self.nodes[stream.operator].scope
        return f"in the loop {scope}" if scope else "in no loop"

    def add_scope(self, scope: Scope) -> None:
        """Declare a loop.

        Raises:
            PipelineError: The name is taken or not a name, the limit is none, or the loop that it is in is not there, or cannot
                have one within it.
        """
        check_name("loop", scope.name, pipeline=self.name)
        check_scope(scope, self.scopes, self.name)
        self.scopes[scope.name] = scope

    def feed(self, variable: str, stream: StreamRef) -> None:
        """Let a stream go round: its rows are those of the loop variable in the next round.

        Raises:
            PipelineError: The variable is fed already, or the stream is not in its loop, or its rows may change.
        """
        node, scope = self.nodes[variable], self.nodes[stream.operator].scope
        where = {"pipeline": self.name, "operator": variable, "loop": node.scope}
        if variable in self.feedback:
            raise PipelineError("the loop variable is fed already", **where, remedy="feed it the union of the streams")
        if scope != node.scope:
            raise PipelineError(
                f"{self.name_of(stream)!r} is {self._place(stream)}, so it cannot go round in this one", **where,
                remedy="feed a stream of the loop",
            )  # fmt: skip
        kind, columns = self.type_of(stream), node.type.columns or ()
        if kind.changes != node.type.changes:
            raise PipelineError(
                f"{self.name_of(stream)!r} is {kind.changes}, the loop variable {node.type.changes}", **where,
                remedy=_WAYS_ROUND[kind.changes.kind],
            )  # fmt: skip
        if kind.columns is not None and kind.columns != columns:
            raise SchemaError(
                f"{self.name_of(stream)!r} has the columns {', '.join(kind.columns)}, the loop variable {', '.join(columns)}",
                **where,
                remedy=f"select({', '.join(map(repr, columns))}) first",
            )
        self.feedback[variable] = stream

    def ask_for(self, stream: StreamRef, name: str) -> StreamRef:
        """Make the stream of a port other than the main one known by a name; one that was asked for before keeps its name.

        Raises:
            PipelineError: The operator has no such port, or the name is taken or not a name.
        """
        node = self.nodes[stream.operator]
        if stream.port not in node.outputs:
            ports = ", ".join(port for port in node.outputs if port != MAIN)
            raise PipelineError(
                f"the operator has no output {stream.port!r}",
                pipeline=self.name,
                operator=stream.operator,
                remedy=f"it has: {ports or 'only its main output'}",
            )
        if not stream.is_main and stream not in self.side_streams:
            self._check_name(name)
            self.side_streams[stream] = name
            self._taken.add(name)
        return stream

    def _check_name(self, name: str) -> None:
        check_name("operator", name, pipeline=self.name)
        if name in self._taken:
            raise PipelineError(
                f"there is an operator named {name!r} already",
                pipeline=self.name,
                operator=name,
                remedy=f"give it another name; there are: {', '.join((*self.nodes, *self.side_streams.values()))}",
            )

    def _check_columns(self, operator: str, kind: StreamType) -> None:
        for column in kind.columns or ():
            if column.lower() in kind.marks:
                raise SchemaError(
                    f"the stream is {kind.changes}, and says so in a column {column!r} of its own", pipeline=self.name,
                    operator=operator, column=column, remedy="rename the column before",
                )  # fmt: skip
        repeated = [name for name, count in Counter(c.lower() for c in kind.columns or ()).items() if count > 1]
        if repeated:
            raise SchemaError(
                f"the output has column {repeated[0]!r} more than once", pipeline=self.name, operator=operator,
                column=repeated[0], remedy="rename one of them",
            )  # fmt: skip

    def _check_renamed(self, table: Table) -> None:
        check_name("table", table.renamed_from, pipeline=self.name, table=table.name)
        if table.renamed_from == table.name:
            raise PipelineError(
                "it is said to be renamed from its own name",
                pipeline=self.name,
                table=table.name,
                remedy="leave renamed_from out",
            )
        other = next((one.name for one in self.tables.values() if one.renamed_from == table.renamed_from), None)
        if other is not None:
            raise PipelineError(
                f"{other!r} is said to be renamed from {table.renamed_from!r} already", pipeline=self.name, table=table.name,
                remedy="leave renamed_from out of one of them",
            )  # fmt: skip

    def add_table(self, table: Table) -> None:
        """Declare that a stream goes to a table.

        Raises:
            PipelineError: There is a table of that name, or the stream goes to a table already.
            SchemaError: A check uses a column that the stream does not have.
        """
        check_name("table", table.name, pipeline=self.name)
        if table.name.lower() in self._tables_taken:
            raise PipelineError(
                f"there is a table named {table.name!r} already", pipeline=self.name, table=table.name,
                remedy=f"give it another name; there are: {', '.join(self.tables)}",
            )  # fmt: skip
        self._check_outside(table.stream, table=table.name)
        other = self.table_of(table.stream)
        if other is not None:
            source = self.name_of(table.stream)
            raise PipelineError(
                f"the output of {source!r} goes to table {other.name!r} already", pipeline=self.name, table=table.name,
                operator=source, remedy="read that table, or select the columns into a stream of its own first",
            )  # fmt: skip
        if table.renamed_from:
            self._check_renamed(table)
        operator, kind = self.nodes[table.stream.operator].operator, self.type_of(table.stream)
        if table.replaced and kind.changes.kind is not ChangeKind.APPEND:
            raise PipelineError(
                "an epoch has only the rows that changed, which cannot take the place of all rows of the table",
                pipeline=self.name, table=table.name, operator=self.name_of(table.stream), remedy="leave mode='replace' out",
            )  # fmt: skip
        if kind.whole and not table.replaced:
            raise PipelineError(
                "all rows of a table would be appended to another one in each epoch", pipeline=self.name, table=table.name,
                operator=self.name_of(table.stream), remedy="replace its rows: say mode='replace' of to_table",
            )  # fmt: skip
        for name, check in table.checks.items():
            check_name("check", name, pipeline=self.name, table=table.name)
            try:
                operator.require(kind, columns_of_row(check.expression), f"the check {name!r}")
            except OperatorsError as error:
                raise error.at(pipeline=self.name, table=table.name) from None
        try:
            operator.require(kind, tuple(table.columns), "the description of columns")
        except OperatorsError as error:
            raise error.at(pipeline=self.name, table=table.name) from None
        self.tables[table.name] = self._table_at[table.stream] = table
        self._tables_taken.add(table.name.lower())

    def add_sink(self, output: SinkOutput) -> None:
        """Declare that a stream goes to a sink.

        Raises:
            PipelineError: There is a sink of that name, or the sink takes another stream already.
        """
        check_name("sink", output.name, pipeline=self.name)
        self._check_outside(output.stream, sink=output.name)
        if self.type_of(output.stream).whole:
            raise PipelineError(
                "all rows of a table would go to the sink in each epoch", pipeline=self.name, sink=output.name,
                operator=self.name_of(output.stream), remedy="give the sink the stream that goes to the table",
            )  # fmt: skip
        for other in self.sinks.values():
            if other.name.lower() == output.name.lower():
                raise PipelineError(
                    f"there is a sink named {output.name!r} already", pipeline=self.name, sink=output.name,
                    remedy=f"give it another name; there are: {', '.join(self.sinks)}",
                )  # fmt: skip
            if other.sink is output.sink:
                raise PipelineError(
                    f"this object is the sink {other.name!r} already", pipeline=self.name, sink=output.name,
                    remedy="make one for each stream",
                )  # fmt: skip
        self.sinks[output.name] = output
        self._sinks_at[output.stream] = (*self.sinks_of(output.stream), output)

    def _check_outside(self, stream: StreamRef, **where: str) -> None:
        if self.nodes[stream.operator].scope:
            raise PipelineError(
                f"{self.name_of(stream)!r} is {self._place(stream)}, and what goes round is no result yet",
                pipeline=self.name, operator=stream.operator, **where, remedy="bring it out first: loop.leave(stream)",
            )  # fmt: skip

    def sinks_of(self, stream: StreamRef) -> tuple[SinkOutput, ...]:
        """The sinks that a stream goes to."""
        return self._sinks_at.get(stream, ())

    def ends_at(self, stream: StreamRef) -> bool:
        """Whether a stream goes to a table or a sink."""
        return self.table_of(stream) is not None or bool(self.sinks_of(stream))

    def consumers(self, stream: StreamRef) -> list[Node]:
        """The nodes that read a stream."""
        return [other for other in self if stream in other.inputs]

    def leading_to(self, stream: StreamRef, ends: Callable[[StreamRef], bool] = lambda _: False) -> Iterator[StreamRef]:
        """A stream and all that it is made from, each once and after those that it is made from itself.

        Args:
            stream: Where the walk back starts.
            ends: Whether it does not go on behind a stream.
        """
        passed: set[StreamRef] = set()
        waiting = [stream]
        while waiting:
            last = waiting.pop()
            before = () if ends(last) else self.nodes[last.operator].inputs
            unknown = [other for other in before if other not in passed]
            if unknown:
                waiting += [last, *unknown]
            elif last not in passed:
                passed.add(last)
                yield last

    def table_of(self, stream: StreamRef) -> Table | None:
        """The table that a stream goes to, if any."""
        return self._table_at.get(stream)

    def mark(self) -> Callable[[], None]:
        """What takes back all that is added from now on; it takes as long as there was added, as nothing else changes."""
        parts: tuple[dict[Any, Any], ...] = (
            self.nodes, self.side_streams, self.tables, self.sinks, self.scopes, self.feedback, self.renamed, self._made_up,
        )  # fmt: skip
        sizes, counted = tuple(map(len, parts)), len(self._counted)

        def take_back() -> None:
            nodes, side_streams, tables, sinks, *_ = map(_taken_off, parts, sizes)
            names = {*nodes, *side_streams.values()}
            self.automatic -= names
            self._taken -= names
            for table in tables.values():
                self.backfilled.discard(table.name)
                self._tables_taken.discard(table.name.lower())
                del self._table_at[table.stream]
            for sink in sinks.values():
                self._sinks_at[sink.stream] = tuple(other for other in self.sinks_of(sink.stream) if other is not sink)
            self._named.subtract(self._counted[counted:])
            del self._counted[counted:]

        return take_back


def _taken_off(entries: dict[Any, Any], size: int) -> dict[Any, Any]:
    """The entries beyond the first so many, which stay."""
    return dict(entries.popitem() for _ in range(len(entries) - size))


def check_times(operator: LogicalOperator, inputs: Sequence[StreamType], output: StreamType) -> None:
    """Refuse an operator that would take times of another kind for event times, or lose them.

    Raises:
        SchemaError: It would.
    """
    own = next((stream.times for stream in inputs if stream.times is not None), None)
    if own is None or operator.gives_times or (operator.takes_times and output.times == own):
        return
    what = "loses them" if operator.takes_times else "works with event times"
    raise SchemaError(
        f"the rows have times of their own ({own}, in {', '.join(own.columns)}), and {operator.label} {what}",
        remedy=RETIME,
    )


def check_name(what: str, name: str, **where: Any) -> None:
    """Raise PipelineError unless the name can be a folder, a Dagster op and an SQL name at once."""
    given: object = name
    if isinstance(given, str) and len(given) > _LONGEST_NAME:
        raise PipelineError(
            f"the name of {what} {name[:20]}... is too long", **where, remedy=f"use at most {_LONGEST_NAME} characters"
        )
    if not is_name(given):
        article = "an" if what[0] in "aeiou" else "a"
        raise PipelineError(
            f"{name!r} is no name for {article} {what}", **where, remedy="use letters, digits and underscores, a letter first"
        )


def is_name(given: object) -> bool:
    """Whether this can be a folder, a Dagster op and an SQL name at once.

    >>> is_name("hourly"), is_name("max(v)"), is_name(5)
    (True, False, False)
    """
    return isinstance(given, str) and _NAME.fullmatch(given) is not None
