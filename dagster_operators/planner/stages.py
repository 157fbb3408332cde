"""Cutting a physical plan into stages.

An operator joins the stage of the operator before it when that operator's main output has no other consumer and goes to no table
or sink, neither asks for a new stage, and the stage does not get a second operator with state. So the relational operators of a
stage are trees, and every stream that is read twice is computed once. (The rule is Arroyo's and Flink's chaining rule; a union
may chain too, since a stage here is one Spark job and not one task.) Behind them the stage may have batch operators: a graph of
any form, as long as no rows need to move between them (``planner/batch_groups.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from dagster_operators.errors import OperatorsError, PipelineError
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.outputs import Check, Table
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.scope import OUTSIDE, loops_around
from dagster_operators.graph.user_functions import contents_of
from dagster_operators.planner.batch_groups import check_together, stays_in_workers
from dagster_operators.planner.groups import Groups
from dagster_operators.planner.inner_loops import inner_loop
from dagster_operators.planner.lowering import lower
from dagster_operators.planner.physical_plan import PhysicalNode, PhysicalPlan
from dagster_operators.planner.rules.rule_set import optimised


@dataclass(frozen=True)
class Output:
    """A stream that a stage writes.

    Attributes:
        ref: The stream.
        name: The table it goes to, or a name of its own.
        table: The table, if any.
    """

    ref: StreamRef
    name: str
    table: Table | None

    @property
    def dataset(self) -> str:
        """Where in the storage root its rows go."""
        return f"tables/{self.name}" if self.table else self.stream

    @property
    def stream(self) -> str:
        """Where its rows go if it is no table, or if some of them are marks of deleted rows."""
        return f"streams/{self.name}"


@dataclass(frozen=True)
class Stage:
    """A tree of operators that runs as one Dagster op.

    Attributes:
        name: The table it writes, or the operator it ends with.
        operators: The names of the logical operators that it does the work of, in topological order.
        nodes: The names of its physical operators, in topological order.
        inputs: The streams of other stages that it reads.
        upstream: The stages of those streams; in a loop also those before the loop, for it begins when all are there.
        outputs: What it writes, the main output of its last operator first.
        fingerprint: Changes when the stage would compute something else.
        loop: The loop that it is in.
        feedback: For each loop variable in it the stage whose rows of the round before it has, and the stream.
    """

    name: str
    operators: tuple[str, ...]
    nodes: tuple[str, ...]
    inputs: tuple[StreamRef, ...]
    upstream: tuple[str, ...]
    outputs: tuple[Output, ...]
    fingerprint: str
    loop: str = OUTSIDE
    feedback: Mapping[str, tuple[str, StreamRef]] = field(default_factory=dict)

    @property
    def goes_round(self) -> bool:
        """Whether it runs in the rounds of a loop."""
        return self.loop != OUTSIDE

    @property
    def main(self) -> Output:
        """The main output of its last operator."""
        return self.outputs[0]

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that it writes."""
        return tuple(output.table for output in self.outputs if output.table)

    def output(self, stream: StreamRef) -> Output | None:
        """What the stage writes of a stream; None when its rows stay within the stage."""
        return next((output for output in self.outputs if output.ref == stream), None)


def cut_stages(dataflow: Dataflow, *, rules: bool = True) -> tuple[Stage, ...]:
    """The stages of a dataflow in topological order, without operators that lead to no table or sink.

    Args:
        dataflow: The pipeline's graph.
        rules: Whether the rules are applied that it has not switched off: then these are the stages that run.

    Raises:
        PipelineError: The pipeline has no table.
    """
    if not rules:
        return cut(lower(dataflow))
    with errors_as_written(dataflow):
        return cut(lower(optimised(dataflow).plan))


@contextmanager
def errors_as_written(dataflow: Dataflow) -> Iterator[None]:
    """Lets an error about what the rules made name the operators that the author wrote, if it is there without rules too."""
    try:
        yield
    except OperatorsError:
        cut(lower(dataflow))
        raise


def cut(plan: PhysicalPlan) -> tuple[Stage, ...]:
    """The stages of a physical plan, in topological order.

    Raises:
        PipelineError: The pipeline has no table.
    """
    if not plan.tables:
        raise PipelineError("the pipeline writes no table", pipeline=plan.pipeline, remedy="end a stream with to_table(...)")
    return tuple(_Cut(plan).stages())


