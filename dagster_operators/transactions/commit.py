"""The second half of the two-phase commit: the decision, and carrying it out, as generators that yield effects."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from dagster_operators.errors import CheckFailedError, FencedError, ForeignWriteError, LedgerError
from dagster_operators.time.frontier import Frontier
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from dagster_operators.transactions.carrying import carried
from dagster_operators.transactions.codec import MADE_WHOLE
from dagster_operators.transactions.content_sums import sums_after
from dagster_operators.transactions.deleting import delete
from dagster_operators.transactions.effects import (
    CallParticipant,
    CommitTable,
    DeleteAttempts,
    FindLost,
    FindMissing,
    Now,
    ReadLedger,
    ReadManifest,
    ReadTables,
    TableStatus,
)
from dagster_operators.transactions.epoch_changes import changes_by_dataset
from dagster_operators.transactions.lost import PUT_BACK, RUN_AGAIN, files_of, how_to_repair, lost_error
from dagster_operators.transactions.manifest import Change, Manifest, TableTime
from dagster_operators.transactions.plan import STATE_OF, EpochHandle, PlanRecord
from dagster_operators.transactions.records import Begin, Complete, Decision, Prepared
from dagster_operators.transactions.recovery import (
    base_for_commit,
    check_tables,
    decided_datasets,
    generation_of,
    version_after_commit,
)
from dagster_operators.transactions.stage_keys import pieces
from dagster_operators.transactions.steps import RunContext, Steps, append, fence, unless_fenced
from dagster_operators.transactions.transition import Transition
from dagster_operators.transactions.view import LedgerView

N = TypeVar("N", int, float)


def commit_epoch(run: RunContext, handle: EpochHandle) -> Steps[Complete]:
    """Decide the epoch and carry it out; what is already done is not done again."""
    view: LedgerView = yield ReadLedger()
    done = completed(view, handle)
    if done:
        return done
    fence(view, run)
    require_begin(view, handle)
    tables: Mapping[str, TableStatus] | None = None
    if view.decision is None:
        view, tables = yield from unless_fenced(run, _decide(run, view, handle))
        if done := completed(view, handle):  # others went on while the answer was lost
            return done
    view = yield from roll_forward(run, view, looked=tables)
    done = completed(view, handle)
    if done is None:
        raise LedgerError(
            "another epoch was completed instead", pipeline=run.pipeline, epoch=handle.epoch, remedy="start a new run"
        )
    return done


def completed(view: LedgerView, handle: EpochHandle) -> Complete | None:
    """The completion of the handle's epoch, if it is the last one."""
    last = view.last_complete
    return last if last and last.epoch == handle.epoch and last.begin_id == handle.begin_id else None


def require_begin(view: LedgerView, handle: EpochHandle) -> Begin:
    """The begin of the handle's epoch, which must still be open."""
    begin = view.open_begin
    if begin is None or (begin.epoch, begin.begin_id) != (handle.epoch, handle.begin_id):
        now = f"epoch {begin.epoch} is open" if begin else f"epoch {view.last_epoch} is complete"
        raise LedgerError(
            f"this epoch is no longer open, it was begun anew or completed by another run ({now})",
            pipeline=view.name,
            epoch=handle.epoch,
            remedy="start a new run",
        )
    return begin


def _decide(run: RunContext, view: LedgerView, handle: EpochHandle) -> Steps[tuple[LedgerView, Mapping[str, TableStatus]]]:
    """The ledger with the decision, and the tables as they were before it."""
    begin = require_begin(view, handle)
    prepared = _all_prepared(view, begin)
    manifests = yield from read_manifests(prepared)
    _check_outcomes(run, begin, manifests)
    changes = changes_by_dataset(manifests, begin.plan)
    look = ReadTables(tuple(sorted(view.versions.keys() | begin.plan.datasets.keys())))
    yield from _require(
        changes.values(), "the epoch cannot be committed", RUN_AGAIN, view, look, pipeline=run.pipeline, epoch=begin.epoch
    )
    tables: Mapping[str, TableStatus] = yield look
    check_tables(view, tables, begin.plan)
    for dataset in begin.plan.datasets.keys() - view.versions.keys():
        if not tables[dataset].exists:
            raise ForeignWriteError("a new table was deleted", pipeline=run.pipeline, table=dataset, remedy="start a new run")
    for dataset, change in changes.items():
        if change.removes and (missing := (yield FindMissing(dataset, tables[dataset].version, change.removes))):
            raise LedgerError(
                f"{len(missing)} files to be removed are not in the table: {missing[:3]}", pipeline=run.pipeline, table=dataset,
                remedy=f"{how_to_repair(dataset, 'ours')}; then run again",
            )  # fmt: skip
    for index, (name, data) in enumerate(commit_data(run, manifests), start=1):
        yield CallParticipant(name, "prepare", begin.epoch, run.generation, data, index)
    expected = {**dict.fromkeys(begin.plan.datasets, 0), **view.versions}
    expected.update({dataset: expected[dataset] + 1 for dataset in changes})

    def decision(now: LedgerView) -> Decision | None:
        current = require_begin(now, handle)
        if now.decision is not None:
            return None
        _require_known_decisions(now)
        if _all_prepared(now, current) != prepared:
            raise LedgerError(
                "a stage was prepared anew meanwhile", pipeline=run.pipeline, epoch=begin.epoch, remedy="commit again"
            )
        return Decision(begin.epoch, run.generation, begin.begin_id, tuple(manifests), expected)

    return (yield from append(view, run, decision)), tables


