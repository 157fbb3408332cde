"""The script of a node without inputs at work, in a process of its own: what it sends goes through a pipe, as it is sent.

The process ends when its standard input does, so that none is left behind by a pipeline that is gone.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import posixpath
import struct
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final, TypeAlias
from uuid import NAMESPACE_OID, uuid5

from dagster_operators.operators.events.dora_module import dora_module
from dagster_operators.operators.events.dora_node import CURRENT, LOG_LEVELS, Node
from dagster_operators.operators.events.message import other_event
from dagster_operators.operators.events.message_bytes import ipc
from dagster_operators.operators.events.routes import Routes
from dagster_operators.operators.events.sending import as_array, as_metadata
from dagster_operators.operators.events.source_modules import SourceModules

FRAME: Final = struct.Struct("!IQ")
"""The lengths of a frame's header, which is JSON, and of its data."""

Header: TypeAlias = dict[str, Any]

_LOG: Final = logging.getLogger("dora")
_STOP: Final = "MANUAL"
_PATIENCE: Final = 2.0
_MOMENT: Final = "$at"


class SenderScript:
    """What the script's node asks for.

    Args:
        told: The node: its id, file, files, outputs, the dataflow's file, and the time that messages come after.
        pipe: Takes the frames.
    """

    def __init__(self, told: Mapping[str, Any], pipe: BinaryIO) -> None:
        self._told = told
        self._pipe = pipe
        self._lock = threading.Lock()
        self._last: int = told["after"]
        self._stop_told = False
        self.stopping = threading.Event()
        self.routes = Routes(told["node"], told.get("routes", ()), self.send, lambda: datetime.now(UTC), of_all=True)

    @property
    def is_over(self) -> bool:
        """Whether it was told that it is to end."""
        return self._stop_told

    def send(self, output: str, data: Any, metadata: Mapping[str, Any] | None) -> None:
        """Send a message; to an output that is not declared none, as in dora."""
        if output not in self._told["outputs"]:
            _LOG.warning("%s: the output %r is not declared, and nothing is sent there", self._told["node"], output)
            return
        value, header = ipc(as_array(data)), {"output": output, "metadata": as_metadata(metadata)}
        with self._lock:
            self._last = max(time.time_ns() // 1000, self._last + 1)
            self.write({**header, "time": self._last}, value)

    def write(self, header: Header, data: bytes = b"") -> None:
        """Write a frame."""
        text = json.dumps(header, default=_moment).encode()
        self._pipe.write(FRAME.pack(len(text), len(data)) + text + data)
        self._pipe.flush()

    def next_event(self, timeout: float | None = None) -> dict[str, Any] | None:
        """``STOP`` once the node is to end, None after that or when the time is over: there are no inputs."""
        if self._stop_told or not self.stopping.wait(timeout):
            return None
        self._stop_told = True
        return other_event("STOP", _STOP)

    def log(self, level: str, message: str, entry: Mapping[str, Any]) -> None:
        """Log a message."""
        self.routes.entry(level, **entry)
        _LOG.log(LOG_LEVELS[level], "%s: %s", self._told["node"], message)

    def time(self) -> datetime:
        """The time."""
        return datetime.now(UTC)

    def dataflow_id(self) -> str:
        """The dataflow's id, which is that of its file."""
        return str(uuid5(NAMESPACE_OID, self._told["descriptor"]))

    def descriptor(self) -> dict[str, Any]:
        """The dataflow's file."""
        return dict(json.loads(self._told["descriptor"]))

    def config(self) -> dict[str, Any]:
        """The node's inputs and outputs."""
        return {"inputs": {}, "outputs": list(self._told["outputs"])}


class SenderNode(Node):
    """dora's ``Node`` in the script of a node without inputs: it may ask whether it is to end, and never waits for a message."""

    _script: SenderScript

    def next(self, timeout: float | None = None) -> dict[str, Any] | None:
        """``STOP`` once the node is to end; None when the time is over."""
        return self._script.next_event(timeout)

    def try_recv(self) -> dict[str, Any] | None:
        """``STOP`` if the node is to end."""
        return self._script.next_event(0)

    def drain(self) -> list[dict[str, Any]]:
        """The events that wait."""
        found = self.try_recv()
        return [] if found is None else [found]

    def is_empty(self) -> bool:
        """Whether no event waits."""
        return not self._script.stopping.is_set()


def written_metadata(given: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata as they were sent, from the JSON of a frame.

    >>> written_metadata(json.loads(json.dumps({"at": datetime(2024, 1, 1, tzinfo=UTC)}, default=_moment)))
    {'at': datetime.datetime(2024, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)}
    """
    return {
        name: datetime.fromisoformat(value[_MOMENT]) if isinstance(value, dict) and _MOMENT in value else value
        for name, value in given.items()
    }


def frames(data: bytearray) -> Iterator[tuple[Header, bytes]]:
    """The whole frames at the beginning of some data, which are taken from it."""
    while len(data) >= FRAME.size:
        text, value = FRAME.unpack_from(data)
        end = FRAME.size + text + value
        if len(data) < end:
            return
        header = json.loads(data[FRAME.size : FRAME.size + text])
        yield header, bytes(data[FRAME.size + text : end])
        del data[:end]


def _moment(value: Any) -> Any:
    if isinstance(value, datetime):
        return {_MOMENT: value.isoformat()}
    raise TypeError(f"metadata hold {value!r}")


def _end_with_input(script: SenderScript) -> None:
    """Let the script end when standard input does: it is told, and has some seconds."""
    while os.read(0, 1024):
        pass
    script.stopping.set()
    time.sleep(_PATIENCE)
    os._exit(0)


def main(pipe: int) -> None:
    """Run the script, as standard input says."""
    given = sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(8), "big"))
    told = pickle.loads(given)  # noqa: S301 - of the process that started this one
    script = SenderScript(told, os.fdopen(pipe, "wb"))
    logging.basicConfig(level=logging.INFO)
    dora_module().Node = SenderNode  # type: ignore[attr-defined]
    CURRENT.script = script
    threading.Thread(target=_end_with_input, args=(script,), daemon=True).start()
    sys.argv = [told["file"], *told["args"]]
    failed = ""
    script.write({"started": True})
    try:
        with script.routes.taken() if told.get("routes") else nullcontext():
            SourceModules(told["files"], posixpath.dirname(told["file"]), told["node"]).run(told["file"])
    except SystemExit as left:
        failed = f"it ended with the exit code {left.code}" if left.code else ""
    except BrokenPipeError:
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - it is raised where the messages are taken
        failed = f"it raised {type(error).__name__}: {error}"
    with suppress(BrokenPipeError):
        script.write({"failed": failed})


if __name__ == "__main__":
    main(int(sys.argv[1]))
