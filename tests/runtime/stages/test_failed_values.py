"""A value that an expression cannot take: operator, column and expression are named, and the remedy works."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import (
    BadInputError,
    OperatorFailedError,
    RestoredTableError,
    SchemaError,
    StageFailedError,
    UserFunctionError,
)
from dagster_operators.runtime.engine import Spark
from dagster_operators.runtime.stages.failed_values import failed_value
from tests.engines import EMBEDDED, SAIL

ROWS = [[("a", 2**63 - 1), ("1", 1)]]


@pytest.fixture(params=[pytest.param("sail", marks=pytest.mark.sail), pytest.param("spark", marks=[pytest.mark.spark])])
def engine(request: pytest.FixtureRequest) -> Spark:
    request.getfixturevalue(request.param)
    return SAIL if request.param == "sail" else EMBEDDED


def pipeline(root: Path, engine: Spark) -> tuple[do.Pipeline, do.Stream]:
    made = do.Pipeline("p", root=str(root), engine=engine)
    return made, made.source("rows", do.MemorySource(ROWS, schema="k string, v bigint"))


@pytest.mark.parametrize(
    ("wrong", "problem", "right"),
    [
        ("v + 1", "a number is too large for its type", "CAST(v AS decimal(38, 0)) + 1"),
        ("CAST(v AS int)", "a value is not one of the type", "try_cast(v AS int)"),
        ("CAST(k AS int)", "a value is not one of the type", "try_cast(k AS int)"),
        ("1 / (v - 1)", "a number is divided by zero", "1 / nullif(v - 1, 0)"),
    ],
)
def test_the_expression_is_named_and_the_remedy_works(
    tmp_path: Path, engine: Spark, wrong: str, problem: str, right: str
) -> None:
    made, rows = pipeline(tmp_path / "wrong", engine)
    rows.filter("k <> 'z'", name="kept").with_columns(w=wrong, name="computed").to_table("t")
    with pytest.raises(StageFailedError, match=problem) as caught:
        made.run_epoch()
    found = caught.value
    assert (found.where["operator"], found.where["column"], found.where["expression"]) == ("computed", "w", wrong)
    assert "see the cause" not in found.remedy
    made, rows = pipeline(tmp_path / "right", engine)
    rows.with_columns(w=right, name="computed").to_table("t")
    assert made.run_epoch().rows == {"t": 2}


TOLD = [  # what engines say, and the expressions that it may be of
    ("[ARITHMETIC_OVERFLOW] long overflow. Use 'try_add' to tolerate overflow", ["v + 1", "sum(v)"]),
    ("[NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION] 1E+38 cannot be represented", ["v + 1", "sum(v)"]),
    ("Arithmetic overflow: Overflow happened on: 9223372036854775807 + 1", ["v + 1", "sum(v)"]),
    ("Int64 overflow on negative(-9223372036854775808)", ["v + 1", "sum(v)"]),
    ("Cast error: Can't cast value 2147483648 to type Int32", ["CAST(v AS int)", "v + 1", "sum(v)"]),
    ("Cast error: value of 9223372036854775808 is out of range Int64", ["CAST(v AS int)", "v + 1", "sum(v)"]),
    ("[CAST_INVALID_INPUT] The value 'a' of the type STRING cannot be cast to INT", ["CAST(v AS int)", "sum(v)"]),
    ("[CAST_OVERFLOW] The value 9L of the type BIGINT cannot be cast to INT due to an overflow", ["CAST(v AS int)", "sum(v)"]),
    ("Cannot cast string 'a' to value of Int64 type", ["CAST(v AS int)", "sum(v)"]),
    ("[DIVIDE_BY_ZERO] Division by zero", ["1 / v"]),
    ("[USER_RAISED_EXCEPTION] a sum of decimals needs more than 38 digits", ["sum(v)"]),
    ("[REMAINDER_BY_ZERO] Remainder by zero", ["1 / v"]),
    ("Buffer overflow. Available: 0, required: 11. To avoid this, increase spark.kryoserializer.buffer.max value", []),
    ("java.lang.StackOverflowError", []),
    ("Arrow error: Offset overflow error: 2147483700", []),
    ("offset overflow while concatenating arrays", []),
    ("index 5 is out of range for slice of length 3", []),
    ("External error: Error parsing the footer of the file", []),
]


@pytest.mark.parametrize(("told", "of"), TOLD)
def test_what_an_engine_says_is_of_expressions_in_which_it_can_happen(tmp_path: Path, told: str, of: list[str]) -> None:
    made = do.Pipeline("p", root=str(tmp_path))
    rows = made.source("rows", do.MemorySource(ROWS, schema="k string, v bigint"))
    rows = rows.with_columns(a="CAST(v AS int)", b="v + 1", c="1 / v", d="upper(k)", name="computed")
    rows.key_by("k").aggregate(e="sum(v)", name="summed").to_table("t")
    error = StageFailedError("the stage failed: it did", remedy="see the cause", stage="t")
    error.__cause__ = RuntimeError(told)
    found = failed_value(error, made.dataflow, ["computed", "summed"])
    if not of:
        assert found is None
        return
    assert found is not None
    assert found.where["stage"] == "t"
    expressions = ("CAST(v AS int)", "v + 1", "1 / v", "sum(v)", "upper(k)")
    assert [one for one in expressions if one in f"{found.problem} {found.where.get('expression')}"] == of
    assert failed_value(error, made.dataflow, ["rows"]) is None, "no expression is in the stage"


@pytest.mark.sail
def test_a_calculation_that_sail_tells_as_a_cast(tmp_path: Path, sail: object) -> None:
    """Whole numbers below bigint: the text is that of a cast, and there is none."""

    def computed(name: str, expression: str) -> do.Pipeline:
        made = do.Pipeline("p", root=str(tmp_path / name), engine=SAIL)
        rows = made.source("rows", do.MemorySource([[(2**31 - 1,)]], schema="i int"))
        rows.with_columns(w=expression, name="computed").to_table("t")
        return made

    with pytest.raises(StageFailedError, match="a number is too large for its type") as caught:
        computed("wrong", "i + 1").run_epoch()
    assert (caught.value.where["operator"], caught.value.where["expression"]) == ("computed", "i + 1")
    right = computed("right", "CAST(i AS decimal(38, 0)) + 1")
    right.run_epoch()
    assert right.to_arrow("t").to_pylist() == [{"i": 2**31 - 1, "w": 2**31}]


@pytest.mark.sail
def test_of_several_all_are_told(tmp_path: Path, sail: object) -> None:
    made, rows = pipeline(tmp_path, SAIL)
    rows.with_columns(w="v + 1", name="one").with_columns(x="v * 2", y="upper(k)", name="two").to_table("t")
    with pytest.raises(StageFailedError, match=r"in one of one: w = v \+ 1; two: x = v \* 2 \["):
        made.run_epoch()


@pytest.mark.sail
def test_an_average_beside_a_sum_of_decimals(tmp_path: Path, sail: object) -> None:
    """The sum fits, and is not blamed alone."""
    batches = [[("a", Decimal("1.25"))], [("a", Decimal("99999999999999999999999999999999999.25"))]]

    def computed(name: str, **calls: str) -> do.Pipeline:
        made = do.Pipeline("p", root=str(tmp_path / name), engine=SAIL)
        rows = made.source("rows", do.MemorySource(batches, schema="k string, v decimal(38, 2)"))
        rows.key_by("k").aggregate(**calls, name="both").to_table("t")
        return made

    with pytest.raises(
        StageFailedError, match=r"too large for its type .*in one of both: mean = avg\(v\); both: total = sum\(v\)"
    ):
        computed("wrong", mean="avg(v)", total="sum(v)").run_until_caught_up()
    right = computed("right", mean="avg(CAST(v AS double))", total="sum(v)")
    right.run_until_caught_up()
    assert right.to_arrow("t").to_pylist()[0]["total"] == Decimal("100000000000000000000000000000000000.50")


@pytest.mark.sail
def test_a_message_of_two_kinds_names_its_only_expression(tmp_path: Path, sail: object) -> None:
    made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = made.source("rows", do.MemorySource([[("a", 2**62)] * 3], schema="k string, v long"))
    rows.key_by("k").aggregate(total="sum(v)").to_table("t")
    with pytest.raises(StageFailedError, match="too large for its type") as caught:
        made.run_epoch()
    assert (caught.value.where["column"], caught.value.where["expression"]) == ("total", "sum(v)")
    assert "in one of" not in caught.value.problem


@pytest.mark.sail
def test_a_sum_of_texts(tmp_path: Path, sail: object) -> None:
    made, rows = pipeline(tmp_path, SAIL)
    rows.key_by("v").aggregate(s="sum(k)", name="sums").to_table("t")
    with pytest.raises(StageFailedError, match="sum and avg of text cast it to double") as caught:
        made.run_epoch()
    assert (caught.value.where["operator"], caught.value.where["expression"]) == ("sums", "sum(k)")


@pytest.mark.sail
def test_null_where_there_is_to_be_none(tmp_path: Path, sail: object) -> None:
    made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    made.source("rows", do.MemorySource([[("a", None)]], schema="k string, v bigint NOT NULL")).to_table("t")
    with pytest.raises(BadInputError, match=r"batch 0 of the memory source has 1 nulls .* NOT NULL.*column 'v'"):
        made.run_epoch()


@pytest.mark.sail
def test_a_function_that_exits_is_named(tmp_path: Path, sail: object) -> None:
    @do.udf("bigint", name="leaving_for_good")
    def leaving_for_good(value: object) -> object:
        raise SystemExit(3)

    made, rows = pipeline(tmp_path, SAIL)
    rows.with_columns(w="leaving_for_good(v)").to_table("t")
    with pytest.raises(UserFunctionError, match="the function 'leaving_for_good' raised SystemExit: 3") as caught:
        made.run_epoch()
    assert caught.value.remedy == "correct the function, or filter the rows before it"


@pytest.mark.sail
def test_a_condition_that_is_a_number(tmp_path: Path, sail: object) -> None:
    made, rows = pipeline(tmp_path, SAIL)
    rows.filter("v + 1", name="odd").to_table("t")
    with pytest.raises(SchemaError, match=r"the condition is a number or the like \(Int64\), not true or false.*operator 'odd'"):
        made.run_epoch()


@pytest.mark.sail
def test_a_table_whose_folder_is_gone(tmp_path: Path, sail: object) -> None:
    made, rows = pipeline(tmp_path, SAIL)
    rows.to_table("t")
    made.run_epoch()
    (tmp_path / "tables" / "t").rename(tmp_path / "away")
    for read in (made.read, made.to_arrow):
        with pytest.raises(RestoredTableError, match=r"its folder is gone.*put its folder back from a backup"):
            read("t")
    (tmp_path / "away").rename(tmp_path / "tables" / "t")
    assert made.to_arrow("t").num_rows == 2


class Divides(do.ArrowOperator):
    """Its Python says what engines say, too."""

    def output_schema(self, rows: Any) -> Any:
        return rows

    def process_batch(self, batch: object, ctx: object, out: object) -> None:
        raise ZeroDivisionError("division by zero")


@pytest.mark.sail
def test_what_python_of_the_users_own_raises_is_of_no_expression(tmp_path: Path, sail: object) -> None:
    made, rows = pipeline(tmp_path, SAIL)
    rows.with_columns(w="1 / v", name="computed").apply(Divides(), name="divides").to_table("t")
    with pytest.raises(OperatorFailedError, match="process_batch raised ZeroDivisionError: division by zero") as caught:
        made.run_epoch()
    assert caught.value.where["operator"] == "divides"
    assert "correct the operator" in caught.value.remedy
    assert "expression" not in caught.value.where
