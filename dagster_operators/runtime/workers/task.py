"""What a worker is told: the chain to run, where its state lies, and where its output goes. Plain data that travels by pickle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from dagster_operators.operators.arrow.arrow_operator import ArrowOperator

if TYPE_CHECKING:
    import pyarrow as pa

SUBTASK: Final = "__do_subtask"
"""The column of the shuffled rows that says to which subtask a row goes."""

PORT: Final = "__do_port"
"""The column that says which input a row is of; ``MARKER`` for a row that only makes sure that the subtask runs."""

MARKER: Final = -1

Routing: TypeAlias = Literal["by partition", "by column", "none"]
"""How a worker knows the subtask of a row: the partition is the subtask; ``SUBTASK`` says it; there are only partitions."""

REPORT_SCHEMA: Final = "report string"
"""What a worker returns to the driver: JSON, one row for each subtask."""


@dataclass(frozen=True)
class LinkTask:
    """An operator of the chain.

    Attributes:
        name: The operator's name.
        keys: Its key columns, empty when it is not keyed.
        ports: The schema of each of its ports.
        places: For each port that somebody reads outside of the chain: the dataset, and the attempt's folder in it.
        tables: Its state tables.
        state_files: The files of each as of the epoch before.
        state_directories: The attempt's folder in each.
        merges: The compaction that the epoch is to do, by table.
        held: Its output watermark at the end of the epoch before.
        watermark: Its input watermark as the epoch began.
    """

    name: str
    keys: tuple[str, ...]
    ports: Mapping[str, pa.Schema]
    places: Mapping[str, tuple[str, str]]
    tables: Mapping[str, Any]
    state_files: Mapping[str, Sequence[Any]]
    state_directories: Mapping[str, str]
    merges: Mapping[str, Sequence[Any]]
    held: int
    watermark: int


@dataclass(frozen=True)
class BatchTask:
    """An epoch's work for a chain.

    Attributes:
        operators: Gives the operators, fresh copies for each call, one for each link.
        root: The storage root's path, as ``files`` takes it.
        files: The file system that the root is in.
        inputs: The schema of each input.
        routing: How a row's subtask is known. ``PORT`` is there with ``by column``, and where there are several inputs.
        cache: Folder for local copies of state files.
    """

    pipeline: str
    epoch: int
    root: str
    files: Any
    operators: Callable[[], Sequence[ArrowOperator]]
    links: tuple[LinkTask, ...]
    inputs: tuple[pa.Schema, ...]
    parallelism: int
    watermark_begin: int
    watermark_end: int
    routing: Routing
    cache: str | None
