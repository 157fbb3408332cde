"""Scalar functions of the user's own: in every operator, on every engine, with nulls, constants, errors and changes."""

from __future__ import annotations

import copy
import datetime as dt
import hashlib
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # noqa: TC002 - annotations decide what a function is given
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dagster_operators import MemorySource, Pipeline, Tumbling, udf
from dagster_operators.errors import ChangedPipelineError, PipelineError, SchemaError, UserFunctionError
from dagster_operators.functions import shipping
from dagster_operators.functions.install import install
from dagster_operators.graph import user_functions
from tests.engines import ENGINES, SAIL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dagster_operators.runtime.engine import Spark


FACTOR = -2


def times(x: pa.Array, factor: int) -> pa.Array:
    return pc.multiply(x, factor)


def rows_of(pipeline: Pipeline, table: str) -> list[Any]:
    return sorted((tuple(row) for row in pipeline.read(table).collect()), key=repr)


def one_table(engine: Spark, root: Path, rows: list[tuple[Any, ...]], schema: str, *expressions: str) -> list[Any]:
    """What these expressions give, in a pipeline of one table."""
    pipeline = Pipeline("p", root=str(root), engine=engine)
    pipeline.source("rows", MemorySource([rows], schema=schema)).select(*expressions).to_table("results")
    pipeline.run_epoch()
    return rows_of(pipeline, "results")


