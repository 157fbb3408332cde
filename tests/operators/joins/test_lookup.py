"""Lookup: rows beside those of a table as it is when an epoch begins; keys, columns, lineage, and what is refused."""

from __future__ import annotations

import tempfile
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import PipelineError, SchemaError
from tests.engines import ENGINES, SAIL
from tests.operators.one_table import few, lineage, result, source

PAIRS = "k string, v long"
ROWS = [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": None, "v": 3}]
NAMES = "k string, name string, rank int"
TABLE = [
    {"k": "a", "name": "Ann", "rank": 1},
    {"k": "b", "name": "Bob", "rank": 2},
    {"k": "b", "name": "Ben", "rank": 3},
    {"k": None, "name": "Nobody", "rank": 4},
]


def table(schema: str | None = NAMES, rows: Any = TABLE) -> do.MemorySource:
    return do.MemorySource([rows], schema=schema)


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_each_row_meets_the_rows_of_its_key(engine: str) -> None:
    found = result(ENGINES[engine], lambda pipeline: source(pipeline, ROWS, schema=PAIRS).lookup(table(), on="k"))
    assert list(found.types.items()) == [("k", "string"), ("v", "bigint"), ("name", "string"), ("rank", "int")]
    assert found.rows == Counter([("a", 1, "Ann", 1), ("b", 2, "Bob", 2), ("b", 2, "Ben", 3), (None, 3, None, None)])


@pytest.mark.usefixtures("sail")
def test_columns_may_be_computed_and_rows_without_a_match_left_out() -> None:
    def build(pipeline: do.Pipeline) -> do.Stream:
        rows = source(pipeline, [*ROWS, {"k": "z", "v": 9}], schema=PAIRS)
        return rows.lookup(table(), on={"K": "k"}, columns=["upper(name) AS who", "rank"], how="inner")

    found = result(SAIL, build)
    assert found.types == {"k": "string", "v": "bigint", "who": "string", "rank": "int"}
    assert found.rows == Counter([("a", 1, "ANN", 1), ("b", 2, "BOB", 2), ("b", 2, "BEN", 3)])


@pytest.mark.usefixtures("sail")
def test_keys_of_several_columns_and_of_numbers_of_different_widths() -> None:
    def build(pipeline: do.Pipeline) -> do.Stream:
        numbers = table(
            "word string, n int, hit boolean", [{"word": "a", "n": 1, "hit": True}, {"word": "b", "n": 1, "hit": True}]
        )
        return source(pipeline, ROWS, schema=PAIRS).lookup(numbers, on={"k": "word", "v": "n"})

    assert result(SAIL, build).rows == Counter([("a", 1, True), ("b", 2, None), (None, 3, None)])


@pytest.mark.usefixtures("sail")
def test_a_window_over_the_table_may_choose_one_of_its_rows() -> None:
    def build(pipeline: do.Pipeline) -> do.Stream:
        place = "row_number() OVER (PARTITION BY k ORDER BY rank DESC) AS place"
        found = source(pipeline, ROWS, schema=PAIRS).lookup(table(), on="k", columns=["name", place])
        return found.filter("coalesce(place, 1) = 1").drop("place")

    assert result(SAIL, build).rows == Counter([("a", 1, "Ann"), ("b", 2, "Ben"), (None, 3, None)])


@pytest.mark.usefixtures("sail")
def test_an_empty_table_matches_nothing() -> None:
    def build(pipeline: do.Pipeline) -> do.Stream:
        return source(pipeline, ROWS, schema=PAIRS).lookup(do.MemorySource([], schema=NAMES), on="k")

    assert result(SAIL, build).rows == Counter((row["k"], row["v"], None, None) for row in ROWS)


@pytest.mark.usefixtures("sail")
def test_the_table_is_read_as_it_is_when_an_epoch_begins() -> None:
    names = table("k string, name string", [{"k": "a", "name": "Ann"}])
    rows = do.MemorySource([ROWS[:1]], schema=PAIRS)
    with tempfile.TemporaryDirectory() as root:
        pipeline = do.Pipeline("p", root=root, engine=SAIL)
        pipeline.source("rows", rows).lookup(names, on="k").to_table("out")
        pipeline.run_epoch()
        names.append([{"k": "b", "name": "Bob"}])
        assert pipeline.run_epoch().empty  # a table that grows is no reason for an epoch
        rows.append(ROWS[:2])
        pipeline.run_epoch()
        found = Counter(tuple(row) for row in pipeline.read("out").collect())
    assert found == Counter({("a", 1, "Ann"): 2, ("b", 2, "Bob"): 1})


def test_columns_event_time_and_lineage() -> None:
    rows = source().lookup(table(), on="k", columns=["name", "rank + 1 AS next"])
    assert rows.columns == ("k", "v", "xs", "s", "ts", "name", "next")
    assert rows.event_time == "ts"
    told = lineage(rows.select("v", "name", "next"))
    assert told["v"] == "rows.v"
    assert (told["name"], told["next"]) == ("lookup.name", "lookup.rank")
    assert source().lookup(table(None), on="k").columns is None
    assert source().lookup(table(None), on="k", columns=["name"]).columns == ("k", "v", "xs", "s", "ts", "name")


@pytest.mark.usefixtures("sail")
def test_columns_that_are_known_only_when_the_pipeline_is_planned() -> None:
    def build(pipeline: do.Pipeline, key: str) -> do.Stream:
        return source(pipeline, ROWS, schema=PAIRS).lookup(table(None), on={"k": key}).drop("rank")

    assert result(SAIL, lambda pipeline: build(pipeline, "k")).rows[("a", 1, "Ann")] == 1
    with pytest.raises(SchemaError, match=r"the lookup table uses column 'z'.*use one of: k, name, rank"):
        result(SAIL, lambda pipeline: build(pipeline, "z"))


@pytest.mark.parametrize(
    ("settings", "message", "remedy"),
    [
        ({"on": "z"}, "lookup uses column 'z'", "use one of: k, v"),
        ({"on": {"k": "z"}}, "the lookup table uses column 'z'", "use one of: k, name, rank"),
        ({"on": []}, "a lookup needs a key", "name the columns to be equal: on='carrier'"),
        ({"on": "k", "how": "full"}, "a lookup cannot be 'full'", "use 'left' or 'inner'"),
        ({"on": "k", "columns": ["size"]}, "'size' of the lookup table uses column 'size'", "use one of: k, name, rank"),
        ({"on": "k", "columns": ["rank + 1"]}, "the expression 'rank + 1' has no name", "write 'rank + 1 AS name'"),
        ({"on": "k", "columns": ["rank AS V"]}, "the output has column 'v' more than once", "rename one of them"),
        (
            {"on": "k", "columns": ["max(rank) AS top"]},
            r"the aggregate max() makes one row",
            "aggregate it into a table of its own",
        ),
    ],
)
def test_what_does_not_fit_is_told_with_a_remedy(settings: dict[str, Any], message: str, remedy: str) -> None:
    with pytest.raises(PipelineError) as caught:
        source(schema=PAIRS).lookup(table(), **settings)
    assert message in caught.value.problem
    assert caught.value.remedy.startswith(remedy)
    assert (caught.value.pipeline, caught.value.operator) == ("p", "lookup")


@pytest.mark.usefixtures("sail")
def test_keys_of_different_kinds_are_refused_and_a_cast_mends_it() -> None:
    numbers = table("k int, name string", [{"k": 1, "name": "one"}])

    def build(pipeline: do.Pipeline, *, cast: bool) -> do.Stream:
        rows = source(pipeline, [{"k": "1", "v": 1}], schema=PAIRS)
        return (rows.with_columns(k="CAST(k AS int)") if cast else rows).lookup(numbers, on="k")

    with pytest.raises(SchemaError, match=r"the key 'k' is a string, and 'k' of the lookup table is a number.*with_columns"):
        result(SAIL, lambda pipeline: build(pipeline, cast=False))
    assert result(SAIL, lambda pipeline: build(pipeline, cast=True)).rows == Counter([(1, 1, "one")])


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.spark)])
def test_floating_point_keys_are_compared_as_doubles(engine: str) -> None:
    rows = [{"r": 16777216.0, "d": 1e-20}, {"r": 16777220.0, "d": 0.25}]
    numbers = [(16777217, Decimal("0.00"), "near"), (16777220, Decimal("0.25"), "same")]

    def build(pipeline: do.Pipeline) -> do.Stream:
        found = source(pipeline, rows, schema="r float, d double")
        found = found.lookup(table("i long, c decimal(10,2), whole string", numbers), on={"r": "i"}, columns=["whole"])
        found = found.lookup(table("i long, c decimal(10,2), name string", numbers), on={"d": "c"}, columns=["name"], name="by_d")
        return found.lookup(table("i long, c decimal(10,2), no string", numbers), on={"r": "c"}, columns=["no"], name="by_r")

    expected = Counter([(16777216.0, 1e-20, None, None, None), (16777220.0, 0.25, "same", "same", None)])
    assert result(ENGINES[engine], build).rows == expected


