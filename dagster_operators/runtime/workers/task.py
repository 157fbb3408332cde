"""What a worker is told: the programs to run, where their state lies, where their output goes. Plain data, sent by pickle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from dagster_operators.operators.batch_operator import numbered
from dagster_operators.operators.worker_program import OriginTimes, WorkerProgram
from dagster_operators.runtime.workers.program_graph import Edge, ProgramGraph, Target
from dagster_operators.time.frontier import Frontier, meet

if TYPE_CHECKING:
    import pyarrow as pa

SUBTASK: Final = "__do_subtask"
"""The column of the shuffled rows that says to which subtask a row goes."""

PORT: Final = "__do_port"
"""The column that says which entry a row is of; ``MARKER`` for a row that only makes sure that the subtask runs."""

MARKER: Final = -1

ROW: Final = "__do_row"
"""The column with a row's place in its subtask, from 1, where the engine was made to keep an order by numbering the rows."""

Routing: TypeAlias = Literal["by partition", "by column", "none", "from files"]
"""How a worker knows the subtask of a row: the partition is the subtask; ``SUBTASK`` says it; there are only partitions; there is
one subtask, which reads its rows itself."""

REPORT_SCHEMA: Final = "report string"
"""What a worker returns to the driver: JSON, one row for each subtask."""


@dataclass(frozen=True)
class ProgramTask:
    """A program of the graph.

    Attributes:
        name: Its operator's name.
        logical: The logical operator that it works for.
        identity: What its state is addressed by.
        keys: The key columns of its first input, empty when it is not keyed.
        inputs: How many inputs it has.
        ports: The schema of each of its ports.
        places: For each port that somebody reads outside of the graph: the dataset, and the attempt's folder in it.
        partitions: The partition columns of those that are tables with some.
        tables: Its state tables.
        state_files: The files of each as of the epoch before.
        state_directories: The attempt's folder in each.
        merges: The compaction that the epoch is to do, by table.
        begin: The frontier of its inputs together as the epoch began.
        watermark: The same in event time, by which its state goes.
        held: The times that it held at each output at the end of the epoch before, all its subtasks together.
        origins: The watermarks of the origins of its inputs.
        staying: The ports whose rows a program without state of the key reads here by their key: the key columns of each, with
            the types they are hashed as.
    """

    name: str
    logical: str
    identity: str
    keys: tuple[str, ...]
    inputs: int
    ports: Mapping[str, pa.Schema]
    places: Mapping[str, tuple[str, str]]
    partitions: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, Any]
    state_files: Mapping[str, Sequence[Any]]
    state_directories: Mapping[str, str]
    merges: Mapping[str, Sequence[Any]]
    begin: Frontier
    watermark: int
    held: Mapping[str, Frontier]
    origins: OriginTimes
    staying: Mapping[str, Mapping[str, pa.DataType]] = field(default_factory=dict)


@dataclass(frozen=True)
class StagedFile:
    """A staged file.

    Attributes:
        path: Where it is, as the file system has it.
        rows: How many rows it has.
        first: The number of its first row.
    """

    path: str
    rows: int
    first: int


@dataclass(frozen=True)
class NumberedFiles:
    """The rows of a stream, as they are staged.

    Attributes:
        files: The files, in the order of their numbers.
        schema: The rows' schema, without places.
        origin: What the rows come from.
        placed: Whether they have their places in the source with them, if it knew them.
    """

    files: tuple[StagedFile, ...]
    schema: pa.Schema
    origin: str
    placed: bool = False

    @property
    def whole(self) -> pa.Schema:
        """The rows' schema with their places."""
        return numbered(self.schema, placed=self.placed)


@dataclass(frozen=True)
class Entry:
    """Rows from outside of the graph.

    Attributes:
        schema: Their schema.
        targets: The inputs that get them.
        end: Their frontier at the end of the epoch.
        files: Where they are, if the worker reads them itself and there are some.
    """

    schema: pa.Schema
    targets: tuple[Target, ...]
    end: Frontier
    files: NumberedFiles | None = None


@dataclass(frozen=True)
class GraphTask:
    """An epoch's work for a graph of programs.

    Attributes:
        root: The storage root's path, as ``files`` takes it.
        files: The file system that the root is in.
        programs: Gives the programs, fresh copies for each call, in the order of ``members``.
        members: What there is to know about them.
        edges: Who reads whom.
        entries: The rows that come from outside; ``PORT`` says which of them a row is of.
        order: The columns whose order rows come in, also between those of several entries; without any there is none.
        routing: How a row's subtask is known. ``PORT`` is there with ``by column``, and where there are several entries.
        cache: Folder for local copies of state files.
        notes: The folder in which a subtask that takes long says how far it is; without one it does not.
    """

    epoch: int
    round: int
    root: str
    files: Any
    programs: Callable[[], Sequence[WorkerProgram]]
    members: tuple[ProgramTask, ...]
    edges: tuple[Edge, ...]
    entries: tuple[Entry, ...]
    parallelism: int
    order: tuple[str, ...]
    routing: Routing
    cache: str | None
    notes: str = ""

    @property
    def ordered(self) -> bool:
        """Whether rows come in an order that is to be kept."""
        return bool(self.order)

    def ends(self) -> dict[Target, Frontier]:
        """The frontier of each input at the end of the epoch; an input may read several entries, as those of a union."""
        found: dict[Target, list[Frontier]] = defaultdict(list)
        for entry in self.entries:
            for target in entry.targets:
                found[target].append(entry.end)
        return {target: meet(ends) for target, ends in found.items()}

    def graph(self) -> ProgramGraph:
        """Who reads whom, checked."""
        targets = (target for entry in self.entries for target in entry.targets)
        return ProgramGraph({member.name: member.inputs for member in self.members}, self.edges, targets)