def read_manifests(records: Sequence[Prepared]) -> Steps[list[Manifest]]:
    """The manifests of prepared stages, which a store is asked for at the same time."""
    reads = [ReadManifest(record.epoch, record.stage, record.attempt, record.digest) for record in records]
    manifests: list[Manifest] = []
    for index, read in enumerate(reads):
        manifests.append((yield read if index else replace(read, beside=tuple(reads[1:]))))
    return manifests


def _require_known_decisions(view: LedgerView) -> None:
    """An epoch that began before something was decided would be complete as if that had been carried out."""
    if view.decided_since_begin:
        raise LedgerError(
            "something was decided about the pipeline since the epoch began", pipeline=view.name, epoch=view.last_epoch + 1,
            remedy="start a new run, which begins the epoch as it was decided",
        )  # fmt: skip


def _require(
    changes: Collection[Change], so: str, remedy: str, view: LedgerView, beside: ReadTables | None = None, **where: Any
) -> Steps[None]:
    """All files that some changes add must be there as they were written."""
    if changes and (lost := (yield FindLost(files_of(changes), beside))):
        raise lost_error(lost, so, remedy, view=view, **where)


def _all_prepared(view: LedgerView, begin: Begin) -> tuple[Prepared, ...]:
    wanted, missing = pieces(begin.plan, view.prepared)
    if missing:
        raise LedgerError(
            f"not all stages are prepared: {', '.join(missing)}",
            pipeline=view.name,
            epoch=begin.epoch,
            remedy="run these stages first",
        )
    return tuple(view.prepared[name] for name in wanted)


def _check_outcomes(run: RunContext, begin: Begin, manifests: list[Manifest]) -> None:
    failed = [check for manifest in manifests for check in manifest.checks if check.blocking and not check.passed]
    if failed:
        first = failed[0]
        raise CheckFailedError(
            f"{', '.join(f'{check.table}.{check.name}' for check in failed)} failed: "
            f"{first.failed_rows} of {first.total_rows} rows "
            f"do not satisfy {first.expression}",
            pipeline=run.pipeline,
            table=first.table,
            check=first.name,
            epoch=begin.epoch,
            remedy="correct the input or the pipeline, or make the check not blocking; nothing was committed",
        )


def commit_data(run: RunContext, manifests: list[Manifest] | tuple[Manifest, ...]) -> Iterator[tuple[str, Any]]:
    """What each external participant was given to commit."""
    seen: set[str] = set()
    for manifest in manifests:
        for name, data in manifest.commit_data.items():
            if name in seen or name not in run.participants:
                reason = "is written by two stages" if name in seen else "is not known to this run"
                raise LedgerError(
                    f"the participant {name!r} {reason}",
                    pipeline=run.pipeline,
                    stage=manifest.stage,
                    remedy="let the pipeline have it until the epoch is complete, as when the epoch began",
                )
            seen.add(name)
            yield name, data


def roll_forward(
    run: RunContext, view: LedgerView, *, looked: Mapping[str, TableStatus] | None = None, replaced: Collection[str] = ()
) -> Steps[LedgerView]:
    """Carry the decision out: one commit for each table, the participants, the completion. Nothing in it is done twice.

    Args:
        run: The run.
        view: The ledger.
        looked: The tables, if it was seen just now how they are and that all files are there.
        replaced: Datasets that are replaced as a whole next: their files may be lost.
    """
    decision = view.decision
    if decision is None:
        return view
    sinks = tuple(commit_data(run, decision.manifests))
    changes = changes_by_dataset(decision.manifests)
    yield from unless_fenced(run, _commit_tables(run, view, decision, changes, looked=looked, replaced=replaced))
    for index, (name, data) in enumerate(sinks, start=1):
        yield CallParticipant(name, "commit", decision.epoch, run.generation, data, index)
    committed_at = yield Now()

    def complete(now: LedgerView) -> Complete | None:
        return _completion(now, decision, changes, run, committed_at) if now.decision == decision else None

    view = yield from append(view, run, complete)
    yield from tidy_up(view, run, decision)
    return view


