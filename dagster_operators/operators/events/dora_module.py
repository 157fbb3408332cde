"""The module ``dora`` that operators' and nodes' files import: for them alone, so that an installed dora is not hidden."""

from __future__ import annotations

from enum import Enum
from functools import cache
from types import ModuleType

from dagster_operators.operators.events.dora_node import Node


class DoraStatus(Enum):
    """What ``on_event`` returns: whether events go on to be delivered."""

    CONTINUE = 0
    STOP = 1
    STOP_ALL = 2


@cache
def dora_module() -> ModuleType:
    """The module.

    >>> dora_module().DoraStatus.STOP_ALL.value
    2
    """
    made = ModuleType("dora", "What event operators import as dora.")
    made.DoraStatus, made.Node = DoraStatus, Node  # type: ignore[attr-defined]
    return made
