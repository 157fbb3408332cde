"""What happened to the rows of a Delta table: its change data feed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import BadInputError
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.operators.engine_schema import arrow_as_spark, struct
from dagster_operators.storage.delta_commit import CHANGE_FEED, PIPELINE_PROPERTY
from dagster_operators.storage.delta_log import Commit, DeltaLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGE_FIELDS: Final[list[dict[str, Any]]] = [
    {"name": "_change_type", "type": "string", "nullable": True, "metadata": {}},
    {"name": "_commit_version", "type": "long", "nullable": True, "metadata": {}},
    {"name": "_commit_timestamp", "type": "timestamp", "nullable": True, "metadata": {}},
]
"""The columns of the feed behind the table's own, as Delta names them."""

_NOT_RECORDED: Final = re.compile(r"[Cc]hange [Dd]ata (?:not enabled|was not\s+recorded) for version:? \[?([0-9]+)")
_ANEW: Final = 'read the table as it is then, into tables that begin anew: pipeline.reset(source, 0, tables="restart")'


def check_change_feed(log: DeltaLog, version: int) -> None:
    """Make sure that a table has a change data feed.

    Raises:
        BadInputError: It has none.
    """
    properties = log.table(version).metadata().configuration
    if properties.get(CHANGE_FEED, "false").lower() != "true":
        owner = properties.get(PIPELINE_PROPERTY)
        raise BadInputError(
            "the Delta table has no change data feed",
            table=log.location.path,
            remedy=f"ALTER TABLE delta.`{log.location.path}` SET TBLPROPERTIES ({CHANGE_FEED} = true), before the versions to be "
            f"read; if there are some already, {_ANEW}, too"
            if owner is None
            else _ours(owner, log.location.path),
        )


def without_feed(error: BaseException, table: str) -> BadInputError | None:
    """What an engine says of a version that was written while the table had no feed; None of another error.

    Args:
        error: What it raised.
        table: Where the table lies.
    """
    found = _NOT_RECORDED.search(str(error))
    if found is None:
        return None
    problem = f"version {found[1]} of the Delta table was written while it had no change data feed"
    return BadInputError(problem, table=table, remedy=f"{_ANEW}; and leave {CHANGE_FEED} on")


def _ours(pipeline: str, path: str) -> str:
    """What helps with a table of a pipeline, which nobody else may alter."""
    root, _, table = path.rstrip("/").rpartition("/tables/")
    return (
        f"read what its pipeline {pipeline!r} did instead, with a new source PipelineSource({root!r}, {table!r}, changes=True), "
        "which needs no feed; or let that pipeline write one by change_feed=True of to_table, before the versions to be read"
    )


def read_change_feed(session: SparkSession, log: DeltaLog, first: int, last: int, schema_json: str) -> DataFrame:
    """The changes of some versions; on engines without a feed they come through memory, from deltalake."""
    schema = struct(schema_json)
    if reads_like_spark(session):
        reader = session.read.format("delta").option("readChangeFeed", "true")
        feed = reader.option("startingVersion", first).option("endingVersion", last).load(log.location.folder_uri())
        return feed.select(*schema.names)
    import pyarrow as pa

    if sign := next((sign for sign in log.location.path if sign in "[]^|"), ""):  # deltalake would panic
        raise BadInputError(
            f"the path of a table whose change data feed is read has {sign} in it", table=log.location.path,
            remedy="give the folder another name, or run on Spark",
        )  # fmt: skip
    rows = pa.table(log.table(last).load_cdf(starting_version=first, ending_version=last)).select(schema.names)
    return session.createDataFrame(rows.cast(arrow_as_spark(schema_json)), schema=schema)


def as_inserts(rows: DataFrame, commit: Commit) -> DataFrame:
    """All rows of a version as changes: each was inserted."""
    return rows.selectExpr(
        "*",
        "'insert' AS _change_type",
        f"CAST({commit.version} AS bigint) AS _commit_version",
        f"timestamp_micros({round(commit.seconds * 1_000_000)}) AS _commit_timestamp",
    )
