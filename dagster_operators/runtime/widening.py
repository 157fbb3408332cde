"""Columns of a table that come to have wider types: its files are written anew with them, in an epoch that computes nothing.

Readers of Delta that do not know its type widening, as deltalake, refuse a table that has it (decision 16). So no file stays that
has the narrower types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dagster_operators.errors import LedgerError, PipelineError
from dagster_operators.planner.plan import without_marks
from dagster_operators.runtime.compacting import TARGET_SIZE, Work, written_anew
from dagster_operators.runtime.stored_changes import StoredChanges
from dagster_operators.transactions.effects import StageAttempt
from dagster_operators.transactions.manifest import KEPT_FOLDER, Change
from dagster_operators.transactions.plan import DatasetRecord
from dagster_operators.transactions.recovery import difference
from dagster_operators.transactions.tables import columns_of
from dagster_operators.transactions.transition import Transition, unfinished_in
from dagster_operators.transactions.transition_epoch import as_completed
from dagster_operators.transactions.widening import why_not_widened
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from dagster_operators.runtime.epochs import Epochs
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.records import Complete
    from dagster_operators.transactions.view import LedgerView


def widen(epochs: Epochs, table: str, *, again: bool = False) -> Complete:
    """Write a table anew with the wider types that the program gives its columns.

    Until an epoch of a program runs, this one is what ``dagster-operators diff``, ``rebuild`` and ``widen`` take: that of the
    last epoch has the narrower types.

    Args:
        epochs: The pipeline's, opened.
        table: The table.
        again: Whether a call before this one may have done it: then there is nothing to do, and the last epoch is returned.

    Raises:
        PipelineError: There is no such table, its columns do not only become wider, it has no rows, or is state.
        UndecidedChangeError: The program says that tables were renamed, which are so before, and something else is to be decided.
        LostFileError: A file is gone, or has not the rows that it was written with.
    """
    run, dataset = epochs.coordinator, f"tables/{table}"
    run.settle()
    epochs.planning.comparing.rename_tables()
    view = run.settle()
    last, plan = view.last_complete, view.last_plan
    where = {"pipeline": run.pipeline, "table": table}
    if last is None or plan is None:
        raise LedgerError("no epoch was completed yet", **where, remedy="run one: there is nothing to write anew")
    plan, wanted = as_completed(plan, last, view), _wanted(epochs, table)
    known = plan.datasets.get(dataset)
    if known is None or wanted is None:
        both = ", ".join(name.removeprefix("tables/") for name in plan.datasets if name.startswith("tables/"))
        raise PipelineError("there is no such table", **where, remedy=f"name one that was there in the last epoch: {both}")
    before = run.schema(dataset, view.versions[dataset])
    if again and _is_wide(before, wanted):
        return last
    _check(where, known, before, wanted)
    if not run.files(dataset, view.versions[dataset]):
        raise PipelineError(
            "the table has no rows: its columns are as the program has them with its first ones", **where,
            remedy="run an epoch: nothing is to be written anew",
        )  # fmt: skip
    widened = _widened(before, wanted)
    to = Transition(
        "widen", f"{table}: {difference(columns_of(before), columns_of(widened))}", last.offsets, last.watermarks, last.finished,
        last.held, unfinished=unfinished_in(last.metrics), times=last.times, emptied=view.emptied,
    )  # fmt: skip
    record = replace(known, schema_json=widened)
    plan = replace(plan, datasets={**plan.datasets, dataset: record})
    _keep_program(epochs, view).carry(plan, to, f"table {table}")
    return run.transit(plan, to, lambda attempt: _changes(run, view, attempt, dataset, record), {dataset})


def _keep_program(epochs: Epochs, view: LedgerView) -> StoredChanges:
    """What is asked, of the program that the table is made wider for, which may not have been refused yet."""
    comparing, stored = epochs.planning.comparing, StoredChanges(epochs.coordinator)
    if stored.refused() != (logical := comparing.keep()):
        comparing.keep_refused(epochs.refusals(), view, logical)
    return stored


def _wanted(epochs: Epochs, table: str) -> str | None:
    """The columns that the program gives a table."""
    made = epochs.plan()
    outputs = (output for stage in made.stages for output in stage.outputs if output.table is not None)
    return next((without_marks(made.schemas[one.ref]) for one in outputs if one.table and one.table.name == table), None)


def _check(where: Mapping[str, str], known: DatasetRecord, before: str, wanted: str) -> None:
    was, now = columns_of(before), columns_of(wanted)
    if _is_wide(before, wanted):
        raise PipelineError("its columns are as they were", **where, remedy="run an epoch: nothing is to be written anew")
    if problem := why_not_widened(known, was, now):
        again = f"change it back, or compute the table anew: pipeline.rebuild({where['table']!r})"
        raise PipelineError(f"{problem}: {difference(was, now)}", **where, remedy=again)


def _is_wide(before: str, wanted: str) -> bool:
    """Whether the columns that there are have the wanted types; new ones come with the next epoch."""
    return dict(columns_of(before)).items() <= dict(columns_of(wanted)).items()


def _widened(before: str, wanted: str) -> str:
    """The columns that there are, with their wider types; new ones come with the next epoch."""
    types = {field.name: field.type for field in Schema.from_json(wanted)}
    fields = tuple(replace(field, type=types[field.name]) for field in Schema.from_json(before))
    return Schema(fields).to_json()


def _changes(run: Coordinator, view: LedgerView, attempt: StageAttempt, dataset: str, record: DatasetRecord) -> Iterator[Change]:
    files = run.files(dataset, view.versions[dataset])
    folder = f"{attempt.directory(dataset)}/{KEPT_FOLDER}"
    work = Work(dataset, record.schema_json, [(file,) for file in files], (), TARGET_SIZE)
    adds = [made for n, group in enumerate(work.groups) for made in written_anew(run, work, group, f"{folder}/{n}")]
    yield Change(dataset, tuple(adds), tuple(file.path for file in files), data_change=False)
