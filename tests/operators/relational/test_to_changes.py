"""Changes of current rows: what a row replaces is taken back, whatever came twice, late or for a key that nobody knew."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import OperatorsError, SchemaError
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "id long, v double, at long, gone boolean"
Rows = list[dict[str, Any]]


def row(id_: int | None, v: float | None, at: int, *, gone: bool = False) -> dict[str, Any]:
    return {"id": id_, "v": v, "at": at, "gone": gone}


def source(root: Path, batches: list[Rows], engine: Any = SAIL) -> do.Stream:
    return do.Pipeline("p", root=str(root), engine=engine).source("rows", do.MemorySource(batches, schema=SCHEMA))


def found(pipeline: do.Pipeline, table: str) -> list[tuple[Any, ...]]:
    rows = (tuple(str(v) if isinstance(v, float) and math.isnan(v) else v for v in row) for row in pipeline.read(table).collect())
    return sorted(rows, key=repr)


def built(root: Path, batches: list[Rows], engine: Any = SAIL, **settings: Any) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(root), engine=engine)
    rows = pipeline.source("rows", do.MemorySource(batches, schema=SCHEMA))
    changes = rows.to_changes("id", order_by="at", deleted="gone", name="changes", **settings).select("id", "v")
    changes.to_table("log")
    changes.latest("id").to_table("current")
    return pipeline


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_the_changes_that_rows_make(tmp_path: Path, engine: str) -> None:
    nan = math.nan
    batches = [
        [row(1, 1.0, 1), row(1, 2.0, 2), row(2, nan, 1), row(None, 5.0, 1), row(7, 7.0, 1), row(7, None, 2, gone=True)],
        [row(4, nan, 1), row(None, 6.0, 2), row(9, None, 1, gone=True)],
        [row(1, 9.0, 1), row(2, None, 3, gone=True), row(None, 6.0, 2), row(4, nan, 1)],
        [row(2, 4.0, 1), row(2, 5.0, 9), {**row(1, 3.0, 0), "at": None}],
        [row(1, 2.0, 2)],
    ]
    pipeline = built(tmp_path, batches, ENGINES[engine])
    tables = []
    for _ in batches:
        pipeline.run_epoch()
        tables.append(found(pipeline, "current"))
    assert tables == [
        [(1, 2.0), (2, "nan"), (None, 5.0)],
        [(1, 2.0), (2, "nan"), (4, "nan"), (None, 6.0)],
        [(1, 2.0), (4, "nan"), (None, 6.0)],
        [(1, 2.0), (2, 5.0), (4, "nan"), (None, 6.0)],
        [(1, 2.0), (2, 5.0), (4, "nan"), (None, 6.0)],
    ]
    assert found(pipeline, "log") == sorted(
        [
            (1, 2.0, "insert"), (2, "nan", "insert"), (None, 5.0, "insert"), (None, 5.0, "update_before"),
            (None, 6.0, "update_after"), (2, "nan", "delete"), (2, 5.0, "insert"), (4, "nan", "insert"),
        ],
        key=repr,
    )  # fmt: skip
    assert "state table state/changes.rows" in pipeline.explain()


entry = st.builds(row, st.integers(0, 3), st.sampled_from([None, 1.0, 2.0]), st.integers(0, 4), gone=st.booleans())


@pytest.mark.sail
@fresh_examples(4)
@given(batches=st.lists(st.lists(entry, min_size=1, max_size=5), min_size=1, max_size=4))
def test_any_rows_in_any_order(tmp_path_factory: pytest.TempPathFactory, batches: list[Rows]) -> None:
    seen: dict[int, dict[str, Any]] = {}
    batches = [[dict(each, v=None if each["gone"] else each["v"] and each["at"] + 0.5) for each in batch] for batch in batches]
    batches = [[each for each in batch if not (each["gone"] and each["at"] % 2)] or batch[:1] for batch in batches]
    for number, batch in enumerate(batches):
        for each in batch:
            each["at"] = each["at"] * 100 + number * 10 + batch.index(each)  # no two of a key at one place
            if each["id"] not in seen or seen[each["id"]]["at"] < each["at"]:
                seen[each["id"]] = each
    pipeline = built(tmp_path_factory.mktemp("changes"), batches)
    pipeline.run_until_caught_up()
    assert found(pipeline, "current") == sorted(((key, e["v"]) for key, e in seen.items() if not e["gone"]), key=repr)


TIED: Rows = [row(1, 1.0, 1), row(1, 2.0, 1), row(1, None, 1), row(2, 3.0, 1, gone=True), row(2, 3.0, 1), row(3, 1.0, 0)]
"""Rows of which some are equal in their order."""


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.slow)])
def test_rows_of_equal_order_give_the_same_however_they_are_cut(tmp_path: Path, engine: str) -> None:
    for name, batches in (("whole", [TIED]), ("cut", [TIED[:4], TIED[4:]]), ("back", [TIED[4:], TIED[1:4], TIED[:1]])):
        pipeline = built(tmp_path / name, batches, ENGINES[engine])
        pipeline.run_until_caught_up()
        assert found(pipeline, "current") == [(1, 2.0), (3, 1.0)], name


@pytest.mark.sail
def test_values_with_parts_decide_too(tmp_path: Path) -> None:
    schema = "id long, at long, xs array<long>, names map<string, string>, s struct<a: long>, b binary, d date"
    same = {"id": 1, "at": 1, "xs": [1, 2], "names": {"a": "b"}, "s": {"a": 0}, "b": b"x", "d": None}
    rows = [same, {**same, "s": {"a": 1}}, {**same, "xs": [0, 9]}]
    for name, batches in (("cut", [rows[:2], rows[2:]]), ("back", [rows[2:], rows[1:2], rows[:1]])):
        pipeline = do.Pipeline("p", root=str(tmp_path / name), engine=SAIL)
        changes = pipeline.source("rows", do.MemorySource(batches, schema=schema)).to_changes("id", order_by="at")
        changes.select("id", "s.a AS a", "xs[0] AS x").latest("id").to_table("t")
        pipeline.run_until_caught_up()
        assert found(pipeline, "t") == [(1, 1, 1)], name


@pytest.mark.sail
def test_keys_with_a_null_in_them_are_found_again(tmp_path: Path) -> None:
    keys = [[[1], [2], None, [None]], [[None], [1]], [[2], [None], None, [1]]]
    at = iter(range(100))
    batches = [[{"k": key, "s": (key and key[0], None), "at": next(at)} for key in batch] for batch in keys]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource(batches, schema="k array<int>, s struct<a:int,b:int>, at long"))
    rows.drop("s").to_changes("k", order_by="at").to_table("lists")
    rows.drop("k").key_by("s").aggregate(at="max(at)").to_changes().to_table("structs")
    pipeline.run_until_caught_up()
    for table, current in (("lists", [6, 7, 8, 9]), ("structs", [6, 8, 9])):
        signs = [(row["at"], 1 if row["_change"] in {"insert", "update_after"} else -1) for row in pipeline.read(table).collect()]
        left = {at: sum(sign for other, sign in signs if other == at) for at, _ in signs}
        assert sorted(at for at, times in left.items() if times) == current, table


def test_keys_that_are_not_there_can_fail_the_epoch(tmp_path: Path) -> None:
    built(tmp_path / "repaired", [[row(1, 1.0, 1, gone=True)]]).run_epoch()
    ignoring = built(tmp_path / "ignored", [[row(1, 1.0, 1, gone=True), row(2, 1.0, 1)]], unknown="ignore")
    ignoring.run_epoch()
    assert found(ignoring, "current") == [(2, 1.0)]
    with pytest.raises(OperatorsError, match="operation delete has the key 1, which is not there"):
        built(tmp_path / "failed", [[row(1, 1.0, 1, gone=True)]], unknown="fail").run_epoch()


@pytest.mark.sail
def test_the_current_row_of_many_epochs_outlives_folding(tmp_path: Path) -> None:
    batches = [[row(1, float(number), number), row(number, 0.0, number)] for number in range(2, 13)]
    pipeline = built(tmp_path, batches)
    pipeline.run_until_caught_up()
    assert found(pipeline, "current") == sorted([(1, 12.0), *((number, 0.0) for number in range(2, 13))], key=repr)


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_an_aggregate_of_an_aggregate(tmp_path: Path, engine: str) -> None:
    batches = [[row(1, 1.0, 1), row(2, 1.0, 1), row(3, 2.0, 1)], [row(1, 2.0, 2), row(3, None, 2, gone=True)], [row(2, 2.0, 3)]]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=ENGINES[engine])
    rows = pipeline.source("rows", do.MemorySource(batches, schema=SCHEMA)).to_changes("id", order_by="at", deleted="gone")
    counts = rows.key_by("v").aggregate(n="count(*)", name="counts")
    counts.key_by("n").aggregate(values="count(*)", most="max(v)").to_table("nested")
    results = []
    for _ in batches:
        pipeline.run_epoch()
        results.append(found(pipeline, "nested"))
    assert results == [[(1, 1, 2.0), (2, 1, 1.0)], [(1, 2, 2.0)], [(2, 1, 2.0)]]
    explained = pipeline.explain()
    assert "  counts_changes: to_changes" in explained
    assert "    rows: retracting" in explained
    assert "    rows: updating, one row per v" in explained


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    rows = source(tmp_path, [])
    with pytest.raises(SchemaError, match="the changes of what key"):
        rows.to_changes(order_by="at")
    with pytest.raises(SchemaError, match="which row of a key is the last one"):
        rows.to_changes("id")
    with pytest.raises(SchemaError, match="'k', which its input does not have"):
        rows.to_changes("k", order_by="at")
    with pytest.raises(SchemaError, match="'b', which its input does not have"):
        rows.to_changes("id", order_by="b")
    totals = rows.key_by("id").aggregate(n="count(*)")
    with pytest.raises(SchemaError, match="knows its keys"):
        totals.to_changes("id")
    with pytest.raises(SchemaError, match="to_changes takes append or updating streams"):
        totals.to_changes().to_changes()
    with pytest.raises(OperatorsError, match='unknown is "repair", "ignore" or "fail"'):
        totals.to_changes(unknown="drop")  # type: ignore[arg-type]


@pytest.mark.sail
def test_a_table_of_the_changes_of_an_updating_stream(tmp_path: Path) -> None:
    batches = [[row(1, 1.0, 1), row(2, 1.0, 1)], [row(1, 2.0, 2)], [row(2, 1.0, 1)]]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource(batches, schema=SCHEMA)).to_changes("id", order_by="at")
    counts = rows.key_by("v").aggregate(n="count(*)", name="counts")
    counts.to_table("counts")
    counts.to_changes().to_table("log")
    pipeline.run_until_caught_up()
    log = found(pipeline, "log")
    assert log == [(1.0, 1, "update_after"), (1.0, 2, "insert"), (1.0, 2, "update_before"), (2.0, 1, "insert")]
    sums: dict[tuple[Any, ...], int] = {}
    for *values, change in log:
        sums[tuple(values)] = sums.get(tuple(values), 0) + (1 if change in ("insert", "update_after") else -1)
    assert sorted(key for key, times in sums.items() if times) == found(pipeline, "counts")


TIES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"a": []}, {"a": [1]}),
    ({"a": [None]}, {"a": [1]}),
    ({"a": None}, {"a": []}),
    ({"a": [9]}, {"a": [10]}),
    ({"a": [1]}, {"a": [1, 2]}),
    ({"s": {"x": 9, "y": "b"}}, {"s": {"x": 10, "y": "a"}}),
    ({"s": {"x": 1, "y": None}}, {"s": {"x": 1, "y": ""}}),
    ({"n": [{"x": 9}]}, {"n": [{"x": 10}]}),
    ({"a": [1], "m": {"k": 2}}, {"a": [2], "m": {"k": 1}}),
]
"""Of each pair the second row is the greater one."""


@pytest.mark.sail
def test_ties_are_decided_by_values_and_the_last_row_of_a_key_is_the_greatest(tmp_path: Path) -> None:
    """As text, [] was greater than [1], and 9 than 10; and keep="last" took the row that keep="first" takes."""
    schema = "id int, v int, at timestamp, a array<int>, s struct<x: int, y: string>, n array<struct<x: int>>, m map<string, int>"
    sides = [
        [{"id": number, "v": 9, "at": "2024-01-01 00:00:00", **pair[side]} for number, pair in enumerate(TIES)] for side in (0, 1)
    ]
    batches = {"one": [[*sides[1], *sides[0]]], "greater first": sides[::-1], "greater last": sides}
    for cut, listed in batches.items():
        pipeline = do.Pipeline("p", root=str(tmp_path / cut), engine=SAIL)
        rows = pipeline.source("rows", do.MemorySource(listed, schema=schema), event_time="at")
        changes = rows.to_changes("id", order_by="v")
        changes.latest("id").to_table("newest")
        rows.key_by("id").deduplicate(keep="last", name="last").to_table("last")
        pipeline.run_until_caught_up()
        for table in ("newest", "last"):
            found = {row["id"]: row for row in pipeline.to_arrow(table).to_pylist()}
            for number, (_, greater) in enumerate(TIES):
                assert {name: found[number][name] for name in greater if name != "m"} == {
                    name: value for name, value in greater.items() if name != "m"
                }, (cut, table, number)
