"""A dataflow of event operators as a program in a worker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.errors import OperatorFailedError, located
from dagster_operators.functions.own_thread import OwnThread
from dagster_operators.graph.ports import MAIN
from dagster_operators.operators.events.event_run import (
    LOOP,
    WAITING,
    EventRun,
    Saved,
    came_by_arrival,
    closed_as_epochs_ended,
    is_of_another_file,
    saved_rows,
    waiting_rows,
    waits_for_time,
)
from dagster_operators.operators.events.ignored import Ignored
from dagster_operators.operators.events.late_sends import check_late
from dagster_operators.operators.events.message_order import MessageOrder, Waiting
from dagster_operators.operators.events.message_rows import SourceMessages
from dagster_operators.operators.events.process_state import calls_together, kept_locale
from dagster_operators.operators.events.stopped import STOPPED
from dagster_operators.operators.events.wiring import KEY
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from dagster_operators.operators.events.event_operators import EventOperators
    from dagster_operators.operators.worker_program import EndReason, ProgramContext, ProgramOutput
    from dagster_operators.time.frontier import Frontier

SAVED: Final = "saved"
"""The state table with what is saved of each operator, and of the loop."""

IGNORED: Final = "ignored."
"""How the figures begin that say how many messages were sent to an output that is not declared; its address is behind it."""


class EventProgram:
    """Runs the operators: once, or once for each key if the dataflow is partitioned.

    Args:
        logical: The dataflow.
        time: The column with the time, in the rows that come.
    """

    def __init__(self, logical: EventOperators, time: str) -> None:
        self._own = logical
        self._sources = [SourceMessages(one, time) for one in logical.sources]
        self._time = time
        self._order: MessageOrder | None = None
        self._out: ProgramOutput | None = None
        self._runs: dict[Any, EventRun] = {}
        self._ignored = Ignored()
        self._away = defaultdict[Any, dict[str, list[pa.RecordBatch]]](dict)  # rows that wait, of nodes that the file has not now
        self._thread: OwnThread | None = None  # it is made in the worker

    def open(self, ctx: ProgramContext) -> None:
        """Make the operators, as they were at the end of the epoch before; those of a key are made when it needs them.

        Raises:
            OperatorFailedError: A thread of theirs sent a message when an epoch was over.
        """
        self._ctx = ctx
        check_late((self._own.name, self._own.descriptor))
        if any(one.language == "python" for one in self._own.operators):
            self._thread = OwnThread()
        self._saved = self._read()
        self._order = self._ordered()
        own = {port: schema for port, schema in ctx.ports.items() if port in self._own.addresses}
        if self._own.partition_by:
            own = {port: schema.remove(schema.get_field_index(KEY)) for port, schema in own.items()}
        self._schemas = own
        if not self._own.partition_by:
            self._call(self._run, None)

    def on_batch(self, port: int, batch: pa.RecordBatch, out: ProgramOutput) -> None:
        """The rows of a source, one message after another."""
        self._out = out
        if self._order is None:
            self._call(self._deliver, port, batch)
            return
        late = self._order.put(port, batch)
        if late is not None:
            self._ctx.report.late += late.num_rows
            out.collect(late, self._own.sources[port].late)
        last = pc.max(batch.column(self._time).cast(pa.timestamp("us")).cast(pa.int64())).as_py()
        self._call(self._deliver_waiting, self._order.before(last or 0))  # rows of that time may be in the next batch, too

    def on_frontier(self, inputs: Sequence[Frontier], out: ProgramOutput) -> Mapping[str, Frontier]:
        """Timers tick up to the watermark; what is read to its end is closed."""
        self._out = out
        marks = [frontier.to_watermark() for frontier in inputs]
        if self._order is not None:
            self._order.move(marks if self._own.is_ordered else [MAX_WATERMARK] * len(marks))
            if self._own.closes_in_order:
                self._order.end(marks, self._ctx.ending.of_sources)
            self._call(self._deliver_waiting, self._order.due())
        ending = self._ctx.ending
        ends = ending.stops or MAX_WATERMARK in marks
        waiting = [
            key
            for key, saved in self._saved.items()
            if LOOP in saved and (ends or waits_for_time(saved) or is_of_another_file(self._own, saved))
        ]
        self._call(self._pass_time, [*dict.fromkeys([*self._runs, *waiting])], marks)
        return {}

    def on_end(self, reason: EndReason, out: ProgramOutput) -> None:  # noqa: ARG002 - the frontiers said so
        """Put out what is left, and save what is kept."""
        self._out = out
        told: list[dict[str, Any]] = []
        kept: dict[Any, Saved] = {}
        for key, run in self._runs.items():
            kept[key] = self._call(run.finish)
            told += [{KEY: key, **row} for row in run.summary(self._ctx.epoch)]
        rest = self._order.rest() if self._order is not None else {}
        for key in dict.fromkeys([*rest, *self._away]):
            of_key = kept.get(key, self._saved.get(key, {}))
            kept[key] = {**of_key, WAITING: saved_rows({**self._away.get(key, {}), **rest.get(key, {})})}
        for address, count in self._ignored.items():
            self._ctx.report.add(f"{IGNORED}{address}", count)
        if self._ctx.ending.stops:
            self._ctx.report.add(STOPPED)
        self._put(kept)
        out.collect(pa.Table.from_pylist(told, self._ctx.ports[MAIN]), MAIN)

    def close(self) -> None:
        """End the processes of operators that have one."""
        with ExitStack() as all_of_them:
            for run in self._runs.values():
                all_of_them.callback(run.close)
            if self._thread is not None:
                self._thread.close()

    # --- in a thread of its own: who waits for it can be told that an operator is stuck ---------------------------------

    def _call(self, function: Callable[..., Any], *given: Any) -> Any:
        """What one of its methods returns that runs operators; in this thread, if all of them have a process or thread."""
        with located(**self._ctx.where), kept_locale(), calls_together():
            return function(*given) if self._thread is None else self._thread.call(function, *given)

    def _give_up(self, error: OperatorFailedError) -> None:
        if self._thread is not None:
            self._thread.give_up(error)

    def _deliver(self, port: int, batch: pa.RecordBatch) -> None:
        for key, (time, messages) in zip(self._keys(batch), self._sources[port].of(batch), strict=True):
            self._run(key).deliver(time, messages)

    def _deliver_waiting(self, rows: Sequence[Waiting]) -> None:
        closings = self._order.closings if self._order is not None else None
        for one in rows:
            run = self._run(one.key)
            if closings is not None and (due := closings.of(one.key)):
                run.close_sources(due, one.turn)
            run.deliver(one.time, one.messages)

    def _ordered(self) -> MessageOrder | None:
        """The order of messages; None if they come as they arrive, as they did in what was saved by an earlier version."""
        if not self._own.says_order and any(map(came_by_arrival, self._saved.values())):
            self._own = replace(self._own, order="")
        if not self._own.says_order and any(map(closed_as_epochs_ended, self._saved.values())):
            self._own = replace(self._own, closes="")
        own, kept = self._own, {key: [*waiting_rows(saved)] for key, saved in self._saved.items() if WAITING in saved}
        if not own.is_ordered and not kept:
            return None
        begin = self._ctx.begin.to_watermark() if own.is_ordered else MIN_WATERMARK
        order = MessageOrder(own.sources, self._time, own.partition_by, begin)
        names = [source.kept_as for source in own.sources]
        for key, rows in kept.items():
            for name, batch in rows:
                if name in names:
                    port = names.index(name)
                    order.put_back(port, batch, self._ctx.ports[own.sources[port].late])
                else:
                    self._away[key].setdefault(name, []).append(batch)
        if not own.is_ordered:
            order.move([MAX_WATERMARK] * len(names))
        elif self._ctx.coming:
            marks = [frontier.to_watermark() for frontier in self._ctx.coming]
            order.move(marks)
            if own.closes_in_order:
                order.expect(marks, self._ctx.ending.of_sources)
        return order

    def _pass_time(self, keys: Sequence[Any], marks: Sequence[int]) -> None:
        ending = self._ctx.ending
        waiting = self._order.nodes_waiting() if self._order is not None else {}
        for key in keys:
            run = self._run(key)
            if self._order is not None and self._own.closes_in_order:
                run.close_sources(self._order.closings.of(key))
                run.pass_time(marks, ending.of_sources)
            else:
                run.pass_time(marks, ending.last, waiting.get(key, ()))
            if ending.stops:
                self._run(key).stop(ending.ended)

    def _run(self, key: Any) -> EventRun:
        """The operators, or those of a key."""
        found = self._runs.get(key)
        if found is None:
            where = {"operator": self._own.name, "epoch": self._ctx.epoch}
            if self._own.partition_by:
                where["key"] = str(key)
            saved, put = self._saved.get(key, {}), partial(self._collect, key)
            found = EventRun(self._own, where, saved, self._schemas, put, give_up=self._give_up)
            self._runs[key] = found
            found.open()
            found.loop.ignored = self._ignored
        return found

    def _keys(self, batch: pa.RecordBatch) -> Iterator[Any]:
        column = self._own.partition_by
        return iter(batch.column(column).to_pylist() if column else [None] * len(batch))

    def _collect(self, key: Any, rows: pa.RecordBatch, address: str) -> None:
        if self._own.partition_by:
            schema = self._ctx.ports[address]
            keys = pa.array([key] * len(rows), schema.field(KEY).type)
            rows = pa.RecordBatch.from_arrays([*rows.columns, keys], schema=schema)
        if self._out is None:
            raise OperatorFailedError(
                "a message was sent before any event of the epoch", output=address, remedy="send it in on_event"
            )
        self._out.collect(rows, address)

    # --- what is saved -----------------------------------------------------------------------------------------------

    def _read(self) -> dict[Any, Saved]:
        """What was saved, by key."""
        found: dict[Any, dict[str, tuple[str, bytes]]] = defaultdict(dict)
        for row in self._ctx.state[SAVED].scan().to_pylist():
            path, state, data = (row[name] for name in self._own.saved_columns)
            found[row.get(self._own.partition_by)][path] = state, data
        return dict(found)

    def _put(self, kept: Mapping[Any, Saved]) -> None:
        """Store what changed, of all keys at once, and forget operators that are gone: one put back begins anew."""
        table = self._ctx.state[SAVED]
        changed: list[tuple[Any, str, str, bytes]] = []
        gone: list[tuple[Any, str]] = []
        for key, saved in kept.items():
            before = self._saved.get(key, {})
            changed += [(key, path, *one) for path, one in saved.items() if one != before.get(path)]
            gone += [(key, path) for path in sorted(before.keys() - saved.keys())]
        if changed:
            keys, paths, states, data = zip(*changed, strict=True)
            table.put(self._rows(keys, paths, states, pa.array(data, pa.binary())))
        if gone:
            table.delete(self._rows(*zip(*gone, strict=True)))

    def _rows(self, keys: Sequence[Any], *columns: Any) -> pa.Table:
        rows = dict(zip(self._own.saved_columns, columns, strict=False))
        if self._own.partition_by:
            rows[self._own.partition_by] = pa.array(keys, self._key_type())
        return pa.table(rows)

    def _key_type(self) -> pa.DataType:
        return self._ctx.ports[MAIN].field(KEY).type
