"""The operators and inputs of a dataflow's file as they are written, before it is known what they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dagster_operators.api.queries.located import Located

Env: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs of a variable of the environment and its value."""


@dataclass
class WrittenInput:
    """An input as it is written.

    Attributes:
        id: Its id.
        source: What it reads, with its place.
        queue_size: How many messages may wait; None if none is dropped.
        delay: How many microseconds after it was sent a message arrives.
    """

    id: str
    source: Located
    queue_size: int | None = None
    delay: int = 0


@dataclass
class WrittenOperator:
    """An operator as it is written; its attributes are those of ``EventOperator``, and what is only looked at here.

    Attributes:
        partition_by: By which column it is partitioned.
        said: The types of outputs, as they are written.
        wanted: Those of inputs.
    """

    node: str
    id: str
    alone: bool
    file: str
    at: Located
    inputs: list[WrittenInput] = field(default_factory=list)
    outputs: tuple[str, ...] = ()
    types: tuple[tuple[str, str], ...] = ()
    env: Env = ()
    state: str = "plain"
    language: str = "python"
    time_limit: int = 600_000_000
    partition_by: Located | None = None
    restart: str = ""
    said: Mapping[str, Located] = field(default_factory=dict)
    wanted: Mapping[str, Located] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    routes: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> str:
        """What errors and state call it."""
        return self.node if self.alone else f"{self.node}/{self.id}"
