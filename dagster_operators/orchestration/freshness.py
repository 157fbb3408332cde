"""Whether a pipeline's tables are as new as they are to be: asset checks on how far behind the clock their time is."""

# No postponed annotations here: Dagster reads those of ``context`` as they are.

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias

import dagster as dg

from dagster_operators.api.pipeline import Pipeline
from dagster_operators.errors import PipelineError
from dagster_operators.orchestration.steps import PipelineSteps
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK, format_timestamp, parse_duration
from dagster_operators.transactions.records import Complete

Freshness: TypeAlias = str | timedelta | Mapping[str, str | timedelta] | None
"""How far behind tables may be: all of them, or by ``table`` or ``pipeline.table``."""

_CHECK: Final = "fresh"

_UNITS: Final = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}

_AHEAD: Final = (
    "To do: find its epoch by pipeline.history(), go back to the one before with pipeline.rollback, and say "
    "event_time_ahead='1 day' of the source, which refuses such rows"
)


@dataclass(frozen=True)
class Age:
    """How old the newest of a table is.

    Attributes:
        seconds: Behind the clock; None as long as there is nothing.
        told: By what that is known.
        ahead: How many seconds ahead of the clock it is; nothing that comes in until then shows in its age.
    """

    seconds: float | None
    told: str
    ahead: float = 0.0

    def is_within(self, most: float) -> bool:
        """Whether it is known to be no further from the clock than that, behind or ahead.

        >>> Age(0.0, "").is_within(60), Age(61.0, "").is_within(60), Age(0.0, "", ahead=61.0).is_within(60)
        (True, False, False)
        """
        return self.seconds is not None and self.seconds <= most and self.ahead <= most


def age_of(complete: Complete | None, table: str, now: float, computed: Complete | None = None) -> Age:
    """How far behind a clock a table's watermark is, or, of one without an event time, the last epoch that computed something.

    Args:
        complete: The last epoch.
        table: The table.
        now: The clock, in seconds since 1970.
        computed: Of the epochs that lead to the last one, the last that read its sources, see ``History.last_computed``; by
            default the last one itself.
    """
    if complete is None:
        return Age(None, "no epoch is complete yet")
    known = complete.times.get(table)
    if known is None:
        last = computed or complete
        told = f"epoch {last.epoch} was complete at {format_timestamp(int(last.committed_at) * 1_000_000)}"
        return Age(max(now - last.committed_at, 0.0), told)
    if known.watermark <= MIN_WATERMARK:
        return Age(None, f"no time of {known.column} is complete yet")
    if known.watermark >= MAX_WATERMARK:
        return Age(0.0, "its sources have nothing more to give")
    told = f"{known.column} is complete up to {format_timestamp(known.watermark)}"
    behind = now - known.watermark / 1e6
    return Age(max(behind, 0.0), told, max(-behind, 0.0))


def allowed_ages(pipeline: Pipeline, freshness: Freshness) -> dict[str, float]:
    """How many seconds each table of a pipeline may be behind.

    Raises:
        PipelineError: What is given is no span of time.
    """
    given = _named(pipeline, freshness) if isinstance(freshness, Mapping) else dict.fromkeys(pipeline.tables, freshness)
    try:
        return {table: _seconds(span) for table, span in given.items() if span is not None}
    except ValueError as error:
        raise PipelineError(
            f"freshness: {error}", pipeline=pipeline.name, remedy="write it as '2 hours', or give a timedelta"
        ) from None


def _seconds(span: str | timedelta) -> float:
    given: object = span
    if not isinstance(given, str | timedelta):
        raise ValueError(f"{given!r} is no span of time with a unit")  # noqa: TRY004 - told as an error of ours
    micros = parse_duration(span)
    if micros <= 0:
        raise ValueError(f"{span!r} is no span of time: a table is always somewhat behind")
    return micros / 1e6


