"""What is told where a pipeline changed and somebody has to decide: what changed, and each way on as it is typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dagster_operators.errors import UndecidedChangeError
from dagster_operators.graph.reach import Reach

if TYPE_CHECKING:
    from dagster_operators.plans.logical_plan import LogicalPlan
    from dagster_operators.plans.verdict import Verdict
    from dagster_operators.runtime.ways_out import WaysOut


def undecided(
    pipeline: str,
    root: str,
    epoch: int,
    verdicts: Sequence[Verdict],
    ways: WaysOut,
) -> UndecidedChangeError:
    """The error about changes that somebody has to decide about.

    Args:
        pipeline: The pipeline's name.
        root: Its storage root.
        epoch: The last completed epoch.
        verdicts: The changes.
        ways: What may be done about them beside deciding.
    """
    lines = [f"the pipeline is not what it was in epoch {epoch}, and somebody has to decide what becomes of what is stored:"]
    for verdict in verdicts:
        lines.append(f"- {verdict.subject}: {verdict.problem}")
        lines += _in_python(verdict, ways.rebuilt.get(verdict.subject, ()))
        if others := ways.waits_for.get(verdict.subject):
            lines += _one_by_one(verdict, others)
        if sources := ways.reset.get(verdict.subject):
            named = repr(sources[0]) if len(sources) == 1 else list(sources)
            lines.append(
                f"    pipeline.reset({named}, 0, tables='restart'): what is behind begins anew, with what can be read still"
            )
        if sources := ways.reset_first.get(verdict.subject):
            named = repr(sources[0]) if len(sources) == 1 else list(sources)
            reset = f"pipeline.reset({named}, 0, tables='restart')"
            lines.append(f"    to begin without state reads no rows again; to compute it anew, first {reset}, then decide")
        if verdict.remedy:
            lines.append(f"    {verdict.remedy}")
        if not verdict.choices and (outside := ways.sinks.get(verdict.subject)):
            told = f"{', '.join(outside)} cannot give back what it took of it"
            lines.append(f"    {told}: take the sink out of the program, rebuild the tables, and put a new sink there")
    by_command = {about: tables for about, tables in ways.rebuilt.items() if not {*tables} & {*ways.in_program}}
    commands = dict.fromkeys(command for verdict in verdicts for command in _commands(root, verdict, by_command))
    in_python = any(verdict.choices or ways.rebuilt.get(verdict.subject) for verdict in verdicts)
    anew = any(verdict.read_anew or ways.reset.get(verdict.subject) for verdict in verdicts)
    first = verdicts[0]
    return UndecidedChangeError(
        "\n".join(lines), pipeline=pipeline, **{first.kind: first.name}, epoch=epoch,
        remedy=f"change the pipeline back{_or_by(list(commands), in_python=in_python)}{', or reset as above' * anew} "
        f"(what changed: {shlex.join(['dagster-operators', 'diff', root])})",
    )  # fmt: skip


def _or_by(commands: Sequence[str], *, in_python: bool) -> str:
    if not commands:
        return ", or decide in Python as above, with the rows that the program holds" if in_python else ""
    return f", or decide, in Python as above or by: {'; or '.join(commands)}"


def _in_python(verdict: Verdict, rebuilt: Sequence[str]) -> Iterator[str]:
    if verdict.renamed_from:
        yield f"    if it was renamed, say so in the program: renamed_from={verdict.renamed_from!r}"
    if verdict.fillable:
        yield "    if it is to have the rows of before, too, say so in the program: backfill=True of to_table"
    yield from (f"    pipeline.decide({verdict.subject!r}, {choice!r}): {meaning}" for choice, meaning in verdict.choices.items())
    if rebuilt:
        named = repr(rebuilt[0]) if len(rebuilt) == 1 else list(rebuilt)
        yield f"    pipeline.rebuild({named}): compute it anew, with the state behind it, from all that its sources gave"


def _one_by_one(verdict: Verdict, others: Sequence[str]) -> Iterator[str]:
    """What is told of tables that cannot be computed anew before an epoch that does not begin."""
    if verdict.renamed_from:
        yield "    if it is another one, give what it writes to a table of another name"
    elif not verdict.choices:
        first = ", ".join(others)
        yield f"    take this one back, run an epoch with what is decided about {first}, make it again and rebuild"


def _commands(root: str, verdict: Verdict, rebuilt: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for choice in verdict.choices:
        yield shlex.join(["dagster-operators", "decide", root, verdict.kind, verdict.name, choice])
    if tables := rebuilt.get(verdict.subject):
        yield shlex.join(["dagster-operators", "rebuild", root, *tables])


def tables_behind(plan: LogicalPlan, operator: str) -> set[str]:
    """The tables that rows of an operator lead to."""
    reach = Reach.of(plan.nodes, [pair for loop in plan.loops for pair in loop.feedback])
    behind = reach.behind([operator]) if operator in reach.reads else frozenset()
    return {table.name for table in plan.tables if table.stream.operator in behind}
