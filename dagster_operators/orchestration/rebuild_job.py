"""Tables of a pipeline computed anew as a Dagster job."""

# No postponed annotations here: Dagster reads those of ``context`` and of the configuration as they are.

from collections.abc import Iterator
from functools import partial
from typing import Any

import dagster as dg
from pydantic import Field

from dagster_operators.api.rebuilding import AT_ONCE
from dagster_operators.errors import PipelineError
from dagster_operators.orchestration.ops import definition_name
from dagster_operators.orchestration.options import COMMIT_RETRIES
from dagster_operators.orchestration.reporting import events
from dagster_operators.orchestration.single_op_job import single_op_job
from dagster_operators.orchestration.steps import PipelineSteps, owner_of
from dagster_operators.orchestration.waiting import once_free


class RebuildConfig(dg.Config):
    """What is to be computed anew."""

    tables: list[str] = Field(default=[], description="Tables; all when neither these nor operators are named")
    operators: list[str] = Field(default=[], description="Operators: all tables that they lead to")
    since: str = Field(default="0", description="The first epoch whose rows are read, or a time")
    between: list[str] = Field(
        default=[], description="Two times: only the rows of that range of event time, without its end; all state stays"
    )
    epochs_at_once: int = Field(default=AT_ONCE, ge=1, description="Of how many epochs one step reads at most")
    widen: list[str] = Field(
        default=[],
        description="Tables whose columns have wider types now, and that keep their rows; alone, nothing else is done. "
        "Those that have the types already are left as they are",
    )
    empty: bool = Field(default=False, description="Whether since may leave out all that was read: the tables are empty then")


def rebuild_job(steps: PipelineSteps) -> dg.JobDefinition:
    """The job ``<pipeline>_rebuild``: computes tables anew, and reports them.

    It may be terminated at any time: the next run with the same configuration goes on where it was, as a retry does.
    """

    @dg.op(
        name=definition_name(steps, "rebuild"),
        description="Computes tables anew, with the state behind them",
        out=dg.Out(dg.Nothing, description="Its metadata say which epoch took them over"),
        required_resource_keys={steps.engine_key},
        retry_policy=steps.options.retry_policy or COMMIT_RETRIES,
    )
    def rebuild(context: dg.OpExecutionContext, config: RebuildConfig) -> Iterator[Any]:
        with steps.epochs(context) as epochs:
            _check(steps, config)
            for table in config.widen:
                before = epochs.coordinator.view().last_epoch
                widened = once_free(partial(steps.pipeline.widen_on, epochs, table, owner_of(context), again=True))
                made = steps.waiting(context, widened)
                context.log.info("%s", made if made.epoch > before else f"{table} has its types already.")
            if config.tables or config.operators or not config.widen:
                rebuilt = partial(
                    steps.pipeline.rebuild_on,
                    epochs, steps.beside(epochs), owner_of(context), tables=config.tables or None, operators=config.operators,
                    since=int(config.since) if config.since.isdigit() else config.since, epochs_at_once=config.epochs_at_once,
                    empty=config.empty, between=steps.pipeline.range_of(config.between) if config.between else None,
                )  # fmt: skip
                made = steps.waiting(context, lambda seconds: rebuilt(wait_seconds=seconds))
                context.log.info("%s", made)
            told = events(steps, epochs, epochs.coordinator.versions(made.epoch))
        yield from told
        yield dg.Output(None, metadata={"epoch": made.epoch})

    return single_op_job(steps, "rebuild", f"Computes tables of {steps.name} anew over what its sources gave", rebuild)


def _check(steps: PipelineSteps, config: RebuildConfig) -> None:
    """Refuse what would not be done."""
    given = {"since": config.since != "0", "between": bool(config.between), "empty": config.empty}
    named = [name for name, is_given in given.items() if is_given]
    if named and config.widen and not (config.tables or config.operators):
        raise PipelineError(
            f"{' and '.join(named)} beside widen alone: what was read is not read again",
            pipeline=steps.name,
            remedy="leave it out, or name the tables, or operators, that are to be computed anew",
        )
