"""A scope as a program in a worker: its operators by turns, rows going around, until it is quiet.

Rows go first, each operator being called with all that waits for it. When none are left, the frontiers follow from what is held,
and the operators that are told of them are called; and so on, until neither rows nor frontiers move.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import EndlessLoopError, PipelineError, located
from dagster_operators.operators.frontier.capability import Outlet
from dagster_operators.operators.frontier.cut_by_time import Gathered
from dagster_operators.operators.frontier.frontier_program import first_time, outputs_of, without_late
from dagster_operators.operators.frontier.handles import OutputHandle
from dagster_operators.operators.frontier.instance import Instance
from dagster_operators.operators.frontier.kept import CAPABILITIES, Hold, Kept
from dagster_operators.operators.frontier.operator_info import OperatorInfo
from dagster_operators.operators.frontier.routes import groups_of
from dagster_operators.operators.frontier.scope_body import ENTER, FEEDBACK, LEAVE, ScopeBody, ScopeNode, Source
from dagster_operators.time.frontier import Frontier
from dagster_operators.time.product import Product
from dagster_operators.time.reachability import InputOf, Location, OutputOf
from dagster_operators.time.scopes import Enter, Leave
from dagster_operators.time.summary import results_in
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.frontier.time_columns import TimeColumns
    from dagster_operators.operators.worker_program import EndReason, ProgramContext, ProgramOutput


class ScopeProgram:
    """Runs the operators of a scope.

    Args:
        body: What is within it.
        times: The columns with the time, of each input.
        spread: The numbers of the streams that enter in every subtask, where rows enter by keys.
    """

    def __init__(self, body: ScopeBody, times: Sequence[TimeColumns], spread: Collection[int] = ()) -> None:
        self._body = body
        self._times = times
        self._spread_entries = spread

    def open(self, ctx: ProgramContext) -> None:
        """Find what lives on, and call all constructors."""
        self._set_up(ctx)
        begins = {node.name: Frontier(self._body.inside(time, node.depth) for time in ctx.begin) for node in self._body.nodes}
        self._start(
            {InputOf(node.name, number): begins[node.name] for node in self._body.nodes for number in range(len(node.inputs))}
        )

    def _set_up(self, ctx: ProgramContext) -> None:
        self._ctx = ctx
        self._gathered = [Gathered(columns.is_constant) for columns in self._times]
        self._reachability = self._body.reachability()
        self._exchanged = {} if ctx.parallelism == 1 else {node.name: node.exchanged for node in self._body.nodes}
        self._everywhere = self._body.everywhere(self._spread_entries)
        self._readers: dict[Source, list[tuple[str, int]]] = defaultdict(list)
        for source, reader in self._body.edges():
            self._readers[source].append(reader)
        self._outputs = outputs_of(ctx, self._times[0])
        self._inbox: dict[str, list[tuple[int, Any, pa.Table]]] = defaultdict(list)
        self._waiting: deque[str] = deque()
        self._hops: dict[str, int] = defaultdict(int)
        self._outer: Sequence[Frontier] = [ctx.begin] * self._body.entries
        self._instances: dict[str, Instance] = {}
        self._frontiers: Mapping[Location, Frontier] = {}

    def _inputs(self) -> dict[Location, int]:
        """The inputs of all operators, with how many scopes with rounds each is in."""
        return {InputOf(node.name, number): node.depth for node in self._body.nodes for number in range(len(node.inputs))}

    def _start(self, frontiers: Mapping[Location, Frontier]) -> None:
        """Call all constructors, the frontiers of their inputs being these."""
        ctx = self._ctx
        self._instances = {node.name: self._instance(node) for node in self._body.nodes}
        for node in self._body.nodes:
            info = OperatorInfo(node.name, ctx.epoch, ctx.subtask, ctx.parallelism)
            own = [frontiers.get(InputOf(node.name, number), Frontier()) for number in range(len(node.inputs))]
            self._instances[node.name].start(info, own)

    def on_batch(self, port: int, batch: pa.RecordBatch, out: ProgramOutput) -> None:
        """Bring the rows in, and let them go around."""
        timely = without_late(self._ctx, port, batch, self._times[port], out)
        ready = self._gathered[port].add(timely)
        if ready is not None and ready.num_rows:
            self._enter(port, ready)
            self._work(out)

    def on_frontier(self, inputs: Sequence[Frontier], out: ProgramOutput) -> Mapping[str, Frontier]:
        """Let the frontiers move until nothing does; what is held within, as it may still come out."""
        for port, gathered in enumerate(self._gathered):
            rest = gathered.rest()
            if rest is not None:
                self._enter(port, rest)
        self._work(out)
        self._outer = inputs
        self._work(out)
        for instance in self._instances.values():
            instance.check_read()
        inside = self._reachability.frontiers(self._held())
        return {
            output.outlet.name: Frontier(map(self._body.outside, inside.get(InputOf(LEAVE, number), ())))
            for number, output in enumerate(self._outputs)
        }

    def on_end(self, reason: EndReason, out: ProgramOutput) -> None:  # noqa: ARG002 - what it ends for makes no difference
        """Write what lives on, and refuse to lose what does not."""
        for name, instance in self._instances.items():
            instance.save()
            instance.tell(self._ctx.report, f"{name}.")

    def close(self) -> None:
        """Nothing: an operator holds nothing outside of its process."""

    def holds(self) -> list[Hold]:
        """What holds which time within; the place begins with the name of the operator, and the output is the scope's first."""
        return [
            Hold(f"{name}.{hold.place}", 0, hold.time, hold.requests)
            for name, instance in self._instances.items()
            for hold in instance.holds()
        ]

    def _enter(self, port: int, batch: pa.RecordBatch) -> None:
        import pyarrow as pa

        for time, part in self._times[port].cut(batch):
            rows = pa.Table.from_batches([part]).drop_columns(list(self._times[port].names))
            self._send((ENTER, port), self._body.inside(time), rows, 0)

    def _instance(self, node: ScopeNode) -> Instance:
        ctx, own = self._ctx, node.definition
        kept = Kept(ctx.state[CAPABILITIES], ctx.subtask, ctx.parallelism, f"{node.name}/") if own.holds_time else None
        least = self._first_time(kept)
        outputs = [
            OutputHandle(Outlet(port, number), None if schema is None else Schema.of(schema).to_arrow(), None)
            for number, (port, schema) in enumerate(zip(own.ports, own.schemas, strict=True))
        ]
        tables = _Tables(ctx.state, f"{node.name}__")
        inside = None if least is None else [self._body.inside(least, node.depth)] * len(outputs)
        where = {**ctx.where, "within": node.name}
        return Instance(own, outputs, tables=tables, kept=kept, least=inside, where=where)

    def _first_time(self, kept: Kept | None) -> Any:
        """The time of initial capabilities, in a first epoch."""
        return first_time(self._ctx, kept)

    # --- rows and frontiers ------------------------------------------------------------------------------------------

    def _work(self, out: ProgramOutput) -> None:
        self._hops.clear()
        self._move_rows()
        while self._move_frontiers():
            self._move_rows()
        for output in self._outputs:
            output.flush(out)

    def _move_rows(self) -> None:
        while self._waiting:
            name = self._waiting.popleft()
            instance = self._instances[name]
            for number, time, rows in self._inbox.pop(name, ()):
                instance.put(number, ((time, batch) for batch in rows.combine_chunks().to_batches()))
            self._call(name, instance)

    def _move_frontiers(self) -> bool:
        """Tell operators of their frontiers; whether there was anything to tell."""
        entering: dict[Location, list[Any]] = {
            OutputOf(ENTER, number): [self._body.inside(time) for time in frontier]
            for number, frontier in enumerate(self._outer)
            if self._readers.get((ENTER, number))
        }
        return self._tell(self._reachability.frontiers({**entering, **self._held()})) or bool(self._waiting)

    def _tell(self, frontiers: Mapping[Location, Frontier]) -> bool:
        """Tell operators of these frontiers; whether any of them moved."""
        before, self._frontiers = self._frontiers, frontiers
        moved = False
        for node in self._body.nodes:
            places = [InputOf(node.name, number) for number in range(len(node.inputs))]
            own = [self._frontiers.get(place, Frontier()) for place in places]
            if own != [before.get(place) for place in places]:
                instance = self._instances[node.name]
                instance.move(own)
                moved = True
                if instance.wants_frontiers:
                    self._call(node.name, instance)
        return moved

    def _held(self) -> dict[Location, list[Any]]:
        return {
            OutputOf(name, output.outlet.number): list(output.outlet.counts)
            for name, instance in self._instances.items()
            for output in instance.outputs
            if output.outlet.counts and self._readers.get((name, output.outlet.number))
        }

    def _call(self, name: str, instance: Instance) -> None:
        instance.call()
        for output in instance.outputs:
            with located(within=name):
                given = output.take()
            for time, rows in given:
                self._send((name, output.outlet.number), time, rows, self._hops[name])

    def _send(self, source: Source, time: Any, rows: pa.Table, hops: int) -> None:
        """Hand rows to all that read a source, and to what reads the loops that they are sent around."""
        ways = [(reader, time, hops) for reader in reversed(self._readers.get(source, ()))]
        is_everywhere = source in self._everywhere
        while ways:  # no recursion: a loop may be connected to itself
            (name, number), time, hops = ways.pop()
            if name == FEEDBACK:
                later, hops = self._around(number, time, hops)
                if later is not None:
                    ways += [(reader, later, hops) for reader in reversed(self._readers.get((FEEDBACK, number), ()))]
                continue
            own = self._once((name, number), rows) if is_everywhere else rows
            if not is_everywhere and source[0] != ENTER and number in self._exchanged.get(name, ()):
                self._check_here(name, own)
            if name == LEAVE:
                self._outputs[number].give_batch(self._body.outside(time), own)
            else:
                self._deliver((name, number), time, own, hops)

    def _once(self, reader: tuple[str, int], rows: pa.Table) -> pa.Table:
        """The rows that a reader is to get here, of those that all subtasks have: all of them, or each in one subtask alone.

        An operator gets all at a further input, or if what it makes of them is everywhere, too.
        """
        name, number = reader
        if name != LEAVE and (number or (name, 0) in self._everywhere):
            return rows
        keys = () if name == LEAVE else self._ctx.keys
        import pyarrow as pa

        groups = groups_of(rows, keys if set(keys) <= set(rows.column_names) else (), self._types(name, keys), name)
        return rows.filter(pa.array(self._subtasks(groups) == self._ctx.subtask))

    def _check_here(self, name: str, rows: pa.Table) -> None:
        """Raise PipelineError if rows that are to meet others of their keys came to have keys of other subtasks."""
        keys = self._ctx.keys
        groups = groups_of(rows, keys, self._types(name, keys), name)
        if (self._subtasks(groups) != self._ctx.subtask).any():
            raise PipelineError(
                f"{name!r} exchanges rows by {', '.join(keys)}, and within the scope they have keys of other subtasks than they "
                "entered with", **self._ctx.where,
                remedy="let rows enter by Pipeline(): then all meet, in one subtask, or with within_subtask=False in rounds",
            )  # fmt: skip

    def _subtasks(self, groups: Any) -> Any:
        from dagster_operators.graph.key_group import KEY_GROUPS

        return groups * self._ctx.parallelism // KEY_GROUPS

    def _types(self, node: str, by: Sequence[str]) -> list[pa.DataType | None]:
        """The types that an operator's state tables have these columns of; none for a column that none has."""
        tables = [table for name, table in self._ctx.state.declared.items() if name.startswith(f"{node}__")]
        fields = {field.name: field.type for table in reversed(tables) for field in table.schema}
        return [fields.get(column) for column in by]

    def _deliver(self, reader: tuple[str, int], time: Any, rows: pa.Table, hops: int) -> None:
        """Put rows where an operator finds them when it is its turn."""
        name, number = reader
        if name not in self._inbox:
            self._waiting.append(name)
        self._inbox[name].append((number, time, rows))
        self._hops[name] = max(self._hops[name], hops)

    def _around(self, number: int, time: Any, hops: int) -> tuple[Any, int]:
        """The time of rows that are sent around at a time, None if there is none, and how often they went around."""
        summary = self._body.summary(number)
        later, goes_round = results_in(summary, time), not isinstance(summary, Enter | Leave)
        hops += goes_round
        rounds = later.inner if isinstance(later, Product) else hops
        if goes_round and rounds > self._body.limit:
            raise EndlessLoopError(
                f"rows still go around after {self._body.limit} rounds", **self._ctx.where,
                remedy="see to it that rows leave the loop, or are sent back only if they are new; or raise the limit",
            )  # fmt: skip
        return later, hops


class _Tables(Mapping[str, Any]):
    """The state tables of one operator among those of the scope."""

    def __init__(self, state: Mapping[str, Any], prefix: str) -> None:
        self._state = state
        self._prefix = prefix

    def __getitem__(self, name: str) -> Any:
        return self._state[self._prefix + name]

    def __iter__(self) -> Any:
        return (name.removeprefix(self._prefix) for name in self._state if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)
