"""What may be done about changes that somebody has to decide about, where not every answer goes with every other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dagster_operators.graph.reach import Reach
from dagster_operators.runtime.rebuildable import (
    cannot_be_filled,
    in_the_way,
    only_in_program,
    read_anew_before_restart,
    read_anew_for,
    rebuildable,
    tables_shown_by,
)

if TYPE_CHECKING:
    from dagster_operators.plans.logical_plan import LogicalPlan
    from dagster_operators.plans.verdict import Verdict


@dataclass(frozen=True)
class WaysOut:
    """What may be done, by the subjects of changes.

    Attributes:
        rebuilt: The tables that may be computed anew instead of deciding; none where that is no way on.
        waits_for: The changes that take effect with an epoch, before which the tables cannot be computed anew.
        sinks: The sinks for which they may not.
        renamed: The changes that are one with another one, which can only be settled by saying that something was renamed.
        unfillable: The changes about new tables that cannot have the rows of before, as a source does not keep them.
        reset: The sources that may be read anew from their beginning instead, where nothing else is left.
        in_program: The tables that the program alone can compute anew, and no command.
        reset_first: The sources that are read anew before an operator begins without state, where it cannot be rebuilt.
    """

    rebuilt: Mapping[str, Sequence[str]] = field(default_factory=dict)
    waits_for: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sinks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    renamed: Collection[str] = ()
    unfillable: Collection[str] = ()
    reset: Mapping[str, Sequence[str]] = field(default_factory=dict)
    in_program: Collection[str] = ()
    reset_first: Mapping[str, Sequence[str]] = field(default_factory=dict)


def ways_out(verdicts: Sequence[Verdict], before: LogicalPlan | None, after: LogicalPlan) -> WaysOut:
    """What may be done about changes.

    What can only be settled by computing tables anew is so at once, all of it: each alone would be refused because of the other.
    What begins anew does so with an epoch, which does not begin before that; and tables are computed by a program of which
    nothing waits for an epoch. So these two are made one after the other.

    Args:
        verdicts: The changes that are not settled, and those that are decided.
        before: What the last epoch ran.
        after: What the pipeline is now.
    """
    tables = {one.subject: rebuildable(one, before, after) for one in verdicts}
    together = {name for one in verdicts if not one.choices and not one.decided for name in tables[one.subject]}
    rebuilt = {subject: sorted({*names, *together}) if names else [] for subject, names in tables.items()}
    begin = [one for one in verdicts if _begins_anew(one, tables[one.subject])]
    waits: dict[str, list[str]] = {}
    reach = Reach.of(after.nodes, [pair for loop in after.loops for pair in loop.feedback])
    for subject in [one.subject for one in verdicts if begin and not one.decided and rebuilt[one.subject]]:
        leading = reach.before([table.stream.operator for table in after.tables if table.name in rebuilt[subject]])
        if left := [one.subject for one in begin if not _settled(one, rebuilt[subject], leading, before, after)]:
            waits[subject], rebuilt[subject] = left, []
    # A source that is another by its name alone is one change with the operators of its own.
    stuck = {other for one in verdicts if one.renamed_from and not one.choices for other in waits.get(one.subject, ())}
    renamed = {one.subject for one in verdicts if one.subject in stuck and one.renamed_from}
    unfillable = {one.subject for one in verdicts if one.fillable and cannot_be_filled(one, before, after)}
    sinks = {one.subject: in_the_way(one, before, after) for one in verdicts}
    stranded = [one for one in verdicts if not (one.choices or one.decided or rebuilt[one.subject] or one.subject in waits)]
    reset = {one.subject: read_anew_for(one, before) for one in stranded if before is not None and not sinks[one.subject]}
    alone = [verdict for verdict in verdicts if not rebuilt[verdict.subject]]
    reset_first = {verdict.subject: read_anew_before_restart(verdict, before) for verdict in alone if before is not None}
    return WaysOut(rebuilt, waits, sinks, renamed, unfillable, reset, only_in_program(after), reset_first)


def _begins_anew(verdict: Verdict, tables: Sequence[str]) -> bool:
    """Whether a change takes effect with an epoch, as it was decided, or as nothing else is left."""
    if verdict.decided or tables:
        return verdict.decided in ("restart", "drop")
    return bool(verdict.choices) and {"restart", "drop"} >= verdict.choices.keys()


def _settled(
    verdict: Verdict, tables: Sequence[str], leading: Collection[str], before: LogicalPlan | None, after: LogicalPlan
) -> bool:
    """Whether a change is one of what is computed anew with some tables."""
    shown = tables_shown_by(verdict, before, after)
    return (verdict.kind == "operator" and verdict.name in leading) or (bool(shown) and shown <= {*tables})


def without_dead_ends(verdicts: Sequence[Verdict], ways: WaysOut) -> list[Verdict]:
    """Changes without the choices after which another one could not be settled."""
    left = [replace(one, choices={}) if one.subject in ways.renamed else one for one in verdicts]
    return [replace(one, fillable=False) if one.subject in ways.unfillable else one for one in left]
