"""Making another plan of one: operators replaced, put in and taken out, with all types behind them worked out anew."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import count

from dagster_operators.errors import OperatorsError, PipelineError
from dagster_operators.graph.dataflow import Dataflow, Node
from dagster_operators.graph.operator import LogicalOperator, StreamType
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.rule import Rewritten


class Rewriting:
    """A plan being changed. The plan that it was made of stays as it is.

    Args:
        plan: What to change.

    >>> import dagster_operators as do
    >>> rows = do.Pipeline("p", root="unused").source("rows", do.MemorySource([], schema="k string, v long"))
    >>> some = rows.select("k", "v", name="all").filter("v > 1", name="some")
    >>> rewriting = Rewriting(some._dataflow)
    >>> rewriting.bypass("all")
    >>> rewriting.did("all is left out")
    >>> made = rewriting.result()
    >>> list(made.plan.nodes), made.plan.nodes["some"].inputs[0].operator, made.did
    (['rows', 'some'], 'rows', ('all is left out',))
    """

    def __init__(self, plan: Dataflow) -> None:
        self._plan = plan
        self._nodes = dict(plan.nodes)
        self._readers: dict[StreamRef, list[str]] = {}
        self._did: list[str] = []
        self._asked = {stream.operator for stream in plan.side_streams}
        self._fed = frozenset(plan.feedback.values())
        for node in plan:
            self._read(node)

    # --- looking -----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Node]:
        """The nodes that the plan had and that are still there, as they are now, each after those that it read at first."""
        return (self._nodes[name] for name in self._plan.nodes if name in self._nodes)

    def node(self, name: str) -> Node:
        """A node as it is now."""
        return self._nodes[name]

    def has(self, name: str) -> bool:
        """Whether there is a node of that name now."""
        return name in self._nodes

    def type_of(self, stream: StreamRef) -> StreamType:
        """The type of a stream."""
        return self._nodes[stream.operator].outputs[stream.port]

    def readers(self, stream: StreamRef) -> tuple[str, ...]:
        """The nodes that read a stream, once for each input."""
        return tuple(self._readers.get(stream, ()))

    def ends_at(self, stream: StreamRef) -> bool:
        """Whether a stream goes to a table or a sink, or round in a loop: it has to stay, under its name."""
        return self._plan.ends_at(stream) or stream in self._fed

    def only_reader(self, stream: StreamRef) -> Node | None:
        """The node that alone reads a stream which goes nowhere else; None if there are several uses of it, or none."""
        readers = self.readers(stream)
        return self._nodes[readers[0]] if len(readers) == 1 and not self.ends_at(stream) else None

    def is_plain(self, name: str) -> bool:
        """Whether nobody knows an operator by its name: it has its main output only, which goes to operators alone."""
        return name not in self._asked and not self.ends_at(StreamRef(name))

    def is_inner(self, name: str) -> bool:
        """Whether that is so, and one operator alone reads it."""
        return name not in self._asked and self.only_reader(StreamRef(name)) is not None

    def free_name(self, stem: str) -> str:
        """A name that no operator, side stream or table has."""
        names = (*self._plan.nodes, *self._nodes, *self._plan.side_streams.values(), *self._plan.tables)
        taken = {name.lower() for name in names}
        numbered = (stem if number == 1 else f"{stem}_{number}" for number in count(1))
        return next(name for name in numbered if name.lower() not in taken)

    # --- changing ----------------------------------------------------------------------------------------------------

    def did(self, what: str) -> None:
        """Say what was done, for explain."""
        self._did.append(what)

    def put(self, operator: LogicalOperator, inputs: Sequence[StreamRef]) -> Node:
        """Put in an operator, in place of the one of its name if there is one.

        Raises:
            SchemaError: It does not fit its inputs.
        """
        if operator.name in self._nodes:
            self._forget(self._nodes[operator.name])
        types = [self.type_of(stream) for stream in inputs]
        scopes = [self._nodes[stream.operator].scope for stream in inputs]
        scope = operator.leads_to if operator.leads_to is not None else next(iter(scopes), "")
        made = Node(operator, tuple(inputs), {}, scope).with_inputs(inputs, types)
        self._nodes[operator.name] = made
        self._read(made)
        return made

    def remove(self, name: str) -> None:
        """Take an operator out that nobody reads any more."""
        self._forget(self._nodes.pop(name))

    def redirect(self, stream: StreamRef, other: StreamRef) -> None:
        """Let all who read a stream read another one of the same type."""
        for name in dict.fromkeys(self.readers(stream)):
            node = self._nodes[name]
            self._forget(node)
            inputs = tuple(other if before == stream else before for before in node.inputs)
            self._nodes[name] = Node(node.operator, inputs, node.outputs, node.scope)
            self._read(self._nodes[name])

    def bypass(self, name: str) -> None:
        """Take an operator out, and let those who read it read its only input."""
        (before,) = self._nodes[name].inputs
        self.redirect(StreamRef(name), before)
        self.remove(name)

    # --- the end -----------------------------------------------------------------------------------------------------

    def result(self) -> Rewritten:
        """The plan that was made, and what was done; the plan given if nothing was.

        Raises:
            PipelineError: A stream is gone that somebody reads; or one that a table, sink or loop has is changed.
            SchemaError: An operator no longer fits what it reads.
        """
        same = len(self._nodes) == len(self._plan.nodes)
        if same and all(self._nodes.get(name) is node for name, node in self._plan.nodes.items()):
            return Rewritten(self._plan, tuple(self._did))
        made = copy.copy(self._plan)
        made.nodes = {}
        for name in self._in_order():
            made.nodes[name] = self._typed(made, self._nodes[name])
        self._check(made)
        return Rewritten(made, tuple(self._did))

    def _typed(self, made: Dataflow, node: Node) -> Node:
        """The node with the types that follow from those before it; the same object if these are the same."""
        types = made.input_types(node)
        before = self._plan.nodes.get(node.name)
        if before is node and types == self._plan.input_types(node):
            return node
        try:
            return node.with_inputs(node.inputs, types)
        except OperatorsError as error:
            raise error.at(pipeline=made.name, operator=node.name) from None

    def _in_order(self) -> Iterator[str]:
        """The names of the nodes, each after those that it reads."""
        passed: set[str] = set()
        for start in self._nodes:
            waiting = [start]
            while waiting:
                name = waiting.pop()
                if name in passed:
                    continue
                unknown = [other for other in self._children(name) if other not in passed]
                if unknown:
                    waiting += [name, *reversed(unknown)]
                else:
                    passed.add(name)
                    yield name

    def _children(self, name: str) -> tuple[str, ...]:
        children = self._nodes[name].children
        missing = [child for child in children if child not in self._nodes]
        if missing:
            raise PipelineError(
                f"the operator reads {missing[0]!r}, which is not there",
                pipeline=self._plan.name,
                operator=name,
                remedy="correct the rule: what it puts in has to read a stream that is there",
            )
        return children

    def _check(self, made: Dataflow) -> None:
        """See that what users know of is what it was."""
        kept = [
            *(table.stream for table in made.tables.values()), *(sink.stream for sink in made.sinks.values()),
            *made.feedback.values(),
        ]  # fmt: skip
        for stream in kept:
            before, node = self._plan.nodes.get(stream.operator), made.nodes.get(stream.operator)
            if before is None:  # as in a plan without what leads nowhere
                continue
            if node is None or node.outputs.get(stream.port) != before.outputs[stream.port]:
                raise PipelineError(
                    f"the stream {str(stream)!r} is {'gone' if node is None else 'another one'}, and somebody sees it",
                    pipeline=made.name, operator=stream.operator, remedy="correct the rule: streams that are seen have to stay",
                )  # fmt: skip

    def _read(self, node: Node) -> None:
        for stream in node.inputs:
            self._readers.setdefault(stream, []).append(node.name)

    def _forget(self, node: Node) -> None:
        for stream in node.inputs:
            self._readers[stream].remove(node.name)
