"""What is offered about a change of what reads changes works: each choice is decided, and the rebuild made, to the end."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import dagster_operators as do
from dagster_operators.errors import UndecidedChangeError
from dagster_operators.plans.verdict import Level
from tests.engines import EMBEDDED, SAIL
from tests.operators.change_logs import ChangeLog, at, read

Body = Callable[[do.Stream], object]

FIRST = ("insert", ("a", 1.0, 1, at(1))), ("insert", ("b", 2.0, 2, at(2))), ("insert", ("a", 5.0, 5, at(3)))
NEXT = ("delete", ("a", 1.0, 1, at(1))), ("insert", ("c", 3.0, 3, at(60)))
LOG = ChangeLog((FIRST, NEXT))


def counted(name: str, **more: Any) -> Body:
    return lambda rows: rows.key_by("k").aggregate(rows="count(*)", name=name, **more).to_table("t")


def best(name: str) -> Body:
    return lambda rows: rows.key_by("k").top(1, by="n DESC", name=name).to_table("t")


def last(name: str) -> Body:
    return lambda rows: rows.key_by("k").deduplicate(keep="last", name=name).to_table("t")


def joined(name: str) -> Body:
    def body(rows: do.Stream) -> None:
        others = rows.select("k", "n").rename(n="other")
        pairs = rows.filter("n > 0", name="positive").join(others, on="k", columns=["n", "other"], name=name)
        pairs.key_by("k").aggregate(pairs="count(*)", name="counts").to_table("t")

    return body


def per_window(emit: Any = None, name: str | None = "per_window") -> Body:
    def body(rows: do.Stream) -> None:
        rows.key_by("k").window(do.Tumbling("10 s")).aggregate(rows="count(*)", name=name, emit=emit).to_table("t")

    return body


def stay(made: Body) -> Body:
    """The same over rows that stay, without what takes one back."""
    return lambda rows: made(rows.final(name="final"))


class Case(NamedTuple):
    """A change, with what is told of it.

    Attributes:
        before: The program of before.
        after: The one that changed.
        told: A part of what is told.
        subjects: What is told about, each once or more.
    """

    before: Body
    after: Body
    told: str
    subjects: tuple[str, ...]


RENAMED = ("operator was", "operator now")
JOINED = ("operator was", "operator counts", "operator now")
CASES = {
    "aggregate renamed": Case(counted("was"), counted("now"), "it is gone", RENAMED),
    "top renamed": Case(best("was"), best("now"), "renamed_from='was'", RENAMED),
    "deduplicate renamed": Case(last("was"), last("now"), "it is gone", RENAMED),
    "join renamed": Case(joined("was"), joined("now"), "it reads now, and read was", JOINED),
    "another kind": Case(counted("one"), best("one"), "it is another kind of operator now", ("operator one",) * 2),
    "renamed over rows that stay": Case(stay(counted("was")), stay(counted("now")), "'operator was', 'drop'", ("operator was",)),
    "emit": Case(per_window(), per_window("final"), "emit was None, and is 'final'", ("operator per_window",) * 2),
    "emit away": Case(per_window("final"), per_window(), "emit was 'final', and is None", ("operator per_window",) * 2),
}  # fmt: skip


def marks_of(name: str) -> tuple[pytest.MarkDecorator, ...]:
    return () if name in ("aggregate renamed", "emit away") else (pytest.mark.slow,)


def pipeline(root: Path, body: Body, epochs: int = 2, engine: Any = SAIL) -> do.Pipeline:
    made = do.Pipeline("p", root=str(root), engine=engine)
    body(ChangeLog(LOG.epochs[:epochs]).stream(made, lateness="0 s"))
    return made


def offered_and_tried(place: Path, case: Case, engine: Any = SAIL) -> None:
    pipeline(place / "root", case.before, 1, engine).run_until_caught_up()
    changed = pipeline(place / "root", case.after, engine=engine)
    asked = [verdict for verdict in changed.changes() if verdict.level is Level.DECISION]
    assert [verdict.subject for verdict in asked] == [*case.subjects]
    with pytest.raises(UndecidedChangeError) as refused:
        changed.run_epoch()
    assert case.told in str(refused.value)
    for subject, choice in [(verdict.subject, choice) for verdict in asked for choice in verdict.choices]:
        shutil.copytree(place / "root", place / choice)
        decided = pipeline(place / choice, case.after, engine=engine)
        decided.decide(subject, choice)
        decided.run_epoch()
        shutil.rmtree(place / choice)
    assert "pipeline.rebuild('t')" in str(refused.value)
    changed.rebuild("t")
    changed.run_until_caught_up()
    pipeline(place / "anew", case.after, engine=engine).run_until_caught_up()
    assert read(changed, "t") == read(pipeline(place / "anew", case.after, engine=engine), "t") != Counter()


@pytest.mark.sail
@pytest.mark.parametrize("case", [pytest.param(case, id=name, marks=marks_of(name)) for name, case in CASES.items()])
def test_each_choice_that_is_offered_works(tmp_path: Path, case: Case) -> None:
    offered_and_tried(tmp_path, case)


@pytest.mark.spark
def test_on_spark(spark: object, tmp_path: Path) -> None:
    assert spark is not None
    offered_and_tried(tmp_path, CASES["emit away"], EMBEDDED)


def appended(body: Body, root: Path) -> do.Pipeline:
    """A program over the first rows, as rows that stay."""
    made = do.Pipeline("p", root=str(root), engine=SAIL)
    rows = do.MemorySource([[row for _, row in FIRST]], schema="k string, v double, n long, ts timestamp")
    body(made.source("rows", rows, event_time="ts"))
    return made


@pytest.mark.sail
def test_a_setting_that_moves_the_state_is_asked_about_once_with_what_is_emptied(tmp_path: Path) -> None:
    appended(counted("per_key", forget_after="1 day"), tmp_path).run_until_caught_up()
    changed = appended(counted("per_key"), tmp_path)
    (asked,) = changed.changes()
    assert asked.problem == (
        "what its state depends on changed: forget_after was 1 day, and is None: it would keep its state in other state tables"
    )
    assert asked.choices == {"restart": "begin without state, and empty t"}
    changed.decide(asked.subject, "restart")
    changed.run_epoch()
    assert changed.changes() == []
    assert read(changed, "t") == Counter()


@pytest.mark.sail
def test_what_has_the_name_of_what_is_dropped_keeps_its_own_state(tmp_path: Path) -> None:
    """It was deleted with what the other one left, in the epoch that filled it: results were silently too small."""

    def counts(source: str, make: Callable[[do.KeyedStream], do.Stream], epochs: int) -> do.Pipeline:
        made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        rows = do.MemorySource([[("a", n, "insert")] for n in range(epochs)], schema="k string, n long, op string")
        make(made.source(source, rows).as_changes("op").key_by("k")).to_table("t")
        return made

    counts("rows", lambda keyed: keyed.aggregate(rows="count(*)", name="one"), 1).run_until_caught_up()
    changed = counts("others", lambda keyed: keyed.top(5, by="n", name="one"), 3)
    for subject, choice in (("source others", "restart"), ("operator one", "drop")):
        changed.decide(subject, choice)  # type: ignore[arg-type]
    changed.run_until_caught_up()
    assert [row.n for row in changed.read("t").orderBy("n").collect()] == [0, 1, 2]
    assert changed.changes() == []
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["one_2.weighted"]
