"""What is to be done next, from the ledger and the tables alone: pure functions, so that every case is tested without a crash."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from dagster_operators.errors import (
    ChangedColumnsError,
    ChangedPipelineError,
    ForeignWriteError,
    LedgerError,
    RestoredTableError,
    WayOn,
)
from dagster_operators.graph.outputs import partitioned
from dagster_operators.transactions.effects import TableStatus
from dagster_operators.transactions.epoch_changes import changes_by_dataset
from dagster_operators.transactions.lost import how_to_repair, lost_table
from dagster_operators.transactions.plan import STATE_OF, DatasetRecord, PlanRecord, Slices
from dagster_operators.transactions.records import Begin, Prepared
from dagster_operators.transactions.tables import columns_of
from dagster_operators.transactions.view import LedgerView
from dagster_operators.transactions.widening import why_not_widened


@dataclass(frozen=True)
class RollForward:
    """The open epoch is decided: carry it out before anything else."""

    epoch: int


@dataclass(frozen=True)
class TidyUp:
    """An earlier owner may have died before it deleted what the completed epoch no longer needs."""

    epoch: int


@dataclass(frozen=True)
class AbortParticipants:
    """The open epoch is undecided: external participants drop what they have prepared for it."""

    epoch: int


@dataclass(frozen=True)
class NewGeneration:
    """The open epoch was begun under our own generation: fence what is left of ourselves, then look again."""


@dataclass(frozen=True)
class TakeUp:
    """Go on with the open epoch's slices under our generation and plan; stages that did not change keep their manifests."""

    begin: Begin


@dataclass(frozen=True)
class BeginEpoch:
    """Begin an epoch under this number; ``slices`` None: choose them."""

    epoch: int
    slices: Slices | None = None


@dataclass(frozen=True)
class DiscardAttempts:
    """Delete what earlier owners left of the open epoch, except the attempts in ``keep``."""

    epoch: int
    keep: frozenset[str]


Action: TypeAlias = RollForward | NewGeneration | TidyUp | AbortParticipants | TakeUp | BeginEpoch | DiscardAttempts


def recover(view: LedgerView, tables: Mapping[str, TableStatus], plan: PlanRecord) -> tuple[Action, ...]:
    """The actions that lead to a begun epoch, in order. After ``RollForward`` and ``NewGeneration`` look at the ledger again.

    Raises:
        ForeignWriteError: Someone else wrote a table.
        RestoredTableError: A table was deleted, replaced or put back to an older version.
        ChangedPipelineError: The plan does not fit what is stored.
    """
    if view.decision is not None:
        for dataset in decided_datasets(view):
            base_for_commit(view, dataset, tables[dataset])
        return (RollForward(view.decision.epoch),)
    check_tables(view, tables, plan)
    check_plan(view, tables, plan)
    begin = view.open_begin
    if begin is None:
        last = view.last_complete
        left = view.last_plan is not None and bool(view.last_plan.deleted)  # also by this run, if it failed before it deleted it
        tidy = (TidyUp(last.epoch),) if last and (left or last.generation < view.generation) else ()
        return (*tidy, BeginEpoch(view.last_epoch + 1))
    if begin.generation == view.generation:  # another process of the same run may still be at it
        return (NewGeneration(),)
    action, keep = _take_up(view, begin, plan)
    return action, AbortParticipants(begin.epoch), DiscardAttempts(begin.epoch, keep)


def _take_up(view: LedgerView, begin: Begin, plan: PlanRecord) -> tuple[Action, frozenset[str]]:
    if begin.transition is not None:  # it computes nothing: who wanted it makes it again
        return BeginEpoch(begin.epoch), frozenset()
    if (begin.plan.sources, begin.plan.origins) != (plan.sources, plan.origins):  # the offsets have lost their meaning
        return BeginEpoch(begin.epoch), frozenset()
    if _beginning(begin.plan) != _beginning(plan):  # the state that it was begun with is another's now, or to be emptied
        return BeginEpoch(begin.epoch, begin.slices), frozenset()
    versions = {**dict.fromkeys(begin.base_versions, 0), **view.versions}
    if any(begin.base_versions.get(dataset) != version for dataset, version in versions.items()):  # repaired or dropped since
        return BeginEpoch(begin.epoch, begin.slices), frozenset()
    # What has been recorded under this begin stays until the epoch is complete, valid or not: the plan may change back.
    recorded = {record.attempt for record in view.records if isinstance(record, Prepared) and record.begin_id == begin.begin_id}
    return TakeUp(begin), frozenset(recorded)


