"""What becomes of a pipeline's state, positions and tables when it changes: a pure function of its plan before and now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from dagster_operators.plans.applied import applied
from dagster_operators.plans.compared import ComparedPlans
from dagster_operators.plans.logical_plan import LogicalPlan
from dagster_operators.plans.matching import match
from dagster_operators.plans.operator_verdicts import OperatorVerdicts
from dagster_operators.plans.sink_verdicts import SinkVerdicts
from dagster_operators.plans.source_verdicts import SourceVerdicts
from dagster_operators.plans.table_verdicts import TableVerdicts
from dagster_operators.plans.taken_back import TakenBackVerdicts
from dagster_operators.plans.verdict import Stored, Verdict


def judge(before: LogicalPlan, after: LogicalPlan, stored: Stored, sources: Mapping[str, str] | None = None) -> list[Verdict]:
    """What follows from each change between two plans.

    Args:
        before: What the last completed epoch ran.
        after: What the next one is to run.
        stored: What else the ledger knows.
        sources: What gives positions their meaning now, by source; by default as far as the plan tells.
    """
    matching = match(before, after)
    compared = ComparedPlans(matching)
    of_sources = [verdict.answered(stored.decided) for verdict in SourceVerdicts(compared, stored, sources or {}).verdicts()]
    operators = OperatorVerdicts(compared, stored, restarted(of_sources))
    found = [*of_sources, *operators.verdicts(), *operators.of_settings()]
    taken_back = list(TakenBackVerdicts(compared, stored).verdicts())
    found = [verdict.answered(stored.decided) for verdict in [*taken_back, *_without_choices(found, taken_back)]]
    anew = restarted(found)
    ends = (*TableVerdicts(compared, stored, anew).verdicts(), *SinkVerdicts(compared, stored, anew).verdicts())
    found += [verdict.answered(stored.decided) for verdict in ends]
    return [*found, *applied(compared, matching, found)]


def _without_choices(verdicts: Iterable[Verdict], taken_back: Iterable[Verdict]) -> Iterator[Verdict]:
    """What would take back other rows than it was given can neither go on nor begin without state."""
    subjects = {verdict.subject for verdict in taken_back}
    for verdict in verdicts:
        yield replace(verdict, choices={}) if verdict.subject in subjects and verdict.choices else verdict


def restarted(verdicts: Iterable[Verdict]) -> frozenset[str]:
    """The operators and sources of which it was decided that they begin from nothing."""
    return frozenset(one.name for one in verdicts if one.decided == "restart" and one.kind in ("operator", "source"))