@pytest.mark.parametrize("engine", ["sail", "spark", "connect"])
def test_a_function_is_called_in_every_operator(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    request.getfixturevalue(engine)

    @udf("long")
    def double_negative(x: pa.Array) -> pa.Array:
        return times(x, FACTOR)

    @udf(returns="string", name="digit_sum")
    def of_digits(x: pa.Array) -> list[str | None]:
        return [None if value is None else f"sum {sum(map(int, str(abs(value))))}" for value in x.to_pylist()]

    pipeline = Pipeline("p", root=str(tmp_path), engine=ENGINES[engine])
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    batches = [[(n, start + dt.timedelta(seconds=n)) for n in part] for part in (range(7), range(7, 20))]
    rows = pipeline.source("rows", MemorySource(batches, schema="n long, t timestamp"), event_time="t", finished=True)
    kept = rows.filter("double_negative(n) <= -4").with_columns(neg="Double_Negative(n)", digits="digit_sum(n)")
    kept.select("n", "neg", "digits").to_table("kept")
    keyed = kept.key_by("double_negative(n) % 4 AS k")
    keyed.window(Tumbling("10s")).aggregate(
        total="sum(double_negative(n)) + 0", few="count(*) FILTER (WHERE double_negative(n) > -9)"
    ).to_table("tens")
    updated = kept.key_by("digits").aggregate(largest="max(double_negative(neg))").filter("double_negative(largest) < -20")
    updated.with_columns(again="double_negative(largest)").to_table("per_digits", checks={"far": "double_negative(again) > 40"})
    pipeline.run_until_caught_up()

    plain = [(n, -2 * n, f"sum {sum(map(int, str(n)))}") for n in range(2, 20)]
    assert rows_of(pipeline, "kept") == sorted(plain, key=repr)
    windows: dict[Any, list[int]] = {}
    for n, neg, _ in plain:
        windows.setdefault((-(-neg % 4) if neg % 4 else 0, n // 10), []).append(neg)
    found = {(row["k"], row["window_start"].second // 10): (row["total"], row["few"]) for row in pipeline.read("tens").collect()}
    assert found == {key: (sum(values), sum(value > -9 for value in values)) for key, values in windows.items()}
    largest: dict[str, int] = {}
    for _, neg, digits in plain:
        largest[digits] = max(largest.get(digits, 0), -2 * neg)
    assert rows_of(pipeline, "per_digits") == sorted(
        ((digits, value, -2 * value) for digits, value in largest.items() if value > 10), key=repr
    )


VALUES = (
    "b boolean, i int, l long, f double, s string, d date, t timestamp, c decimal(12,2), a array<int>, m map<string,int>, "
    "r struct<x:int,y:string>"
)
ROW = (
    True, 3, 4, 0.5, "ß", dt.date(2024, 2, 29), dt.datetime(2024, 1, 1, 12, 30, 0, 250, tzinfo=dt.UTC), Decimal("1.50"),
    [1, None], {"k": 1}, {"x": 1, "y": None},
)  # fmt: skip


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_every_type_goes_in_and_comes_out(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    request.getfixturevalue(engine)
    names = {}
    for field in VALUES.split(", "):
        column, kind = field.split(" ", 1)
        names[column] = udf(kind, name=f"same_{column}")(lambda x: x).name
    rows: list[tuple[Any, ...]] = [ROW, (None,) * len(ROW)]
    expressions = [f"{function}({column}) AS {column}" for column, function in names.items()]
    plain = one_table(ENGINES[engine], tmp_path / "plain", rows, VALUES, *names)
    assert one_table(ENGINES[engine], tmp_path / "ours", rows, VALUES, *expressions) == plain


def test_annotations_ask_for_pandas_and_numpy(sail: SparkSession, tmp_path: Path) -> None:
    assert sail

    @udf("double")
    def with_pandas(x: pd.Series, y: pd.Series) -> pd.Series:
        return x * 2 + y

    @udf("double")
    def with_numpy(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.sqrt(x)

    results = one_table(SAIL, tmp_path, [(4,), (None,)], "x long", "with_pandas(x, 0.5D) AS a", "with_numpy(coalesce(x, 9)) AS b")
    assert results == [(8.5, 2.0), (None, 3.0)]


def test_constants_come_as_columns(sail: SparkSession, tmp_path: Path) -> None:
    assert sail

    @udf("string")
    def kinds(*columns: pa.Array) -> list[str]:
        return [" ".join(f"{column.type}={column[row].as_py()}" for column in columns) for row in range(len(columns[0]))]

    results = one_table(SAIL, tmp_path, [(1,), (2,)], "x int", "kinds(x, 'a', 2.5D) AS a")
    assert results == [(f"int32={n} string=a double=2.5",) for n in (1, 2)]


@pytest.mark.parametrize("engine", ["sail", "spark"])
@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda x: 1 // 0, "raised ZeroDivisionError: integer division"),
        (lambda x: [1, 2, 3], "returned 3 values for [12] rows"),
        (lambda x: ["a"] * len(x), "did not return int64"),
        (lambda x: 7, "returned 7, which is no column"),
    ],
    ids=["raises", "length", "type", "scalar"],
)
def test_what_a_function_does_wrong_is_told(
    engine: str, function: Any, problem: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    request.getfixturevalue(engine)
    udf("long", name="broken")(function)
    with pytest.raises(UserFunctionError, match=f"the function 'broken' {problem}") as caught:
        one_table(ENGINES[engine], tmp_path, [(5,), (6,)], "x int", "broken(x) AS y")
    where = caught.value.where
    assert (where["function"], where["stage"], where["epoch"]) == ("broken", "results", 1)
    assert where.get("arguments", "(5)") in {"(5); (6)", "(5)", "(6)"}
    assert caught.value.remedy


def test_names_are_one_per_process() -> None:
    first = udf("long", name="one_of_a_kind")(times)
    again = udf("long", name="one_of_a_kind")(times)
    assert first.digest == again.digest
    with pytest.raises(PipelineError, match="two different functions 'One_Of_A_Kind'"):
        udf("int", name="One_Of_A_Kind")(times)
    for name in ("a b", "fetch", "select", "1st"):
        with pytest.raises(PipelineError, match="no name"):
            udf("long", name=name)(times)
    with pytest.raises(PipelineError, match="takes no argument"):
        udf("long", name="of_nothing")(lambda: [1])
    with pytest.raises(SchemaError, match="no type is called 'lnog'"):
        udf("lnog", name="typed")(times)
    assert first(pa.array([1]), 3).to_pylist() == [3]


def test_names_of_spark_are_refused(sail: SparkSession) -> None:
    with pytest.raises(PipelineError, match="one of Spark's own"):
        udf("long", name="Abs")(times)
    udf("long", name="lit")(times)  # of PySpark's, and known only where that is
    with pytest.raises(PipelineError, match="one of Spark's own"):
        install(sail)


def test_what_cannot_be_sent_is_refused(sail: SparkSession) -> None:
    sha = hashlib.sha256()
    udf("long", name="with_a_hash")(lambda x: [sha.update(b"") or 1 for _ in x])
    with pytest.raises(PipelineError, match="'with_a_hash' cannot be sent"):
        install(sail)


def test_a_changed_function_changes_the_plan(sail: SparkSession, tmp_path: Path) -> None:
    assert sail
    source = MemorySource([[(1,)], [(2,)]], schema="x long")

    def pipeline() -> Pipeline:
        made = Pipeline("p", root=str(tmp_path), engine=SAIL)
        made.source("rows", source).key_by("x % 2 AS k").aggregate(total="sum(changing(x))", name="sums").to_table("sums")
        return made

    udf("long", name="changing")(lambda x: x)
    first = pipeline()
    first.run_epoch()
    before = first.dataflow.nodes["sums"].operator.fingerprint()
    user_functions.forget("changing")
    udf("long", name="changing")(lambda x: pc.add(x, 1))
    assert first.dataflow.nodes["sums"].operator.fingerprint() != before
    with pytest.raises(ChangedPipelineError, match="sums"):
        pipeline().run_epoch()


def test_a_worker_unpickles_a_function_once() -> None:
    payload = shipping.pickled(times, __name__, "times")
    digest = hashlib.sha256(payload).hexdigest()
    assert shipping.unpickled(digest, payload) is shipping.unpickled(digest, payload)
    assert shipping.unpickled(digest, payload) is not times


def endless(x: pa.Array) -> pa.Array:
    while x[0].as_py():
        pass
    return x


def test_a_call_with_a_batch_may_have_a_time_limit() -> None:
    limited, soon = (udf("long", name="limited", timeout=timeout)(endless) for timeout in ("1 hour", "50 ms"))
    assert limited.digest == soon.digest, "it computes the same"
    call, failing = (copy.copy(each).engine_functions()[0].call for each in (limited, soon))
    assert call(pa.array([0, 5])).to_pylist() == [0, 5]
    with pytest.raises(UserFunctionError, match=r"raised TimeoutError: no answer within 0\.05 s") as over:
        failing(pa.array([1, 5]))
    assert over.value.where["arguments"] == "(1); (5)"


@pytest.mark.parametrize(("timeout", "message"), [("0 s", "a timeout of nothing"), (5, "no unit"), ("soon", "no duration")])
def test_a_time_limit_is_a_duration(timeout: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        udf("long", name="limited_wrongly", timeout=timeout)(endless)


@pytest.mark.sail
def test_a_function_that_takes_too_long_fails_the_epoch(tmp_path: Path) -> None:
    udf("long", name="limited", timeout="50 ms")(endless)
    pipeline = Pipeline("p", root=str(tmp_path), engine=SAIL)
    pipeline.source("rows", MemorySource([[(1,)]], schema="v long")).select("limited(v) AS v").to_table("t")
    with pytest.raises(UserFunctionError, match="TimeoutError: no answer within"):
        pipeline.run_epoch()