def _beginning(plan: PlanRecord) -> tuple[Any, ...]:
    """Which state and rows the stages of an epoch go on with."""
    return plan.identities, plan.emptied, plan.deleted


def check_tables(view: LedgerView, tables: Mapping[str, TableStatus], plan: PlanRecord) -> None:
    """Every table is exactly as the ledger says, and what the plan wants to create is free or already created by us."""
    for dataset, version in view.versions.items():
        if dataset in plan.deleted and not tables[dataset].exists:
            continue  # somebody was faster
        if dataset not in plan.datasets and not tables[dataset].exists:
            name = dataset.partition("/")[2] if dataset.startswith("tables/") else _operator(dataset)
            raise RestoredTableError(
                "a table that the pipeline no longer writes was deleted", pipeline=view.name, table=dataset,
                remedy=f"let it be forgotten: pipeline.drop({name!r}); or restore it from a backup",
            )  # fmt: skip
        if not tables[dataset].exists:
            gone = [other for other in view.versions if other != dataset and not tables[other].exists]
            raise _deleted(view, [dataset, *gone], version)
        check_table(view, dataset, tables[dataset], version, view.last_epochs.get(dataset, 0))
    for dataset in plan.datasets.keys() - view.versions.keys():
        if tables[dataset].exists:
            check_table(view, dataset, tables[dataset], 0, 0)


def check_table(view: LedgerView, dataset: str, status: TableStatus, version: int, last_epoch: int) -> None:
    """The table is ours, at ``version``, and ``last_epoch`` is the last of our epochs in it."""
    place = {"pipeline": view.name, "table": dataset, "found_version": status.version, "expected_version": version}
    if not status.exists:
        raise _deleted(view, [dataset], version)
    if status.pipeline not in ("", view.pipeline) and not newest_epoch(view):
        raise LedgerError(
            "the storage root has tables of a pipeline, and its ledger knows no epoch: the ledger that they belong to is lost",
            remedy="put the folder ledger back from a backup, in place of the new one; without one, move the tables and states "
            "away, or choose another storage root, and begin anew",
            **place,
        )
    if status.pipeline != view.pipeline:
        raise ForeignWriteError(
            "there is a table that is not this pipeline's",
            remedy="move it away, or choose another storage root or table name",
            **place,
        )
    if status.applied_epoch > (newest := max(newest_epoch(view), last_epoch)):
        raise RestoredTableError(
            f"the ledger is older than its tables: it ends with epoch {newest}, and epoch {status.applied_epoch} is in a table",
            remedy='put the newer ledger back; or pipeline.repair_all(keep="ours") puts the tables back to what it knows, '
            "and the epochs after that are run again",
            **place,
        )
    if status.version == version and status.applied_epoch < last_epoch:
        raise RestoredTableError(
            f"a table of the pipeline is older than the ledger says, or was written over: its version {version} is not the one "
            f"that epoch {last_epoch} committed",
            remedy=f"find out who wrote it; then {how_to_repair(dataset)}",
            **place,
        )
    if status.version < version:
        raise RestoredTableError("a table of the pipeline is older than the ledger says", remedy=how_to_repair(dataset), **place)
    if status.version > version or status.applied_epoch > last_epoch:
        raise ForeignWriteError(
            "a table of the pipeline was written by someone else",
            remedy=f"find out who wrote it; then {how_to_repair(dataset)}",
            **place,
        )


