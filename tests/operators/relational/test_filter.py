"""Filter: which rows stay, on append and on updating streams, and which conditions are refused."""

from __future__ import annotations

from collections import Counter

import pytest

import dagster_operators as do
from dagster_operators.errors import SchemaError
from tests.engines import ENGINES, SAIL
from tests.operators.one_table import lineage, result, source

BATCH = [{"k": "a", "v": 1}, {"k": "b", "v": 5}, {"k": None, "v": None}, {"k": "c", "v": -1}]


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_rows_for_which_the_condition_is_true_stay_as_they_are(engine: str) -> None:
    def build(pipeline: do.Pipeline) -> do.Stream:
        return source(pipeline, BATCH, schema="k string, v int").filter("v > 0 AND k IS NOT NULL")

    found = result(ENGINES[engine], build)
    assert found.rows == Counter([("a", 1), ("b", 5)])
    assert found.types == {"k": "string", "v": "int"}


@pytest.mark.usefixtures("sail")
def test_a_row_of_an_updating_stream_leaves_the_table_and_comes_back() -> None:
    epochs = [[{"k": "a", "v": 1}, {"k": "b", "v": 9}], [{"k": "a", "v": 9}], [{"k": "b", "v": -9}], [{"k": "b", "v": 7}]]
    tables = []
    for number in range(1, len(epochs) + 1):

        def build(pipeline: do.Pipeline, number: int = number) -> do.Stream:
            totals = source(pipeline, *epochs[:number], schema="k string, v long").key_by("k").aggregate(total="sum(v)")
            return totals.filter("total > 5").filter("total < 100")

        tables.append(sorted(result(SAIL, build).rows.elements()))
    assert tables == [[("b", 9)], [("a", 10), ("b", 9)], [("a", 10)], [("a", 10), ("b", 7)]]


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_comments_play_no_part(engine: str) -> None:
    def build(pipeline: do.Pipeline) -> do.Stream:
        rows = (
            source(pipeline, BATCH, schema="k string, v long").filter("v > 0 -- positive").filter("k <> '-- a' /* named */ -- so")
        )
        return rows.key_by("k").aggregate(n="sum(v) -- all").with_columns(m="n + 1 -- one").filter("n > 1 -- 'big'")

    found = result(ENGINES[engine], build)
    assert (found.rows, list(found.types)) == (Counter([("b", 5, 6)]), ["k", "n", "m"])


def test_a_filter_keeps_columns_time_keys_and_lineage() -> None:
    rows = source()
    assert rows.filter("v > 0")._type == rows._type
    totals = rows.key_by("k").aggregate(total="sum(v)")
    assert totals.filter("total > 0")._type.keys == ("k",)
    assert lineage(rows.filter("v > 0").select("k"))["k"] == "rows.k"


def test_what_is_no_condition_over_one_row_is_refused() -> None:
    with pytest.raises(SchemaError, match="the condition uses column 'w', which its input does not have") as caught:
        source().filter("w > 0")
    assert (caught.value.column, caught.value.remedy) == ("w", "use one of: k, v, xs, s, ts")
    with pytest.raises(SchemaError, match=r"the aggregate avg\(\) looks at other rows"):
        source().filter("v > avg(v)")
    with pytest.raises(SchemaError, match=r"explode\(\) makes several rows of one.*unnest\('xs AS x'\)"):
        source().filter("explode(xs) > 1")


@pytest.mark.usefixtures("sail")
def test_unnesting_before_the_filter_is_what_was_meant() -> None:
    def build(pipeline: do.Pipeline) -> do.Stream:
        return source(pipeline, [{"xs": [1, 2, 3]}], schema="xs array<long>").unnest("xs AS x").filter("x > 1").drop("xs")

    assert result(SAIL, build).rows == Counter([(2,), (3,)])


@pytest.mark.usefixtures("sail")
def test_a_condition_of_another_type_is_refused_before_anything_runs() -> None:
    with pytest.raises(SchemaError, match="does not fit its input") as caught:
        result(SAIL, lambda pipeline: source(pipeline, BATCH, schema="k string, v int").filter("k"))
    assert (caught.value.operator, caught.value.remedy) == ("filter", "the columns are: k string, v int")
