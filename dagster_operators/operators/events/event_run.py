"""The operators of a dataflow at work in an epoch: all that it has, or those of one key."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from dagster_operators.errors import OperatorFailedError
from dagster_operators.operators.events.closings import Closing, Turn
from dagster_operators.operators.events.event_window import stopping_order
from dagster_operators.operators.events.late_sends import note_late
from dagster_operators.operators.events.loop_state import still_closed, without
from dagster_operators.operators.events.message import Message
from dagster_operators.operators.events.message_rows import OutputRows
from dagster_operators.operators.events.native_operator import NativeOperator
from dagster_operators.operators.events.node_script import NodeScript
from dagster_operators.operators.events.python_operator import PythonOperator
from dagster_operators.operators.events.saved_attributes import VERSION, checked, load, save
from dagster_operators.operators.events.sending import own_copy
from dagster_operators.operators.events.windowed_loop import loop_of
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from dagster_operators.operators.events.event_operators import EventOperators
    from dagster_operators.operators.events.wiring import EventOperator

_Running: TypeAlias = PythonOperator | NodeScript | NativeOperator

Saved: TypeAlias = Mapping[str, tuple[str, bytes]]
"""What is saved of each operator by its path, and of the loop: how, and the bytes."""

LOOP: Final = ""
LATER: Final = "dora"
WAITING: Final = "dora/waiting"
"""Of what is saved, the keys of the loop, of messages on their way, and of rows that wait: no operator is called so."""


class EventRun:
    """The operators, and the loop that tells them of events.

    Args:
        own: The dataflow.
        where: The place, for errors.
        saved: What was saved at the end of the epoch before.
        schemas: The rows of each output.
        put: Takes rows of an output.
        give_up: Is told, by another thread, what is wrong with an operator that cannot be interrupted.
    """

    def __init__(
        self,
        own: EventOperators,
        where: Mapping[str, Any],
        saved: Saved,
        schemas: Mapping[str, pa.Schema],
        put: Callable[[pa.RecordBatch, str], None],
        *,
        give_up: Callable[[OperatorFailedError], None] = lambda _: None,
    ) -> None:
        self._own = own
        self._where = where
        self._saved = saved
        self._put = put
        self._give_up = give_up
        files = dict(own.files)
        self._running: dict[str, _Running] = {one.path: self._made(one, files) for one in own.operators}
        self._schemas = schemas
        self._left: Mapping[str, Any] | None = None
        self._closed: set[int] = set()

    def open(self) -> None:
        """Put everything back to where it was at the end of the epoch before."""
        own, saved = self._own, self._saved
        state = checked(json.loads(saved[LOOP][1])) if LOOP in saved else {}
        anew = _anew(own, state)
        for one in own.operators:
            self._running[one.path].open(None if one.path in anew else self._saved_of(one))
        later = load(saved[LATER][1])["later"] if LATER in saved else ()
        types = {address: _type_of(text) for address, text in state.get("types", {}).items()}
        first = state.get("next", {})
        self._rows = {
            port: OutputRows(port, schema, first.get(port, 1), types.get(port)) for port, schema in self._schemas.items()
        }
        self.loop = loop_of(own.operators, self._running, self._write, without(state.get("loop", {}), anew), later)
        self.loop.copy = self._copy

    def deliver(self, time: int, messages: Sequence[tuple[str, Message]]) -> None:
        """The messages of a source's row."""
        self.loop.advance(time)
        for address, message in messages:
            self.loop.deliver(address, message)

    def close_sources(self, closings: Sequence[Closing], before: Turn | None = None) -> None:
        """Close sources in their turns.

        Args:
            closings: The sources that are due, in their order.
            before: The turn of the next row, to which it is their turn; all of them by default.
        """
        for turn, port in closings:
            if before is not None and turn >= before:
                return
            if port not in self._closed:
                self._closed.add(port)
                self.loop.close([address for address, _ in self._own.sources[port].addresses()], turn[0])

    def pass_time(self, marks: Sequence[int], last: Sequence[int] = (), waiting: Collection[str] = ()) -> None:
        """Timers tick up to the watermarks of the sources; what is read to its end is closed, unless that has its turn.

        Args:
            marks: The watermarks.
            last: The last event times of sources that end: time goes on to these, of each key, however epochs are cut.
            waiting: The nodes whose rows wait for later epochs: they are not closed yet.
        """
        loop = self.loop
        begins = self._own.is_ordered and loop.now is None  # with its first row, however epochs are cut
        if MIN_WATERMARK < min(marks) < MAX_WATERMARK and not begins:
            loop.advance(min(marks))
        self._send_between()
        ended = [source for source, mark in zip(self._own.sources, marks, strict=True) if mark == MAX_WATERMARK]
        if len(ended) == len(marks):
            if max(last, default=MIN_WATERMARK) > MIN_WATERMARK:
                loop.advance(max(last))
            loop.drain()
        if not self._own.closes_in_order:
            loop.close(address for source in ended if source.node not in waiting for address, _ in source.addresses())
        if len(ended) == len(marks):
            loop.drain()
            loop.close(self._own.timers)
            loop.drain()

    def _send_between(self) -> None:
        """Deliver what live scripts sent at no event, as of now."""
        for operator in self._own.operators:
            running = self._running[operator.path]
            if not isinstance(running, NodeScript) or operator.path in self.loop.stopped:
                continue
            for output, value, metadata in running.sent_between():
                if output not in operator.outputs:
                    self.loop.ignored.leave_out(operator, output)
                    continue
                message = Message(self.loop.now or 0, value, metadata)
                self.loop.sent[operator.path] += 1
                self._write(operator.address(output), message)
                self.loop.deliver(operator.address(output), message)

    def stop(self, ended: Collection[int]) -> None:
        """Tell the operators that the pipeline is stopped, those that are read by others first.

        When it is run again they go on: none has stopped by that, and no input is closed.

        Args:
            ended: The sources, by their places, of which nothing more comes until then.
        """
        self.loop.settle()
        self._left = deepcopy(self.loop.state())
        for running in self._running.values():
            if not isinstance(running, PythonOperator):
                running.keeps_events = False  # one that is told them again is not to be told that it has stopped
        self.loop.close(address for place in sorted(ended) for address, _ in self._own.sources[place].addresses())
        for path in stopping_order(self._own.operators):
            self.loop.end(path)

    def finish(self) -> Saved:
        """Put out what is left; what is to be saved."""
        self.loop.settle()
        running = {path: one.modules() for path, one in self._running.items() if isinstance(one, PythonOperator)}
        self.loop.kept.wait(running, self._where)
        self.loop.check()
        for rows in self._rows.values():
            self._flush(rows)
        saved = {one.path: (one.state, self._running[one.path].save()) for one in self._own.operators}
        self.loop.check()
        self.loop.on_late = self._note_late
        loop = {
            "version": VERSION,
            "loop": self._left or self.loop.state(),
            "next": {port: rows.next for port, rows in self._rows.items()},
            "types": {port: _text_of(rows.pinned) for port, rows in self._rows.items() if rows.pinned is not None},
        }
        if self._own.is_ordered:
            loop["order"] = self._own.order
        if self._own.closes_in_order:
            loop["closes"] = self._own.closes
        if began := _restarts(self._own):
            loop["restart"] = began
        saved[LOOP] = ("", json.dumps(loop, sort_keys=True).encode())
        if later := self.loop.later():
            saved[LATER] = ("", save({"later": later}))
        return saved

    def summary(self, epoch: int) -> list[dict[str, Any]]:
        """A row for each operator that was told of events."""
        loop = self.loop
        names = [operator.path for operator in self._own.operators if loop.events[operator.path]]
        return [
            {
                "epoch": epoch,
                "operator": name,
                "events": loop.events[name],
                "messages": loop.sent[name],
                "dropped": loop.dropped[name],
                "stopped": loop.stopped.get(name),
            }
            for name in names
        ]

    def close(self) -> None:
        """End the processes of operators that have one."""
        with ExitStack() as all_of_them:
            for running in self._running.values():
                all_of_them.callback(running.close)

    def _made(self, one: EventOperator, files: Mapping[str, str]) -> _Running:
        if one.language == "library":
            return NativeOperator(one, files[one.file], self._where)
        if one.language == "script":
            return NodeScript(one, files, self._own.descriptor, self._where)
        return PythonOperator(one, files, self._own.descriptor, self._where, self._lost)

    def _note_late(self, operator: EventOperator, output: str) -> None:
        where = {**self._where, "node": operator.node, "event_operator": operator.id}
        note_late((self._own.name, self._own.descriptor), output, where)

    def _lost(self, error: OperatorFailedError) -> None:
        """An operator is stuck: whatever it sends when it goes on comes too late."""
        if hasattr(self, "loop"):
            self.loop.refuse_all()
        self._give_up(error)

    def _saved_of(self, one: EventOperator) -> bytes | None:
        """What was saved of an operator.

        Raises:
            OperatorFailedError: It was saved otherwise than it is to be read.
        """
        state, data = self._saved.get(one.path, (one.state, None))
        if state != one.state and (state, one.state) != ("replay", "live"):  # it is told again once more
            raise OperatorFailedError(
                f"its state was saved as {state!r}, and is to be read as {one.state!r}", **self._where,
                node=one.node, event_operator=one.id,
                remedy=f"write state: {state} again; or restart: 1, or another value than now, to begin anew",
            )  # fmt: skip
        return data

    def _write(self, address: str, message: Message) -> None:
        rows = self._rows[address]
        if rows.add(message):
            self._flush(rows)

    def _copy(self, address: str | None, value: pa.Array) -> pa.Array:
        return own_copy(value) if address is None else self._rows[address].copy(value)

    def _flush(self, rows: OutputRows) -> None:
        found = rows.take()
        if found is not None:
            self._put(found, rows.address)


