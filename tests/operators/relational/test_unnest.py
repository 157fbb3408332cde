"""Rows of arrays and maps: each element beside its row."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from dagster_operators.errors import SchemaError
from dagster_operators.operators.relational.unnest import unnest_call
from tests.engines import SAIL
from tests.operators.cut_input import Cut, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = "id long, items array<string>, prices map<string,long>"
ROWS: list[dict[str, Any]] = [
    {"id": 1, "items": ["a", "b"], "prices": {"x": 5}, "ts": 0},
    {"id": 2, "items": [], "prices": {}, "ts": 1},
    {"id": 3, "items": None, "prices": None, "ts": 2},
]


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize("size", [1, 3])
def test_each_element_is_a_row(size: int) -> None:
    cut = Cut([ROWS[start : start + size] for start in range(0, 3, size)], columns=COLUMNS)

    def doubled(frame: DataFrame) -> DataFrame:
        return frame.selectExpr("id", "explode(array(1, 2)) AS n", "ts")

    def build(pipeline: do.Pipeline) -> None:
        rows = cut.source(pipeline)
        rows.unnest("items AS item").select("id", "item").to_table("elements")
        rows.unnest("items AS item", outer=True, position="n").select("id", "n", "item").to_table("all")
        rows.unnest("prices AS (product, price)").select("id", "product", "price").to_table("entries")
        rows.unnest("split('x y', ' ') AS word").window(do.Tumbling("1 minute")).aggregate(n="count(word)").to_table("counts")
        rows.flat_map(doubled).select("id", "n").to_table("doubled")

    found = run(SAIL, build).tables
    assert found["elements"] == Counter([(1, "a"), (1, "b")])
    assert found["all"] == Counter([(1, 0, "a"), (1, 1, "b"), (2, None, None), (3, None, None)])
    assert found["entries"] == Counter([(1, "x", 5)])
    assert [row[2] for row in found["counts"]] == [6]
    assert found["doubled"].total() == 6


def stream() -> do.Stream:
    return do.Pipeline("p", root="nowhere").source(
        "rows", do.MemorySource([], schema=f"{COLUMNS}, ts timestamp"), event_time="ts"
    )


def test_names_event_time_and_lineage() -> None:
    rows = stream()
    items = rows.unnest("items AS `the item`", position="n")
    assert items.columns == ("id", "items", "prices", "ts", "n", "the item")
    assert (items.name, items.event_time) == ("unnest", "ts")
    assert items._dataflow.nodes["unnest"].operator.lineage([rows._type])["the item"] == {(0, "items")}


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"no name.*AS element") as caught:
        stream().unnest("upper(items[0])")
    assert caught.value.operator == "unnest"
    with pytest.raises(SchemaError, match="column 'thing'"):
        stream().unnest("thing AS item")
    with pytest.raises(SchemaError, match="second column 'id'"):
        stream().unnest("items AS id")
    with pytest.raises(SchemaError, match="no name"):
        unnest_call("prices AS (key, )")
