"""A dataflow of event operators as a program in a worker."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from dagster_operators.errors import OperatorFailedError, located
from dagster_operators.graph.ports import MAIN
from dagster_operators.operators.events.message import Message
from dagster_operators.operators.events.message_rows import OutputRows, SourceMessages
from dagster_operators.operators.events.native_operator import NativeOperator
from dagster_operators.operators.events.node_script import NodeScript
from dagster_operators.operators.events.python_operator import PythonOperator
from dagster_operators.operators.events.saved_attributes import VERSION, checked, load, save
from dagster_operators.operators.events.windowed_loop import loop_of
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from dagster_operators.operators.events.event_operators import EventOperators
    from dagster_operators.operators.events.wiring import EventOperator
    from dagster_operators.operators.worker_program import EndReason, ProgramContext, ProgramOutput
    from dagster_operators.time.frontier import Frontier

SAVED: Final = "saved"
"""The state table with what is saved of each operator, and of the loop."""

_Running: TypeAlias = PythonOperator | NodeScript | NativeOperator

LOOP: Final = ""
LATER: Final = "dora"
"""Its keys for what is saved of the loop, and of messages that are on their way: no operator is called that."""


class EventProgram:
    """Runs the event loop.

    Args:
        logical: The dataflow.
        time: The column with the time, in the rows that come.
    """

    def __init__(self, logical: EventOperators, time: str) -> None:
        self._own = logical
        self._sources = [SourceMessages(one, time) for one in logical.sources]
        self._out: ProgramOutput | None = None
        self._running: dict[str, _Running] = {}

    def open(self, ctx: ProgramContext) -> None:
        """Make the operators, as they were at the end of the epoch before."""
        self._ctx, own = ctx, self._own
        files = dict(own.files)
        self._saved = self._read()
        where = {"operator": own.name, "epoch": ctx.epoch}
        self._running = {one.path: self._made(one, files, where) for one in own.operators}
        for one in own.operators:
            self._running[one.path].open(self._saved_of(one, where))
        state = checked(json.loads(self._saved[LOOP][1])) if LOOP in self._saved else {}
        later = load(self._saved[LATER][1])["later"] if LATER in self._saved else ()
        types = {address: _type_of(text) for address, text in state.get("types", {}).items()}
        first = state.get("next", {})
        self._rows = {
            port: OutputRows(port, ctx.ports[port], first.get(port, 1), types.get(port)) for port in ctx.ports if port != MAIN
        }
        self._loop = loop_of(own.operators, self._running, self._write, state.get("loop", {}), later)

    def on_batch(self, port: int, batch: pa.RecordBatch, out: ProgramOutput) -> None:
        """The rows of a source, one message after another."""
        self._out = out
        with located(**self._ctx.where):
            for time, messages in self._sources[port].of(batch):
                self._loop.advance(time)
                for address, message in messages:
                    self._loop.deliver(address, message)

    def on_frontier(self, inputs: Sequence[Frontier], out: ProgramOutput) -> Mapping[str, Frontier]:
        """Timers tick up to the watermark; what is read to its end is closed."""
        self._out = out
        marks = [frontier.to_watermark() for frontier in inputs]
        with located(**self._ctx.where):
            if MIN_WATERMARK < min(marks) < MAX_WATERMARK:
                self._loop.advance(min(marks))
            ended = [source for source, mark in zip(self._own.sources, marks, strict=True) if mark == MAX_WATERMARK]
            if len(ended) == len(marks):
                self._loop.drain()
            self._loop.close(address for source in ended for address, _ in source.addresses())
            if len(ended) == len(marks):
                self._loop.drain()
                self._loop.close(self._own.timers)
                self._loop.drain()
        return {}

    def on_end(self, reason: EndReason, out: ProgramOutput) -> None:  # noqa: ARG002 - the frontiers said so
        """Put out what is left, and save what is kept."""
        self._out = out
        with located(**self._ctx.where):
            self._loop.settle()
        for rows in self._rows.values():
            self._flush(rows, out)
        out.collect(self._summary(), MAIN)
        saved = {one.path: (one.state, self._running[one.path].save()) for one in self._own.operators}
        loop = {
            "version": VERSION,
            "loop": self._loop.state(),
            "next": {port: rows.next for port, rows in self._rows.items()},
            "types": {port: _text_of(rows.pinned) for port, rows in self._rows.items() if rows.pinned is not None},
        }
        saved[LOOP] = ("", json.dumps(loop, sort_keys=True).encode())
        if later := self._loop.later():
            saved[LATER] = ("", save({"later": later}))
        self._put(saved)

    def close(self) -> None:
        """End the processes of operators that have one."""
        with ExitStack() as all_of_them:
            for running in self._running.values():
                all_of_them.callback(running.close)

    def _made(
        self, one: EventOperator, files: Mapping[str, str], where: Mapping[str, Any]
    ) -> PythonOperator | NodeScript | NativeOperator:
        if one.language == "library":
            return NativeOperator(one, files[one.file], where)
        if one.language == "script":
            return NodeScript(one, files, self._own.descriptor, where)
        return PythonOperator(one, files, self._own.descriptor, where)

    def _read(self) -> dict[str, tuple[str, bytes]]:
        """What was saved: how, and the bytes, by path."""
        rows = self._ctx.state[SAVED].scan().to_pylist()
        return {row["path"]: (row["state"], row["saved"]) for row in rows}

    def _saved_of(self, one: EventOperator, where: Mapping[str, Any]) -> bytes | None:
        """What was saved of an operator.

        Raises:
            OperatorFailedError: It was saved otherwise than it is to be read.
        """
        state, data = self._saved.get(one.path, (one.state, None))
        if state != one.state:
            raise OperatorFailedError(
                f"its state was saved as {state!r}, and is to be read as {one.state!r}", **where, node=one.node,
                event_operator=one.id, remedy=f"write state: {state} again; or give it another id, so that it begins anew",
            )  # fmt: skip
        return data

    def _put(self, saved: Mapping[str, tuple[str, bytes]]) -> None:
        """Store what changed, and forget operators that are gone: whoever puts one back has it begin anew."""
        changed = {path: kept for path, kept in saved.items() if kept != self._saved.get(path)}
        if changed:
            states, data = zip(*changed.values(), strict=True)
            rows = {"path": list(changed), "state": list(states), "saved": pa.array(data, pa.binary())}
            self._ctx.state[SAVED].put(pa.table(rows))
        if gone := sorted(self._saved.keys() - saved.keys()):
            self._ctx.state[SAVED].delete(pa.table({"path": gone}))

    def _write(self, address: str, message: Message) -> None:
        rows = self._rows[address]
        if rows.add(message) and self._out is not None:
            self._flush(rows, self._out)

    def _flush(self, rows: OutputRows, out: ProgramOutput) -> None:
        found = rows.take()
        if found is not None:
            out.collect(found, rows.address)

    def _summary(self) -> pa.Table:
        """A row for each operator that was told of events."""
        loop = self._loop
        names = [operator.path for operator in self._own.operators if loop.events[operator.path]]
        rows: list[dict[str, Any]] = [
            {
                "epoch": self._ctx.epoch,
                "operator": name,
                "events": loop.events[name],
                "messages": loop.sent[name],
                "dropped": loop.dropped[name],
                "stopped": loop.stopped.get(name),
            }
            for name in names
        ]
        return pa.Table.from_pylist(rows, self._ctx.ports[MAIN])


def _text_of(kind: pa.DataType) -> str:
    """A type as text."""
    return bytes(pa.schema([("value", kind)]).serialize().to_pybytes()).hex()


def _type_of(text: str) -> pa.DataType:
    return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(text))).field(0).type
