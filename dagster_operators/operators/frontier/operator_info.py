"""What an operator's constructor is told: where it runs, and what it declared that lives on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


class Activator:
    """Has the logic called again although neither rows nor frontiers came.

    >>> activator = Activator()
    >>> activator.activate(), activator.take(), activator.take()
    (None, True, False)
    """

    def __init__(self) -> None:
        self._asked = False

    def activate(self) -> None:
        """Have the logic called once more in this epoch, when it has returned."""
        self._asked = True

    def take(self) -> bool:
        """Whether it was asked to since this was last called."""
        asked, self._asked = self._asked, False
        return asked


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

    def with_state(self, state: Mapping[str, Any]) -> OperatorInfo:
        """The same with what was declared."""
        return replace(self, state=state)
