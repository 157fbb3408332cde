"""What an operator's constructor is told: where it runs, and what it declared that lives on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any


class Activator:
    """Has the logic called again although neither rows nor frontiers came; being asked several times is being asked once.

    Args:
        due: Moments of the wall clock, in microseconds since 1970, that it is to be called at; in an earlier epoch they were
            asked for.

    >>> activator = Activator()
    >>> activator.activate(), activator.activate(), activator.take(), activator.take()
    (None, None, True, False)
    """

    def __init__(self, due: Iterable[int] = ()) -> None:
        self._asked = False
        self._due = set(due)

    def activate(self) -> None:
        """Have the logic called once more in this epoch, when it has returned."""
        self._asked = True

    def activate_after(self, delay: float | timedelta) -> None:
        """Have the logic called once more when some time has passed: in this epoch if it takes as long, else in a later one.

        When the time has come, an epoch begins though no source has anything new: a sensor asks for it, and ``run_epoch`` and
        ``run_until_caught_up`` run it if they are called then; they do not wait for it.

        Args:
            delay: Seconds, or a timedelta.

        >>> activator = Activator()
        >>> activator.activate_after(0), activator.take(), activator.activate_after(3600), activator.take()
        (None, True, None, False)
        """
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
        self._due.add(_now() + round(seconds * 1_000_000))

    @property
    def is_asked(self) -> bool:
        """Whether the logic is to be called now."""
        return self._asked or any(map(is_due, self._due))

    @property
    def waiting(self) -> list[int]:
        """The moments at which it is still to be called; 0 if that is now."""
        return sorted({*self._due, *([0] if self._asked else [])})

    def take(self) -> bool:
        """Whether it is to be called now; it is not asked for that any more then."""
        now = _now()  # once: a moment that falls due meanwhile is told by the next call
        later = {moment for moment in self._due if moment > now}
        asked = self._asked or len(later) < len(self._due)
        self._asked, self._due = False, later
        return asked


def is_due(moment: float) -> bool:
    """Whether a moment of the wall clock, in microseconds since 1970, has come.

    >>> is_due(0), is_due(2**62)
    (True, False)
    """
    return moment <= _now()


def _now() -> int:
    return time.time_ns() // 1000


@dataclass(frozen=True)
class OperatorInfo:
    """Where an operator runs, and what lives on.

    Attributes:
        name: The operator's name.
        epoch: The epoch of the pipeline.
        index: Which subtask this is, from 0.
        peers: How many there are.
        state: What was declared, by name: state tables, and ``CapabilitySet``, ``FrontierNotificator``, ``Stash``.
        activator: Has the logic called again.
    """

    name: str
    epoch: int
    index: int
    peers: int
    state: Mapping[str, Any] = field(default_factory=dict)
    activator: Activator = field(default_factory=Activator)

    def with_state(self, state: Mapping[str, Any], due: Iterable[int] = ()) -> OperatorInfo:
        """The same with what was declared, and when it is to be called again."""
        return replace(self, state=state, activator=Activator(due))
