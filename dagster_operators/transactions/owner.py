"""Who owns a generation: a process, or a Dagster run that may span several processes."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Owner:
    """The identity of a run.

    Attributes:
        kind: ``process``: the process itself; ``dagster``: all steps of the Dagster run ``run_id``, in whichever processes.
        boot_id: Tells one boot (and one PID namespace, so one container) of a host from another.
        pid_started: When the process was started, in the kernel's own unit: a process id may be used again.

    >>> me = Owner.of_process()
    >>> me.is_same(me), me.is_same(Owner.of_process()), process_started(me.pid) == me.pid_started
    (True, False, True)
    """

    kind: Literal["process", "dagster"]
    run_id: str
    host: str
    boot_id: str
    pid: int
    pid_started: float

    @classmethod
    def of_process(cls, run_id: str | None = None) -> Owner:
        """An owner that lives as long as this process."""
        return cls._here("process", run_id or uuid.uuid4().hex)

    @classmethod
    def of_dagster_run(cls, run_id: str) -> Owner:
        """An owner that lives as long as the Dagster run."""
        return cls._here("dagster", run_id)

    @classmethod
    def _here(cls, kind: Literal["process", "dagster"], run_id: str) -> Owner:
        pid = os.getpid()
        return cls(kind, run_id, socket.gethostname(), _boot_id(), pid, process_started(pid) or 0.0)

    def is_same(self, other: Owner | None) -> bool:
        """Whether both are the same run; the steps of one Dagster run are, though their processes differ."""
        if other is None or self.kind != other.kind or self.run_id != other.run_id:
            return False
        return self.kind == "dagster" or self.process() == other.process()

    def process(self) -> tuple[str, str, int, float]:
        """The process, as unique as we can say."""
        return self.host, self.boot_id, self.pid, self.pid_started

    def is_gone(self) -> bool:
        """Whether the process ran on this machine and no longer does. False when it cannot be told from here."""
        if self.kind != "process" or not self.boot_id or (self.host, self.boot_id) != (socket.gethostname(), _boot_id()):
            return False
        return process_started(self.pid) != self.pid_started

    def __str__(self) -> str:
        return f"{'Dagster run' if self.kind == 'dagster' else 'run'} {self.run_id} (host {self.host}, pid {self.pid})"


def process_started(pid: int) -> float | None:
    """When the process was started, in clock ticks since boot; None when there is none (0 where the system does not say)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0 if not Path("/proc/self/stat").exists() and _accepts_signals(pid) else None
    except ProcessLookupError:
        return None
    state, started = fields[0], float(fields[19])
    return None if state in "ZX" else started


def _accepts_signals(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _boot_id() -> str:
    """Empty where the system does not say; then only the heartbeat tells whether an owner is alive."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""
