"""A scope in several subtasks, as programs in workers: what a subtask does in one round.

A round is a stage of its own, and its end a consistent cut: nothing is under way but rows that were sent to other subtasks. So
the frontiers of all inputs follow from what each subtask tells: the times that it holds, and those of the rows that it sent. In
the next round every subtask finds the same frontiers by that. It brings in the rows that were sent to it, lets them go as far
as they get without leaving it, and then tells its operators of the frontiers. When no row was sent and no frontier moved,
nobody tells anything, and the scope has come to rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from dagster_operators.operators.frontier.frontier_program import without_late
from dagster_operators.operators.frontier.kept import CAPABILITIES, Hold, Kept
from dagster_operators.operators.frontier.routes import ROUTE, by_group, groups_of, routes
from dagster_operators.operators.frontier.scope_body import ENTER, LEAVE
from dagster_operators.operators.frontier.scope_program import ScopeProgram
from dagster_operators.operators.frontier.travelling import Parcel, Told, packed, unpacked
from dagster_operators.time.frontier import Frontier, meet
from dagster_operators.time.reachability import InputOf, Location, OutputOf

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.frontier.scope_rounds import ScopeRounds
    from dagster_operators.operators.frontier.time_columns import TimeColumns
    from dagster_operators.operators.worker_program import EndReason, ProgramContext, ProgramOutput

_BEGUN: Final = "begun"
"""The place in the table of capabilities that says that the first ones were given out."""


class RoundsProgram(ScopeProgram):
    """Runs one round of a scope in a subtask.

    Args:
        body: What is within it.
        times: The columns with the time, of each stream that enters.
    """

    _body: ScopeRounds

    def __init__(self, body: ScopeRounds, times: Sequence[TimeColumns]) -> None:
        super().__init__(body, times)

    @override
    def open(self, ctx: ProgramContext) -> None:
        """Find what lives on; the constructors are called when it is known that there is anything to do."""
        self._set_up(ctx)
        self._arrived: list[Parcel] = []
        self._sent: list[Parcel] = []
        self._spread: list[Parcel] = []
        self._texts: list[str] = []
        self._entered: list[tuple[int, pa.RecordBatch]] = []
        self._begun = CAPABILITIES not in ctx.state or _BEGUN in ctx.state[CAPABILITIES].all()["place"].to_pylist()

    @override
    def on_batch(self, port: int, batch: pa.RecordBatch, out: ProgramOutput) -> None:
        """Take rows that enter, those that were sent here, and what all subtasks told."""
        entries = self._body.entries
        if port == entries + 1:
            self._texts += batch.column(0).to_pylist()
        elif port >= entries:
            self._arrived += unpacked(batch)
        else:
            self._entered.append((port, without_late(self._ctx, port, batch, self._times[port], out)))

    @override
    def on_frontier(self, inputs: Sequence[Frontier], out: ProgramOutput) -> Mapping[str, Frontier]:
        """Do the round, unless the scope is at rest."""
        before = Told.together(self._texts)
        known = self._beginning() if before is None else before.frontiers
        found = known if before is None else self._found(inputs, before)
        if before is not None and not before.sent and found == known:
            return {}
        self._start(known)
        for port, batch in self._entered:
            self._enter(port, batch.drop_columns([ROUTE]))
        for parcel in self._arrived:
            super()._deliver(parcel.reader, parcel.time, parcel.rows, parcel.hops)
        self._frontiers = {} if before is None else known
        self._move_rows()
        self._tell(found)
        self._move_rows()
        for instance in self._instances.values():
            instance.check_read()
        for output in self._outputs[: len(self._body.leaves)]:
            output.flush(out)
        travelling, told, *to_all = self._body.further_ports
        out.collect(packed(self._sent), travelling)
        out.collect(_text(self._told(0 if before is None else before.number + 1, found)), told)
        for name in to_all:
            out.collect(packed(self._spread), name)
        return {}

    @override
    def on_end(self, reason: EndReason, out: ProgramOutput) -> None:
        """Write what lives on from round to round."""
        for instance in self._instances.values():
            instance.save()
            instance.tell_figures(self._ctx.report)
        if not self._begun:
            import pyarrow as pa

            row = {"place": _BEGUN, "output": 0, "time": "0", "subtask": 0, "subtasks": 1, "requests": 1}
            self._ctx.state[CAPABILITIES].put(pa.Table.from_pylist([row]))

    @override
    def _first_time(self, kept: Kept | None) -> Any:
        return None if kept is not None and self._begun else min(self._ctx.begin, default=None)

    # --- frontiers ---------------------------------------------------------------------------------------------------

    def _places(self) -> dict[Location, int]:
        """The inputs of operators, and what leaves."""
        return self._inputs() | {InputOf(LEAVE, number): 0 for number in range(len(self._body.leaves))}

    def _beginning(self) -> dict[Location, Frontier]:
        begin = self._ctx.begin
        return {place: Frontier(self._body.inside(time, depth) for time in begin) for place, depth in self._places().items()}

    def _found(self, inputs: Sequence[Frontier], told: Told) -> dict[Location, Frontier]:
        entering: dict[Location, list[Any]] = {
            OutputOf(ENTER, number): [self._body.inside(time) for time in inputs[number]]
            for number in range(self._body.entries)
            if self._readers.get((ENTER, number))
        }
        frontiers = self._reachability.frontiers({**entering, **told.held, **told.sent})
        return {place: frontiers.get(place, Frontier()) for place in self._places()}

    def _told(self, number: int, frontiers: Mapping[Location, Frontier]) -> Told:
        sent, holders = defaultdict[Location, set[Any]](set), defaultdict[str, set[Any]](set)
        for parcel in (*self._sent, *self._spread):
            sent[InputOf(*parcel.reader)].add(parcel.time)
        for hold in self.holds():
            holders[hold.place].add(self._outside(hold))
        waiting = {place: list(times) for place, times in sent.items()}
        held = {place: list(times) for place, times in self._held().items()}
        return Told(number, frontiers, held, waiting, {place: list(times) for place, times in holders.items()})

    def _outside(self, hold: Hold) -> Any:
        """The time that is held within, as it is outside of all scopes."""
        time, name = hold.time, hold.place.partition(".")[0]
        depth = next(node.depth for node in self._body.nodes if node.name == name)
        for _ in range(depth + self._body.iterative):
            time = time.outer
        return time

    # --- rows --------------------------------------------------------------------------------------------------------

    @override
    def _deliver(self, reader: tuple[str, int], time: Any, rows: pa.Table, hops: int) -> None:
        """Put rows where they belong: before an operator here, or on the way to another subtask."""
        by, ctx = self._body.exchanged_by(*reader), self._ctx
        if self._body.is_spread(*reader) and rows.num_rows and ctx.parallelism > 1:
            self._spread.append(Parcel(0, reader, time, hops, rows))  # by no route: how many subtasks come next, nobody knows
            return
        if by is None or not rows.num_rows:
            super()._deliver(reader, time, rows, hops)
            return
        groups = groups_of(rows, by, self._types(reader[0], by), reader[0])
        is_here = self._subtasks(groups) == ctx.subtask
        import pyarrow as pa

        here = rows.filter(pa.array(is_here))
        if here.num_rows:
            super()._deliver(reader, time, here, hops)
        if here.num_rows < rows.num_rows:
            elsewhere = rows.filter(pa.array(~is_here))
            numbers = routes()
            self._sent += [Parcel(numbers[g], reader, time, hops, part) for g, part in by_group(elsewhere, groups[~is_here])]


def _text(told: Told) -> pa.Table:
    import pyarrow as pa

    return pa.table({"told": pa.array([told.to_json()], pa.string())})


class SettledProgram:
    """Hands rows on that left a scope, and holds back the time that the scope does.

    Args:
        body: What is within the scope.
        number: Which of its outputs it is.
        times: The columns with the time, which make a kind of one's own known here.
    """

    def __init__(self, body: ScopeRounds, number: int, times: Sequence[TimeColumns]) -> None:
        self._body = body
        self._number = number
        self._times = times

    def open(self, ctx: ProgramContext) -> None:
        """Begin."""
        self._ctx = ctx
        self._texts: list[str] = []

    def on_batch(self, port: int, batch: pa.RecordBatch, out: ProgramOutput) -> None:
        """Hand rows on; remember what subtasks told."""
        if port == 0:
            out.collect(batch)
        else:
            self._texts += batch.column(0).to_pylist()

    def on_frontier(self, inputs: Sequence[Frontier], out: ProgramOutput) -> Mapping[str, Frontier]:  # noqa: ARG002
        """What is held as the scope has come to rest."""
        told = Told.together(self._texts)
        port = next(iter(self._ctx.ports))
        if told is None:
            return dict(self._ctx.held)
        for place, times in told.holders.items():
            self._ctx.report.holders.setdefault(port, {})[place] = meet([Frontier(times)])
        return {port: Frontier(map(self._body.outside, told.frontiers[InputOf(LEAVE, self._number)]))}

    def on_end(self, reason: EndReason, out: ProgramOutput) -> None:
        """Nothing: all was put out."""

    def close(self) -> None:
        """Nothing: it holds nothing outside of its process."""