def _deleted(view: LedgerView, datasets: list[str], version: int) -> RestoredTableError:
    others = f" (and {len(datasets) - 1} more)" if datasets[1:] else ""
    return RestoredTableError(
        f"a table of the pipeline was deleted{others}", pipeline=view.name, table=datasets[0], found_version=-1,
        expected_version=version, remedy=lost_table(datasets, view),
    )  # fmt: skip


def newest_epoch(view: LedgerView) -> int:
    """The newest epoch that may be in a table: the decided one, else the last completed one."""
    return view.decision.epoch if view.decision else view.last_epoch


def check_plan(view: LedgerView, tables: Mapping[str, TableStatus], plan: PlanRecord, replaced: Collection[str] = ()) -> None:
    """The plan fits the stored tables and state, but for those that are replaced as a whole."""
    replaced = {*replaced, *plan.emptied, *plan.deleted}
    stored = {dataset: text for dataset, text in view.fingerprints.items() if dataset not in replaced}
    _check_homes(view.name, stored, plan)
    _check_forgotten(view, tables, plan, replaced)
    for dataset, record in plan.datasets.items():
        place = {"pipeline": view.name, "table": dataset.removeprefix("tables/")}
        operator = _present(plan, _operator(dataset))
        if stored.get(dataset) and record.fingerprint and stored[dataset] != record.fingerprint:
            raise ChangedPipelineError(
                f"what the stored data depends on has changed: {_changes(stored[dataset], record.fingerprint)}",
                operator=operator,
                remedy="change it back, give the operator and its table other names to start afresh, or "
                f"{_anew(dataset, operator)}",
                **place,
            ).offering(WayOn.REBUILD)
        status, wanted = tables[dataset], columns_of(record.schema_json)
        if record.change_feed and not status.alterable:
            raise ChangedPipelineError(
                "the table can have no change data feed: the storage root takes no conditional writes, or others have given the "
                "table features that this package does not write",
                remedy="leave change_feed=True out; PipelineSource with changes=True reads what changes in the table without it",
                **place,
            )
        anew = dataset in replaced or status.version == 0
        if status.exists and status.partition_by != record.partition_by and not (status.alterable and anew):
            instead = _anew(dataset, operator) if status.alterable else "write to a table of another name"
            raise ChangedPipelineError(
                f"the table is {partitioned(status.partition_by)}, and would be {partitioned(record.partition_by)}",
                remedy=f"change partition_by back, or {instead}",
                **place,
            ).offering(*([WayOn.REBUILD] if status.alterable else []))
        fits = dataset in replaced or _fits(status.columns, wanted, record)
        # Nobody but its operator reads a state, by the columns of the plan, so the table need not tell the one that came.
        goes_on = bool(record.may_lack) and _fits(status.columns, wanted, record)
        if status.exists and not record.evolves and status.columns != wanted and not (goes_on or (status.alterable and fits)):
            ways = _ways_on(status, record)
            raise ChangedColumnsError(
                f"the columns changed: {difference(status.columns, wanted)}",
                operator=operator,
                remedy=_columns_back(dataset, operator, ways),
                **place,
            ).offering(*ways)


def dataset_of(error: ChangedPipelineError, plan: PlanRecord) -> str:
    """The table or state that does not fit a plan, by the error of :func:`check_plan`; empty if it is none of them.

    >>> plan = PlanRecord("p", (), datasets={"tables/t": DatasetRecord("", "append"), "state/n.sums": DatasetRecord("", "state")})
    >>> [dataset_of(ChangedPipelineError("", table=told), plan) for told in ("t", "state/n.sums")]
    ['tables/t', 'state/n.sums']
    >>> dataset_of(ChangedPipelineError("", operator="sums"), plan)
    ''
    """
    told = str(error.where.get("table", ""))
    return told if not told or told in plan.datasets else f"tables/{told}"


