"""What became of the runs that were started for the same news, and whether to start another: a cause may have passed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import dagster as dg

from dagster_operators.orchestration.failures import RETRY_HELPS

if TYPE_CHECKING:
    from dagster import RunRecord

NEWS_TAG: Final = "dagster_operators/news"
"""The run tag with the key of the news that a sensor started it for."""

_PAUSES: Final = (0.0, 60.0, 300.0, 1800.0)
"""How long after the end of a run that failed the next one is started: so many times, then no more."""

_REMEMBERED_SECONDS: Final = 86_400.0
"""How long a run that succeeded counts as a try: a root may be restored again some other day."""

_LOOKED_AT: Final = (len(_PAUSES) + 1) ** 2
"""The most runs that can count for the same news: behind each that succeeded the root may go back, so many times."""


@dataclass(frozen=True)
class Verdict:
    """Whether to start a run for some news.

    Attributes:
        tries: How many of the runs for the same news count.
        last: The last of these runs, if they were started for it: the next one's key names it, as runs may be deleted.
        reason: Why not to start one; empty to start it.
    """

    tries: int = 0
    last: str = ""
    reason: str = ""


def judge(instance: dg.DagsterInstance, news: str, nothing: Callable[[dg.DagsterRun], bool]) -> Verdict:
    """Whether to start a run (again) for some news; none of the pipeline's is going on.

    Args:
        instance: Knows the runs.
        news: The key of the news.
        nothing: Whether a run looked at the pipeline as it is now, and found nothing new.
    """
    records = instance.get_run_records(dg.RunsFilter(tags={NEWS_TAG: news}), limit=_LOOKED_AT)
    if not records:
        return Verdict()
    last, which, now = records[0], "which was started for this", time.time()
    verdict = judge_last(
        instance, last, _tries(records, now), last.dagster_run.job_name, now, which=which, nothing=nothing(last.dagster_run)
    )
    return replace(verdict, last=last.dagster_run.run_id)


def _tries(records: Sequence[RunRecord], now: float) -> int:
    """How many tries runs for the same news were, the newest first: of those from the last success back only recent successes."""
    done = [record for record in records if record.dagster_run.status is dg.DagsterRunStatus.SUCCESS]
    return sum(_is_remembered(record, now) for record in done) + (records.index(done[0]) if done else len(records))


def _is_remembered(record: RunRecord, now: float) -> bool:
    """Whether a run that succeeded counts as a try."""
    return record.end_time is None or now - record.end_time < _REMEMBERED_SECONDS


def judge_last(
    instance: dg.DagsterInstance, last: RunRecord, tries: int, job: str, now: float, *, which: str, nothing: bool
) -> Verdict:
    """Whether to start a run again for the same news.

    Args:
        instance: Knows the runs.
        last: The last one, which is over.
        tries: How many there were.
        job: What a person launches instead.
        now: The time.
        which: What the last one is to the news, in words.
        nothing: Whether it looked at the pipeline as it is now, and found nothing new.
    """
    run = last.dagster_run
    if run.status is dg.DagsterRunStatus.SUCCESS:
        tries = tries if _is_remembered(last, now) else 0
        # what it did is gone, as the same is new after the same epoch: the root was removed or restored
        reason = ": it found nothing new" if nothing else _why_not_again(last, tries, job, now)
    else:
        reason = _why_not(instance, last, tries, job, now)
    told = f"run {run.run_id} ({run.job_name}), {which}, is {run.status.value.lower()}"
    return Verdict(reason=f"{told}{reason}") if reason is not None else Verdict(tries)


def _why_not(instance: dg.DagsterInstance, last: RunRecord, tries: int, job: str, now: float) -> str | None:
    """Why not to start another one after the last run, which is over; None to start it."""
    run = last.dagster_run
    if run.status is dg.DagsterRunStatus.CANCELED:
        return ": somebody ended it, so a person, a schedule or more data starts the next one"
    lasting = _lasting_cause(instance, run.run_id)
    if lasting:
        return f": {lasting}. To start over when that is settled: re-execute it, or launch {job}"
    return _why_not_again(last, tries, job, now)


def _why_not_again(last: RunRecord, tries: int, job: str, now: float) -> str | None:
    """Why not to start another one by now, for a reason that may have passed; None to start it."""
    if tries > len(_PAUSES):
        return f", the last of {tries} tries: re-execute it, or launch {job}"
    due = _ended(last, tries) + _PAUSES[max(tries, 1) - 1]
    return f": try {tries + 1} of {len(_PAUSES) + 1} begins {_clock(due)}" if now < due else None


def _ended(last: RunRecord, tries: int) -> float:
    """When the last run ended; a killed one, of which nobody knows that, when the first pause would have begun."""
    return last.end_time or ((last.start_time or 0.0) if tries > 1 else 0.0)


def _lasting_cause(instance: dg.DagsterInstance, run_id: str) -> str:
    """The first line of a failure of the run that no retry can help; empty if there is none, as of a run that was killed."""
    for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_FAILURE):
        event = entry.dagster_event
        told = event.step_failure_data.user_failure_data if event else None
        entry_of = (told.metadata or {}).get(RETRY_HELPS) if told else None
        if told and entry_of is not None and not entry_of.value:
            return (told.description or "").split("\n", 1)[0].rstrip(".")
    return ""


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("at %H:%M:%S UTC")
