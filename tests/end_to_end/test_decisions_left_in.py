"""What was decided in the program may stay there, or be taken out, once the epoch that carried it out is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError
from dagster_operators.plans.verdict import Level
from tests.end_to_end.test_changed_pipelines import SCHEMA, Changed, clean, refused, rows, totals
from tests.engines import EMBEDDED

pytestmark = pytest.mark.usefixtures("sail")

Body = Callable[[Any], object]


def summed(stream: Any) -> None:
    stream.key_by("k").aggregate(n="sum(v)", name="per_key").to_table("totals")


def best(stream: Any, table: str = "best", **more: Any) -> None:
    stream.key_by("k").top(1, by="v DESC", name="top").to_table(table, **more)


def lowered(stream: Any) -> None:
    totals(stream.with_columns(k="lower(k)", name="low"))


def kept(stream: Any, **more: Any) -> None:
    stream.filter("v > 0", name="positive").to_table("kept", **more)


def other(stream: Any, **more: Any) -> None:
    totals(stream, name="other", **more)


class Case(NamedTuple):
    """A change, with what is decided about it.

    Attributes:
        before: The program of before, over the rows (a, 1) and (b, 1).
        said: The one that says what changed.
        plain: The same, without the words that say so.
        table: The table that is looked at.
        rows: What is in it once the row (a, 5) has come, with the epoch that carries the change out.
        later: What is in it once (b, 2) has come four times, too.
        decide: What is decided beside the program.
        source: What the source is, too, in the program that says it.
    """

    before: Body
    said: Body
    plain: Body
    table: str
    rows: dict[Any, int]
    later: dict[Any, int]
    decide: tuple[str, Any] | None = None
    source: dict[str, Any] = {}


CASES = {
    "operator renamed": Case(
        totals, lambda s: other(s, renamed_from="per_key"), other, "totals",
        {("a", 2): 1, ("b", 1): 1}, {("a", 2): 1, ("b", 5): 1},
    ),
    "source renamed": Case(
        totals, totals, totals, "totals",
        {("a", 2): 1, ("b", 1): 1}, {("a", 2): 1, ("b", 5): 1}, None, {"name": "landed", "renamed_from": "rows"},
    ),
    "table renamed": Case(
        clean, lambda s: kept(s, renamed_from="clean"), kept, "kept",
        {("a", 1): 1, ("b", 1): 1, ("a", 5): 1}, {("a", 1): 1, ("b", 1): 1, ("a", 5): 1, ("b", 2): 4},
    ),
    "table that is state renamed": Case(
        best, lambda s: best(s, "most", renamed_from="best"), lambda s: best(s, "most"), "most",
        {("a", 1, 5): 1, ("b", 1, 1): 1}, {("a", 1, 5): 1, ("b", 1, 2): 1},
    ),
    "restart": Case(
        totals, summed, summed, "totals", {("a", 5): 1}, {("a", 5): 1, ("b", 8): 1}, ("operator per_key", "restart")
    ),
    "keep": Case(
        totals, lowered, lowered, "totals",
        {("a", 2): 1, ("b", 1): 1}, {("a", 2): 1, ("b", 5): 1}, ("operator per_key", "keep"),
    ),
    "drop": Case(totals, other, other, "totals", {("a", 1): 1}, {("a", 1): 1, ("b", 4): 1}, ("operator per_key", "drop")),
}  # fmt: skip


def said(pipeline: do.Pipeline) -> list[str]:
    return [str(one) for one in pipeline.changes() if one.level is not Level.HARMLESS]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_with_the_words_and_without_them_it_goes_on(tmp_path: Path, case: Case) -> None:
    changed = Changed(tmp_path)
    changed.run("a,1", "b,1")(case.before)
    plainly = {name: value for name, value in case.source.items() if name != "renamed_from"}
    changed.arrive("a,5")
    pipeline = changed.pipeline(case.said, **case.source)
    if case.decide:
        pipeline.decide(*case.decide)
    pipeline.run_until_caught_up()
    assert rows(pipeline, case.table) == Counter(case.rows)
    for body, source in ((case.said, case.source), (case.plain, plainly)) * 2:
        pipeline = changed.pipeline(body, **source)
        assert said(pipeline) == []
        assert not pipeline.epochs.waiting()
        assert pipeline.run_epoch().empty
        changed.arrive("b,2")
        changed.pipeline(body, **source).run_until_caught_up()
    assert rows(changed.pipeline(case.plain, **plainly), case.table) == Counter(case.later)


@pytest.mark.parametrize(
    ("change", "subject", "choice"),
    [(summed, "operator per_key", "restart"), (lowered, "operator per_key", "keep"), (other, "operator per_key", "drop")],
    ids=["restart", "keep", "drop"],
)
def test_a_decision_that_stays_in_the_program_is_refused_once_it_is_carried_out(
    tmp_path: Path, change: Body, subject: str, choice: Any
) -> None:
    """It may not wait there for another change, which it would answer unasked."""
    changed = Changed(tmp_path)
    changed.run("a,1")(totals)
    pipeline = changed.pipeline(change)
    for _ in range(2):  # a program that is run again before the epoch
        pipeline.decide(subject, choice)
    assert pipeline.run_epoch().epoch == 2
    pipeline = changed.pipeline(change)
    before = rows(pipeline, "totals")
    with pytest.raises(PipelineError, match=r"nothing is to be decided about .*take the line out of the program"):
        pipeline.decide(subject, choice)
    changed.arrive("z,1")
    pipeline.run_epoch()
    assert rows(pipeline, "totals") == before + Counter({("z", 1): 1})


def test_a_drop_that_stays_in_the_program_is_refused_once_it_is_carried_out(tmp_path: Path) -> None:
    changed = Changed(tmp_path)
    changed.run("a,1")(lambda s: (totals(s), clean(s)))
    for _ in range(2):
        changed.pipeline(totals).drop("clean")
    changed.pipeline(totals).run_epoch()
    with pytest.raises(PipelineError, match="if it was dropped, take the line out"):
        changed.pipeline(totals).drop("clean")
    assert rows(changed.run("a,1")(totals), "totals") == Counter({("a", 2): 1})


def test_a_rebuild_that_stays_in_the_program_computes_the_same_again(tmp_path: Path) -> None:
    changed = Changed(tmp_path)
    changed.run("a,1", "b,1")(totals)
    for arrived, expected in (("a,5", {("a", 6): 1, ("b", 1): 1}), ("b,2", {("a", 6): 1, ("b", 3): 1})):
        pipeline = changed.pipeline(summed)
        pipeline.rebuild("totals")
        changed.arrive(arrived)
        pipeline.run_until_caught_up()
        assert rows(pipeline, "totals") == Counter(expected)
    pipeline = changed.pipeline(summed)
    assert said(pipeline) == []
    assert rows(changed.run("b,2")(summed), "totals") == Counter({("a", 6): 1, ("b", 5): 1})


def test_the_old_name_of_an_operator_is_used_again_while_the_words_stay(tmp_path: Path) -> None:
    def both(stream: Any) -> None:
        other(stream, renamed_from="per_key")
        stream.key_by("v").aggregate(n="count(*)", name="per_key").to_table("by_v")

    changed = Changed(tmp_path)
    changed.run("a,1", "b,1")(totals)
    changed.run("a,5")(lambda s: other(s, renamed_from="per_key"))
    pipeline = changed.run("b,2", begins="per_key")(both)
    assert rows(pipeline, "totals") == Counter({("a", 2): 1, ("b", 2): 1})
    assert rows(pipeline, "by_v") == Counter({(2, 1): 1})


def test_the_old_name_of_a_table_is_used_again_while_the_words_stay(tmp_path: Path) -> None:
    """In its folder are the rows of before still, of which is asked; nothing is moved again."""

    def both(stream: Any) -> None:
        kept(stream, renamed_from="clean")
        stream.filter("v > 1", name="more").to_table("clean")

    changed = Changed(tmp_path)
    changed.run("a,1", "b,1")(clean)
    changed.run("a,5")(lambda s: kept(s, renamed_from="clean"))
    changed.arrive("b,2")
    pipeline = changed.pipeline(both)
    assert "'table clean', 'restart'" in str(refused(pipeline))
    pipeline.decide("table clean", "restart")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "clean") == Counter({("b", 2): 1})
    assert rows(pipeline, "kept") == Counter({("a", 1): 1, ("b", 1): 1, ("a", 5): 1, ("b", 2): 1})


@pytest.mark.spark
def test_on_spark(spark: object, tmp_path: Path) -> None:
    assert spark is not None

    def pipeline(batches: int, **renamed: str) -> do.Pipeline:
        made = do.Pipeline("changed", root=str(tmp_path / "root"), engine=EMBEDDED)
        rows = made.source("rows", do.MemorySource([[("a", 1)]] * batches, schema=SCHEMA))
        name = "other" if batches > 1 else "per_key"
        rows.key_by("k").aggregate(n="count(*)", name=name, **renamed).to_table("totals")
        return made

    pipeline(1).run_until_caught_up()
    pipeline(2, renamed_from="per_key").run_until_caught_up()
    pipeline(3, renamed_from="per_key").run_until_caught_up()
    last = pipeline(4)
    assert said(last) == []
    last.run_until_caught_up()
    assert rows(last, "totals") == Counter({("a", 4): 1})