class _Cut:
    """One plan on its way into stages."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._plan = plan
        self._groups = Groups(plan)
        self._inner: dict[str, str] = {}
        """A node of each loop that runs within a subtask; all of them are in one stage."""

    def stages(self) -> Iterator[Stage]:
        for node in self._plan:
            self._join(node)
        check_together(self._plan, self._groups)
        stages = [self._stage(members) for members in self._groups.members()]
        yield from _loops_together(self._plan, stages) if self._plan.loops else stages

    def _join(self, node: PhysicalNode) -> None:
        """Put a node into one stage with each node before it that it may share a stage with."""
        groups = self._groups
        groups.begin(node)
        if inner_loop(self._plan, node) is not None:
            groups.unite(node.name, self._inner.setdefault(node.scope, node.name))
        for stream in dict.fromkeys(edge.stream for edge in node.inputs):
            both_in_workers = node.operator.in_workers and self._plan.nodes[stream.operator].operator.in_workers
            if stays_in_workers(self._plan, groups, node, stream) if both_in_workers else self._chains(node, stream):
                groups.unite(node.name, stream.operator)

    def _chains(self, node: PhysicalNode, stream: StreamRef) -> bool:
        alone = len(self._plan.consumers[stream]) == 1 and stream.is_main and not self._plan.ends_at(stream)
        last = self._plan.nodes[stream.operator]
        fits = (node.scope == last.scope or inner_loop(self._plan, node)) and node.operator.chains_after(last.operator)
        own, before = self._groups.of(node.name), self._groups.of(stream.operator)
        if not (node.chain and alone and fits) or (own.exclusive and before.exclusive):
            return False
        if not before.repeats and self._reads_twice(node):  # the second time they would be other rows
            return False
        return len(own.reads) == 1 or not self._groups.reads_itself(before, own, stream)

    def _reads_twice(self, node: PhysicalNode) -> bool:
        """Whether the engine computes what a node reads more than once, as for its late rows."""
        operator = node.operator
        return operator.reads_twice or (not operator.in_workers and node.name in self._plan.side_streams)

    def _stage(self, members: tuple[str, ...]) -> Stage:
        plan, own = self._plan, set(members)
        nodes = [plan.nodes[name] for name in members]
        inputs = [[edge.stream for edge in node.inputs] for node in nodes]
        outside = tuple(dict.fromkeys(stream for streams in inputs for stream in streams if stream.operator not in own))
        upstream = tuple(dict.fromkeys(self._name(stream) for stream in outside))
        inner = next((found for node in nodes if (found := inner_loop(plan, node)) is not None), None)
        feedback = {name: plan.feedback[name] for name in members if name in plan.feedback}
        loop = inner.parent if inner else nodes[0].scope
        written_down = {name: stream for name, stream in feedback.items() if inner_loop(plan, plan.nodes[name]) is None}
        before = {name: (self._name(stream), stream) for name, stream in written_down.items()}
        written = (StreamRef(members[-1]), *(stream for name in members for stream in self._leaving(name, members[-1], own)))
        outputs = tuple(Output(stream, plan.name_of(stream), plan.tables.get(stream)) for stream in written)
        tables = [(output.name, sorted(map(_check, output.table.checks.items()))) for output in outputs if output.table]
        sinks = [(sink.name, str(output.ref), sink.config) for output in outputs for sink in plan.sinks.get(output.ref, ())]
        streams = [(str(output.ref), output.name) for output in outputs]
        text = repr((
            *((loop, sorted(map(str, feedback.items()))) if loop else ()),
            *(("within a subtask", sorted(map(str, feedback.items()))) if inner else ()),
            *_ends(plan, nodes[0].scope, *([inner.name] if inner else [])),
            members, [node.fingerprint for node in nodes], [list(map(str, refs)) for refs in inputs], streams, tables, sinks
        ))  # fmt: skip
        return Stage(
            name=outputs[0].name,
            operators=tuple(dict.fromkeys(node.logical for node in nodes)),
            nodes=members,
            inputs=outside,
            upstream=upstream,
            outputs=outputs,
            fingerprint=hashlib.sha256(text.encode()).hexdigest()[:16],
            loop=loop,
            feedback=before,
        )

    def _leaving(self, name: str, last: str, own: AbstractSet[str]) -> Iterator[StreamRef]:
        """The streams of a member that somebody outside reads, but for the main one of the last member."""
        for stream in (StreamRef(name), *self._plan.side_streams.get(name, ())):
            read = any(consumer not in own for consumer in self._plan.consumers.get(stream, ()))
            if (read or self._plan.ends_at(stream)) and stream != StreamRef(last):
                yield stream

    def _name(self, stream: StreamRef) -> str:
        """The name of the stage that a stream comes from."""
        return self._plan.name_of(StreamRef(self._groups.last(stream.operator)))


def _loops_together(plan: PhysicalPlan, stages: Sequence[Stage], depth: int = 0) -> Sequence[Stage]:
    """The stages in topological order with those of each loop one after another, behind all that the loop reads.

    Args:
        plan: The physical plan.
        stages: Stages in loops of some depth.
        depth: Of which depth.

    Raises:
        PipelineError: What enters a loop depends on what leaves it.
    """
    inside = {stage.name: (*loops_around(plan.loops, stage.loop), OUTSIDE)[depth] for stage in stages}
    loops: dict[str, list[Stage]] = {}
    for stage in stages:
        if inside[stage.name]:
            loops.setdefault(inside[stage.name], []).append(stage)
    own = {loop: {stage.name for stage in members} for loop, members in loops.items()}
    outside = {
        loop: tuple(dict.fromkeys(name for stage in members for name in stage.upstream if name not in own[loop]))
        for loop, members in loops.items()
    }
    waiting, done, known = list(stages), dict[str, Stage](), {stage.name for stage in stages}
    while waiting:
        ready = done.keys() | {name for stage in waiting for name in stage.upstream if name not in known}
        first = next((one for one in waiting if ready >= set(outside.get(inside[one.name], one.upstream))), None)
        if first is None:
            raise PipelineError(
                "what enters a loop depends on what leaves it",
                loop=waiting[0].loop,
                operator=waiting[0].name,
                remedy="let what enters the loop be made before it",
            )
        loop = inside[first.name]
        for one in _loops_together(plan, loops[loop], depth + 1) if loop else [first]:
            before = dict.fromkeys((*one.upstream, *outside.get(loop, ())))
            done[one.name] = replace(one, upstream=tuple(before))
        waiting = [stage for stage in waiting if stage.name not in done]
    return tuple(done.values())


def _ends(plan: PhysicalPlan, *scopes: str) -> Iterator[tuple[str, str, int]]:
    """The loops around a stage that end at their limits, so that its rows depend on these."""
    around = dict.fromkeys(loop for scope in scopes for loop in loops_around(plan.loops, scope))
    yield from ((loop, "ends after", plan.loops[loop].limit) for loop in around if plan.loops[loop].ends)


def _check(item: tuple[str, Check]) -> tuple[object, ...]:
    name, check = item
    functions = contents_of(check.expression)
    return (name, check.expression, check.blocking, *sorted(functions.items()))