def _commit_tables(
    run: RunContext,
    view: LedgerView,
    decision: Decision,
    changes: Mapping[str, Change],
    *,
    looked: Mapping[str, TableStatus] | None,
    replaced: Collection[str],
) -> Steps[None]:
    datasets = decided_datasets(view)
    tables = yield ReadTables(datasets, looked)
    bases = {dataset: base_for_commit(view, dataset, tables[dataset]) for dataset in datasets}
    open_yet = [dataset for dataset, base in bases.items() if base is not None and dataset not in replaced]
    waiting = () if looked is not None else [changes[dataset] for dataset in open_yet]
    so = f"epoch {decision.epoch} is decided and cannot be carried out"
    yield from _require(waiting, so, PUT_BACK, view, pipeline=run.pipeline, epoch=decision.epoch)

    def commit_of(dataset: str, base: int) -> CommitTable:
        index = datasets.index(dataset) + 1
        return CommitTable(dataset, base, decision.epoch, changes[dataset], view.pipeline, index, *_wanted(view, dataset))

    at_once = {name: commit_of(name, base) for name, base in bases.items() if base is not None and not changes[name].removes}
    told = False
    for dataset, base in bases.items():
        while base is not None:
            change = changes[dataset]
            if change.removes and (missing := (yield FindMissing(dataset, base, change.removes))):
                raise ForeignWriteError(
                    f"{len(missing)} files to be removed are no longer in the table: {missing[:3]}",
                    pipeline=run.pipeline,
                    table=dataset,
                    remedy=how_to_repair(dataset, "ours"),
                )
            commit = at_once.pop(dataset, None) or commit_of(dataset, base)
            if at_once and not told:
                commit, told = replace(commit, beside=tuple(at_once.values())), True
            if (yield commit) is None:
                break
            base = base_for_commit(view, dataset, (yield ReadTables((dataset,)))[dataset])  # noqa: PLW2901 - another wrote


def _wanted(view: LedgerView, dataset: str) -> tuple[str, bool, tuple[str, ...] | None]:
    """The table's columns, empty where its owner reads files of any; whether it has a change data feed; its partition columns."""
    record = view.open_begin.plan.datasets.get(dataset) if view.open_begin else None
    if record is None:
        return "", False, None
    return record.schema_json if not record.evolves else "", record.change_feed, record.partition_by


def _completion(
    view: LedgerView, decision: Decision, changes: Mapping[str, Change], run: RunContext, committed_at: float
) -> Complete:
    made = _computed(view, decision, changes, run, committed_at)
    begin = view.open_begin
    after = begin.transition if begin else None
    if begin is None or after is None:
        return made
    return replace(
        made, offsets=after.offsets, watermarks=after.watermarks, finished=after.finished, held=after.held, holders={},
        metrics=after.unfinished, transition=f"{after.kind} {after.told}", times=_times_behind(after, view.last_complete),
    )  # fmt: skip


def _times_behind(after: Transition, last: Complete | None) -> Mapping[str, TableTime]:
    if after.times is not None:
        return after.times
    return {} if after.kind == "rollback" or last is None else last.times  # of no rollback are those of the epoch before


