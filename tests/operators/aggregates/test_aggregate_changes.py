"""Aggregates over rows that come and go: after every epoch what all rows that are there give, computed by DuckDB."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import OperatorsError
from dagster_operators.operators.aggregates.aggregates import decompose
from dagster_operators.operators.aggregates.weighted_partials import WeightedPartials
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from dagster_operators.runtime.engine import Spark

Row = dict[str, Any]
Batches = list[list[Row]]

SCHEMA = "k string, v int, f double, d decimal(10,2), _change string"
AGGREGATES = {
    "n": "count(*)",
    "total": "sum(v)",
    "mean": "avg(v)",
    "cents": "sum(d)",
    "floats": "sum(f)",
    "least": "min(f)",
    "most": "max(f)",
    "kinds": "count(DISTINCT v)",
    "spread": "stddev_pop(v)",
    "all_of": "collect_list(v)",
    "large": "sum(v) FILTER (WHERE v > 1)",
    "at_most": "max_by(v, d)",
    "any_large": "bool_or(v > 1)",
}
BY_DUCKDB = AGGREGATES | {"all_of": "coalesce(list(v ORDER BY v) FILTER (WHERE v IS NOT NULL), [])"}
BY_DUCKDB["at_most"] = "max(v) FILTER (WHERE d = top)"


def changes(kind: str, *rows: Row) -> list[Row]:
    return [{**row, "_change": kind} for row in rows]


def row(k: str | None, v: int | None, f: float | None = None, d: str | None = None) -> Row:
    return {"k": k, "v": v, "f": f, "d": None if d is None else Decimal(d)}


def over(root: Path, engine: Spark | None, batches: Batches, aggregates: dict[str, str] = AGGREGATES) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(root), engine=engine)
    rows = pipeline.source("rows", do.MemorySource(batches, schema=SCHEMA)).as_changes()
    rows.key_by("k").aggregate(aggregates, name="by_key").to_table("by_key")
    rows.aggregate(n="count(*)", total="sum(v)", mean="avg(d)", name="in_all").to_table("in_all")
    rows.key_by("k").aggregate(n="count(v)", name="counted").filter("n > 1").to_table("frequent")
    return pipeline


def comparable(value: Any) -> Any:
    if isinstance(value, list):
        return [comparable(one) for one in value]
    if isinstance(value, float | Decimal):
        return "NaN" if math.isnan(value) else round(float(value), 9) + 0.0
    return value


def table(pipeline: do.Pipeline, name: str) -> list[list[Any]]:
    return sorted(([comparable(value) for value in found] for found in pipeline.read(name).collect()), key=repr)


def expected(rows: list[Row], names: Iterable[str] = AGGREGATES) -> dict[str, list[list[Any]]]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE rows (k VARCHAR, v INT, f DOUBLE, d DECIMAL(10,2))")
        if rows:
            connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", [[*one.values()] for one in rows])
        connection.execute("CREATE VIEW known AS SELECT *, max(d) OVER (PARTITION BY k) AS top FROM rows")
        listed = ", ".join(f"{text} AS {name}" for name, text in BY_DUCKDB.items() if name in names)
        queries = {
            "by_key": f"SELECT k, {listed} FROM known GROUP BY k",
            "in_all": "SELECT count(*), sum(v), avg(d) FROM rows",
            "frequent": "SELECT k, count(v) FROM rows GROUP BY k HAVING count(v) > 1",
        }
        found = {name: connection.execute(query).fetchall() for name, query in queries.items()}
    return {name: sorted(([comparable(value) for value in one] for one in all_), key=repr) for name, all_ in found.items()}


HISTORY: Batches = [
    changes("insert", row("a", 1, 1.5, "1.25"), row("a", 2, math.nan, "2.50"), row("b", None), row(None, 3, -0.0)),
    [
        *changes("delete", row("a", 2, math.nan, "2.50")),
        *changes("update_before", row("b", None)),
        *changes("update_after", row("b", 7, math.inf, "0.10")),
    ],
    [*changes("insert", row("a", 5)), *changes("delete", row("a", 5)), *changes("delete", row(None, 3, -0.0))],
    [
        *changes("delete", row("a", 1, 1.5, "1.25")),
        *changes("update_before", row("b", 7, math.inf, "0.10")),
        *changes("update_after", row("b", None)),
    ],
]


def left(batches: Batches) -> list[Row]:
    """The rows that are there after changes."""
    rows: list[Row] = []
    for one in (one for batch in batches for one in batch):
        plain = {name: value for name, value in one.items() if name != "_change"}
        if one["_change"] in ("insert", "update_after"):
            rows.append(plain)
        else:
            del rows[list(map(repr, rows)).index(repr(plain))]
    return rows


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.slow)])
def test_nothing_is_computed_of_a_group_that_is_gone_which_may_fail(tmp_path: Path, engine: str) -> None:
    batches = [changes("insert", row("a", 1), row("b", 2), row("b", 3)), changes("delete", row("a", 1), row("b", 3))]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=ENGINES[engine])
    groups = pipeline.source("rows", do.MemorySource(batches, schema=SCHEMA)).as_changes().key_by("k")
    groups.aggregate(share="count_if(v > 1) / count(*)").to_table("shares")
    counts = groups.aggregate(n="count(*)", name="counts").with_columns(share="100 div n -- of all")
    counts.to_table("counted")
    counts.select("k", "1 + 100 % n AS rest").filter("100 % rest = 0").filter("100 div rest > 1").to_table("rests")
    counts.filter("n > 1").with_columns(others="100 div (n - 1)").to_table("frequent")
    found = []
    for _ in batches:
        pipeline.run_epoch()
        found.append({name: table(pipeline, name) for name in ("shares", "counted", "rests", "frequent")})
    assert found == [
        {
            "shares": [["a", 0.0], ["b", 1.0]],
            "counted": [["a", 1, 100], ["b", 2, 50]],
            "rests": [["a", 1], ["b", 1]],
            "frequent": [["b", 2, 50, 100]],
        },
        {"shares": [["b", 1.0]], "counted": [["b", 1, 100]], "rests": [["b", 1]], "frequent": []},
    ]


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_values_and_groups_that_go(tmp_path: Path, engine: str) -> None:
    pipeline = over(tmp_path, ENGINES[engine], HISTORY)
    for number in range(1, len(HISTORY) + 1):
        pipeline.run_epoch()
        found = {name: table(pipeline, name) for name in ("by_key", "in_all", "frequent")}
        assert (number, found) == (number, expected(left(HISTORY[:number])))
    assert "state table state/by_key.weighted" in pipeline.explain()


values = st.builds(
    row,
    st.sampled_from(["a", "b", None]),
    st.sampled_from([None, -3, 0, 2, 5]),
    st.sampled_from([None, math.nan, -0.0, 0.0, 0.1, 1e9]),
    st.sampled_from([None]),
)
steps = st.lists(st.tuples(values, st.integers(0, 5)), max_size=10)


@pytest.mark.sail
@fresh_examples(4)
@given(epochs=st.lists(steps, min_size=1, max_size=3))
def test_any_history(tmp_path_factory: pytest.TempPathFactory, epochs: list[list[tuple[Row, int]]]) -> None:
    rows: list[Row] = []
    batches: Batches = []
    for epoch in epochs:
        batch: list[Row] = []
        for new, which in epoch:
            if which < len(rows):  # one of those that are there goes, half of the time for another one
                batch += changes("delete" if which % 2 else "update_before", rows.pop(which))
            if which >= len(rows) or not which % 2:
                rows.append(new)
                batch += changes("update_after", new)
        batches.append(batch)
    batches = [batch for batch in batches if batch]
    few = {name: AGGREGATES[name] for name in ("n", "total", "floats", "least", "kinds")}
    pipeline = over(tmp_path_factory.mktemp("changes"), SAIL, batches, few)
    pipeline.run_until_caught_up()
    if batches:
        assert {name: table(pipeline, name) for name in ("by_key", "in_all", "frequent")} == expected(rows, few)


@pytest.mark.sail
def test_what_was_never_there_cannot_be_taken_back(tmp_path: Path) -> None:
    with pytest.raises(
        OperatorsError, match=r"takes a row back that is not there \(a delete or an update_before of the key k=a\)"
    ):
        over(tmp_path, SAIL, [changes("delete", row("a", 1))]).run_epoch()


@pytest.mark.sail
def test_changes_of_what_is_not_there_are_passed_over_where_rows_are_kept(tmp_path: Path) -> None:
    batches = [[(1, "a", 5, 1, "insert")], [(1, "a", 5, 2, "delete"), (2, "b", 7, 2, "delete")], [(3, "b", 2, 3, "insert")]]
    schema = "id long, k string, v long, version long, op string"

    def read_by(made: str) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        rows = eval(f"rows.{made}", {"rows": pipeline.source("rows", do.MemorySource(batches, schema=schema))})  # noqa: S307
        rows.key_by("k").aggregate(n="count(*)", name="by_key").to_table("by_key")
        return pipeline

    read_by("as_changes('op')").run_epoch()
    with pytest.raises(OperatorsError, match="takes a row back that is not there") as told:
        read_by("as_changes('op')").run_epoch()
    kept = re.search(r"to_changes\(.*?\)", told.value.remedy)
    assert kept is not None
    pipeline = read_by(kept[0])
    pipeline.rebuild("by_key")
    pipeline.run_until_caught_up()
    assert table(pipeline, "by_key") == [["b", 1]]


@pytest.mark.sail
def test_the_state_forgets_what_cancels_out(sail: Any) -> None:
    rows = [*changes("insert", row("a", 1, 0.5), row("b", 1, 0.5)), *changes("delete", row("a", 1, 0.5))]
    rows += changes("insert", row("c", None)) + changes("delete", row("c", 4))  # the first half of two merges
    frame = sail.createDataFrame([tuple(one.values()) for one in rows], SCHEMA)
    weighted = WeightedPartials(decompose({"total": "sum(v)", "floats": "sum(f)"}).for_rows(frame))
    state = weighted.update(frame, ["k"])
    assert {one.k for one in state.collect()} == {"b", "c"}
    assert {one.k for one in weighted.fold(state.union(state), ["k"]).collect()} == {"b", "c"}


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param([row("a", 5)], id="a sum of no rows"),
        pytest.param([row("a", 1, d="1.00")], id="a mean of no rows"),
        pytest.param([row("b", None)] * 5, id="fewer rows than none"),
        pytest.param([row("b", None)] * 3, id="more values than rows"),
        pytest.param([row("b", 1)] * 3, id="fewer values than none"),
    ],
)
@pytest.mark.sail
def test_sums_and_counts_tell_of_another_row_that_is_taken_back_where_they_can(tmp_path: Path, wrong: list[Row]) -> None:
    there = [row("a", 1), row("b", 1), row("b", 2), row("b", None), row("b", None)]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([changes("insert", *there), changes("delete", *wrong)], schema=SCHEMA))
    rows.as_changes().key_by("k").aggregate(total="sum(v)", mean="avg(d)", n="count(v)").to_table("t")
    pipeline.run_epoch()
    with pytest.raises(OperatorsError, match=r"takes a row back that is not there \(a delete or an update_before of the key k="):
        pipeline.run_epoch()


LONG = 2**62
BIG_SCHEMA = "k string, n long, at timestamp, _change string"


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.slow)])
def test_long_whole_numbers_add_up_beyond_their_type_on_the_way(tmp_path: Path, engine: str) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    there = [{"k": "a", "n": n, "at": moment} for n in (LONG, LONG, LONG, -LONG)]
    batches = [
        [*changes("insert", *there), *changes("delete", there[0], there[1])],
        [*changes("insert", *there[:3]), *changes("delete", there[0], there[1])],
    ]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=ENGINES[engine])
    source = do.MemorySource(batches, schema=BIG_SCHEMA)
    rows = pipeline.source("rows", source, event_time="at", lateness="1 day").as_changes()
    means = {"mean": "avg(n)", "spread": "stddev_pop(n)"}
    rows.key_by("k").aggregate(means, total="sum(n)", name="totals").to_table("totals")
    rows.key_by("k").window(do.Tumbling("1 hour")).aggregate(means, total="sum(n)").to_table("hourly")
    rows.key_by("k").window(do.Session("1 hour")).aggregate(means, total="sum(n)").to_table("sessions")
    rows.key_by("k").pivot("n", {"long": LONG, "other": -LONG}, mean="avg(n)", name="wide").to_table("wide")
    for mean, spread, total in ((0, LONG, 0), (LONG / 3, LONG * math.sqrt(8) / 3, LONG)):
        pipeline.run_epoch()
        for name in ("totals", "hourly", "sessions"):
            ((*_, found_mean, found_spread, found_total),) = table(pipeline, name)
            assert (name, found_total) == (name, total)
            assert (found_mean, found_spread) == (pytest.approx(mean), pytest.approx(spread))
        assert table(pipeline, "wide") == [["a", float(LONG), -float(LONG)]]


@pytest.mark.sail
def test_what_divides_by_the_rows_of_none_is_told_and_its_remedy_works(tmp_path: Path) -> None:
    def run(share: str) -> do.Pipeline:
        batches = [
            [*changes("insert", row("a", 1)), *changes("delete", row("a", 1))],
            changes("insert", row("a", 1), row("a", 3)),
        ]
        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        rows = pipeline.source("rows", do.MemorySource(batches, schema=SCHEMA)).as_changes()
        rows.aggregate(share=share, name="in_all").to_table("t")
        pipeline.run_epoch()
        return pipeline

    with pytest.raises(OperatorsError, match=r"divided by zero.*nullif\(divisor, 0\)"):
        run("count_if(v > 1) / count(*)")
    assert table(run("count_if(v > 1) / nullif(count(*), 0)"), "t") == [[None]]
    assert table(run("count_if(v > 1) / nullif(count(*), 0)"), "t") == [[0.5]]


COUNTED = {"n": "count(*)", "total": "sum(v)", "least": "min(v)", "mean": "avg(f)"}


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.slow)])
def test_all_rows_have_one_row_also_where_there_are_none(tmp_path: Path, engine: str) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=ENGINES[engine])
    plain = pipeline.source("plain", do.MemorySource([[row("a", 1)], [row("a", 2)]], schema=SCHEMA))
    gone = [*changes("insert", row("a", 1)), *changes("delete", row("a", 1))]
    rows = pipeline.source("rows", do.MemorySource([gone, gone, changes("insert", row("a", 3))], schema=SCHEMA)).as_changes()
    later = pipeline.source("later", do.MemorySource([[], [row("b", 4)]], schema=SCHEMA))
    streams = {
        "changes": rows,
        "filtered": rows.filter("v > 3"),
        "joined": rows.join(rows.filter("v > 3").rename(v="w", f="g", d="e"), on="k"),
        "numbered": rows.key_by("k").over("v", place="row_number()"),
        "appended": plain.filter("v > 1"),
        "later": later,
    }
    for name, stream in streams.items():
        stream.aggregate(COUNTED, name=f"{name}_in_all").to_table(name)
        stream.aggregate(n="count(*)", total="sum(v)", name=f"{name}_sums").to_table(f"{name}_sums")
    streams["changes"].aggregate(n="count(*)", name="inner").aggregate(n="sum(n)", rows="count(*)").to_table("nested")
    found: list[dict[str, list[list[Any]]]] = []
    for _ in range(3):
        pipeline.run_epoch()
        found.append({name: table(pipeline, name) for name in (*streams, *(f"{name}_sums" for name in streams), "nested")})
    nothing, one = [[0, None, None, None]], lambda v: [[1, v, v, None]]
    wanted: list[dict[str, list[list[Any]]]] = [dict.fromkeys(streams, nothing) | {"nested": [[0, 1]]} for _ in range(3)]
    wanted[1] |= {"appended": one(2), "later": one(4)}
    wanted[2] |= {"changes": one(3), "numbered": one(3), "appended": one(2), "later": one(4), "nested": [[1, 1]]}
    for epoch in wanted:
        epoch |= {f"{name}_sums": [epoch[name][0][:2]] for name in streams}
    assert found == wanted


@do.udaf("long")
def product_of(values: Any) -> int:
    """Null counts as 1."""
    return math.prod(value for value in values.to_pylist() if value is not None)


@pytest.mark.sail
def test_a_key_with_a_backtick_in_its_name(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    batches = [[("a", 2, "insert"), ("a", 3, "insert")], [("a", 3, "delete"), ("b", 5, "insert")]]
    source = do.MemorySource(batches, schema="`a``b` string, v int, _change string")
    rows = pipeline.source("rows", source).as_changes()
    rows.key_by("`a``b`").aggregate(total="sum(v)", product="product_of(v)").to_table("t")
    pipeline.run_until_caught_up()
    assert sorted(pipeline.to_arrow("t").to_pylist(), key=str) == [
        {"a`b": "a", "total": 2, "product": 2},
        {"a`b": "b", "total": 5, "product": 5},
    ]


@pytest.mark.sail
def test_functions_of_the_users_own(tmp_path: Path) -> None:
    batches = [
        changes("insert", row("a", 3), row("a", 3), row("a", 2), row("b", None), row("a", -1)),
        changes("delete", row("a", 3), row("a", -1)),
    ]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource(batches, schema=SCHEMA)).as_changes()
    own = {"product": "product_of(v)", "large": "product_of(v) FILTER (WHERE v > 2)"}
    rows.key_by("k").aggregate(own, n="count(*)", total="sum(v)", mean="avg(f)", most="max(v)").to_table("products")
    results = []
    for _ in batches:
        pipeline.run_epoch()
        results.append(table(pipeline, "products"))
    assert results == [
        [["a", -18, 9, 4, 7, None, 3], ["b", 1, 1, 1, None, None, None]],
        [["a", 6, 3, 2, 5, None, 3], ["b", 1, 1, 1, None, None, None]],
    ]


@pytest.mark.slow
@pytest.mark.sail
def test_a_million_changes_leave_no_drift(tmp_path: Path) -> None:
    chance = np.random.default_rng(7)
    values = chance.normal(0, 1, 500_000) * 10.0 ** chance.integers(-6, 7, 500_000)
    groups = chance.integers(0, 5, 500_000)
    arriving = tmp_path / "in"
    arriving.mkdir()
    figures = {"total": "sum(v)", "mean": "avg(v)", "spread": "stddev(v)"}
    pipeline = do.Pipeline("p", root=str(tmp_path / "p"), engine=SAIL)
    source = do.FileSource(str(arriving), format="parquet", schema="k long, v double, op string")
    pipeline.source("rows", source).as_changes("op").key_by("k").aggregate(figures).to_table("t")

    def epoch(number: int, **changes: np.ndarray) -> dict[int, tuple[float, ...]]:
        rows = [pa.table({"k": groups[which], "v": values[which], "op": [op] * len(which)}) for op, which in changes.items()]
        pq.write_table(pa.concat_tables(rows), arriving / f"{number}.parquet")
        pipeline.run_epoch()
        return {row.k: (row.total, row.mean, row.spread) for row in pipeline.read("t").collect()}

    def wanted(there: np.ndarray) -> dict[int, tuple[float, ...]]:
        found = {}
        for k in sorted(set(groups[there].tolist())):
            one = values[there][groups[there] == k].tolist()
            mean = math.fsum(one) / len(one)
            found[k] = (math.fsum(one), mean, math.sqrt(math.fsum((v - mean) ** 2 for v in one) / (len(one) - 1)))
        return found

    everything = np.arange(500_000)
    first, second, last = everything[:300_000], everything[300_000:], everything[499_000:]
    for number, (changes, there) in enumerate((
        ({"insert": first}, first), ({"insert": second, "delete": first}, second),
        ({"delete": second[:-1000]}, last), ({"delete": last[groups[last] != 3]}, last[groups[last] == 3]),
    )):  # fmt: skip
        found, right = epoch(number, **changes), wanted(there)
        assert found.keys() == right.keys()
        for k, figures_of in right.items():
            one = np.abs(values[there][groups[there] == k])
            assert found[k] == pytest.approx(figures_of, rel=1e-9, abs=1e-9 * float(one.mean())), (number, k)
    assert epoch(4, delete=last[groups[last] == 3]) == {}