def is_of_another_file(own: EventOperators, saved: Saved) -> bool:
    """Whether what was saved is of a dataflow with something that is gone, or with another ``restart`` or source of an input.

    All keys then have to be saved again in the epoch that says so: later the file may be as it was.
    """
    if LOOP not in saved:
        return False
    state = json.loads(saved[LOOP][1])
    closed = state["loop"].get("closed", {})
    return bool(
        state.get("restart", {}) != _restarts(own)
        or saved.keys() - {LOOP, LATER, WAITING} - {one.path for one in own.operators}
        or state.get("next", {}).keys() - set(own.addresses)
        or any(set(closed.get(one.path, ())) - still_closed(one, closed.get(one.path, ())).keys() for one in own.operators)
    )


def _restarts(own: EventOperators) -> dict[str, str]:
    return {one.path: one.restart for one in own.operators if one.restart}


def _anew(own: EventOperators, state: Mapping[str, Any]) -> set[str]:
    began = state.get("restart", {})
    return {one.path for one in own.operators if one.begins_behind(began.get(one.path, ""))}


def came_by_arrival(saved: Saved) -> bool:
    """Whether what was saved is of messages that came in the order of arrival, as in earlier versions.

    >>> came_by_arrival({"": ("", b'{"order": "time"}')}), came_by_arrival({"": ("", b"{}")}), came_by_arrival({})
    (False, True, False)
    """
    return LOOP in saved and "order" not in json.loads(saved[LOOP][1])


