"""Many epochs in one run: a run costs seconds before its first op, so a backlog goes through one."""

# No postponed annotations here: Dagster reads those of ``context`` and of the configuration as they are.

import time
from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from dagster_operators.errors import CheckFailedError
from dagster_operators.orchestration.checks import check_events, staged_outcomes
from dagster_operators.orchestration.failures import as_failure
from dagster_operators.orchestration.filled_partitions import filled_partitions
from dagster_operators.orchestration.ops import definition_name
from dagster_operators.orchestration.options import COMMIT_RETRIES
from dagster_operators.orchestration.reporting import Event, events, unreported
from dagster_operators.orchestration.single_op_job import single_op_job
from dagster_operators.orchestration.steps import PipelineSteps
from dagster_operators.runtime.epochs import Epochs
from dagster_operators.runtime.results import result_of


class CatchUpConfig(dg.Config):
    """How far to go."""

    max_epochs: int | None = Field(default=None, ge=1, description="The most epochs to run; all there are when left out")


def catch_up_job(steps: PipelineSteps) -> dg.JobDefinition:
    """The job ``<pipeline>_catch_up``: runs epochs until the sources hold nothing new, and reports each one as it completes.

    It may be terminated at any time: completed epochs stay, and the next run takes up the one that was under way.
    """

    @dg.op(
        name=definition_name(steps, "catch_up"),
        pool=steps.name,
        description="Runs epochs until the sources hold nothing new",
        out=dg.Out(dg.Nothing, description="Its metadata say how many epochs were run"),
        required_resource_keys={steps.engine_key},
        retry_policy=steps.options.retry_policy or COMMIT_RETRIES,
    )
    def catch_up(context: dg.OpExecutionContext, config: CatchUpConfig) -> Iterator[Any]:
        done, started = 0, time.monotonic()
        while config.max_epochs is None or done < config.max_epochs:
            before = time.monotonic()
            with steps.epochs(context) as epochs:
                told, line, failed = _one_epoch(context, steps, epochs, first=done == 0)
            if failed is not None:
                steps.let_go(context, epochs)
            yield from told
            if failed is not None:
                raise as_failure(failed) from failed
            if line is None:
                break
            done += 1
            now = time.monotonic()
            context.log.info("%s (%.2f s; %d epochs in %.1f s)", line, now - before, done, now - started)
        yield dg.Output(None, metadata={"epochs": done, "seconds": round(time.monotonic() - started, 2)})

    return single_op_job(steps, "catch_up", f"Runs epochs of {steps.name} until its sources hold nothing new", catch_up)


def _one_epoch(
    context: dg.OpExecutionContext, steps: PipelineSteps, epochs: Epochs, *, first: bool
) -> tuple[list[Event], str | None, CheckFailedError | None]:
    """Run an epoch. Returns what to tell Dagster, the line for the log (None: nothing new), and the check that stopped it."""
    handle = steps.begin(context, epochs)
    missed = list(unreported(context, steps, epochs, handle.epoch if handle else 1 << 62)) if first else []
    if handle is None:
        return missed, None, None
    epochs.run_stages(handle)
    try:
        complete = epochs.commit(handle)
    except CheckFailedError as error:
        outcomes = staged_outcomes(epochs, handle, steps.tables.values())
        return [*missed, *check_events(steps.tables, outcomes, handle.epoch)], None, error
    filled = filled_partitions(context, steps, epochs, complete)
    return [*missed, *filled, *events(steps, epochs, complete)], str(result_of(complete, tuple(steps.pipeline.tables))), None
