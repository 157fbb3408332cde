"""What runs in an engine's workers: a program with inputs and output ports, called with batches, frontiers and the end.

Whatever a family of operators looks like to its users, in the workers it is this. An adapter beside the family's operators makes
a program of one of them (``operators/arrow/arrow_program.py``), and ``runtime/workers`` runs graphs of programs, knowing no more.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from dagster_operators.errors import OperatorFailedError, OperatorsError, PipelineError
from dagster_operators.time.frontier import Frontier, meet
from dagster_operators.time.kinds import taken_apart
from dagster_operators.time.watermark import MAX_WATERMARK

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.state.store import StateStore

Rows: TypeAlias = "pa.RecordBatch | pa.Table"
"""Some rows of Arrow columns."""

_SHOWN: Final = 3

DUE: Final = "called_again_at"
"""The figure of the moment, in microseconds since 1970, at which an operator is to be called again."""

EndReason: TypeAlias = Literal["end_of_data", "stop"]
"""Why a program ends: no row will ever come again, or the epoch is over."""


class ProgramOutput(Protocol):
    """Where a program puts rows out."""

    def fit(self, rows: Rows, port: str | int = ...) -> tuple[str, pa.Table]:
        """The port's name, and the rows with exactly its columns; nothing is put out.

        Raises:
            PipelineError: There is no such port.
            SchemaError: The rows do not fit its schema.
        """

    def collect(self, rows: Rows, port: str | int = ...) -> None:
        """Put rows out, to the first port or another (by name, or by its place among the ports)."""


@dataclass
class Report:
    """What became of a program in a subtask.

    Attributes:
        frontiers: How far the time of each output has come; none before time first passes.
        held: The times that the program holds at each output; what it holds within scopes of its own is of those.
        holders: What of the program holds which times at each output: by port, by what the user calls it.
        late: Rows that came too late.
        rejected: Rows that were given up on.
        metrics: Its figures.
        commit_data: What the commit is to get.
    """

    frontiers: dict[str, Frontier] = field(default_factory=dict)
    held: dict[str, Frontier] = field(default_factory=dict)
    holders: dict[str, dict[str, Frontier]] = field(default_factory=dict)
    late: int = 0
    rejected: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    commit_data: Any = None

    @property
    def watermark(self) -> int:
        """The watermark of all outputs together.

        >>> Report({"main": Frontier([5]), "late": Frontier([3])}).watermark
        3
        """
        return min(map(_watermark, self.frontiers.values()), default=MAX_WATERMARK)

    def to_json(self) -> dict[str, Any]:
        """The report as the driver gets it.

        >>> Report({"main": Frontier([5])}, late=2).to_json()
        {'frontiers': {'main': [5]}, 'held': {}, 'holders': {}, 'late': 2, 'rejected': 0, 'metrics': {}, 'commit_data': None}
        """
        holders = {port: _told(of) for port, of in self.holders.items()}
        return {**vars(self), "frontiers": _told(self.frontiers), "held": _told(self.held), "holders": holders}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Report:
        """What ``to_json`` gave.

        >>> Report.from_json(Report({"main": Frontier([5])}).to_json())
        Report(frontiers={'main': Frontier([5])}, held={}, holders={}, late=0, rejected=0, metrics={}, commit_data=None)
        """
        read = {name: _read(value[name]) for name in ("frontiers", "held")}
        return cls(**{**value, **read, "holders": {port: _read(of) for port, of in value["holders"].items()}})

    def add(self, name: str, value: float = 1) -> None:
        """Add to a figure.

        >>> report = Report()
        >>> report.add("rows", 2), report.add("rows"), report.metrics
        (None, None, {'rows': 3.0})
        """
        self.metrics[name] = self.metrics.get(name, 0.0) + value


def _watermark(frontier: Frontier) -> int:
    """A frontier as a watermark; of times that are no event times the first part stands for all."""
    return min((taken_apart(time)[0] for time in frontier), default=MAX_WATERMARK)


def _read(frontiers: Mapping[str, Any]) -> dict[str, Frontier]:
    return {name: Frontier.from_json(told) for name, told in frontiers.items()}


def _told(frontiers: Mapping[str, Frontier]) -> dict[str, Any]:
    return {name: frontier.to_json() for name, frontier in frontiers.items()}


def add_figures(found: dict[str, float], figures: Mapping[str, float], prefix: str = "") -> None:
    """Add the figures that a subtask reported to those of others; of moments the first one counts.

    >>> found = {"rows": 1.0}
    >>> add_figures(found, {"rows": 2.0, DUE: 7.0}), add_figures(found, {DUE: 5.0}), found
    (None, None, {'rows': 3.0, 'called_again_at': 5.0})
    """
    for name, value in figures.items():
        full = prefix + name
        found[full] = min(value, found.get(full, value)) if name == DUE else found.get(full, 0.0) + value


@dataclass
class Ending:
    """What ends with an epoch, beside what the frontiers say.

    Attributes:
        last: The last event time that there was at each input, as far as it is known; no time, if that is not known.
        stops: Whether the pipeline is stopped with this epoch; it may be run again.
        ended: The inputs, by their places, of which nothing more comes until then.
        of_sources: The last event time of the sources that each input is made of, as far as it is known.
    """

    last: Sequence[int] = ()
    stops: bool = False
    ended: Collection[int] = ()
    of_sources: Sequence[int] = ()

    def become(self, other: Ending) -> None:
        """Take over what another one says."""
        self.last, self.stops, self.ended, self.of_sources = other.last, other.stops, other.ended, other.of_sources


@dataclass(frozen=True)
class ProgramContext:
    """Where a program runs, and what it may use from ``open`` to ``on_end``.

    Attributes:
        operator: The operator's name.
        epoch: The epoch's number.
        subtask: Which subtask this is, from 0.
        parallelism: How many there are.
        keys: The columns that its first input is distributed by; empty if it is not keyed.
        ports: The schema of each output port.
        read: The ports that somebody reads.
        begin: The frontier of its inputs together as the epoch began.
        held: The times that it held at each output then, all its subtasks together; none for a port that is missing.
        state: Its state tables.
        report: What it has to tell of the epoch.
        shared: What the programs of one logical operator share in this subtask; an isolated program has it alone.
        watermarks: That of each origin of its inputs: as the epoch began, and from ``on_frontier`` on the new ones.
        ending: What ends with the epoch, from ``on_frontier`` on, or where ``coming`` is known from the beginning; of a program
            with numbered rows in this process.
        coming: The frontier of each input at the end of the epoch, where it is known as the epoch begins; else nothing.
    """

    operator: str
    epoch: int
    subtask: int
    parallelism: int
    keys: tuple[str, ...]
    ports: Mapping[str, pa.Schema]
    read: frozenset[str]
    begin: Frontier
    held: Mapping[str, Frontier]
    state: StateStore
    report: Report
    shared: MutableMapping[str, Any] = field(default_factory=dict)
    watermarks: MutableMapping[str, int] = field(default_factory=dict)
    ending: Ending = field(default_factory=Ending)
    coming: Sequence[Frontier] = ()

    @property
    def where(self) -> dict[str, Any]:
        """The place that errors name."""
        return {"operator": self.operator, "subtask": self.subtask, "epoch": self.epoch}


@dataclass(frozen=True)
class Isolation:
    """What there is to know about a program that is to have a process of its own.

    Attributes:
        limit: How many seconds a call of it may take.
        retry: Whether trying again can help if the process dies.
    """

    limit: float
    retry: bool = False


@dataclass(frozen=True)
class OriginTimes:
    """The watermarks of the origins of a program's inputs, by their names.

    Attributes:
        begin: As the epoch begins.
        end: As it ends.
        goes_on: Whether a source without an event time, whose time tells nothing, may have rows in a later epoch.
        ending: What ends with the epoch.
    """

    begin: Mapping[str, int] = field(default_factory=dict)
    end: Mapping[str, int] = field(default_factory=dict)
    goes_on: bool = False
    ending: Ending = field(default_factory=Ending)


class WorkerProgram(Protocol):
    """A program in one subtask of one epoch. It is pickled before it is opened, and each subtask opens a copy of its own."""

    def open(self, ctx: ProgramContext) -> None:
        """Called first, of all programs of the subtask, in the order in which rows pass through them."""

    def on_batch(self, port: int, batch: pa.RecordBatch, out: ProgramOutput) -> None:
        """Work on rows of the input with this index. What is put out goes through the programs behind before this returns."""

    def on_frontier(self, inputs: Sequence[Frontier], out: ProgramOutput) -> Mapping[str, Frontier]:
        """Called when the time of the inputs moves on, after all rows that were before it, rows of other programs included.

        In a loop it is called again, with the same frontiers, if further rows came around.

        Returns:
            For each output the times that it holds back: its frontier is that and the inputs'. A port that is missing holds
            nothing. A frontier never moves back: what was let go before stays let go. Times may be of scopes of the program's
            own (a ``Product`` of the inputs' time and another one): outside, what counts is their outer part; the program is
            given back what it held as it was.

        A program that has a method ``passed``, too, says there for which output the frontier is not that of the inputs together
        where nothing is held: ``passed(inputs)`` gives it by port.
        """

    def on_end(self, reason: EndReason, out: ProgramOutput) -> None:
        """Called after all that; rows put out here still reach the programs behind. State is written after it."""

    def close(self) -> None:
        """Called in any case, after an error too, also if ``open`` failed: give back what lies outside of this process."""


def port_name(port: str | int, ctx: ProgramContext) -> str:
    """The name of an output port that is given by name, or by its place among the ports.

    Raises:
        PipelineError: There is no such port.
    """
    ports = tuple(ctx.ports)
    if isinstance(port, int) and 0 <= port < len(ports):
        return ports[port]
    if port in ctx.ports:
        return str(port)
    raise PipelineError(f"there is no output {port!r}", operator=ctx.operator, remedy=f"there are: {', '.join(ports)}")


def failure(method: str, error: Exception, where: Mapping[str, Any], batch: pa.RecordBatch | None) -> OperatorsError:
    """What a program raised, as an error that names the operator.

    >>> print(failure("on_end", ValueError("no"), {"operator": "limit"}, None))
    on_end raised ValueError: no [operator 'limit', hook 'on_end']. To do: correct the operator or its input
    """
    if isinstance(error, OperatorsError):
        return error.at(**where)
    return OperatorFailedError(
        f"{method} raised {type(error).__name__}: {error}",
        **where,
        hook=method,
        first_rows=first_rows(batch),
        remedy="correct the operator or its input",
    )


def first_rows(batch: pa.RecordBatch | None) -> str | None:
    """What an error shows of a batch: its first rows as JSON.

    >>> import pyarrow as pa
    >>> first_rows(pa.RecordBatch.from_pydict({"v": [1, 2, 3, 4]}))
    '[{"v": 1}, {"v": 2}, {"v": 3}]'
    """
    return None if batch is None else json.dumps(batch.slice(0, _SHOWN).to_pylist(), default=str)


def moved(before: Frontier | None, held: Frontier | None, inputs: Frontier) -> Frontier:
    """The frontier of an output that was at ``before``, holds some times, and gets rows for what still comes into the inputs.

    >>> moved(Frontier([0]), None, Frontier([5])), moved(Frontier([0]), Frontier([3]), Frontier([5]))
    (Frontier([5]), Frontier([3]))
    >>> moved(Frontier([4]), Frontier([3]), Frontier([5])), moved(None, Frontier([3]), Frontier())
    (Frontier([4]), Frontier([3]))
    >>> from dagster_operators.time import Product
    >>> moved(Frontier([0]), Frontier([Product(3, 7)]), Frontier([5]))
    Frontier([3])
    """
    found = inputs if held is None else meet([held.outside(inputs or before), inputs])
    return found if before is None or before.dominates(found) else before
