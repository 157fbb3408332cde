"""The promises of the commit protocol: what holds in every state of the model world, whoever was interleaved or died."""

from __future__ import annotations

from dagster_operators.transactions.records import Begin, Complete, Decision, Generation, Prepared
from dagster_operators.transactions.stage_keys import StageKey, pieces, reads
from tests.transactions.model_world import FACTS, SUMS, World, interned


def check(world: World, *, sink: bool) -> None:
    records = [interned(number) for number in world.ledger]
    check_order(records)
    check_tables(world, records)
    check_files(world, records)
    if sink:
        check_sink(world, records)


def check_order(records: list) -> None:
    """One writer, one decision per epoch, no epoch lost or repeated, the input without gap or overlap."""
    generation = epoch = 0
    begin = decision = None
    end = 0
    for record in records:
        if isinstance(record, Generation):
            assert record.generation == generation + 1, "generations are taken one by one"
            generation = record.generation
            continue
        assert record.generation == generation, f"{record.kind} of a fenced generation"
        assert record.epoch == epoch + 1, f"{record.kind} of epoch {record.epoch} after epoch {epoch}"
        if isinstance(record, Begin):
            assert decision is None, "an epoch begun anew after its decision"
            assert record.slices.offsets["numbers"].start == end, "input lost or read twice"
            begin = record
            continue
        assert begin, f"{record.kind} without begin"
        assert record.begin_id == begin.begin_id, f"{record.kind} of another begin"
        if isinstance(record, Decision):
            assert decision is None, "two decisions for one epoch"
            check_decided(record, begin)
            decision = record
        elif isinstance(record, Complete):
            assert decision, "complete without decision"
            assert record.versions == decision.expected, "complete with other versions than decided"
            end = begin.slices.offsets["numbers"].end
            assert record.offsets["numbers"] == end
            epoch, begin, decision = record.epoch, None, None


_DECIDED: set[tuple[int, int]] = set()
"""Decisions that were looked at, by identity: records are kept, and many worlds have the same ones."""


def forget() -> None:
    """Let go of the decisions that were looked at, before their records go."""
    _DECIDED.clear()


def check_decided(decision: Decision, begin: Begin) -> None:
    """All pieces of work are decided, those of loops up to the round in which they came to rest, each made of the others."""
    if (id(decision), id(begin)) in _DECIDED:
        return
    decided = {manifest.stage: manifest for manifest in decision.manifests}
    names, missing = pieces(begin.plan, decided)
    assert (list(decided), missing) == (names, []), "other pieces of work than the plan has"
    for key, manifest in decided.items():
        assert set(manifest.reads) == set(reads(begin.plan, decided, StageKey.parse(key)) or ()), f"{key} reads something else"
        for name, attempt in manifest.reads.items():
            assert decided[name].attempt == attempt, f"{key} is made of another attempt at {name}"
    _DECIDED.add((id(decision), id(begin)))


def check_tables(world: World, records: list) -> None:
    """Only what is decided is in tables, once; what is complete is in all tables."""
    decisions = {record.epoch: record for record in records if isinstance(record, Decision)}
    completes = [record for record in records if isinstance(record, Complete)]
    for dataset, table in world.tables:
        assert list(table.commits) == sorted(set(table.commits)), f"an epoch twice or out of order in {dataset}"
        assert set(table.commits) <= decisions.keys(), "an undecided epoch in a table"
        assert table.version == table.applied_epoch, "one version per epoch"
        expected: set[str] = set()
        for epoch in table.commits:
            for manifest in decisions[epoch].manifests:
                change = manifest.change(dataset)
                if change:
                    expected = (expected - set(change.removes)) | {file.path for file in change.adds}
        assert table.files == expected, f"other files than decided in {dataset}"
    for complete in completes:
        for dataset in (FACTS, SUMS):
            assert complete.epoch in world.table(dataset).commits, "a complete epoch that is not in all tables"
            assert complete.versions[dataset] == complete.epoch


def check_files(world: World, records: list) -> None:
    """No file of a decided or valid attempt is deleted."""
    completed = {record.epoch for record in records if isinstance(record, Complete)}
    for decision in (record for record in records if isinstance(record, Decision)):
        for manifest in decision.manifests:
            assert ("tables", decision.epoch, manifest.attempt) in world.files, "files of a decided attempt were deleted"
    view = world.view()
    for record in view.prepared.values():
        assert isinstance(record, Prepared)
        assert (int(record.digest), record.attempt) in world.manifests or view.decision, (
            "the manifest of a valid attempt was deleted"
        )
        assert ("tables", record.epoch, record.attempt) in world.files, "files of a valid attempt were deleted"
        assert ("streams", record.epoch, record.attempt) in world.files or record.epoch in completed, (
            "a stream was deleted too early"
        )


def check_sink(world: World, records: list) -> None:
    """The external sink has each decided epoch at most once, with what was decided, and every complete one."""
    decided = [
        (r.epoch, data) for r in records if isinstance(r, Decision) for m in r.manifests for data in m.commit_data.values()
    ]
    committed = list(world.sink.committed)
    assert committed == decided[: len(committed)], "the sink holds something else than decided"
    completes = [record.epoch for record in records if isinstance(record, Complete)]
    assert [epoch for epoch, _ in committed][: len(completes)] == completes, "a complete epoch is not in the sink"
    for item in decided[len(committed) :]:
        assert item in world.sink.prepared, "the sink dropped what is decided"
