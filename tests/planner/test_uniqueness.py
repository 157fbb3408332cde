"""By which columns rows are unique in a plan, who relies on it, and plans made wrong on purpose that are refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError
from dagster_operators.operators.physical import PhysicalOperator
from dagster_operators.planner import uniqueness
from dagster_operators.planner.explain import explain
from dagster_operators.planner.lowering import lower
from dagster_operators.planner.properties import check_properties, with_met_exchanges
from dagster_operators.planner.stages import cut
from dagster_operators.planner.uniqueness import UniqueRows
from tests.engines import ENGINES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dagster_operators.planner.physical_plan import PhysicalNode, PhysicalPlan

SCHEMA = "k string, j string, v long, t timestamp"
HOUR = do.Tumbling("1 hour")
_EVENTS = (("a", 1, "insert"), ("b", 2, "insert"), ("a", 1, "delete"), ("a", 3, "insert"))
LOG = [dict(zip(("id", "v", "op"), event, strict=True)) for event in _EVENTS]


def rows() -> do.Stream:
    return do.Pipeline("p", root="unused").source("rows", do.MemorySource([], schema=SCHEMA), event_time="t")


def planned(stream: do.Stream, **table: Any) -> PhysicalPlan:
    stream.to_table("out", **table)
    plan = lower(stream._dataflow)
    return with_met_exchanges(stream._dataflow, plan, cut(plan))


def by_hour(stream: do.Stream | None = None) -> do.Stream:
    keyed = (rows() if stream is None else stream).key_by("k")
    return keyed.window(HOUR).aggregate(n="count(*)", most="max(v)", name="hours")


def twice(stream: do.Stream) -> do.Stream:
    return stream.filter("n > 1").union(stream.filter("n > 2"))


def sums() -> do.Stream:
    return rows().key_by("k", "j").aggregate(n="count(*)", name="sums")


@pytest.mark.parametrize(
    ("build", "found"),
    [
        (rows, ""),
        (by_hour, "k, window_start"),
        (lambda: by_hour().filter("n > 1").select("K AS l", "window_start", "n"), "l, window_start"),
        (lambda: by_hour().rename({"k": "l"}).with_columns(m="n + 1").drop("most"), "l, window_start"),
        (lambda: by_hour().with_columns(k="upper(k)"), ""),
        (lambda: by_hour().drop("window_start"), ""),
        (lambda: by_hour().select("k", "window_start", "explode(array(1, 2)) AS x"), ""),
        (lambda: twice(by_hour()), ""),
        (sums, "j, k"),
        (lambda: rows().key_by().aggregate(n="count(*)", name="all"), "nothing, as there is one at most"),
        (lambda: rows().key_by("k").deduplicate(keep="last"), "k"),
        (lambda: rows().key_by("k").deduplicate(), "k"),
        (lambda: rows().key_by("k").deduplicate(within="1 hour"), ""),
        (lambda: rows().key_by("k").top(1, by="v"), "k, rank or by k"),
        (lambda: rows().key_by("k").top(2, by="v"), "k, rank"),
        (lambda: rows().key_by("k").window(HOUR).top(2, by="v"), "k, rank, window_end, window_start"),
        (lambda: rows().key_by("k").window(HOUR).top(2, by="v", ties=True), ""),
        (lambda: rows().key_by("k").window(do.Session("1 hour")).aggregate(n="count(*)"), "k, window_start"),
        (lambda: sums().to_changes(), ""),
        (lambda: sums().to_changes().latest("k"), "k"),
        (lambda: sums().to_changes().key_by("k").aggregate(n="sum(n)"), "k"),
        (lambda: sums().to_changes().key_by("k").top(1, by="n"), "k, rank or by k"),
    ],
)
def test_rows_are_unique_by_columns_that_are_handed_on(build: Callable[[], do.Stream], found: str) -> None:
    stream = build()
    plan = planned(stream)
    assert str(UniqueRows(stream._dataflow, plan).of(plan.nodes[stream.name])) == found


def alone(plan: PhysicalPlan) -> set[str]:
    return {node.name for node in plan for edge in node.inputs if edge.is_unique}


@pytest.mark.parametrize(
    ("build", "table", "found"),
    [
        (by_hour, {"mode": "upsert", "key": ["k", "window_start", "window_end"]}, {"upsert"}),
        (lambda: by_hour().rename({"k": "K"}), {"mode": "upsert", "key": ["K", "window_start"]}, {"upsert"}),
        (by_hour, {"mode": "upsert", "key": ["k"]}, set()),
        (lambda: by_hour().key_by("k", "window_start").deduplicate(name="last", keep="last"), {}, {"last"}),
        (lambda: by_hour().key_by("k", "window_start", "n").deduplicate(name="first"), {}, {"first"}),
        (lambda: by_hour().key_by("window_start").deduplicate(name="first"), {}, set()),
        (lambda: by_hour().key_by("k", "window_start").top(3, by="n", name="top"), {}, {"top"}),
        (lambda: sums().to_changes(name="changes").latest("k", "j"), {}, {"changes"}),
    ],
)
def test_unique_rows_are_not_brought_together(build: Callable[[], do.Stream], table: dict[str, Any], found: set[str]) -> None:
    stream = build()
    plan = planned(stream, **table)
    assert alone(plan) == found
    assert explain(stream._dataflow).count("together: they are unique by") == len(found)


def test_rows_of_all_rounds_are_not_those_of_one() -> None:
    pipeline = do.Pipeline("p", root="unused")
    walk = pipeline.loop("walk")
    again = walk.variable("again", "n long")
    entered = walk.enter(pipeline.source("rows", do.MemorySource([], schema="n long")))
    fresh = entered.union(again).key_by("n").deduplicate(name="fresh")
    walk.feed(again, fresh.filter("n > 0").select("n - 1 AS n"))
    within = fresh.key_by("n").deduplicate(name="again_within")
    behind = walk.leave(within).key_by("n").deduplicate(name="behind")
    assert alone(planned(behind)) == {"again_within"}


def wrong(plan: PhysicalPlan, name: str, change: Callable[[PhysicalNode], PhysicalNode]) -> PhysicalPlan:
    return replace(plan, nodes={**plan.nodes, name: change(plan.nodes[name])})


def taken_for_unique(node: PhysicalNode) -> PhysicalNode:
    return replace(node, inputs=tuple(replace(edge, is_unique=True) for edge in node.inputs))


@pytest.mark.parametrize(
    ("build", "name", "told"),
    [
        (lambda: rows().key_by("k").deduplicate(name="first"), "first", "unique by k, and they are not known to be unique"),
        (lambda: by_hour().key_by("k").deduplicate(name="first"), "first", "by k, and they are unique by k, window_start"),
        (sums, "sums", "unique by nothing that it asks, and they are not known to be unique"),
        (
            lambda: by_hour().filter("n > 1", name="many"),
            "many",
            "unique by nothing that it asks, and they are unique by k, window",
        ),
    ],
)
def test_a_plan_that_takes_rows_for_unique_is_refused(build: Callable[[], do.Stream], name: str, told: str) -> None:
    stream = build()
    plan = planned(stream)
    with pytest.raises(PipelineError, match=told) as refused:
        check_properties(stream._dataflow, wrong(plan, name, taken_for_unique), cut(plan))
    assert refused.value.operator == name
    check_properties(stream._dataflow, plan, cut(plan))


def test_an_operator_that_gives_more_rows_makes_the_plan_wrong() -> None:
    """The marks of a plan do not hold for another one, in which what made rows unique is not there."""
    stream = by_hour().filter("n > 1", name="many").key_by("k", "window_start").deduplicate(name="first")
    plan = planned(stream)
    assert alone(plan) == {"first"}
    source = plan.nodes["hours"].inputs
    other = wrong(plan, "many", lambda node: replace(node, inputs=source))
    with pytest.raises(PipelineError, match="they are not known to be unique"):
        check_properties(stream._dataflow, other, cut(plan))


# --- on engines -----------------------------------------------------------------------------------------------------------


def batches() -> list[list[dict[str, Any]]]:
    """Two epochs with keys of both, rows that are equal, and several hours."""
    rows = [
        {"k": f"k{n % 3}", "j": f"j{n % 2}", "v": n // 2 % 5, "t": datetime(2024, 1, 1, 1 + n // 10, n % 10, tzinfo=UTC)}
        for n in range(24)
    ]
    return [[*rows[:15], rows[3]], rows[15:]]


def every_kind(pipeline: do.Pipeline) -> None:
    """A table behind each operator that says by which columns its rows are unique, and behind each that asks."""
    source = pipeline.source("rows", do.MemorySource(batches(), schema=SCHEMA), event_time="t", finished=True)
    hours = source.key_by("k").window(HOUR).aggregate(n="count(*)", most="max(v)", name="hours")
    hours.to_table("hours", mode="upsert", key=["k", "window_start"])
    pipeline.table("hours").to_table("copy", mode="replace")
    carried = hours.key_by("k", "window_start")
    carried.deduplicate(name="first").to_table("first")
    carried.deduplicate(keep="last", name="last").to_table("last")
    carried.top(3, by="n", name="top").with_columns(m="n + 1").to_table("top_with_state")
    source.key_by("k").window(do.Session("5 minutes")).aggregate(n="count(*)").to_table("sessions")
    source.key_by("k").window(HOUR).top(2, by="v").to_table("best")
    changes = source.key_by("k", "j").aggregate(n="count(*)", v="sum(v)", name="totals").to_changes(name="changes")
    changes.latest("k", "j").to_table("latest")
    changes.key_by("k").aggregate(n="sum(n)", most="max(v)").to_table("of_changes")
    changes.key_by("k").top(1, by="v").to_table("best_of_changes")
    log = pipeline.source("log", do.MemorySource([LOG[:2], LOG[2:]], schema="id string, v long, op string"))
    log.as_changes("op").latest("id").to_table("of_log")


def tables(pipeline: do.Pipeline) -> dict[str, Any]:
    return {name: sorted(map(str, map(tuple, pipeline.read(name).collect()))) for name in pipeline.dataflow.tables}


def classes(kind: type) -> Iterator[type]:
    yield kind
    for below in kind.__subclasses__():
        yield from classes(below)


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.slow)])
def test_what_is_said_of_rows_is_true_and_saves_work_alone(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """The same tables come out without any mark; and no operator gives two rows that are equal where it says that none are."""
    request.getfixturevalue(engine)
    twice: list[str] = []
    seen: set[type] = set()
    runs = {one: vars(one)["run"] for one in classes(PhysicalOperator) if "run" in vars(one)}
    for kind, works in runs.items():

        def run(self: Any, context: Any, inputs: Any, *given: Any, before: Callable[..., Any] = works) -> Any:
            given_rows = before(self, context, inputs, *given)
            if self.unique_by and given_rows is not None:
                seen.add(type(self))
                collected = [row.asDict() for row in given_rows.collect()]
                for columns in self.unique_by:
                    names = {name.lower(): name for name in given_rows.columns}
                    counts = Counter(tuple(row[names[column.lower()]] for column in columns) for row in collected)
                    twice.extend(f"{type(self).__name__} {columns} {key}" for key, count in counts.items() if count > 1)
            return given_rows

        monkeypatch.setattr(kind, "run", run)
    marked = do.Pipeline("p", root=str(tmp_path / "marked"), engine=ENGINES[engine])
    every_kind(marked)
    marked.run_until_caught_up()
    assert twice == []
    ours = {one for one in classes(PhysicalOperator) if one.__module__.startswith("dagster_operators.")}
    assert {one.__name__ for one in ours - seen if "unique_by" in vars(one) and one is not PhysicalOperator} == set()
    monkeypatch.undo()
    monkeypatch.setattr(uniqueness.UniqueRows, "marked", lambda _, node: node)
    unmarked = do.Pipeline("p", root=str(tmp_path / "unmarked"), engine=ENGINES[engine])
    every_kind(unmarked)
    unmarked.run_until_caught_up()
    assert tables(marked) == tables(unmarked)
