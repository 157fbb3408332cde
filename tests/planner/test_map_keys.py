"""Maps are no keys: they are refused when a pipeline is planned, and what the refusal names instead works."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import SchemaError
from tests.engines import ENGINES

SCHEMA = "k map<string, int>, s struct<m: map<string, int>>, g string, at timestamp"
ROWS = [
    {"k": {"x": 1, "y": 2}, "s": {"m": {"x": 1}}, "g": "a", "at": "2024-01-01 00:00:00"},
    {"k": {"y": 2, "x": 1}, "s": {"m": {"x": 1}}, "g": "a", "at": "2024-01-01 00:00:01"},
]
TABLE = do.MemorySource([[{"k": {"x": 1}, "z": 1}]], schema="k map<string, int>, z int")
REFUSED: dict[str, Callable[[Any], Any]] = {
    "aggregate": lambda rows: rows.key_by("k").aggregate(n="count(*)"),
    "a map within": lambda rows: rows.key_by("g", "s").aggregate(n="count(*)"),
    "aggregate in windows": lambda rows: rows.key_by("k").window(do.Tumbling("1 minute")).aggregate(n="count(*)"),
    "deduplicate": lambda rows: rows.key_by("k").deduplicate(),
    "top": lambda rows: rows.key_by("k").top(1, by="g"),
    "join": lambda rows: rows.select("k", "g").join(rows.select("k", "g AS h"), on="k"),
    "lookup": lambda rows: rows.lookup(TABLE, on="k"),
    "latest": lambda rows: rows.as_changes("'insert'").latest("k"),
    "count distinct": lambda rows: rows.key_by("g").aggregate(n="count(DISTINCT k)"),
    "array_agg distinct": lambda rows: rows.key_by("g").aggregate(n="array_agg(DISTINCT k)"),
    "collect_list distinct": lambda rows: rows.key_by("g").aggregate(n="collect_list(DISTINCT s)"),
    "an order": lambda rows: rows.key_by("g").top(1, by="at, k DESC"),
    "an order in windows": lambda rows: rows.key_by("g").window(do.Tumbling("1 minute")).top(1, by="s"),
    "pivot": lambda rows: rows.key_by("g").pivot("k", ["x"], n="count(*)"),
    "a comparison": lambda rows: rows.filter("k = map('x', 1, 'y', 2)"),
    "a set": lambda rows: rows.key_by("g").aggregate(n="collect_set(s)"),
}
BOTH = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("sail", "spark")]


def planned(folder: Path, engine: str, made: Callable[[Any], Any], batches: int = 1) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(folder), engine=ENGINES[engine])
    made(pipeline.source("rows", do.MemorySource([ROWS] * batches, schema=SCHEMA), event_time="at")).to_table("t")
    return pipeline


@pytest.mark.sail
@pytest.mark.parametrize("case", REFUSED)
def test_what_tells_maps_apart_is_refused(case: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"map.* not compared by their entries .*array_sort\(map_entries\("):
        planned(tmp_path, "sail", REFUSED[case]).run_epoch()


@pytest.mark.parametrize("engine", BOTH)
def test_entries_in_order_are_a_key(engine: str, tmp_path: Path) -> None:
    """On Spark the first epoch was committed, and the second failed; on Sail there were two keys."""
    with pytest.raises(SchemaError, match=r"the key k of .* has a map in it") as raised:
        planned(tmp_path / "maps", engine, REFUSED["aggregate"]).run_epoch()
    remedy = '"array_sort(map_entries(k))"'
    assert f"with_columns(k={remedy})" in str(raised.value)

    def counted(rows: Any) -> Any:
        return rows.with_columns(k=remedy.strip('"')).key_by("k").aggregate(n="count(*)")

    pipeline = planned(tmp_path / "entries", engine, counted, batches=2)
    assert len(pipeline.run_until_caught_up()) == 2
    assert [row["n"] for row in pipeline.read("t").collect()] == [4]


@pytest.mark.sail
def test_a_map_that_key_by_makes(tmp_path: Path) -> None:
    """There is no column of that name before it."""

    def counted(key: str) -> Callable[[Any], Any]:
        return lambda rows: rows.key_by(key).aggregate(n="count(*)")

    with pytest.raises(SchemaError, match=r"the key m of .* has a map in it") as raised:
        planned(tmp_path / "maps", "sail", counted("map(g, 1) AS m")).run_epoch()
    right = "array_sort(map_entries(map(g, 1))) AS m"
    assert raised.value.remedy.endswith(f'key_by("{right}")')
    planned(tmp_path / "entries", "sail", counted(right)).run_epoch()


@pytest.mark.sail
def test_entries_in_order_are_told_apart_and_ordered(tmp_path: Path) -> None:
    entries = "array_sort(map_entries(k))"

    def made(rows: Any) -> Any:
        return rows.key_by("g").aggregate(
            n="size(array_agg(DISTINCT array_sort(map_entries(k))))", m=f"count(DISTINCT {entries})"
        )

    pipeline = planned(tmp_path / "sets", "sail", made, batches=2)
    pipeline.run_until_caught_up()
    assert [(row["n"], row["m"]) for row in pipeline.read("t").collect()] == [(1, 1)]
    compared = planned(
        tmp_path / "compared", "sail", lambda rows: rows.filter(f"{entries} = array_sort(map_entries(map('y', 2, 'x', 1)))")
    )
    compared.run_until_caught_up()
    assert compared.read("t").count() == 2
    first = planned(tmp_path / "first", "sail", lambda rows: rows.key_by("g").top(1, by=entries))
    first.run_until_caught_up()
    assert first.read("t").count() == 1
    values = planned(tmp_path / "values", "sail", lambda rows: rows.key_by("g").pivot("k['x']", [1], n="count(*)"))
    values.run_until_caught_up()
    assert [row["1"] for row in values.read("t").collect()] == [2]


@pytest.mark.sail
def test_maps_beside_keys_are_read_as_they_are(tmp_path: Path) -> None:
    pipeline = planned(tmp_path, "sail", lambda rows: rows.key_by("g").deduplicate())
    pipeline.run_until_caught_up()
    assert [row["k"] for row in pipeline.read("t").collect()] == [{"x": 1, "y": 2}]


FLOATS = "g string, xs array<double>, s struct<x: double, y: string>, at timestamp"
WITH_FLOATS: dict[str, Callable[[Any], Any]] = {
    "aggregate": lambda rows: rows.key_by("xs").aggregate(n="count(*)"),
    "windows": lambda rows: rows.key_by("s").window(do.Tumbling("1 minute")).aggregate(n="count(*)"),
    "deduplicate": lambda rows: rows.key_by("s").deduplicate(),
    "top": lambda rows: rows.key_by("xs").top(1, by="g"),
    "over": lambda rows: rows.key_by("s").over("at", n="row_number()"),
    "join": lambda rows: rows.select("xs", "g").join(rows.select("xs", "g AS h"), on="xs"),
    "latest": lambda rows: rows.as_changes("'insert'").latest("s"),
    "to_changes": lambda rows: rows.to_changes("xs", order_by="at").latest("xs"),
    "distinct": lambda rows: rows.key_by("g").aggregate(n="count(DISTINCT xs)"),
}


def planned_floats(folder: Path, made: Callable[[Any], Any], rows: list[dict[str, Any]]) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(folder), engine=ENGINES["sail"])
    made(pipeline.source("rows", do.MemorySource([rows], schema=FLOATS), event_time="at")).to_table("t")
    return pipeline


@pytest.mark.sail
def test_keys_with_floats_in_them_are_refused_on_sail_and_the_remedies_work(tmp_path: Path) -> None:
    refused = {}
    for case, made in WITH_FLOATS.items():
        with pytest.raises(SchemaError, match=r"Sail takes 0\.0 and -0\.0 in it for two") as raised:
            planned_floats(tmp_path / case, made, []).run_epoch()
        refused[case] = raised.value.remedy
    (text,) = re.findall('"(.*)"', refused["aggregate"])
    nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8 << 48))[0]
    values = [0.0, -0.0, math.nan, nan, None]
    rows = [{"g": "a", "xs": [x], "s": {"x": x, "y": "b"}, "at": "2024-01-01 00:00:00"} for x in values]

    def both(rows: Any) -> Any:
        assert "key_by('s.x AS x')" in refused["windows"]
        return rows.key_by(f"{text} AS xs_", "s.x AS x").aggregate(n="count(*)")

    pipeline = planned_floats(tmp_path / "right", both, rows)
    pipeline.run_epoch()
    assert sorted(row["n"] for row in pipeline.read("t").collect()) == [1, 2, 2]
