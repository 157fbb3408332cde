"""What somebody does about a pipeline that changes, as a Dagster job with a configuration: put back, decided, deleted."""

# No postponed annotations here: Dagster reads those of ``context`` and of the configuration as they are.

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final, TypeAlias, cast

import dagster as dg
from pydantic import Field

from dagster_operators.api.pipeline import Pipeline
from dagster_operators.errors import OperatorsError, PipelineError
from dagster_operators.orchestration.ops import definition_name
from dagster_operators.orchestration.options import MAINTENANCE_RETRIES
from dagster_operators.orchestration.reporting import events
from dagster_operators.orchestration.single_op_job import single_op_job
from dagster_operators.orchestration.steps import PipelineSteps
from dagster_operators.orchestration.waiting import once_free
from dagster_operators.plans.verdict import Choice
from dagster_operators.runtime.resetting import Tables, written_place

_Work: TypeAlias = Mapping[str, Callable[[], Any]]
"""What is to be done, by what it is about."""

_KINDS: Final = ("rollback", "reset", "set_watermark", "decide", "withdraw", "drop", "restore_times")

_DONE: Final = "dagster_operators/done"
"""The tag of a run with how many of the things that it is to do are done: a try behind that goes on."""

_CHANGE: Final = f"Does one thing about a pipeline that changes: {', '.join(_KINDS)}"


class Behind(Enum):
    """What becomes of the tables and the state behind a source."""

    KEEP = "keep"
    RESTART = "restart"


class ChangeConfig(dg.Config):
    """What is to be done: one kind of it."""

    rollback: int | None = Field(default=None, description="The epoch that the whole pipeline is to be as, in a new epoch")
    reset: list[str] = Field(default=[], description="Sources that are to go on from elsewhere: with to, and tables")
    to: str | None = Field(default=None, description="Of reset: an epoch (0: the beginning), a time, or a position as JSON")
    tables: Behind | None = Field(default=None, description="Of reset: what becomes of the tables and the state behind")
    keep_sinks: bool = Field(default=False, description="Of rollback and reset: sinks may keep what they took, and get it again")
    set_watermark: dict[str, str] = Field(default={}, description="Sources, with the time before which nothing comes any more")
    decide: dict[str, str] = Field(
        default={}, description='What errors and diff name, as "table totals", with the choice: keep, restart or drop'
    )
    withdraw: list[str] = Field(default=[], description="What was decided about, which is taken back")
    drop: list[str] = Field(default=[], description="Tables and operators that left the program: deleted with all files")
    restore_times: list[str] = Field(
        default=[], description="Sources whose files are the same as when they were read: they get the times again that they had"
    )


def change_job(steps: PipelineSteps) -> dg.JobDefinition:
    """The job ``<pipeline>_change``: what the methods of a pipeline of these names do, one kind a run."""

    @dg.op(
        name=definition_name(steps, "change"),
        pool=steps.name,
        description=_CHANGE,
        out=dg.Out(dg.Nothing, description="Its metadata say what was done"),
        required_resource_keys={steps.engine_key},
        retry_policy=MAINTENANCE_RETRIES,
    )
    def change(context: dg.OpExecutionContext, config: ChangeConfig) -> Iterator[Any]:
        with steps.epochs(context) as epochs:
            kind = _kind(steps, config)
            before = epochs.coordinator.view().last_epoch
            done = list(_each(steps, context, _WORK[kind](steps.pipeline_on(epochs), config)))
            last = epochs.coordinator.view().last_epoch
            told = events(steps, epochs, epochs.coordinator.versions(last)) if last > before else []
        yield from told
        yield dg.Output(None, metadata={kind: "; ".join(map(str, done)), "epoch": last})

    return single_op_job(steps, "change", _CHANGE, change)