def check_freshness_names(pipelines: Iterable[Pipeline], freshness: Freshness) -> None:
    """Refuse the freshness of a table that is not there, and a check of a user's that has the name of ours.

    Raises:
        PipelineError: There is one.
    """
    known: list[str] = []
    for pipeline in pipelines:
        known += [*pipeline.tables, *(f"{pipeline.name}.{table}" for table in pipeline.tables)]
        taken = [name for name in allowed_ages(pipeline, freshness) if _CHECK in pipeline.tables[name].checks]
        if taken:
            raise PipelineError(
                f"a check is called {_CHECK!r}, as that on the table's freshness", pipeline=pipeline.name, table=taken[0],
                remedy="give the check another name",
            )  # fmt: skip
    for name in freshness if isinstance(freshness, Mapping) else ():
        if name not in known:
            raise PipelineError(f"freshness names {name!r}, which is no table", remedy=f"there are: {', '.join(known)}")


def freshness_checks(steps: PipelineSteps, ages: Mapping[str, float]) -> dg.AssetChecksDefinition:
    """The check ``fresh`` of some tables; looks into the ledger, and starts no engine."""

    def spec(table: str) -> dg.AssetCheckSpec:
        described = f"No more than {_span(ages[table])} behind the clock, by its watermark"
        return dg.AssetCheckSpec(_CHECK, asset=steps.tables[table].key, description=described)

    @dg.multi_asset_check(name=f"{steps.name}_fresh", specs=[spec(table) for table in ages], can_subset=True)
    def fresh(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        run = steps.observer(context.instance).coordinator
        last, computed = run.last_complete(), run.past.last_computed()
        asked = {key.asset_key for key in context.selected_asset_check_keys}
        for table, most in ages.items():
            if steps.tables[table].key in asked:
                yield _result(steps.tables[table].key, age_of(last, table, time.time(), computed), most)

    return fresh


def freshness_job(
    steps: PipelineSteps, checks: dg.AssetChecksDefinition, cron: str, timezone: str, status: dg.DefaultScheduleStatus
) -> dg.ScheduleDefinition:
    """The schedule ``<pipeline>_freshness_schedule`` with the job ``<pipeline>_freshness``, which runs the checks."""
    job = dg.define_asset_job(
        f"{steps.name}_freshness", selection=dg.AssetSelection.checks(checks),
        description=f"Looks whether the tables of {steps.name} are as new as they are to be",
        tags=steps.run_tags, executor_def=dg.in_process_executor,
    )  # fmt: skip
    return dg.ScheduleDefinition(
        name=f"{steps.name}_freshness_schedule", job=job, cron_schedule=cron, execution_timezone=timezone, default_status=status,
        description=f"Looks how new the tables of {steps.name} are, at the times of {cron!r}",
    )  # fmt: skip


def _named(pipeline: Pipeline, freshness: Mapping[str, str | timedelta]) -> dict[str, str | timedelta]:
    wanted: Sequence[tuple[str, str | timedelta | None]] = [
        (table, freshness.get(f"{pipeline.name}.{table}", freshness.get(table))) for table in pipeline.tables
    ]
    return {table: span for table, span in wanted if span is not None}


def _span(seconds: float) -> str:
    """A span of time for people, in the two largest units that it has; the metadata have its seconds.

    >>> _span(86_650_763), _span(7_200), _span(7_205), _span(0.4)
    ('1,002 d 21 h', '2 h', '2 h 5 s', '0 s')
    """
    left, parts = int(seconds), list[str]()
    for unit, size in _UNITS.items():
        count, left = divmod(left, size)
        parts += [f"{count:,} {unit}"] if count else []
    return " ".join(parts[:2]) or "0 s"


def _result(key: dg.AssetKey, age: Age, most: float) -> dg.AssetCheckResult:
    behind = "" if age.seconds is None else f", {_span(age.seconds)} behind; {_span(most)} are allowed"
    metadata = {"allowed (seconds)": most, **({} if age.seconds is None else {"behind (seconds)": age.seconds})}
    if age.ahead > most:
        behind = f", {_span(age.ahead)} ahead of the clock by a row's event time: it would look fresh until then. {_AHEAD}"
    if age.ahead:
        metadata["ahead (seconds)"] = age.ahead
    return dg.AssetCheckResult(
        passed=age.is_within(most), asset_key=key, check_name=_CHECK, description=f"{age.told}{behind}", metadata=metadata
    )
