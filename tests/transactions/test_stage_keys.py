"""Which pieces of work an epoch has, and which reads which: stages, and the rounds of stages that are in a loop."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dagster_operators.errors import LedgerError
from dagster_operators.transactions.epoch_changes import changes_by_dataset, combined
from dagster_operators.transactions.manifest import Change, FileEntry, Manifest
from dagster_operators.transactions.plan import PlanRecord, StageRecord
from dagster_operators.transactions.stage_keys import Rounds, StageKey, groups, pieces, reads, valid_pieces


@dataclass(frozen=True)
class Done:
    goes_round: int = 0


PLAN = PlanRecord(
    "p",
    (
        StageRecord("start", "a"),
        StageRecord("body", "b", ("start",), "loop", ("tail",)),
        StageRecord("tail", "c", ("body", "start"), "loop"),
        StageRecord("out", "d", ("tail",)),
    ),
)
TWO_ROUNDS = {"start": Done(), "body@0": Done(), "tail@0": Done(3), "body@1": Done(), "tail@1": Done()}


def read(key: str, prepared: dict[str, Done]) -> tuple[str, ...] | None:
    return reads(PLAN, prepared, StageKey.parse(key))


@pytest.mark.parametrize("key", [StageKey("a"), StageKey("a_b", (0,)), StageKey("a", (2, 11))])
def test_a_key_is_its_text(key: StageKey) -> None:
    assert StageKey.parse(str(key)) == key


def test_a_round_reads_its_own_round_what_went_round_before_and_itself() -> None:
    assert read("body@0", {}) == ("start",)
    assert read("tail@0", {}) == ("body@0", "start")
    assert read("body@1", {}) == ("tail@0", "body@0")
    assert read("tail@2", {}) == ("body@2", "tail@1")


def test_a_loop_is_read_when_it_has_come_to_rest() -> None:
    loop = Rounds("loop", PLAN.stages[1:3])
    assert list(groups(PLAN)) == [PLAN.stages[0], loop, PLAN.stages[3]]
    assert read("out", {"start": Done(), "body@0": Done(), "tail@0": Done(3), "body@1": Done()}) is None
    assert read("out", TWO_ROUNDS) == ("tail@0", "tail@1")
    assert loop.last(TWO_ROUNDS) == 1


def test_what_is_missing_is_told_by_the_next_round() -> None:
    assert pieces(PLAN, {}) == (["start", "body@0", "tail@0", "out"], ["start", "body@0", "tail@0", "out"])
    half = {"start": Done(), "body@0": Done(), "tail@0": Done(3), "body@1": Done()}
    assert pieces(PLAN, half)[1] == ["tail@1", "out"]
    assert pieces(PLAN, {**TWO_ROUNDS, "out": Done()}) == (["start", "body@0", "tail@0", "body@1", "tail@1", "out"], [])


def test_pieces_are_valid_behind_valid_ones() -> None:
    found = {**TWO_ROUNDS, "out": Done(), "body@7": Done()}
    asked: list[str] = []

    def choose(key: StageKey, wanted: tuple[str, ...], valid: object) -> Done | None:
        asked.append(f"{key} reads {', '.join(wanted)}")
        return found.get(str(key))

    assert list(valid_pieces(PLAN, choose)) == ["start", "body@0", "tail@0", "body@1", "tail@1", "out"]
    assert asked[-1] == "out reads tail@0, tail@1"
    del found["body@0"]
    assert list(valid_pieces(PLAN, choose)) == ["start", "tail@0"]


NESTED = PlanRecord(
    "p",
    (
        StageRecord("start", "a"),
        StageRecord("head", "b", ("start",), "outer", ("tail",)),
        StageRecord("in", "c", ("head", "start"), "inner", ("in",)),
        StageRecord("tail", "d", ("in", "head"), "outer"),
        StageRecord("out", "e", ("tail",)),
    ),
    loops={"inner": "outer"},
)
"""A loop within a loop. The inner one comes to rest in two rounds, then in one; the outer one in two."""
AT_REST = {
    "start": Done(), "head@0": Done(), "in@0.0": Done(2), "in@0.1": Done(), "tail@0": Done(1),
    "head@1": Done(), "in@1.0": Done(), "tail@1": Done(), "out": Done(),
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("head@0", ["start"]),
        ("in@0.0", ["head@0", "start"]),
        ("in@0.1", ["in@0.0"]),
        ("tail@0", ["in@0.0", "in@0.1", "head@0"]),
        ("head@1", ["tail@0", "head@0"]),
        ("in@1.0", ["head@1", "in@0.1"]),  # it goes on with the state of the last round there was
        ("tail@1", ["in@1.0", "head@1", "tail@0"]),
        ("out", ["tail@0", "tail@1"]),
    ],
)
def test_what_a_round_of_a_loop_within_a_loop_reads(key: str, wanted: list[str]) -> None:
    assert list(reads(NESTED, AT_REST, StageKey.parse(key)) or ()) == wanted


def test_a_loop_within_a_loop_comes_to_rest_in_each_round() -> None:
    assert pieces(NESTED, AT_REST) == (list(AT_REST), [])
    assert list(valid_pieces(NESTED, lambda key, wanted, valid: AT_REST.get(str(key)))) == list(AT_REST)
    for cut in range(len(AT_REST)):
        done = dict(list(AT_REST.items())[:cut])
        assert pieces(NESTED, done)[1][0] == list(AT_REST)[cut]
        assert list(valid_pieces(NESTED, lambda key, wanted, valid, done=done: done.get(str(key)))) == list(done)
    waiting = {key: AT_REST[key] for key in ("start", "head@0", "in@0.0")}
    assert reads(NESTED, waiting, StageKey.parse("tail@0")) is None


def manifest(stage: str, *changes: Change) -> Manifest:
    return Manifest("p", 1, stage, f"g1-{stage}", "f", changes=changes)


def entry(path: str) -> FileEntry:
    return FileEntry(path, 1, 1)


def test_of_the_rounds_of_a_stage_the_last_says_what_becomes_of_a_table() -> None:
    first, last = Change("state/x", (entry("a"),)), Change("state/x", (entry("b"),), ("old",))
    table = Change("tables/t", (entry("c"),))
    found = changes_by_dataset([manifest("body@0", first), manifest("body@1", last), manifest("out", table)])
    assert found == {"state/x": last, "tables/t": table}
    assert changes_by_dataset([manifest("body@0", first), manifest("body@1", Change("state/x"))]) == {}
    with pytest.raises(LedgerError, match="written by two stages"):
        changes_by_dataset([manifest("body@0", first), manifest("tail@0", last)])


def test_changes_one_after_the_other() -> None:
    first = Change("state/x", (entry("a"), entry("b")), ("old",))
    assert combined(first, Change("state/x")) == first
    assert combined(first, Change("state/x", (entry("c"),), ("a", "older"))) == Change(
        "state/x", (entry("b"), entry("c")), ("old", "older")
    )
