"""Every NaN is one value, larger than any number, on Sail as on Spark: also those that 0/0 makes, which have a sign."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dagster_operators as do
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")

SIGNED = math.copysign(math.nan, -1)
PAYLOAD = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
VALUES = [math.nan, SIGNED, PAYLOAD, 1.0, -math.inf, None]
SCHEMA = "n long, x double, y float, xs array<double>"


class Undefined(do.ArrowOperator):
    """Gives 0/0 of NumPy, and counts the rows of each key by a state."""

    state = {"seen": do.KeyedState("x double, rows long", key="x")}

    def output_schema(self, rows: Any) -> str:
        return "x double, rows long, made double"

    def process_batch(self, batch: Any, ctx: Any, out: Any) -> None:
        for place in range(batch.num_rows):
            key = pa.table({"x": batch["x"].slice(place, 1)})
            before = ctx.state["seen"].get(key)["rows"][0].as_py() or 0
            counted = key.append_column("rows", pa.array([before + 1]))
            ctx.state["seen"].put(counted)
            with np.errstate(invalid="ignore"):
                out.collect(counted.append_column("made", pa.array(np.zeros(1) / np.zeros(1))))


@pytest.fixture(scope="module")
def made(sail: Any, tmp_path_factory: pytest.TempPathFactory) -> do.Pipeline:
    root = tmp_path_factory.mktemp("root")
    (root / "in").mkdir()
    for number, values in enumerate([VALUES, VALUES[::-1]]):
        columns = {
            "n": pa.array(range(len(values))),
            "x": values,
            "y": pa.array(values, pa.float32()),
            "xs": [[v] for v in values],
        }
        pq.write_table(pa.table(columns), root / f"in/{number}.parquet")
    pipeline = do.Pipeline("p", root=str(root / "root"), engine=SAIL, parallelism=2)
    rows = pipeline.source("rows", do.FileSource(f"{root}/in/*.parquet", schema=SCHEMA, max_files=1))
    rows.key_by("x").aggregate(n="count(*)").to_table("by_double")
    rows.key_by("y").aggregate(n="count(*)").to_table("by_float")
    rows.key_by("x").top(1, by="n", rank="place").to_table("first")
    rows.key_by("1 AS one").top(1, by="x DESC").to_table("largest")
    rows.filter("x > 5").to_table("larger")
    rows.select("sqrt(x - 10) AS root -- of what may be negative", name="roots").key_by("root").aggregate(n="count(*)").to_table(
        "roots"
    )
    rows.select("explode(xs) AS x", "x AS `a+b`", name="more").select("x", "`a+b`", "abs(`a+b`) AS y", name="exploded").to_table(
        "exploded"
    )
    rows.key_by("x").apply(Undefined(), name="undefined").filter("made > 5").to_table("undefined")
    looked_up = rows.lookup(do.MemorySource([[(SIGNED, "nan"), (1.0, "one")]], schema="x double, called string"), on="x")
    looked_up.select("n", "called", name="called").to_table("called")
    pipeline.run_until_caught_up()
    return pipeline


def told(made: do.Pipeline, table: str, *columns: str) -> list[Any]:
    found = made.to_arrow(table).select(list(columns)).to_pylist()
    rows = [tuple("NaN" if value != value else value for value in row.values()) for row in found]  # noqa: PLR0124
    return sorted(rows, key=repr)


@pytest.mark.parametrize(("table", "key"), [("by_double", "x"), ("by_float", "y")])
def test_one_group(made: do.Pipeline, table: str, key: str) -> None:
    assert told(made, table, key, "n") == [("NaN", 6), (-math.inf, 2), (1.0, 2), (None, 2)]


def test_one_group_of_what_an_expression_makes(made: do.Pipeline) -> None:
    assert told(made, "roots", "root", "n") == [("NaN", 10), (None, 2)]


def test_the_largest_number(made: do.Pipeline) -> None:
    assert told(made, "largest", "x") == [("NaN",)]
    assert told(made, "larger", "n") == [(0,), (1,), (2,), (3,), (4,), (5,)]


def test_one_key(made: do.Pipeline) -> None:
    assert told(made, "first", "x", "n") == [("NaN", 0), (-math.inf, 1), (1.0, 2), (None, 0)]
    assert told(made, "called", "n", "called").count((1, "nan")) == 1
    assert [called for _, called in told(made, "called", "n", "called")].count("nan") == 6


def test_one_subtask(made: do.Pipeline) -> None:
    rows = told(made, "undefined", "x", "rows")
    assert len(rows) == len(VALUES) * 2, "made > 5 is true of all that 0/0 makes"
    assert max(count for key, count in rows if key == "NaN") == 6


def test_elements_come_out(made: do.Pipeline) -> None:
    assert len(told(made, "exploded", "x")) == len(VALUES) * 2