def _computed(
    view: LedgerView, decision: Decision, changes: Mapping[str, Change], run: RunContext, committed_at: float
) -> Complete:
    begin = view.open_begin
    if begin is None or view.owner is None:
        raise LedgerError("the decided epoch has no begin", pipeline=run.pipeline, epoch=decision.epoch, remedy=MADE_WHOLE)
    last, plan, manifests = view.last_complete, begin.plan, decision.manifests
    changed = decided_datasets(view)
    slices = begin.slices
    origins = plan.origins
    versions = {
        **dict.fromkeys(plan.datasets, 0),
        **view.versions,
        **{name: version_after_commit(view, name) for name in changed},
    }
    external = tuple(name for manifest in manifests for name in manifest.commit_data)
    finished = set(slices.finished) | set(carried(dict.fromkeys(last.finished if last else ()), origins))
    return Complete(
        epoch=decision.epoch,
        generation=run.generation,
        begin_id=decision.begin_id,
        owner=view.owner,
        versions=versions,
        offsets={**carried(last.offsets if last else {}, origins), **{name: part.end for name, part in slices.offsets.items()}},
        watermarks=_end_watermarks(begin, manifests, finished),
        finished=tuple(sorted(finished)),
        rows=_sums(manifest.rows for manifest in manifests),
        late_rows=_sums(manifest.late_rows for manifest in manifests),
        rejected_rows=_sums(manifest.rejected_rows for manifest in manifests),
        started_at=view.started_at(decision.begin_id),
        committed_at=committed_at,
        seconds={manifest.stage: manifest.seconds for manifest in manifests},
        plan=plan.fingerprint,
        fingerprints={
            **_homeless(view.fingerprints, plan),
            **{name: record.fingerprint for name, record in plan.datasets.items()},
        },
        sources={**carried(last.sources if last else {}, origins), **plan.sources},
        last_epochs={**view.last_epochs, **dict.fromkeys(changed, decision.epoch)},
        checks=tuple(check for manifest in manifests for check in manifest.checks),
        external=external,
        schemas=plan.schemas,
        horizon=view.horizon,
        metrics=_sums(manifest.metrics for manifest in manifests),
        held=_end_held(begin, manifests),
        holders={stream: places for manifest in manifests for stream, places in manifest.holders.items()},
        logical_plan=plan.logical,
        identities=plan.identities,
        parts={**_parts_before(last, plan), **plan.parts},
        sinks=_sinks(begin, last, external),
        times={name: at for manifest in manifests for name, at in manifest.times.items()},
        contents=sums_after(view, changes),
    )


def _homeless(known: Mapping[str, str], plan: PlanRecord) -> dict[str, str]:
    """What must not change of datasets; tables that were an operator's state are that no more once another one is."""
    homes = {json.loads(record.fingerprint or "{}").get(STATE_OF): name for name, record in plan.datasets.items()}
    found = dict(known)
    for name, text in known.items():
        told = json.loads(text or "{}")
        if name not in plan.datasets and told.get(STATE_OF) in homes:
            found[name] = json.dumps({key: value for key, value in told.items() if key not in (STATE_OF, "state")})
    return found


def _sinks(begin: Begin, last: Complete | None, external: Collection[str]) -> dict[str, int]:
    """The last epoch that each external participant has: behind a rollback what it was to have then."""
    to = begin.transition
    before = to.sinks if to is not None and to.kind == "rollback" else last.sinks if last else {}
    return {**before, **dict.fromkeys(external, begin.epoch)}


def _parts_before(last: Complete | None, plan: PlanRecord) -> dict[str, str]:
    """The parts of operators that the plan no longer has: their state stays where it is."""
    return {part: whole for part, whole in (last.parts if last else {}).items() if part not in plan.operators}


def _end_watermarks(begin: Begin, manifests: tuple[Manifest, ...], finished: set[str]) -> dict[str, int]:
    ends = dict(begin.watermarks)
    for manifest in manifests:
        for source, watermark in manifest.watermarks.items():
            ends[source] = max(ends.get(source, MIN_WATERMARK), watermark)
    return {source: MAX_WATERMARK if source in finished else end for source, end in ends.items()}


def _end_held(begin: Begin, manifests: tuple[Manifest, ...]) -> dict[str, Frontier]:
    """What operators hold: as their stages told, and what those held before that said nothing of their time."""
    told = {operator for manifest in manifests for operator in manifest.watermarks}
    kept = {stream: frontier for stream, frontier in begin.held.items() if stream.partition(".")[0] not in told}
    return {**kept, **{stream: frontier for manifest in manifests for stream, frontier in manifest.held.items()}}


def _sums(parts: Iterator[Mapping[str, N]]) -> dict[str, N]:
    sums: dict[str, N] = {}
    for part in parts:
        for name, rows in part.items():
            sums[name] = sums[name] + rows if name in sums else rows
    return sums


def tidy_up(view: LedgerView, run: RunContext, decision: Decision) -> Steps[None]:
    """Delete the completed epoch's streams, and the attempts that were recorded but not decided and whose owner is fenced."""
    chosen = tuple(manifest.attempt for manifest in decision.manifests)
    recorded = {record.attempt for record in view.records if isinstance(record, Prepared) and record.epoch == decision.epoch}
    unused = tuple(sorted(attempt for attempt in recorded - set(chosen) if generation_of(attempt) < run.generation))
    yield DeleteAttempts(decision.epoch, chosen, streams_only=True)
    if unused:
        yield DeleteAttempts(decision.epoch, unused)
    last, plan = view.last_complete, view.last_plan
    if plan is not None and plan.deleted and last and last.begin_id == decision.begin_id and view.open_begin is None:
        with suppress(FencedError):  # the newer run does it
            yield from delete(run, view, plan.deleted)
