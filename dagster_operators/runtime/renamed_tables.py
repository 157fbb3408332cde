"""Tables that a program says were renamed: what the last epoch would be like if they had had their names of now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dagster_operators.runtime.results import table_names
from dagster_operators.transactions.renaming import as_renamed

if TYPE_CHECKING:
    from dagster_operators.graph.outputs import Table
    from dagster_operators.plans.logical_plan import LogicalPlan
    from dagster_operators.plans.verdict import Verdict
    from dagster_operators.transactions.view import LedgerView


def renamed_since(view: LedgerView, before: LogicalPlan | None, now: Sequence[Table]) -> dict[str, str]:
    """What the last completed epoch called tables that have another name now, by that.

    Args:
        view: The ledger.
        before: What that epoch ran, if a plan was kept.
        now: The tables of the program.

    Raises:
        ChangedPipelineError: A table is said to be renamed from what it cannot have been.
    """
    from dagster_operators.plans.table_renamings import renamed_tables

    plan = view.last_plan
    if plan is None:
        return {}
    written = dict.fromkeys(table_names(dict.fromkeys(plan.datasets, 0)), "")
    then = {table.name: table.renamed_from for table in before.tables} if before else written
    said = {table.name: table.renamed_from for table in now}
    return renamed_tables(then, said, table_names(view.versions), pipeline=view.name)


def as_of_now(view: LedgerView, before: LogicalPlan, names: Mapping[str, str]) -> tuple[LedgerView, LogicalPlan]:
    """The ledger and the plan of the last epoch as they are once the tables are renamed."""
    return (as_renamed(view, names), before.with_tables_renamed(names)) if names else (view, before)


def told(names: Mapping[str, str]) -> Iterator[Verdict]:
    """What is said of tables that are renamed."""
    from dagster_operators.plans.verdict import Level, Verdict

    for name, old in names.items():
        left = "" if old in names else f"; {old!r} stays as it is until it is dropped"
        yield Verdict(Level.KEPT, f"table {name}", f"it was {old!r}, and has all that was in that{left}")