def _check_homes(pipeline: str, stored: Mapping[str, str], plan: PlanRecord) -> None:
    """An operator whose state is a table keeps it there, and one that has state tables does not come to have it in a table."""
    before, now = _homes(stored), _homes({dataset: record.fingerprint for dataset, record in plan.datasets.items()})
    for operator in before.keys() & now.keys():
        if before[operator] != now[operator] and any(home.startswith("tables/") for home in (before[operator], now[operator])):
            raise ChangedPipelineError(
                f"the operator's state is in {before[operator]}, and would be in {now[operator]}",
                pipeline=pipeline,
                operator=_present(plan, operator),
                remedy=(
                    "let its rows go where they went (behind a select(...) its state is apart from the table); "
                    "to start afresh, give the operator and the table other names"
                ),
            )


def _check_forgotten(view: LedgerView, tables: Mapping[str, TableStatus], plan: PlanRecord, replaced: Collection[str]) -> None:
    """No operator goes on without what it remembers: rows that wait there would never come out.

    An operator whose state evolves may drop a table, as long as it keeps another.
    """
    remembering = {_operator(dataset): record.evolves for dataset, record in plan.datasets.items()}
    for dataset in view.versions:
        operator = None if dataset in plan.datasets or dataset in replaced else _operator(dataset)
        if operator in plan.operators and not remembering.get(operator) and tables[dataset].version > 0:
            kept = "its state elsewhere" if operator in remembering else "no state any more"
            raise ChangedPipelineError(
                f"the operator would keep {kept}, and has some in {dataset}",
                pipeline=view.name,
                operator=_present(plan, operator),
                remedy="change what comes before it back, or give the operator another name to start without that state",
            )


def _homes(fingerprints: Mapping[str, str]) -> dict[str, str]:
    """Where each operator has its state."""
    found = {operator: "state tables" for dataset in fingerprints if (operator := _operator(dataset))}
    kept = {name: dataset for dataset, text in fingerprints.items() if (name := json.loads(text or "{}").get(STATE_OF))}
    return {**found, **kept}


def _operator(dataset: str) -> str | None:
    """The operator whose state the dataset is."""
    return dataset.removeprefix("state/").rpartition(".")[0] if dataset.startswith("state/") else None


