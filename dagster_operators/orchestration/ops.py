"""The ops of a pipeline: begin, one for each stage, commit. Nothing goes from one to the next; the ledger knows the epoch."""

# No postponed annotations here: Dagster reads those of ``context`` as they are.

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import dagster as dg

from dagster_operators.errors import CheckFailedError
from dagster_operators.orchestration.checks import check_results, staged_outcomes
from dagster_operators.orchestration.epoch_of_run import remember_none
from dagster_operators.orchestration.failures import as_failure
from dagster_operators.orchestration.filled_partitions import filled_partitions
from dagster_operators.orchestration.keys import op_name
from dagster_operators.orchestration.options import COMMIT_RETRIES, STAGE_RETRIES
from dagster_operators.orchestration.reporting import of_partitions, results, unreported
from dagster_operators.orchestration.shown import shown_or
from dagster_operators.orchestration.steps import PipelineSteps
from dagster_operators.planner.stages import Stage
from dagster_operators.runtime.epochs import Epochs
from dagster_operators.runtime.results import result_of
from dagster_operators.transactions.manifest import Manifest

BEGUN: Final = "begun"
UNCHANGED: Final = "unchanged"
BEGIN_OUTS: Final = {
    BEGUN: dg.Out(dg.Nothing, description="An epoch has begun", is_required=False),
    UNCHANGED: dg.Out(
        dg.Nothing, description="Nothing is new, or partitions were computed anew, and assets of others wait", is_required=False
    ),
}
"""One of them is given; neither when nothing is new and nobody waits, so that all that follows is skipped."""

PREPARED = dg.Out(dg.Nothing, description="The stage is prepared")


def definition_name(steps: PipelineSteps, op: str) -> str:
    """Ops of all pipelines share one namespace in Dagster; in the pipeline's graph they have their short names."""
    return f"{steps.name}__{op}"


def begin_op(steps: PipelineSteps, sources: Sequence[str]) -> dg.OpDefinition:
    """The op that recovers what earlier runs left and begins the next epoch.

    Args:
        steps: The pipeline.
        sources: Names of inputs that stand for the upstream assets.
    """

    @dg.op(
        name=definition_name(steps, "begin"),
        pool=steps.name,
        description="Recovers what earlier runs left, chooses what the epoch reads and records it in the ledger",
        ins={name: dg.In(dg.Nothing) for name in sources},
        out=BEGIN_OUTS,
        required_resource_keys={steps.engine_key},
        retry_policy=steps.options.retry_policy or COMMIT_RETRIES,
    )
    def begin(context: dg.OpExecutionContext) -> Iterator[Any]:
        with steps.epochs(context) as epochs:
            steps.tag(context)
            backfill = steps.backfill(context, epochs)
            if backfill is None:
                told = list(_begun(context, steps, epochs))
            else:
                wanted, made = backfill
                context.log.info("%s", made)
                told = list(_computed_anew(context, steps, epochs, made.epoch, wanted.keys))
        yield from told

    return begin


def _computed_anew(
    context: dg.OpExecutionContext, steps: PipelineSteps, epochs: Epochs, epoch: int, partitions: Sequence[str]
) -> Iterator[Any]:
    """What begin tells of partitions that it computed anew: the stages are skipped, and commit unless others wait for it."""
    if steps.others_go_on(context):
        remember_none(context, steps.name)
        yield dg.Output(None, UNCHANGED, metadata={"epoch": epoch})
    else:
        yield from of_partitions(steps, epochs, epochs.coordinator.versions(epoch), partitions)


def _begun(context: dg.OpExecutionContext, steps: PipelineSteps, epochs: Epochs) -> Iterator[Any]:
    """Begin the next epoch: what Dagster has not heard of the one before, and the output that says what follows, if anything."""
    handle = steps.begin(context, epochs)
    yield from unreported(context, steps, epochs, handle.epoch if handle else 1 << 62)
    last = epochs.coordinator.last_complete()
    if handle is not None:
        context.log.info("Epoch %d has begun.", handle.epoch)
        yield dg.Output(None, BEGUN, metadata={"epoch": handle.epoch})
    elif last is not None and steps.others_go_on(context):
        context.log.info("Assets of others go on with the tables as of epoch %d.", last.epoch)
        yield dg.Output(None, UNCHANGED, metadata={"epoch": last.epoch})


