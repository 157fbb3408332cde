"""Floating-point numbers are compared with decimals on Sail as on Spark: as doubles."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import SchemaError
from dagster_operators.planner.differences import compared_numbers as compared
from dagster_operators.planner.differences import wrapping
from dagster_operators.planner.differences.checked_numbers import ACCEPTED_AS
from dagster_operators.planner.differences.compared_numbers import compared_numbers
from dagster_operators.planner.differences.refusing import ACCEPTED, types_in
from dagster_operators.types.data_type import DataType, Plain
from dagster_operators.types.data_type import Decimal as DecimalType
from tests.engines import SAIL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPES: dict[str, DataType] = {
    "d": Plain("double"), "r": Plain("float"), "c": DecimalType(10, 2), "i": Plain("int"), "s": Plain("string"),
}  # fmt: skip

ANSWERS = [
    ("d*1e-20D > 0.0", True), ("0.0 < d*1e-20D", True), ("d*1e-20D <= 0.0", False), ("d - 2.2D = 0.3", False),
    ("d*1e-20D IN (0.0, 1.5)", False), ("d*1e-20D NOT IN (0.0, 1.5)", True), ("0.0 IN (d*1e-20D, 1)", False),
    ("d*1e18D BETWEEN 0.5 AND 1.5", False), ("d*1e18D NOT BETWEEN 0.5 AND 1.5", True), ("1.5 BETWEEN d - 2D AND d * 1e30D", True),
    ("nan > 0.5", True), ("nan = 0.5", False), ("r > 0.1", True), ("r = 0.1", False), ("r = 0.25 OR r >= 0.1", True),
    ("d*1e-20D <=> 0.0", False), ("d*1e-20D == 0.0", False), ("d*1e-20D != 0.0", True), ("d*1e-20D <> 0.0", True),
    ("d*1e-20D IS DISTINCT FROM 0.0", True), ("d*1e-20D IS NOT DISTINCT FROM 0.0", False),
    ("CASE d*1e-20D WHEN 0.0 THEN 'zero' ELSE 'more' END", "more"),
    ("CASE 0.0 WHEN d*1e-20D THEN 'zero' ELSE 'more' END", "more"),
    ("IF(d*1e-20D > 0.0, 1, 0) + 1", 2), ("d*1e-20D > c - c", True), ("c - 0.30 < d*1e-20D", True),
    ("NOT d*1e-20D > -0.0", False),
    ("transform(array(d*1e-20D), x -> x > 0.0)", [True]), ("exists(array(nan), x -> x > 0.5)", True),
    ("(d*1e-20D > 0.0) = (d < .5)", False), ("d*1e-20D > (0.0) AND d > 2. AND i > 0.5", True), ("d IS NULL OR d > 0.5BD", True),
    ("c BETWEEN 0 AND d*1e-20D", False), ("c BETWEEN d*1e-20D AND 0.3", True), ("CASE c WHEN nan THEN 1 WHEN 0.3 THEN 2 END", 2),
    ("equal_null(d*1e-20D, 0.0)", False), ("CASE i WHEN 1 THEN d*1e-20D > 0.0 END", True),
    ("(d * 1e-20D, i) IN ((0.0D, 1))", False),
    ("g = l", False), ("l IN (g)", False), ("g <= l", True), ("r < i", True),
    ("g BETWEEN l AND 16777218", False), ("g = 16777217", False), ("r > 0", True),
    ("g IN (1.5D, l)", False), ("l IN (1, d, g)", False),
    ("isnan(u)", False), ("NOT isnan( u )", True), ("isnan(nan) AND NOT `isnan`(d)", True),
    ("exists(array(u, nan), x -> NOT isnan(x))", True), ("count_if(NOT isnan(u))", 1),
    ("g BETWEEN l AND 99999999.5", False), ("g IN (l, 0.5)", False), ("CASE g WHEN l THEN 1 WHEN 0.5 THEN 2 END", None),
    ("array(CAST(g AS DOUBLE)) = array(l)", False), ("named_struct('a', CAST(g AS DOUBLE)) = named_struct('a', l)", False),
    ("big BETWEEN d AND 1.5", False), ("big >= d AND big <= 9007199254740992.5", False),
    ("big = g OR big = 9007199254740992.0", False),
    ("i BETWEEN 0.99999999999999 AND d", True), ("i BETWEEN 1.00000000000001 AND d", False),
    ("count_if(d*1e-20D > 0.0)", 1), ("max(d*1e-20D) > 0.0", True), ("count(*) FILTER (WHERE d*1e-20D > 0.0) > 0.5", True),
]  # fmt: skip
"""What Spark answers, where d is 2.5, r the float nearest to 0.1, nan is none, c the decimal 0.30, i 1, u null, l 16777217,
g the FLOAT before it, and big 2^53 + 1."""


@pytest.fixture(scope="module")
def row(sail: SparkSession) -> DataFrame:
    schema = "d double, r float, nan double, c decimal(10,2), i int, w decimal(20,4), u double, l bigint, g float, big bigint"
    return sail.createDataFrame(
        [(2.5, 0.1, float("nan"), Decimal("0.30"), 1, Decimal("0.5000"), None, 16777217, 16777216.0, 2**53 + 1)], schema
    )


@pytest.mark.parametrize(("expression", "value"), ANSWERS, ids=[one for one, _ in ANSWERS])
def test_sail_answers_as_spark(expression: str, value: object, row: DataFrame) -> None:
    assert row.selectExpr(f"{compared_numbers(expression, types_in(row))} AS x").collect() == [(value,)]


@pytest.mark.spark
def test_spark_answers_so(spark: SparkSession) -> None:
    schema = "d double, r float, nan double, c decimal(10,2), i int, w decimal(20,4), u double, l bigint, g float, big bigint"
    rows = spark.createDataFrame(
        [(2.5, 0.1, float("nan"), Decimal("0.30"), 1, Decimal("0.5000"), None, 16777217, 16777216.0, 2**53 + 1)], schema
    )
    aggregates = ("count", "max")
    for wanted in (True, False):
        some = [(one, value) for one, value in ANSWERS if one.startswith(aggregates) is wanted]
        assert list(rows.selectExpr(*(f"{one} AS x{place}" for place, (one, _) in enumerate(some))).collect()[0]) == [
            value for _, value in some
        ]


@pytest.mark.parametrize(
    "expression",
    [
        "d > 5", "c > 0.5", "i IN (0.5, 1)", "s = '0.5'", "d > 0.5D", "d * 0.5 + 1.5", "c BETWEEN 0.5 AND i",
        "CASE WHEN d > i THEN 0.5 END",
    ],
)  # fmt: skip
def test_what_is_no_such_comparison_stays(expression: str) -> None:
    assert compared_numbers(expression, TYPES.get) == expression


def test_a_column_becomes_a_double() -> None:
    assert compared_numbers("d > c AND c > 0.5", TYPES.get) == "d > CAST(c AS DOUBLE) AND c > 0.5"


@pytest.mark.parametrize(
    ("expression", "instead"),
    [
        ("w BETWEEN d AND 1.5", "w >= d AND w <= 1.5"),
        ("big BETWEEN d AND 9007199254740992.5", "big >= d AND big <= 9007199254740992.5"),
        ("CASE big WHEN g THEN 1 WHEN 9007199254740992.0 THEN 2 END", "big = g OR big = 9007199254740992.0"),
        ("CASE w WHEN d THEN 1 WHEN 0.5 THEN 2 END", "w = d OR w = 0.5"),
        ("array(d) = array(0.5)", "array(d) = array(0.5D)"), ("(d, i) IN ((0.5, 1))", "(d, i) IN ((0.5D, 1))"),
        ("array(g) = array(l)", "array(CAST(g AS DOUBLE)) = array(l)"),
        ("named_struct('a', g) = named_struct('a', l)", "named_struct('a', CAST(g AS DOUBLE)) = named_struct('a', l)"),
        ("named_struct('a', d) > named_struct('a', c)", "named_struct('a', d) > named_struct('a', CAST(c AS DOUBLE))"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_otherwise_is_refused(expression: str, instead: str, row: DataFrame) -> None:
    with pytest.raises(SchemaError, match=r"for which it does not|Spark does not make|within arrays"):
        compared_numbers(expression, types_in(row))
    assert compared_numbers(instead, types_in(row))


def test_where_it_is_not_clear_what_is_compared_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as nothing_found:
        nothing_found.setattr(compared, "comparisons_in", lambda _: iter(()))
        with pytest.raises(SchemaError, match="where in the expression a decimal is compared") as told:
            compared_numbers("i > 1 AND d > 0.5", TYPES.get)
        assert "0.5D for 0.5" in str(told.value.remedy)
        assert compared_numbers("i > 1 AND d > 0.5D", {**TYPES, "CAST(0.5 AS DOUBLE)": Plain("double")}.get)
    monkeypatch.setattr(wrapping, "put_around", lambda *_: None)
    with pytest.raises(SchemaError, match="where in the expression a decimal is compared"):
        compared_numbers("d > 0.5", TYPES.get)


NUMBERS = st.sampled_from([0.0, 1e-20, -1e-17, 0.1, 0.3, 0.5, 2.5 - 2.2, 1e18, -1e30, float("inf")])
LITERALS = st.decimals(min_value=-10, max_value=10, places=3)


@settings(max_examples=40, deadline=None)
@given(number=NUMBERS, literal=LITERALS, sign=st.sampled_from(["=", "<", ">", "<=", ">=", "<>"]), turned=st.booleans())
def test_any_number_beside_any_literal(number: float, literal: Decimal, sign: str, turned: bool, sail: SparkSession) -> None:  # noqa: FBT001 - drawn
    rows = sail.createDataFrame([(number,)], "d double")
    expression = f"{literal:f} {sign} d" if turned else f"d {sign} {literal:f}"
    python = {"=": "==", "<>": "!="}.get(sign, sign)
    wanted = eval(f"x {python} y", {"x": float(literal) if turned else number, "y": number if turned else float(literal)})  # noqa: S307
    assert rows.selectExpr(f"{compared_numbers(expression, types_in(rows))} AS x").collect() == [(wanted,)]


Build: TypeAlias = Callable[[do.Stream, do.Pipeline], do.Stream]
SCHEMA = "k string, d double, c decimal(10,2)"
ROWS = do.MemorySource([[("a", 1e-20, Decimal("0.00")), ("a", float("nan"), Decimal("0.10"))]], schema=SCHEMA)
OTHERS = do.MemorySource([[("a", 0.1)]], schema="q string, z float")


def pipeline(folder: Path, build: Build) -> do.Pipeline:
    made = do.Pipeline("p", root=str(folder), engine=SAIL)
    build(made.source("rows", ROWS), made).to_table("t")
    return made


BUILDS: dict[str, tuple[Build, list[tuple[object, ...]]]] = {
    "filter": (lambda rows, _: rows.filter("d > 0.0").select("c"), [(Decimal("0.00"),), (Decimal("0.10"),)]),
    "select": (lambda rows, _: rows.select("d > 0.0 AS x", "d > c AS y"), [(True, True), (True, True)]),
    "with_columns": (lambda rows, _: rows.with_columns({"d > 0.0": "d > 0.0"}).select("`d > 0.0`"), [(True,), (True,)]),
    "argument": (lambda rows, _: rows.key_by("k").aggregate(n="count_if(d > 0.0)"), [("a", 2)]),
    "filtered": (lambda rows, _: rows.key_by("k").aggregate(n="count(*) FILTER (WHERE d IN (0.0, 1.5))"), [("a", 0)]),
    "around": (lambda rows, _: rows.key_by("k").aggregate(x="min(d) > 0.0"), [("a", True)]),
    "join": (
        lambda rows, made: rows.join(made.source("others", OTHERS), on={"k": "q"}, condition="z > 0.1 AND d > 0.0").select("c"),
        [(Decimal("0.00"),), (Decimal("0.10"),)],
    ),
    "right side": (
        lambda rows, made: rows.join(made.source("others", OTHERS), on={"k": "q"}, how="semi", condition="z > c").select("c"),
        [(Decimal("0.00"),), (Decimal("0.10"),)],
    ),
    "over": (
        lambda rows, _: rows.key_by("k").over("c", x="sum(IF(d > 0.0, 1, 0))", y="min(d > 0.0)").select("k", "c", "x", "y"),
        [("a", Decimal("0.00"), 1, True, "insert"), ("a", Decimal("0.10"), 2, True, "insert")],
    ),
    "order": (
        lambda rows, _: rows.key_by("k").top(1, by=["d > 0.5 DESC", "c"]).select("k", "rank", "c"),
        [("a", 1, Decimal("0.10"))],
    ),
    "unnest": (lambda rows, _: rows.unnest("array(d > 0.0) AS x").select("x"), [(True,), (True,)]),
    "lookup": (lambda rows, _: rows.lookup(OTHERS, on={"k": "q"}, columns=["z > 0.1 AS y"]).select("y"), [(True,), (True,)]),
}


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize("name", BUILDS)
def test_wherever_a_pipeline_compares(name: str, tmp_path: Path) -> None:
    build, wanted = BUILDS[name]
    made = pipeline(tmp_path, build)
    made.run_epoch()
    assert sorted(map(tuple, made.read("t").collect())) == wanted


@pytest.mark.usefixtures("sail")
def test_checks_of_tables_compare_so(tmp_path: Path) -> None:
    made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    made.source("rows", ROWS).to_table("t", checks={"positive": "d > 0.0"})
    assert [check.passed for check in made.run_epoch().checks] == [True]


@pytest.mark.usefixtures("sail")
def test_what_overflows_by_agreement_is_compared_so_too(tmp_path: Path) -> None:
    session = SAIL.session()
    session.conf.set(ACCEPTED, ACCEPTED_AS)
    try:
        made = pipeline(tmp_path, lambda rows, _: rows.filter("d > 0.0").select("k"))
        made.run_epoch()
        assert made.read("t").count() == 2
    finally:
        session.conf.unset(ACCEPTED)


@pytest.mark.usefixtures("sail")
def test_plans_and_state_stay_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = do.MemorySource([[("a", 1e-20, None)], [("a", 1e-20, None)]], schema=SCHEMA)

    def made() -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        pipeline.source("rows", source).filter("d > -0.5").key_by("k").aggregate(n="count_if(d > 0.0)").to_table("t")
        return pipeline

    with monkeypatch.context() as before:
        before.setattr("dagster_operators.planner.plan.with_compared_numbers", lambda _session, dataflow, *_: dataflow)
        earlier = made()
        told, fingerprint = earlier.explain(), earlier.epochs.plan().fingerprint
        earlier.run_epoch()
    later = made()
    assert (later.explain(), later.epochs.plan().fingerprint) == (told, fingerprint)
    later.run_epoch()
    assert later.read("t").collect() == [("a", 1)]  # that of the epoch before was not counted
