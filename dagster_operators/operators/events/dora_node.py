"""dora's ``Node``, as the files of ``path`` nodes import it: events are asked for, instead of being handed to ``on_event``."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

CURRENT: Final = threading.local()
"""The script that runs in a thread, as ``script``."""


class Script(Protocol):
    """What a node's script can ask for."""

    def next_event(self) -> dict[str, Any] | None:
        """The next event, or None after the last one."""

    def send(self, output: str, data: Any, metadata: Mapping[str, Any] | None) -> None:
        """Send a message."""

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

    def next(self, timeout: float | None = None) -> dict[str, Any] | None:  # noqa: ARG002 - events come when time has come
        """The next event; None after the last one. There is no time that could be over while it is waited for."""
        return self._script.next_event()

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
