"""Reading a pipeline's tables on an engine, from its storage root alone: for tables of any size, without the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster_operators.errors import PipelineError
from dagster_operators.operators.engine_schema import empty
from dagster_operators.runtime.results import table_names
from dagster_operators.runtime.spark_packages import need_for
from dagster_operators.runtime.stages.staged_files import StagedFiles
from dagster_operators.runtime.store_access import tell_engine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dagster_operators.runtime.engine import PreparedEngine
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.records import Complete


def read_on(engine: PreparedEngine, coordinator: Coordinator, complete: Complete, table: str) -> DataFrame:
    """The rows of a table as of a completed epoch; read when they are asked for, which a later epoch does not change.

    Args:
        engine: Whose session reads them.
        coordinator: For the storage root.
        complete: The epoch.
        table: The table's name.

    Raises:
        PipelineError: There is no such table in that epoch.
        LostFileError: A file of the table is missing.
        ForeignWriteError: Somebody wrote over what the epoch committed.
    """
    dataset, versions, root = f"tables/{table}", table_names(complete.versions), coordinator.root
    if table not in versions:
        raise PipelineError(
            f"there is no table {table!r}", pipeline=coordinator.pipeline, epoch=complete.epoch,
            remedy=f"there are: {', '.join(versions)}",
        )  # fmt: skip
    if engine.name == "spark":
        need_for([root.uri])
    session = engine.session()
    tell_engine(session, engine.name, [(root.uri, root.access)])
    schema, files = coordinator.content(complete, dataset)
    rows = StagedFiles(root, session).read(dataset, files, schema)
    return empty(session, schema) if rows is None else rows
