"""Transform: a function over DataFrames, called while an epoch is planned and run, and what is said of one that does not fit."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import PipelineError, SchemaError
from tests.engines import ENGINES, SAIL
from tests.operators.one_table import few, lineage, result, source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PAIRS = "k string, v long"
BATCHES = ([{"k": "a", "v": 1}, {"k": "b", "v": None}], [{"k": "c", "v": 3}])


def doubled(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("*", "v * 2 AS twice", "CAST(v AS decimal(4,2)) AS d")


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_the_function_gives_the_rows_and_types(engine: str) -> None:
    found = result(ENGINES[engine], lambda pipeline: source(pipeline, *BATCHES, schema=PAIRS).transform(doubled).drop("d"))
    assert found.types == {"k": "string", "v": "bigint", "twice": "bigint"}
    assert found.rows == Counter([("a", 1, 2), ("b", None, None), ("c", 3, 6)])


@pytest.mark.usefixtures("sail")
def test_functions_of_the_dataframe_interface_may_be_used() -> None:
    def kept(frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.filter(F.col("v") > 1).withColumn("k", F.upper("k"))

    assert result(SAIL, lambda pipeline: source(pipeline, *BATCHES, schema=PAIRS).transform(kept)).rows == Counter([("C", 3)])


def test_it_is_not_called_while_the_pipeline_is_built() -> None:
    def never(frame: DataFrame) -> DataFrame:
        raise AssertionError

    rows = source().transform(never, columns=["k", "n", "ts"], name="mine")
    assert (rows.name, rows.columns, rows.event_time) == ("mine", ("k", "n", "ts"), "ts")
    assert source().transform(never).columns is None
    assert source().transform(never, columns=["k"]).event_time is None
    with pytest.raises(SchemaError, match=r"uses column 'v'.*use one of: k, n, ts"):
        rows.filter("v > 1")


def test_every_column_may_come_from_every_column() -> None:
    rows = source(schema=PAIRS).transform(doubled, columns=["k", "v", "twice", "d"])
    assert lineage(rows) == dict.fromkeys(["k", "v", "twice", "d"], "rows.k, rows.v")


@pytest.mark.usefixtures("sail")
def test_windows_behind_it_go_by_the_event_time_that_it_hands_on() -> None:
    def build(pipeline: do.Pipeline, *columns: str) -> do.Stream:
        rows = source(pipeline, [{"k": "a", "ts": "2024-01-01T00:00:01"}], schema="k string, ts timestamp")
        return rows.transform(lambda frame: frame.select(*columns)).window(do.Tumbling("1 s")).aggregate(n="count(*)").select("n")

    assert result(SAIL, lambda pipeline: build(pipeline, "ts", "k")).rows == Counter([(1,)])
    with pytest.raises(SchemaError, match=r"the event time 'ts' is not among the output's columns.*keep it"):
        result(SAIL, lambda pipeline: build(pipeline, "k"))


def raising(frame: DataFrame) -> DataFrame:
    raise KeyError("v")


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize(
    ("function", "message", "remedy"),
    [
        (lambda frame: None, "the function returned None, not a DataFrame", "return a DataFrame"),
        (raising, "the function raised KeyError: 'v'", "correct the function"),
        (lambda frame: frame.selectExpr("w"), "does not fit its input", "the columns are: k string, v bigint"),
        (lambda frame: frame.selectExpr("k", "v AS K"), "column 'k' more than once", "rename one of them; case does not matter"),
    ],
)
def test_a_function_that_does_not_fit_is_told_before_an_epoch_runs(function: Any, message: str, remedy: str) -> None:
    with pytest.raises(PipelineError) as caught:
        result(SAIL, lambda pipeline: source(pipeline, *BATCHES, schema=PAIRS).transform(function, name="mine"))
    assert message in str(caught.value)
    assert (caught.value.operator, caught.value.remedy) == ("mine", remedy)


@pytest.mark.usefixtures("sail")
def test_its_columns_must_be_those_that_were_said() -> None:
    def build(pipeline: do.Pipeline, *columns: str) -> do.Stream:
        return source(pipeline, *BATCHES, schema=PAIRS).transform(doubled, columns=columns)

    with pytest.raises(SchemaError, match=r"columns are k, v, twice, d, and columns= says k, v.*make them agree"):
        result(SAIL, lambda pipeline: build(pipeline, "k", "v"))
    assert result(SAIL, lambda pipeline: build(pipeline, "k", "v", "twice", "d")).rows.total() == 3


def test_what_cannot_be_a_function_over_rows() -> None:
    with pytest.raises(PipelineError, match=r"'explode\(xs\)' is no function.*select or with_columns") as caught:
        source().transform("explode(xs)")  # type: ignore[arg-type]
    assert caught.value.operator == "transform"
    totals = source().key_by("k").aggregate(n="count(*)")
    with pytest.raises(PipelineError, match="transform takes append streams, and 'aggregate_k' is updating") as caught:
        totals.transform(doubled)
    assert caught.value.remedy == "use filter, select or with_columns after an aggregate without a window"
    assert totals.filter("n > 1").with_columns(m="n + 1").columns == ("k", "n", "m")


def test_its_source_text_is_what_it_is_known_by() -> None:
    def fingerprint(function: Any) -> str:
        rows = source().transform(function, name="mine")
        return rows._dataflow.nodes["mine"].operator.fingerprint()

    def tripled(frame: DataFrame) -> DataFrame:
        return frame.selectExpr("*", "v * 3 AS twice")

    assert fingerprint(doubled) == fingerprint(doubled)
    assert fingerprint(doubled) != fingerprint(tripled)


@pytest.mark.usefixtures("sail")
@few
@given(
    epochs=st.lists(
        st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(-3, 3)), max_size=5), min_size=1, max_size=3
    ),
    bound=st.integers(-3, 3),
)
def test_any_rows_give_what_plain_python_gives(epochs: list[list[tuple[str, int | None]]], bound: int) -> None:
    def changed(frame: DataFrame) -> DataFrame:
        return frame.filter(f"v >= {bound}").selectExpr("concat(k, k) AS kk", f"v - ({bound}) AS v")

    found = result(SAIL, lambda pipeline: source(pipeline, *epochs, schema=PAIRS).transform(changed, columns=["kk", "v"]))
    rows = [row for epoch in epochs for row in epoch]
    assert found.rows == Counter((k * 2, v - bound) for k, v in rows if v is not None and v >= bound)
