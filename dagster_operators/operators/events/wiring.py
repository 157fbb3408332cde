"""What a dataflow of event operators is made of, as values: sources, operators, their inputs, and who reads whom.

An output's address is ``node/output``, or ``node/operator/output`` where a node has several operators, as in dora's files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Final, Self

from dagster_operators.errors import PipelineError
from dagster_operators.graph.values import Fields, check_fields

TIMER: Final = "dora/timer/"
"""How the address of a timer begins."""

DORA: Final = "dora/"
"""How the addresses of what is dora's own begin: timers and logs."""

_SECOND: Final = 1_000_000_000
_NANOSECONDS: Final = {"secs": _SECOND, "millis": 1_000_000, "micros": 1_000, "nanos": 1}
_FLOAT: Final = re.compile(r"\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_SLOWEST: Final = 1e-9
"""The least frequency, a tick in some thirty years: the moment of one must be a number of 64 bits."""

TIME: Final = "time"
"""The column of an output's table with the time of each message."""

COLUMNS: Final = (TIME, "seq", "value", "metadata")
"""The columns of an output's table."""

KEY: Final = "key"
"""The further column of outputs, and of the table of what operators did, where the dataflow is partitioned."""

SENT: Final = "sent_"
"""The column with the time of each message, in the rows of a source that is a node without inputs."""

UNKEPT: Final = ("none", "live")
"""The states of operators of which nothing is kept for another process."""

ROW: Final = "*"
"""Stands for a whole row, where a message could be one column of it."""


class _Settings:
    """A value that is made of its attributes."""

    kind: ClassVar[str] = ""
    optional: ClassVar[tuple[str, ...]] = ()
    """Attributes that plans of earlier versions do not have: they are left out where nothing is said."""

    def encode(self) -> Fields:
        """Its attributes."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in found.items() if value or name not in self.optional}

    @classmethod
    def decode(cls, given: Fields) -> Self:
        """The value of these attributes."""
        known = {one.name: one.name not in cls.optional for one in fields(cls)}  # type: ignore[arg-type]
        check_fields(f"a value of the kind {cls.kind!r}", given, known)
        return cls(**given)


@dataclass(frozen=True)
class EventInput(_Settings):
    """An input of an event operator.

    Attributes:
        id: Its id.
        source: The address of the output that it reads, or a timer's.
        queue_size: How many messages may wait at it before the oldest is dropped; None if none is dropped.
        delay: How many microseconds after a message was sent it arrives.

    >>> EventInput("tick", "dora/timer/millis/20").interval
    20000000
    """

    kind: ClassVar[str] = "event_input"
    id: str
    source: str
    queue_size: int | None = None
    delay: int = 0

    @property
    def interval(self) -> int | None:
        """The nanoseconds between two ticks, if it is a timer's."""
        return timer_interval(self.source) if self.source.startswith(TIMER) else None


@dataclass(frozen=True)
class EventOperator(_Settings):
    """An event operator.

    Attributes:
        node: The node that it is in.
        id: Its id there.
        alone: Whether it is its node's only operator, by the key ``operator``.
        file: The file that it is in.
        inputs: Its inputs.
        outputs: The ids of its outputs.
        types: Pairs of an output and the Spark type of the values in its messages, for outputs that have a declared type.
        env: Pairs of a variable of the environment and its value, while the operator runs.
        state: How its state is kept: ``plain`` or ``pickle`` in Python, ``replay`` or ``none`` of a library or script,
            ``live`` of a script.
        language: ``python``, ``library`` for a shared library, or ``script`` for that of a node.
        time_limit: How many microseconds it has for an event.
        restart: When this comes to be another one it begins anew, without the state that was saved; taken out it changes nothing.
        args: The arguments of a script.
        routes: Pairs of a kind of route and its setting: where what it prints and logs is sent.
    """

    kind: ClassVar[str] = "event_operator"
    optional: ClassVar[tuple[str, ...]] = ("restart", "args", "routes")
    node: str
    id: str
    alone: bool
    file: str
    inputs: tuple[EventInput, ...] = ()
    outputs: tuple[str, ...] = ()
    types: tuple[tuple[str, str], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    state: str = "plain"
    language: str = "python"
    time_limit: int = 600_000_000
    restart: str = ""
    args: tuple[str, ...] = ()
    routes: tuple[tuple[str, str], ...] = ()

    @cached_property
    def path(self) -> str:
        """What errors and state call it.

        >>> EventOperator("plot", "op", True, "plot.py").path, EventOperator("two", "b", False, "b.py").path
        ('plot', 'two/b')
        """
        return self.node if self.alone else f"{self.node}/{self.id}"

    def address(self, output: str) -> str:
        """The address of one of its outputs."""
        return f"{self.path}/{output}"

    def begins_behind(self, restart: str) -> bool:
        """Whether it begins anew behind an epoch in which it had another ``restart``.

        >>> again = EventOperator("plot", "op", True, "plot.py", restart="2")
        >>> again.begins_behind("1"), again.begins_behind("2"), EventOperator("plot", "op", True, "plot.py").begins_behind("1")
        (True, False, False)
        """
        return bool(self.restart) and self.restart != restart


@dataclass(frozen=True)
class EventSource(_Settings):
    """A node that is a source of this package: each of its rows is a message at each of its outputs.

    Attributes:
        node: Its id.
        outputs: Pairs of an output and the column that its messages hold, or ``*`` for the whole row.
        time: The column with the time.
        derived: Whether its rows come of operators, so that those of one time have no place in a source.
        waits_as: The name under which its waiting rows are kept, if that is an earlier id of the node.
    """

    kind: ClassVar[str] = "event_source"
    optional: ClassVar[tuple[str, ...]] = ("derived", "waits_as")
    node: str
    outputs: tuple[tuple[str, str], ...]
    time: str
    derived: bool = False
    waits_as: str = ""

    @property
    def kept_as(self) -> str:
        """The name under which its waiting rows are kept.

        >>> EventSource("rows", (), "t").kept_as, EventSource("rows", (), "t", waits_as="readings").kept_as
        ('rows', 'readings')
        """
        return self.waits_as or self.node

    @property
    def late(self) -> str:
        """The port with its rows that come too late; no operator's output has this address.

        >>> EventSource("rows", (), "t").late
        'rows/late'
        """
        return f"{self.node}/late"

    def addresses(self) -> Iterator[tuple[str, str]]:
        """The address of each output, and its column."""
        for output, column in self.outputs:
            yield f"{self.node}/{output}", column


def timer_interval(address: str) -> int:
    """The nanoseconds between two ticks of a timer.

    Raises:
        PipelineError: There is no such timer.

    >>> timer_interval("dora/timer/secs/2"), timer_interval("dora/timer/hz/50"), timer_interval("dora/timer/hz/1e3")
    (2000000000, 20000000, 1000000)
    """
    unit, _, text = address.removeprefix(TIMER).partition("/")
    if unit in _NANOSECONDS and re.fullmatch(r"\+?[0-9]+", text) and int(text) > 0:
        return int(text) * _NANOSECONDS[unit]
    if unit == "hz" and _FLOAT.fullmatch(text) and _SLOWEST <= float(text) <= _SECOND:
        return max(1, round(_SECOND / float(text)))
    raise PipelineError(
        f"{address!r} is no timer",
        remedy="write dora/timer/<unit>/<number>, with the unit secs, millis, micros or nanos and a whole number from 1 on; or "
        "dora/timer/hz/<ticks per second>",
    )


def table_of(address: str) -> str:
    """The table that the messages of an output go to.

    >>> table_of("object-detection/bbox"), table_of("two/b/sum"), table_of("2d/points")
    ('object_detection__bbox', 'two__b__sum', 'n_2d__points')
    """
    name = "__".join(re.sub(r"[^A-Za-z0-9_]", "_", part) for part in address.split("/"))
    return name if name[:1].isalpha() else f"n_{name}"


def origins_of(operators: Sequence[EventOperator], address: str) -> frozenset[str]:
    """The addresses that the messages of an output may come of, itself included.

    >>> double = EventOperator("double", "op", True, "double.py", (EventInput("n", "numbers/n"),), ("twice",))
    >>> sorted(origins_of([double], "double/twice"))
    ['double/twice', 'numbers/n']
    """
    made = {operator.address(output): operator for operator in operators for output in operator.outputs}
    found, waiting = {address}, [address]
    while waiting:
        operator = made.get(waiting.pop())
        for source in [] if operator is None else [one.source for one in operator.inputs]:
            if source not in found:
                found.add(source)
                waiting.append(source)
    return frozenset(found)


def never_told(operators: Sequence[EventOperator], addresses: Iterable[str]) -> list[EventOperator]:
    """The operators that no event ever comes to: none of what they read comes of a source, a timer or a live script.

    Args:
        operators: All operators.
        addresses: The outputs of sources.

    >>> a = EventOperator("a", "op", True, "a.py", (EventInput("m", "b/n"),), ("n",))
    >>> b = EventOperator("b", "op", True, "b.py", (EventInput("n", "a/n"), EventInput("s", "rows/n")), ("n",))
    >>> [one.path for one in never_told([a, b], [])], never_told([a, b], ["rows/n"])
    (['a', 'b'], [])
    """
    fed, waiting = set(addresses), list(operators)
    while True:
        told = [
            one for one in waiting
            if one.state == "live" or any(each.source in fed or each.source.startswith(DORA) for each in one.inputs)
        ]  # fmt: skip
        if not told:
            return waiting
        waiting = [one for one in waiting if one not in told]
        fed |= {one.address(output) for one in told for output in one.outputs}


def as_json(value: Any) -> Any:
    """Settings as JSON values.

    >>> as_json((EventInput("a", "b/c"),))
    [{'id': 'a', 'source': 'b/c', 'queue_size': None, 'delay': 0}]
    """
    if isinstance(value, _Settings):
        return {name: as_json(part) for name, part in value.encode().items()}
    return [as_json(part) for part in value] if isinstance(value, tuple) else value