def test_streams_are_not_looked_up_and_updating_ones_look_nothing_up() -> None:
    rows = source()
    with pytest.raises(PipelineError, match="a lookup reads a table, and 'rows' is a stream") as caught:
        rows.lookup(rows, on="k")  # type: ignore[arg-type]
    assert caught.value.remedy.startswith("write join(other, on=...) instead")
    with pytest.raises(PipelineError, match="lookup takes append streams, and 'aggregate_k' is updating") as caught:
        rows.key_by("k").aggregate(n="count(*)").lookup(table(), on="k")
    assert caught.value.remedy.startswith("put it before the operator whose rows change")
    assert rows.lookup(table(), on="k").key_by("name").aggregate(n="count(*)")._type.keys == ("name",)


keys = st.none() | st.sampled_from("abc")
epochs = st.lists(st.lists(st.tuples(keys, st.integers(0, 9)), max_size=4), min_size=1, max_size=3)


@pytest.mark.usefixtures("sail")
@few
@given(
    rows=epochs,
    looked_up=st.lists(st.tuples(keys, st.none() | st.integers(0, 9)), max_size=5),
    how=st.sampled_from(["left", "inner"]),
)
def test_any_rows_and_table_give_the_join_of_plain_python(
    rows: Any, looked_up: list[tuple[str | None, int | None]], how: Any
) -> None:
    def build(pipeline: do.Pipeline) -> do.Stream:
        return source(pipeline, *rows, schema=PAIRS).lookup(table("k string, n long", looked_up), on="k", how=how)

    expected: Counter[Any] = Counter()
    for k, v in (row for epoch in rows for row in epoch):
        found = [n for key, n in looked_up if k is not None and key == k]
        expected.update((k, v, n) for n in found or ([None] if how == "left" else []))
    assert result(SAIL, build).rows == expected
