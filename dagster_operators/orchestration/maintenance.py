"""What is done to a pipeline's storage between epochs, as jobs: space is given back, tables are settled."""

# No postponed annotations here: Dagster reads those of ``context`` and of the configuration as they are.

from collections.abc import Iterator, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, Literal

import dagster as dg
from pydantic import Field

from dagster_operators.api.pipeline import Pipeline
from dagster_operators.errors import EpochUnderWayError
from dagster_operators.orchestration.failures import as_failures, is_last_try
from dagster_operators.orchestration.materialisation import EPOCH
from dagster_operators.orchestration.ops import definition_name
from dagster_operators.orchestration.options import MAINTENANCE_RETRIES
from dagster_operators.orchestration.single_op_job import single_op_job
from dagster_operators.orchestration.steps import PipelineSteps
from dagster_operators.orchestration.waiting import once_free, waiting
from dagster_operators.runtime.compacting import Compaction
from dagster_operators.transactions.records import Repair

_MAINTENANCE: Final = "Joins small files of the tables, and deletes files that only old epochs need"


class Keep(Enum):
    """What a table keeps."""

    OURS = "ours"
    THEIRS = "theirs"


class MaintenanceConfig(dg.Config):
    """What is joined, and what stays readable."""

    compact: bool | None = Field(default=None, description="Join small files first; by default as build_definitions was told")
    target_size: int | None = Field(
        default=None, ge=1, description="About so many bytes a joined file has; by default what each table says, else 128 MiB"
    )
    keep: str = Field(default="7 days", description="Epochs completed within this time stay readable")
    keep_epochs: int = Field(default=2, ge=1, description="At least so many epochs stay readable, however old")
    wait_seconds: float = Field(default=300.0, ge=0, description="How long to wait for a run that is at work")


class RepairConfig(dg.Config):
    """Which table is settled, and how."""

    keep: Keep = Field(description="ours puts the last epoch's content back, theirs accepts what is there now")
    table: str | None = Field(default=None, description="A table's name; all that are not as the ledger says when left out")


def maintenance_job(steps: PipelineSteps) -> dg.JobDefinition:
    """The job ``<pipeline>_maintenance``: joins small files, and deletes files that only old epochs need."""

    @dg.op(
        name=definition_name(steps, "maintenance"),
        pool=steps.name,
        description=_MAINTENANCE,
        out=dg.Out(dg.Nothing),
        retry_policy=MAINTENANCE_RETRIES,
    )
    def maintenance(context: dg.OpExecutionContext, config: MaintenanceConfig) -> Iterator[Any]:
        with as_failures(steps.pipeline.root, last_try=is_last_try(context), mask=bool(steps.options.masked_columns)):
            done = _compact(context, steps, config)
            clean = partial(steps.between_epochs(context.instance).clean, config.keep, keep_epochs=config.keep_epochs)
            deleted = waiting(context, steps.name, config.wait_seconds, once_free(clean))
        context.log.info("%d files that only old epochs needed are deleted.", deleted)
        for name, joined in done.tables.items():
            if name in steps.tables:  # no materialisation: what is made from the table is not behind it
                yield dg.AssetObservation(steps.tables[name].key, metadata={EPOCH: done.epoch, "files": str(joined)})
        files = sum(joined.files for joined in done.tables.values())
        yield dg.Output(None, metadata={"joined_files": files, "deleted_files": deleted})

    return single_op_job(steps, "maintenance", _MAINTENANCE, maintenance)


def _compact(context: dg.OpExecutionContext, steps: PipelineSteps, config: MaintenanceConfig) -> Compaction:
    """Join small files, if that is to be done. An epoch that waits for its next try is left to it."""
    if not (steps.options.compact if config.compact is None else config.compact):
        return Compaction(0)
    try:
        compact = partial(steps.between_epochs(context.instance).compact, target_size=config.target_size)
        done = waiting(context, steps.name, config.wait_seconds, once_free(compact))
    except EpochUnderWayError as error:
        context.log.warning("No files were joined: %s.", error.problem)
        return Compaction(0)
    context.log.info("%s.", done)
    return done


def repair_job(steps: PipelineSteps) -> dg.JobDefinition:
    """The job ``<pipeline>_repair``: settles tables that somebody else wrote, restored or damaged."""

    @dg.op(
        name=definition_name(steps, "repair"),
        pool=steps.name,
        description="Settles tables that somebody else wrote, restored or damaged",
        out=dg.Out(dg.Nothing),
        retry_policy=MAINTENANCE_RETRIES,
    )
    def repair(context: dg.OpExecutionContext, config: RepairConfig) -> Iterator[Any]:
        pipeline = steps.between_epochs(context.instance)
        keep: Literal["ours", "theirs"] = "ours" if config.keep is Keep.OURS else "theirs"
        with as_failures(pipeline.root, last_try=is_last_try(context), mask=bool(steps.options.masked_columns)):
            done = steps.waiting(context, once_free(lambda: _settled(pipeline, keep, config.table)))
        told = {record.dataset: f"kept {record.keep}, at version {record.version}" for record in done}
        context.log.info("Settled: %s.", ", ".join(f"{name} ({how})" for name, how in told.items()) or "nothing was wrong")
        yield dg.Output(None, metadata=told)

    return single_op_job(steps, "repair", "Settles tables that somebody else wrote, restored or damaged", repair)


def _settled(pipeline: Pipeline, keep: Literal["ours", "theirs"], table: str | None) -> Sequence[Repair]:
    """Settle one table, or all."""
    if table is None:
        return pipeline.repair_all(keep)
    done = pipeline.repair(table, keep)
    return [done] if done else []