def _each(steps: PipelineSteps, context: dg.OpExecutionContext, work: _Work) -> Iterator[str]:
    """Do one thing after another, and say what was done; what the run did in an earlier try is passed over."""
    run = context.instance.get_run_by_id(context.run_id)
    done = int(run.tags.get(_DONE, 0)) if run else 0
    for subject, does in [*work.items()][done:]:
        try:
            told = steps.waiting(context, once_free(does))
        except OperatorsError as error:
            if done:
                error.where["done"] = ", ".join([*work][:done])
                error.remedy = f"{error.remedy}; a new run has to leave out what is done"
            raise
        done += 1
        context.instance.add_run_tags(context.run_id, {_DONE: str(done)})
        context.log.info("%s: %s", subject, told)
        yield f"{subject}: {told}"


def _kind(steps: PipelineSteps, config: ChangeConfig) -> str:
    """The one thing that is to be done."""
    given = [kind for kind in _KINDS if getattr(config, kind) not in (None, [], {})]
    if len(given) != 1:
        told = f"{' and '.join(given)} are several things" if given else "it is not said what is to be done"
        raise PipelineError(
            f"{told}: a run does one, so that it can be started again",
            pipeline=steps.name, remedy=f"configure one of {', '.join(_KINDS)}",
        )  # fmt: skip
    beside = {"to": config.to, "tables": config.tables, "keep_sinks": config.keep_sinks or None}
    known = {"reset": {"to", "tables", "keep_sinks"}, "rollback": {"keep_sinks"}}.get(given[0], set())
    wrong = [name for name, value in beside.items() if value is not None and name not in known]
    if wrong or (given == ["reset"] and config.to is None):
        problem = f"{' and '.join(wrong)} beside {given[0]} means nothing" if wrong else "reset without to"
        remedy = "leave it out" if wrong else "say where the sources are to go on from: to: '0' is their beginning"
        raise PipelineError(problem, pipeline=steps.name, remedy=remedy)
    return given[0]


def _roll_back(pipeline: Pipeline, config: ChangeConfig) -> _Work:
    epoch = cast("int", config.rollback)
    return {f"epoch {epoch}": partial(pipeline.rollback, epoch, keep_sinks=config.keep_sinks)}


def _reset(pipeline: Pipeline, config: ChangeConfig) -> _Work:
    tables: Tables | None = None
    if config.tables is not None:
        tables = "restart" if config.tables is Behind.RESTART else "keep"
    place = written_place(config.to or "0")
    return {", ".join(config.reset): partial(pipeline.reset, config.reset, place, tables=tables, keep_sinks=config.keep_sinks)}


def _set_watermarks(pipeline: Pipeline, config: ChangeConfig) -> _Work:
    return {source: partial(pipeline.set_watermark, source, time) for source, time in config.set_watermark.items()}


def _decide(pipeline: Pipeline, config: ChangeConfig) -> _Work:
    def decided(subject: str, choice: str) -> str:
        return ", ".join(made.choice for made in pipeline.decide(subject, cast("Choice", choice)))

    return {subject: partial(decided, subject, choice) for subject, choice in config.decide.items()}


def _withdraw(pipeline: Pipeline, config: ChangeConfig) -> _Work:
    def withdrawn(subject: str) -> str:
        pipeline.withdraw(subject)
        return "taken back"

    return {subject: partial(withdrawn, subject) for subject in config.withdraw}


def _drop(pipeline: Pipeline, config: ChangeConfig) -> _Work:
    def dropped(name: str) -> str:
        return ", ".join(pipeline.drop(name))

    return {name: partial(dropped, name) for name in config.drop}


def _restore_times(pipeline: Pipeline, config: ChangeConfig) -> _Work:
    def restored(source: str) -> str:
        return f"{len(pipeline.restore_times(source))} files have their times again"

    return {source: partial(restored, source) for source in config.restore_times}


_WORK: Final[Mapping[str, Callable[[Pipeline, ChangeConfig], _Work]]] = {
    "rollback": _roll_back, "reset": _reset, "set_watermark": _set_watermarks, "decide": _decide, "withdraw": _withdraw,
    "drop": _drop, "restore_times": _restore_times,
}  # fmt: skip
