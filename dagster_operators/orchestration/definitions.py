"""Everything Dagster needs to know of pipelines: one call in ``definitions.py``."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

import dagster as dg

from dagster_operators.api.pipeline import Pipeline
from dagster_operators.arguments import checked
from dagster_operators.errors import PipelineError
from dagster_operators.orchestration.assets import pipeline_assets, source_specs
from dagster_operators.orchestration.built import built_at, remember_built
from dagster_operators.orchestration.catch_up import catch_up_job
from dagster_operators.orchestration.change_job import change_job
from dagster_operators.orchestration.engine import SparkEngine
from dagster_operators.orchestration.freshness import (
    Freshness,
    allowed_ages,
    check_freshness_names,
    freshness_checks,
    freshness_job,
)
from dagster_operators.orchestration.keys import AssetKeys
from dagster_operators.orchestration.maintenance import maintenance_job, repair_job
from dagster_operators.orchestration.news import News
from dagster_operators.orchestration.options import Options
from dagster_operators.orchestration.preview_names import check_preview_names
from dagster_operators.orchestration.rebuild_job import rebuild_job
from dagster_operators.orchestration.schedule import epoch_schedule, maintenance_schedule
from dagster_operators.orchestration.sensor import news_sensor, source_sensor
from dagster_operators.orchestration.steps import PipelineSteps
from dagster_operators.orchestration.translator import AssetNames, PipelineTranslator
from dagster_operators.runtime.engine import Engine, engine_given
from dagster_operators.runtime.own_engine import prepared
from dagster_operators.storage.uri import place_of, public_uri


@checked
def build_definitions(
    *pipelines: Pipeline,
    schedule: str | None = None,
    sensor: bool = False,
    execution_timezone: str = "UTC",
    minimum_interval_seconds: int = 30,
    default_status: Literal["RUNNING", "STOPPED"] | dg.DefaultSensorStatus | dg.DefaultScheduleStatus = "STOPPED",
    catch_up: bool = False,
    maintenance: str | None = None,
    compact: bool = False,
    freshness: Freshness = None,
    freshness_schedule: str = "*/15 * * * *",
    engine: Engine | str | None = None,
    executor: dg.ExecutorDefinition | None = None,
    retry_policy: dg.RetryPolicy | None = None,
    automation_condition: dg.AutomationCondition[dg.AssetKey] | Literal["new input"] | None = None,
    group_name: str | None = None,
    owners: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    key_prefix: str | Sequence[str] = (),
    asset_keys: Mapping[str, str | Sequence[str] | dg.AssetKey] | None = None,
    translator: PipelineTranslator | None = None,
    wait_seconds: float = 40.0,
    preview_rows: int | Mapping[str, int] = 10,
    masked_columns: Collection[str] = (),
) -> dg.Definitions:
    """The assets, jobs, schedule, sensor and checks of pipelines, for Dagster.

    Each pipeline becomes one graph of ops (``begin``, its stages, ``commit``) whose tables are assets ``[pipeline, table]``,
    behind its sources as external assets ``[pipeline, source]``. The job ``<pipeline>_epoch`` runs one epoch,
    ``<pipeline>_catch_up`` runs epochs until the sources hold nothing new, ``<pipeline>_rebuild`` computes tables anew,
    ``<pipeline>_maintenance`` deletes what only old epochs need, ``<pipeline>_repair`` settles tables that somebody else wrote,
    ``<pipeline>_change`` puts back, decides and drops. A source that reads a table of another pipeline given here is that
    table's asset. All that is in the result has the pipeline's name in its own, so that ``dg.Definitions.merge`` takes the
    results of several calls, and a user's definitions of any kind.

    Args:
        pipelines: What to deploy.
        schedule: A cron expression for ``<pipeline>_schedule``.
        sensor: Whether ``<pipeline>_sensor`` starts a run when a source has new data; not beside ``"new input"``.
        execution_timezone: The time zone of the schedule.
        minimum_interval_seconds: How often the sensor looks.
        default_status: Whether schedules and sensors are on as soon as they are deployed; Dagster's own for automation is not.
            Dagster's own values for either are taken, too.
        catch_up: Let schedule and sensor start ``<pipeline>_catch_up``.
        maintenance: A cron expression for ``<pipeline>_maintenance_schedule``.
        compact: Whether maintenance joins small files of the tables, unless its configuration says otherwise. Once the small ones
            are cleaned away, a pipeline that reads these tables can be rebuilt from then on only.
        freshness: How far behind the clock tables may be, as ``"2 hours"`` or a timedelta, or by ``table`` or
            ``pipeline.table`` as a mapping: by their watermark, those without an event time by when the last epoch was complete.
            The check ``fresh`` tells; it fails, too, if the watermark is as far ahead of the clock.
        freshness_schedule: When the job ``<pipeline>_freshness`` runs these checks, by a cron expression.
        engine: Where stages run, for all the pipelines, or its name, such as ``"sail"``; else each pipeline's own, else embedded
            Spark. In Dagster it is the resource ``<pipeline>_engine``.
        executor: How ``<pipeline>_epoch`` executes its ops; all in one process, with one Spark session, by default. With
            ``dg.multiprocess_executor`` every op starts its own session, unless the engine is remote.
        retry_policy: Of every op, instead of the defaults.
        automation_condition: Of every table's asset. ``"new input"`` asks for a run when a source holds something new, or another
            pipeline's table that is read has an epoch more. Dagster's automation sensor has to be on. With any condition, and
            without ``sensor``, there is ``<pipeline>_sources``, which has to be on, too: it tells Dagster what the sources newly
            hold, and what is left to do. The sensor that starts runs tells what they hold, too.
        group_name: The assets' group; the pipeline's name by default.
        owners: Of the tables that have none of their own.
        tags: Of every table's asset.
        key_prefix: What every asset's key begins with, before the pipeline's name.
        asset_keys: The whole keys of some tables, sinks, sources or lookups, by ``name`` or ``pipeline.name``. A source or
            lookup that is given a key is that asset, whoever makes it, in this code location or another.
        translator: Has the last word on keys and on what is told of an asset.
        wait_seconds: How long a run waits for another one of its pipeline, or for the lease of one that died, before it fails.
        preview_rows: How many rows a materialisation shows; 0 shows none. By table, or by ``pipeline.table``, as a mapping, where
            tables that are not in it show none.
        masked_columns: Columns whose values no preview shows, as ``column`` or ``table.column``. Where there are any, no failure
            quotes rows either.

    Raises:
        PipelineError: There is no pipeline, one has no table, two have the same name or root, what a setting names is not
            there, or two settings would both start runs for the same news.

    Example:
        >>> from dagster_operators import FileSource, Pipeline
        >>> pipeline = Pipeline("flights", root="data/flights")
        >>> flights = pipeline.source("landed", FileSource("input/*.csv", schema="origin string, delay int"))
        >>> _ = flights.filter("delay > 15").to_table("late_flights")
        >>> defs = build_definitions(pipeline, schedule="*/10 * * * *", sensor=True)
        >>> sorted(job.name for job in defs.resolve_all_job_defs() if not job.name.startswith("__"))
        ['flights_catch_up', 'flights_change', 'flights_epoch', 'flights_maintenance', 'flights_rebuild', 'flights_repair']
    """
    _check(pipelines)
    _check_switches(sensor=sensor, catch_up=catch_up, compact=compact)
    if isinstance(automation_condition, str) and automation_condition != "new input":
        raise PipelineError(
            f"automation_condition is {automation_condition!r}",
            remedy="write automation_condition='new input', or give one of Dagster's: dg.AutomationCondition.eager()",
        )
    if sensor and automation_condition == "new input":
        raise PipelineError(
            "sensor=True and automation_condition='new input' would start two runs for the same news",
            remedy="leave one of them out",
        )
    options = Options(
        group_name, tuple(owners), tags or {}, retry_policy, automation_condition, wait_seconds, preview_rows,
        frozenset(masked_columns), compact,
    )  # fmt: skip
    on = default_status if isinstance(default_status, str) else default_status.value
    check_preview_names(pipelines, options)
    check_freshness_names(pipelines, freshness)
    names = AssetNames.of(key_prefix, asset_keys, translator)
    engines = {each.stored_name: _engine(each, engine) for each in pipelines}
    deployed = [
        PipelineSteps(each, AssetKeys(each, pipelines, names), options, prepared(engines[each.stored_name]).name)
        for each in pipelines
    ]
    _check_names(deployed, names)
    _check_keys(deployed)
    _warn(deployed)
    assets: list[dg.AssetsDefinition | dg.AssetSpec] = []
    jobs: list[Any] = []
    schedules: list[dg.ScheduleDefinition] = []
    sensors: list[dg.SensorDefinition] = []
    checks: list[dg.AssetChecksDefinition] = []
    for steps in deployed:
        tables = pipeline_assets(steps)
        selection: dg.AssetSelection = dg.AssetSelection.assets(*tables.keys)
        if ages := allowed_ages(steps.pipeline, freshness):
            checks.append(freshness_checks(steps, ages))
            selection -= dg.AssetSelection.checks(checks[-1])
            status = dg.DefaultScheduleStatus(on)
            schedules.append(freshness_job(steps, checks[-1], freshness_schedule, execution_timezone, status))
        epoch_job = dg.define_asset_job(
            f"{steps.name}_epoch",
            selection=selection,
            description=f"Runs one epoch of {steps.name}",
            tags=steps.run_tags,
            metadata={"explain": dg.MetadataValue.md(f"```\n{steps.pipeline.explain()}\n```")},
            executor_def=executor or dg.in_process_executor,
        )
        all_epochs = catch_up_job(steps)
        target = all_epochs if catch_up else epoch_job
        upkeep = maintenance_job(steps)
        assets += [tables, *source_specs(steps)]
        jobs += [epoch_job, all_epochs, rebuild_job(steps), change_job(steps), upkeep, repair_job(steps)]
        if maintenance is not None:
            status = dg.DefaultScheduleStatus(on)
            schedules.append(maintenance_schedule(steps, upkeep, maintenance, execution_timezone, status))
        if schedule is not None:
            status = dg.DefaultScheduleStatus(on)
            schedules.append(epoch_schedule(steps, target, schedule, execution_timezone, status))
        if sensor:
            sensors.append(news_sensor(steps, target, minimum_interval_seconds, dg.DefaultSensorStatus(on)))
        elif automation_condition is not None:
            sensors.append(source_sensor(steps, target, minimum_interval_seconds, dg.DefaultSensorStatus(on)))
    return dg.Definitions(
        assets=assets,
        asset_checks=checks,
        jobs=jobs,
        schedules=schedules,
        sensors=sensors,
        resources={steps.engine_key: engines[steps.name] for steps in deployed},
    )


def _check(pipelines: Sequence[Pipeline]) -> None:
    if not pipelines:
        raise PipelineError("there is no pipeline to deploy", remedy="build_definitions(pipeline)")
    for pipeline in pipelines:
        if not hasattr(pipeline, "dataflow"):
            raise PipelineError(f"{pipeline!r} is no pipeline", remedy="build_definitions(pipeline)")
    names = [pipeline.stored_name for pipeline in pipelines]
    for pipeline, name in zip(pipelines, names, strict=True):
        if names.count(name) > 1:
            renamed = f", as {pipeline.name!r} was" if pipeline.name != name else ""
            raise PipelineError(
                f"two pipelines are named {name!r}{renamed}", pipeline=pipeline.name, remedy="give one of them another name"
            )

    roots: dict[str, Pipeline] = {}
    for pipeline in pipelines:
        other = roots.setdefault(place_of(pipeline.root), pipeline)
        if other is not pipeline:
            raise PipelineError(
                f"the pipelines {other.name!r} and {pipeline.name!r} have the same storage root", pipeline=pipeline.name,
                root=public_uri(pipeline.root), remedy="give each a root of its own",
            )  # fmt: skip


def _warn(deployed: Sequence[PipelineSteps]) -> None:
    """Warn whoever calls ``build_definitions``, behind the check of its arguments."""
    for told in _doubts(deployed):
        warnings.warn(told, RuntimeWarning, stacklevel=4)
    for steps in deployed:
        remember_built(steps.pipeline)


def _doubts(deployed: Sequence[PipelineSteps]) -> Iterator[str]:
    """What is probably not meant, and can only be told for sure when epochs have run."""
    for steps in deployed:
        before = built_at(steps.pipeline.root)
        if before not in (None, steps.name):
            yield (
                f"the pipeline {steps.name!r} has the storage root of the pipeline {before!r}, "
                f"{public_uri(steps.pipeline.root)}: the second of them to run is refused. To do: give each a root of its own"
            )
        for name, source in steps.keys.unknown.items():
            yield (
                f"no epoch has run in {public_uri(str(source.root))}, so it is not known whose table {source.table!r} the source "
                f"{name!r} of the pipeline {steps.name!r} reads: it is the asset {steps.keys.inputs[name].to_user_string()}, "
                "with nothing before it, until it is loaded after that pipeline's first epoch. To do: name the pipeline, "
                f"by pipeline= of PipelineSource, or give its definitions before these"
            )


def _check_switches(**given: object) -> None:
    for name, value in given.items():
        if not isinstance(value, bool):
            raise PipelineError(f"{name} is {value!r}, not True or False", remedy=f"build_definitions with {name}=True")


def _check_names(deployed: Sequence[PipelineSteps], names: AssetNames) -> None:
    named = [(steps.pipeline.name, name) for steps in deployed for name in (*steps.tables, *steps.keys.inputs, *steps.sinks)]
    known = [*(name for _, name in named), *(f"{pipeline}.{name}" for pipeline, name in named)]
    for name in names.given:
        if name not in known:
            raise PipelineError(f"asset_keys has a key for {name!r}, which is not there", remedy=f"there are: {', '.join(known)}")


def _check_keys(deployed: Sequence[PipelineSteps]) -> None:
    """Refuse one key for two things of which one is made here."""
    made: dict[dg.AssetKey, tuple[str, str]] = {}
    for steps in deployed:
        for name, key in (*steps.keys.tables.items(), *steps.keys.sinks.items()):
            pipeline, other = made.setdefault(key, (steps.name, name))
            if pipeline != steps.name:
                raise _same_key(key, pipeline, other, steps.name, name)
    for steps in deployed:
        for name, key in News.own(steps).items():
            if key in made:
                raise _same_key(key, *made[key], steps.name, name)


def _same_key(key: dg.AssetKey, pipeline: str, name: str, other: str, other_name: str) -> PipelineError:
    if (pipeline, name) == (other, other_name):
        told = f"the source or lookup {name!r} of the pipeline {pipeline!r} and the table or sink of that name have one asset key"
        remedy = "let the translator tell them apart by data.kind, or rename one"
    else:
        told = f"{name!r} of the pipeline {pipeline!r} and {other_name!r} of {other!r} have the same asset key"
        apart = f"asset_keys={{'{pipeline}.{name}': ..., '{other}.{other_name}': ...}}"
        remedy = f"give each a key of its own: {apart}, which a translator has to leave apart"
    return PipelineError(told, asset=key.to_user_string(), remedy=remedy)


def _engine(pipeline: Pipeline, engine: Engine | str | None) -> Engine:
    """What runs the pipeline: the engine of the call, else its own, else one that its address or the environment chooses."""
    found = engine_given(engine) or pipeline.engine or SparkEngine()
    if isinstance(found, SparkEngine):
        found.refuse_literal_secrets()
    return found
