"""Where the rows of streams go: tables in Delta, and sinks outside the storage root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dagster_operators.arguments import checked_constructor
from dagster_operators.errors import PipelineError
from dagster_operators.graph.ports import StreamRef


@checked_constructor
@dataclass(frozen=True)
class Check:
    """A condition that every row of a table must meet, tried on the staged rows before the commit.

    Attributes:
        expression: Spark SQL; a row passes when it is true (null fails).
        blocking: Whether a failure stops the epoch (nothing is committed) or is only reported.

    >>> from dagster_operators import FileSource, Pipeline
    >>> rows = Pipeline("p", root="data/p").source("rows", FileSource("in", schema="k string, v long"))
    >>> table = rows.to_table("kept", checks={"has_key": Check("k IS NOT NULL"), "small": Check("v < 100", blocking=False)})
    """

    expression: str
    blocking: bool = True


@dataclass(frozen=True)
class Table:
    """A stream's place in Delta: what becomes a Dagster asset.

    Attributes:
        name: The table's name.
        stream: Whose rows it holds.
        description: What the rows are.
        checks: What they must meet, by name.
        tags: Of the asset.
        owners: Of the asset.
        columns: What columns are, by their names.
        asset_key: The asset's whole key; empty for the pipeline's and the table's name.
        change_feed: Whether the table has a change data feed.
        partition_by: The columns of which each of its files has one value.
        renamed_from: What it was called before; empty if it had no other name.
        cluster_by: The columns by which a compaction orders its rows.
        target_file_size: About so many bytes a file has that a compaction writes; 0 for the default.
        replaced: Whether each epoch's rows take the place of all rows that the table had.
    """

    name: str
    stream: StreamRef
    description: str = ""
    checks: Mapping[str, Check] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    asset_key: tuple[str, ...] = ()
    change_feed: bool = False
    partition_by: tuple[str, ...] = ()
    renamed_from: str = ""
    cluster_by: tuple[str, ...] = ()
    target_file_size: int = 0
    replaced: bool = False


@dataclass(frozen=True)
class SinkOutput:
    """A stream's place outside the storage root, which takes part in the commit.

    Attributes:
        name: The sink's name, unique in the pipeline; what it has taken is remembered under it.
        stream: Whose rows it takes.
        sink: The :class:`~dagster_operators.connectors.sink.Sink`.
        config: Its settings as JSON, without secrets.
        description: What the rows are for.
        asset_key: The asset's whole key; empty for the pipeline's and the sink's name.
    """

    name: str
    stream: StreamRef
    sink: Any
    config: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""
    asset_key: tuple[str, ...] = ()


def partitioned(by: tuple[str, ...]) -> str:
    """What partitions a table has, in words.

    >>> partitioned(("day", "shop")), partitioned(())
    ('partitioned by day, shop', 'not partitioned')
    """
    return f"partitioned by {', '.join(by)}" if by else "not partitioned"


def asset_path(key: str | Sequence[str] | None, **where: Any) -> tuple[str, ...]:
    """An asset's key as a user gives it: its parts, or text with slashes between them.

    Raises:
        PipelineError: It is none.

    >>> asset_path("mart/clean"), asset_path(["mart", "clean"]), asset_path(None)
    (('mart', 'clean'), ('mart', 'clean'), ())
    """
    parts = () if key is None else tuple(key.split("/")) if isinstance(key, str) else tuple(getattr(key, "path", key))
    if not all(isinstance(part, str) and part for part in parts) or (key is not None and not parts):
        raise PipelineError(f"{key!r} is no asset key", **where, remedy="give its parts, ['mart', 'clean'], or 'mart/clean'")
    return parts