def closed_as_epochs_ended(saved: Saved) -> bool:
    """Whether what was saved is of inputs that were closed at the end of an epoch, as in earlier versions.

    >>> closed_as_epochs_ended({"": ("", b'{"closes": "time"}')}), closed_as_epochs_ended({"": ("", b'{"order": "time"}')})
    (False, True)
    """
    return LOOP in saved and "closes" not in json.loads(saved[LOOP][1])


def waiting_rows(saved: Saved) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of sources that waited for the watermark, with the names under which they are kept."""
    for name, data in load(saved[WAITING][1])["waiting"] if WAITING in saved else ():
        for rows in pa.ipc.open_stream(data):
            yield name, rows


def saved_rows(waiting: Mapping[str, Sequence[pa.RecordBatch]]) -> tuple[str, bytes]:
    """Rows of sources that wait, by the names under which they are kept, as they are saved."""
    return "", save({"waiting": [[name, _stream(rows)] for name, parts in sorted(waiting.items()) for rows in parts]})


def _stream(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return bytes(sink.getvalue().to_pybytes())


def waits_for_time(saved: Saved) -> bool:
    """Whether what was saved has timers, or messages that are on their way: then it goes on as time does."""
    return LATER in saved or (LOOP in saved and bool(json.loads(saved[LOOP][1])["loop"]["ticks"]))


def _text_of(kind: pa.DataType) -> str:
    """A type as text."""
    return bytes(pa.schema([("value", kind)]).serialize().to_pybytes()).hex()


def _type_of(text: str) -> pa.DataType:
    return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(text))).field(0).type
