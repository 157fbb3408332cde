"""dora's ``Node``, as the files of ``path`` nodes import it: events are asked for, instead of being handed to ``on_event``."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Protocol

from dagster_operators.operators.events.raw_sample import SampleHandler

_DAEMON: Final = "it speaks to dora's daemon, and here there is none; send what others are to get: node.send_output(...)"
_MISSING: Final = {
    **dict.fromkeys(
        (
            "send_service_request", "send_service_response", "merge_external_events", "register_tensor_pool",
            "write_tensor_pool", "read_tensor_pool", "free_tensor_pool", "extension_store", "extension_load", "extension_drop",
        ),
        _DAEMON,
    ),
}  # fmt: skip
"""What dora's has and this has not, and why."""

LEVELS: Final = ("error", "warn", "info", "debug", "trace")
LOG_LEVELS: Final = dict(zip(LEVELS, (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG, logging.DEBUG), strict=True))

CURRENT: Final = threading.local()
"""The script that runs in a thread, as ``script``."""


class Script(Protocol):
    """What a node's script can ask for."""

    @property
    def is_over(self) -> bool:
        """Whether it was told of its last event."""

    def next_event(self) -> dict[str, Any] | None:
        """The next event, or None after the last one."""

    def send(self, output: str, data: Any, metadata: Mapping[str, Any] | None) -> None:
        """Send a message."""

    def log(self, level: str, message: str, entry: Mapping[str, Any]) -> None:
        """Log a message; its parts are those of a log entry."""

    def time(self) -> datetime:
        """The time of the event that it is at."""

    def dataflow_id(self) -> str:
        """The dataflow's id."""

    def descriptor(self) -> dict[str, Any]:
        """The dataflow's file."""

    def config(self) -> dict[str, Any]:
        """What the file says of the node: its inputs and outputs."""


class Node:
    """A node, in its own script.

    Args:
        node_id: Is not needed.
        daemon_port: Is not needed.

    Raises:
        RuntimeError: There is no script of a node that is asked.
    """

    def __init__(self, node_id: str | None = None, daemon_port: int | None = None) -> None:  # noqa: ARG002 - as dora's
        script: Script | None = getattr(CURRENT, "script", None)
        if script is None:
            raise RuntimeError("there is a Node in the script of a path: node alone, in the thread that runs it")
        self._script = script
        self._has_polled = True

    def next(self, timeout: float | None = None) -> dict[str, Any] | None:  # noqa: ARG002 - events come when time has come
        """The next event; None after the last one. There is no time that could be over while it is waited for."""
        self._has_polled = False
        return self._script.next_event()

    async def recv_async(self, timeout: float | None = None) -> dict[str, Any] | None:  # noqa: ASYNC109 - as dora's
        """The next event, once other tasks have had their turn; None after the last one."""
        await asyncio.sleep(0)
        return self.next(timeout)

    def is_empty(self) -> bool:
        """Whether no event waits.

        Which events wait would be another thing at each retry. Right behind an event none does; who asks again gets the next one.
        """
        waits = self._has_polled and not self._script.is_over
        self._has_polled = True
        return not waits

    def try_recv(self) -> dict[str, Any] | None:
        """The event that waits, as ``is_empty`` says it."""
        return None if self.is_empty() else self.next()

    def drain(self) -> list[dict[str, Any]]:
        """The events that wait, as ``is_empty`` says it."""
        event = self.try_recv()
        return [] if event is None else [event]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    def send_output(self, output_id: str, data: Any, metadata: Mapping[str, Any] | None = None) -> None:
        """Send a message."""
        self._script.send(output_id, data, metadata)

    def send_output_raw(self, output_id: str, data_length: int, metadata: Mapping[str, Any] | None = None) -> SampleHandler:
        """Memory of so many bytes, which is filled and then sent as an array of ``uint8``."""
        return SampleHandler(data_length, lambda data: self.send_output(output_id, data, metadata))

    def log(self, level: str, message: str, target: str | None = None, fields: Mapping[str, str] | None = None) -> None:
        """Log a message, by Python's ``logging``; once, though the script may be told again what it was told."""
        if level.lower() not in LEVELS:
            raise ValueError(f"there is no level {level!r}; there are: {', '.join(LEVELS)}")
        parts = [f"{target}: {message}" if target else message, *(f"{key}={value}" for key, value in (fields or {}).items())]
        entry = {"message": message, "target": target, "fields": dict(fields) if fields else None}
        self._script.log(level.lower(), " ".join(parts), entry)

    def log_error(self, message: str) -> None:
        """Log an error."""
        self.log("error", message)

    def log_warn(self, message: str) -> None:
        """Log a warning."""
        self.log("warn", message)

    def log_info(self, message: str) -> None:
        """Log what is to be known."""
        self.log("info", message)

    def log_debug(self, message: str) -> None:
        """Log what helps to find a mistake."""
        self.log("debug", message)

    def log_trace(self, message: str) -> None:
        """Log every step."""
        self.log("trace", message)

    def timestamp(self) -> datetime:
        """The time of the event that it is at: what a clock says is another time at each retry."""
        return self._script.time()

    def dataflow_id(self) -> str:
        """The dataflow's id, the same as long as its file is."""
        return self._script.dataflow_id()

    def dataflow_descriptor(self) -> dict[str, Any]:
        """The dataflow's file."""
        return self._script.descriptor()

    def node_config(self) -> dict[str, Any]:
        """What the file says of the node: its inputs and outputs."""
        return self._script.config()

    def is_restart(self) -> bool:
        """Whether dora has started it again: never, as far as a script can tell."""
        return False

    def restart_count(self) -> int:
        """How often dora has started it again."""
        return 0

    def __getattr__(self, name: str) -> Any:
        why = f": {_MISSING[name]}" if name in _MISSING else ""
        raise AttributeError(f"a Node has no attribute {name!r}{why}")