def stage_op(steps: PipelineSteps, stage: Stage) -> dg.OpDefinition:
    """The op that runs a stage of the epoch, unless an earlier run has done so."""

    @dg.op(
        name=definition_name(steps, op_name(stage.name)),
        pool=steps.name,
        description=" -> ".join(stage.operators),
        ins={"epoch": dg.In(dg.Nothing)},
        out=PREPARED,
        required_resource_keys={steps.engine_key},
        retry_policy=steps.options.retry_policy or STAGE_RETRIES,
        code_version=stage.fingerprint,
    )
    def run_stage(context: dg.OpExecutionContext) -> Iterator[Any]:
        with steps.epochs(context) as epochs:
            handle = steps.begun(context, epochs)
            manifests = steps.run_cut_otherwise(epochs, handle, stage)
            if manifests is None:
                stages = steps.side_by_side(context, epochs, handle)
                ran_beside = stages is not None and stages.has_begun(stage.name)
                known = None if ran_beside else epochs.coordinator.valid_manifest(handle, stage.name)
                manifest = known or (stages.run_one(stage.name) if stages else epochs.run_stage(handle, stage.name))
        if manifests is not None:
            yield _cut_otherwise(context, handle.epoch, stage.name, manifests)
            return
        if ran_beside:
            context.log.info("Stage %s of epoch %d ran beside others, in %.2f s.", stage.name, handle.epoch, manifest.seconds)
        elif known is not None:
            context.log.info(
                "Stage %s of epoch %d has a valid attempt, %s: not run again.", stage.name, handle.epoch, known.attempt
            )
        counts = {f"rows in {name}": rows for name, rows in manifest.rows.items()}
        yield dg.Output(None, metadata={"epoch": handle.epoch, "seconds": manifest.seconds, **counts})

    return run_stage


def _cut_otherwise(context: dg.OpExecutionContext, epoch: int, stage: str, manifests: Sequence[Manifest]) -> "dg.Output[None]":
    """What the op of a stage tells where the epoch goes ways that cut other stages."""
    ran = ", ".join(manifest.stage for manifest in manifests) or "none: their work is that of ops behind it"
    context.log.info("Epoch %d was begun with other stages than the op %s was loaded with. It ran: %s.", epoch, stage, ran)
    counts = {f"rows in {name}": rows for manifest in manifests for name, rows in manifest.rows.items()}
    return dg.Output(None, metadata={"epoch": epoch, "seconds": sum(manifest.seconds for manifest in manifests), **counts})


def commit_op(steps: PipelineSteps, outputs: Sequence[str]) -> dg.OpDefinition:
    """The op that moves all tables forward together and only then reports the assets.

    Args:
        steps: The pipeline.
        outputs: One for each asset and each asset check.
    """

    @dg.op(
        name=definition_name(steps, "commit"),
        pool=steps.name,
        description="Decides the epoch, commits all tables together and reports the assets",
        ins={"epoch": dg.In(dg.Nothing)},
        out={name: dg.Out(dg.Nothing, is_required=False) for name in outputs},
        required_resource_keys={steps.engine_key},
        retry_policy=steps.options.retry_policy or COMMIT_RETRIES,
    )
    def commit(context: dg.OpExecutionContext) -> Iterator[Any]:
        failed: CheckFailedError | None = None
        with steps.epochs(context) as epochs:
            handle = steps.resume(context, epochs)
            if handle is None:
                reported: list[Any] = [*results(steps, epochs, epochs.coordinator.versions())]
                line = "Nothing is new: the tables are told of as they were."
                if steps.backfill_asked_for(context) is not None:
                    reported = [one for one in reported if one.asset_key not in steps.sink_keys]
                    line = "The partitions were computed anew in all tables; sinks are handed nothing of that."
            else:
                try:
                    complete = epochs.commit(handle)
                except CheckFailedError as error:
                    failed, epoch = error, handle.epoch
                    outcomes = staged_outcomes(epochs, handle, steps.tables.values())
                else:
                    reported = [*filled_partitions(context, steps, epochs, complete), *results(steps, epochs, complete)]
                    result = partial(result_of, complete, tuple(steps.pipeline.tables))
                    line = shown_or(f"Epoch {complete.epoch} is complete.", "what the epoch did", lambda: str(result()))
        if failed is not None:
            steps.let_go(context, epochs)
            yield from check_results(steps.tables, outcomes, epoch)
            raise as_failure(failed) from failed
        context.log.info(line)
        yield from reported

    return commit
