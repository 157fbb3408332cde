"""Aggregate functions of the user's own: the same answer for any cut, FILTER and DISTINCT, errors, and what a state may be."""

from __future__ import annotations

import datetime as dt
import statistics
from collections import defaultdict
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np  # noqa: TC002 - annotations decide what a function is given
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators import MemorySource, Pipeline, Sliding, udaf
from dagster_operators.errors import PipelineError, SchemaError, UserFunctionError
from dagster_operators.graph import user_functions
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples, unlike_the_simplest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
SCHEMA = "k long, v long, w double, t timestamp"


def declare() -> None:  # noqa: C901 - five small classes
    """An aggregate of each kind."""

    @udaf("long", state="long")
    class OwnSum:
        def update(self, v: pa.Array) -> Any:
            return pc.sum(v)

        def merge(self, states: pa.Array) -> Any:
            return pc.sum(states)

    @udaf("double", state="total long, n long")
    class OwnAverage:
        def update(self, v: pa.Array) -> dict[str, Any]:
            return {"total": pc.sum(v, min_count=0), "n": pc.count(v)}

        def merge(self, states: pa.StructArray) -> tuple[Any, Any]:
            return pc.sum(states.field("total")).as_py(), pc.sum(states.field("n")).as_py()

        def finish(self, state: dict[str, Any]) -> float | None:
            return state["total"] / state["n"] if state["n"] else None

    @udaf("double", name="middle")
    def middle(v: pa.Array) -> float | None:
        known = v.drop_null().to_pylist()
        return statistics.median(known) if known else None

    @udaf("double", state="weights double, total double", vectorised=True)
    class WeightedMean:
        def update(self, v: pa.ListArray, w: pa.ListArray) -> pa.Array:
            product = pc.multiply(pc.cast(v.values, pa.float64()), w.values)
            return pa.StructArray.from_arrays([sums(v, w.values), sums(v, product)], ["weights", "total"])

        def merge(self, states: pa.ListArray) -> pa.Array:
            parts = [sums(states, states.values.field(name)) for name in ("weights", "total")]
            return pa.StructArray.from_arrays(parts, ["weights", "total"])

        def finish(self, states: pa.StructArray) -> pa.Array:
            weights = states.field("weights")
            return pc.divide(states.field("total"), pc.if_else(pc.equal(weights, 0.0), None, weights))

    @udaf("string")
    class Listed:
        def compute(self, v: pa.Array, w: np.ndarray[Any, Any]) -> str:
            return " ".join(f"{value}:{weight:g}" for value, weight in zip(v.to_pylist(), w, strict=True))


def sums(lists: pa.ListArray, values: pa.Array) -> pa.Array:
    """The sum of the values of each list."""
    numbers = pc.fill_null(values, 0).to_pylist()
    return pa.array([float(sum(numbers[start:end])) for start, end in pairwise(lists.offsets.to_pylist())])


AGGREGATES = {
    "total": "own_sum(v)",
    "mean": "own_average(v) + 0.0D",
    "middle": "MIDDLE(v)",
    "weighted": "weighted_mean(v, w)",
    "listed": "listed(v, w) FILTER (WHERE v > 3)",
    "few": "own_sum(v) FILTER (WHERE v > 3) * 10",
    "different": "own_sum(DISTINCT v)",
    "n": "count(*)",
}