def _changes(stored: str, wanted: str) -> str:
    """What differs between two fingerprints.

    >>> _changes('{"keys": ["k"], "aggregates": {"n": "sum(v)"}}', '{"keys": ["k"], "aggregates": {"n": "max(v)"}}')
    'aggregates.n was "sum(v)" and is "max(v)"'
    """
    before, after = _flat(json.loads(stored)), _flat(json.loads(wanted))
    parts = [
        f"{name} was {before.get(name, 'not there')} and is {after.get(name, 'gone')}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]
    return "; ".join(parts)


def _flat(value: Any, path: str = "") -> dict[str, str]:
    if not isinstance(value, dict):
        return {path: json.dumps(value)}
    return {name: text for key, inner in value.items() for name, text in _flat(inner, f"{path}.{key}" if path else key).items()}


def _present(plan: PlanRecord, identity: str | None) -> str | None:
    """What the program calls the operator whose state is addressed so, or that of a part of it.

    >>> plan = PlanRecord("", (), identities={"totals": "per_key", "totals.left": "kept"}, parts={"kept": "per_key"})
    >>> _present(plan, "kept"), _present(plan, "other"), _present(plan, None)
    ('totals', 'other', None)
    """
    whole = plan.parts.get(identity, identity) if identity else None
    return next((name for name, one in plan.identities.items() if one == whole and one is not None), whole)


def _anew(dataset: str, operator: str | None) -> str:
    """How a table, or an operator's state, is computed anew.

    >>> _anew("tables/totals", None), _anew("state/kept.partials", "per_key")
    ("compute it anew: pipeline.rebuild('totals')", "compute it anew: pipeline.rebuild(operators='per_key')")
    """
    what = f"operators={operator!r}" if operator else repr(dataset.partition("/")[2])
    return f"compute it anew: pipeline.rebuild({what})"


def _ways_on(status: TableStatus, record: DatasetRecord) -> list[WayOn]:
    """The methods that help where a table has other columns than the program: none where we may not alter it."""
    if not status.alterable:
        return []
    widens = not why_not_widened(record, status.columns, columns_of(record.schema_json))
    return [*([WayOn.WIDEN] if widens else []), WayOn.REBUILD]


def _columns_back(dataset: str, operator: str | None, ways: Sequence[WayOn]) -> str:
    """The remedy for other columns.

    >>> _columns_back("tables/t", None, [WayOn.REBUILD])
    "change them back, write to a table of another name, or compute it anew: pipeline.rebuild('t')"
    >>> _columns_back("tables/t", None, [])
    'change them back, or write to a table of another name'
    """
    wider = f"let its rows have the wider types: pipeline.widen({dataset.partition('/')[2]!r})"
    calls = {WayOn.WIDEN: wider, WayOn.REBUILD: _anew(dataset, operator)}
    by_hand = ["change them back", "write to a table of another name"]
    return ", or ".join([", ".join(by_hand), *(calls[way] for way in ways)] if ways else by_hand)


def _fits(stored: tuple[tuple[str, str], ...], wanted: tuple[tuple[str, str], ...], record: DatasetRecord) -> bool:
    """Whether rows that are there may stay where columns are others."""
    if record.kind == "state":
        there = {name for name, _ in stored}
        known = [one for one in wanted if one[0] in there or one[0] not in record.may_lack]
        return known == [*stored] or (record.by_name and sorted(stored) == sorted(known))
    is_state = STATE_OF in json.loads(record.fingerprint or "{}")  # rows that tie go by the order of their columns
    return _only_adds(stored, wanted) and not (is_state and [one for one in wanted if one in stored] != [*stored])


def _only_adds(stored: tuple[tuple[str, str], ...], wanted: tuple[tuple[str, str], ...]) -> bool:
    """Whether columns are only added: rows that are there have nulls in them."""
    after = dict(wanted)
    return all(after.get(name) == kind for name, kind in stored)


def difference(stored: tuple[tuple[str, str], ...], wanted: tuple[tuple[str, str], ...]) -> str:
    """In what columns, as names and types, two tables differ.

    >>> difference((("n", "long"), ("k", "string")), (("n", "integer"), ("m", "long")))
    'k (string) is gone; m (long) is new; n was long and is integer'
    """
    before, after = dict(stored), dict(wanted)
    parts = [f"{name} ({before[name]}) is gone" for name in before if name not in after]
    parts += [f"{name} ({after[name]}) is new" for name in after if name not in before]
    parts += [
        f"{name} was {before[name]} and is {after[name]}" for name in before if after.get(name, before[name]) != before[name]
    ]
    return "; ".join(parts) or "their order"


def decided_datasets(view: LedgerView) -> tuple[str, ...]:
    """The datasets the open decision commits to, in the order of the stages."""
    if view.decision is None:
        return ()
    return tuple(changes_by_dataset(view.decision.manifests))


def base_for_commit(view: LedgerView, dataset: str, status: TableStatus) -> int | None:
    """The version at which the decided epoch's change is to be committed; None when that has been done.

    Raises:
        ForeignWriteError, RestoredTableError: The table is not as the decision found it.
    """
    if view.decision is None:
        raise LedgerError("nothing is decided", pipeline=view.name, remedy="start a new run")
    epoch, version = view.decision.epoch, view.versions.get(dataset, 0)
    last_epoch = view.last_epochs.get(dataset, 0)
    if status.applied_epoch < epoch:
        check_table(view, dataset, status, version, last_epoch)
        return version
    check_table(view, dataset, status, version_after_commit(view, dataset), epoch)
    return None


def version_after_commit(view: LedgerView, dataset: str) -> int:
    """The version a dataset has when the decided epoch is in it."""
    epoch = view.decision.epoch if view.decision else 0
    accepted = view.last_epochs.get(dataset, 0) >= epoch  # a repair since the decision found it already in
    return view.versions.get(dataset, 0) + (0 if accepted else 1)


def generation_of(attempt: str) -> int:
    """The generation that made an attempt.

    >>> generation_of("g12-0badcafe")
    12
    """
    return int(attempt.partition("-")[0].removeprefix("g"))