def expected(rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """What plain Python makes of all rows of a group."""
    known = [v for _, v, _, _ in rows if v is not None]
    weights = sum(w for _, _, w, _ in rows)
    high = sorted((v, w) for _, v, w, _ in rows if v is not None and v > 3)
    return (
        sum(known) if known else None,
        statistics.mean(known) if known else None,
        statistics.median(known) if known else None,
        sum(v * w for _, v, w, _ in rows if v is not None) / weights if weights else None,
        " ".join(f"{v}:{w:g}" for v, w in high),
        sum(v for v, _ in high) * 10 if high else None,
        sum(set(known)) if known else None,
        len(rows),
    )


def timed(batches: list[list[tuple[Any, ...]]]) -> list[list[tuple[Any, ...]]]:
    """The same rows with times behind: each is a second later than the one before."""
    seconds = count()
    return [[(*row, START + dt.timedelta(seconds=next(seconds))) for row in batch] for batch in batches]


row = st.tuples(st.integers(0, 3), st.none() | st.integers(0, 7), st.integers(0, 4).map(float))


def cuts(epochs: int) -> st.SearchStrategy[list[list[tuple[Any, ...]]]]:
    """Rows cut into epochs."""
    batches = st.lists(st.lists(row, max_size=20), min_size=1, max_size=epochs)
    return unlike_the_simplest(batches).map(timed)


def check(batches: list[list[tuple[Any, ...]]], root: Path, engine: str) -> None:
    """The aggregates of a keyed and a windowed pipeline over these cuts are those of all rows at once."""
    pipeline = Pipeline("p", root=str(root), engine=ENGINES[engine])
    rows = pipeline.source("rows", MemorySource(batches, schema=SCHEMA), event_time="t", lateness="1 hour", finished=True)
    rows.key_by("k").aggregate(AGGREGATES).to_table("keyed")
    rows.key_by("k").window(Sliding("40s", "20s")).aggregate(AGGREGATES).to_table("windowed")
    pipeline.run_until_caught_up()
    keyed, windowed = defaultdict(list), defaultdict(list)
    for row in (row for batch in batches for row in batch):
        keyed[row[0]].append(row)
        for window in (0, -1):
            windowed[row[0], (row[3] - START).seconds // 20 + window].append(row)
    names = tuple(AGGREGATES)
    found = {row["k"]: tuple(row[name] for name in names) for row in pipeline.read("keyed").collect()}
    assert found == {key: expected(group) for key, group in keyed.items()}
    found = {
        (row["k"], int((row["window_start"].replace(tzinfo=dt.UTC) - START).total_seconds()) // 20): tuple(
            row[name] for name in names
        )
        for row in pipeline.read("windowed").collect()
    }
    assert found == {key: expected(group) for key, group in windowed.items()}


@fresh_examples(4)
@given(batches=cuts(epochs=6))
def test_any_cut_gives_the_answer_of_all_rows(
    sail: SparkSession, tmp_path_factory: pytest.TempPathFactory, batches: list[Any]
) -> None:
    assert sail
    declare_anew()
    check(batches, tmp_path_factory.mktemp("cut"), "sail")


@pytest.mark.parametrize("engine", ["spark", "connect"])
@fresh_examples(1, shrinking=60)
@given(batches=cuts(epochs=3))
def test_other_engines_give_the_same(
    engine: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, batches: list[Any]
) -> None:
    request.getfixturevalue(engine)
    declare_anew()
    check(batches, tmp_path_factory.mktemp("cut"), engine)


def declare_anew() -> None:
    for name in ("own_sum", "own_average", "middle", "weighted_mean", "listed"):
        user_functions.forget(name)
    declare()


def aggregated(root: Path, **aggregates: str) -> Any:
    pipeline = Pipeline("p", root=str(root), engine=SAIL)
    rows = pipeline.source("rows", MemorySource([[(1, 5)], [(1, 6), (1, 5)]], schema="k long, v long"))
    rows.key_by("k").aggregate(aggregates).to_table("results")
    pipeline.run_until_caught_up()
    return pipeline.read("results").collect()[0]


def test_a_group_may_be_empty(sail: SparkSession, tmp_path: Path) -> None:
    assert sail
    declare()
    row = aggregated(tmp_path, mean="own_average(v) FILTER (WHERE v > 9)", middle="middle(v) FILTER (WHERE v > 9)", n="count(*)")
    assert tuple(row) == (1, None, None, 3)


def test_values_come_sorted(sail: SparkSession, tmp_path: Path) -> None:
    assert sail
    udaf("array<long>", name="in_order")(lambda v, w: v.to_pylist())
    assert aggregated(tmp_path, values="in_order(v, k)")["values"] == [5, 5, 6]


def test_an_error_names_the_function_and_the_values(sail: SparkSession, tmp_path: Path) -> None:
    assert sail
    udaf("long", name="broken")(lambda v: v[99])
    with pytest.raises(UserFunctionError, match="the function 'broken' raised IndexError") as caught:
        aggregated(tmp_path, total="broken(v)")
    assert caught.value.where["arguments"].startswith("(5)")


def without(*missing: str) -> type:
    steps: dict[str, Callable[..., Any]] = {
        "update": lambda self, v: v, "merge": lambda self, states: states, "finish": lambda self, state: state,
    }  # fmt: skip
    return type("Partly", (), {name: step for name, step in steps.items() if name not in missing})


@pytest.mark.parametrize(
    ("missing", "declared", "problem"),
    [
        (("merge",), {"state": "long"}, "lacks update"),
        (("finish",), {"state": "a int, b int"}, "no finish"),
        ((), {}, "no state"),
        (("update", "merge", "finish"), {}, r"no compute"),
    ],
)
def test_a_step_that_is_missing_is_named(missing: tuple[str, ...], declared: dict[str, Any], problem: str) -> None:
    with pytest.raises(PipelineError, match=problem):
        udaf("long", **declared)(without(*missing))


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("middle(*)", "columns, not"),
        ("middle(v) IGNORE NULLS", "no IGNORE NULLS"),
        ("middle(v, v)", "does not take 2 arguments"),
        ("sum(middle(v))", "lies within sum"),
        ("middle(v) + v", "stands outside"),
    ],
)
def test_calls_that_make_no_sense_are_refused(call: str, problem: str) -> None:
    declare()
    rows = Pipeline("p", root="nowhere").source("rows", MemorySource([], schema="v long"))
    with pytest.raises(SchemaError, match=problem):
        rows.aggregate(x=call)


def test_a_built_in_name_is_refused() -> None:
    with pytest.raises(PipelineError, match="one of Spark's own functions"):
        udaf("long", name="sum")(lambda v: 1)


def test_it_can_be_called_without_an_engine() -> None:
    declare()
    average = user_functions.find("own_average")
    assert callable(average)
    assert average(pa.array([1, 2, None])) == 1.5


def test_a_class_may_be_derived_from_an_aggregate(sail: SparkSession, tmp_path: Path) -> None:
    @udaf("bigint", state="bigint")
    class AddedUp:
        factor = 1

        def update(self, x: pa.Array) -> Any:
            return sum(x.to_pylist()) * self.factor

        def merge(self, states: pa.Array) -> Any:
            return sum(states.to_pylist())

    @udaf("bigint", state="bigint")
    class AddedUpTenfold(AddedUp):  # type: ignore[valid-type, misc]
        factor = 10

    pipeline = Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", MemorySource([[("a", 1), ("a", 2)], [("a", 3)]], schema="k string, v bigint"))
    rows.key_by("k").aggregate(one="added_up(v)", ten="added_up_tenfold(v)").to_table("t")
    pipeline.run_until_caught_up()
    assert pipeline.to_arrow("t").to_pylist() == [{"k": "a", "one": 6, "ten": 60}]


def test_no_class_is_derived_from_a_function() -> None:
    @udaf("bigint")
    def how_many_there_are(x: pa.Array) -> int:
        return len(x)

    with pytest.raises(PipelineError, match="'how_many_there_are' is a function, and no class can be derived from it"):

        class Derived(how_many_there_are):  # type: ignore[valid-type, misc]
            pass
