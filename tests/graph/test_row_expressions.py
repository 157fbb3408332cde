"""Expressions over one row: what looks at other rows is refused, with its place and with a remedy that works."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import columns_of
from dagster_operators.graph.row_expressions import columns_of_row, generator_of
from dagster_operators.graph.spark_functions import AGGREGATES, GENERATORS, NUMBERINGS, RANKINGS
from dagster_operators.graph.user_functions import forget

SCHEMA = "k string, v long, xs array<long>, ts timestamp"


@pytest.mark.parametrize(
    ("expression", "position"),
    [
        ("sum(v)", 1),
        ("v / Max ( v )", 5),
        ("`count`(*)", 1),
        ("any(v > 1)", 1),
        ("v = any(v > 1)", 5),
        ("coalesce(first(v) FILTER (WHERE v > 1), 0)", 10),
        ("transform(xs, x -> x + avg(v))", 24),
        ("lag(v)", 1),
        ("row_number() OVER (ORDER BY v)", None),
        ("sum(v) OVER w", None),
        ("last(v) IGNORE NULLS OVER (PARTITION BY k ORDER BY ts) + 1", None),
        ("monotonically_increasing_id()", 1),
        ("v % 2 + spark_partition_id()", 9),
    ],
)
def test_what_looks_at_other_rows_is_refused(expression: str, position: int | None) -> None:
    with pytest.raises(SchemaError) as caught:
        columns_of_row(expression)
    assert caught.value.expression == expression
    assert caught.value.where.get("position") == position
    assert caught.value.remedy


@pytest.mark.parametrize(
    "expression",
    [
        "sum + count - first.max",
        "over + rank + row_number",
        "greatest(a, b) + aggregate(xs, 0, (sum, x) -> sum + x)",
        "k LIKE ANY ('a%', 'b%') OR k ILIKE SOME ('c') OR k LIKE ALL ('d')",
        "exists(xs, x -> x > 1) AND forall(xs, x -> x IN (1, 2)) AND size(filter(xs, x -> x > 1)) > 0",
        "array_max(xs) + element_at(xs, 1) + date_trunc('hour', ts)",
        "'sum(v) OVER (x)'",
        "explode(xs)",
        "uuid()",
        "now()",
        "CAST(v AS decimal(20, 0)) + (v)",
    ],
)
def test_what_makes_a_value_of_one_row_is_not(expression: str) -> None:
    assert columns_of_row(expression) == columns_of(expression)


def refusal(name: str) -> str:
    """What is said of a call of a function, with as many arguments as it takes."""
    problems = []
    for arguments in ("v", "v, v"):
        with pytest.raises(SchemaError) as caught:
            columns_of_row(f"{name}({arguments})")
        problems.append(caught.value.problem)
    return next(problem for problem in problems if "cannot be read" not in problem)


def test_every_function_of_the_groups_is_found() -> None:
    for name in AGGREGATES | RANKINGS | NUMBERINGS:
        assert f"{name}()" in refusal(name)
    assert {generator_of(f"{name}(xs)") for name in GENERATORS} == GENERATORS
    assert generator_of("size(explode)") is None


@pytest.mark.slow
def test_the_groups_are_those_of_spark(spark: Any) -> None:
    registry = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry
    found: dict[str, set[str]] = defaultdict(set)
    names = registry.functionSet().iterator()
    while names.hasNext():
        info = registry.builtin().lookupFunction(names.next()).get()
        found[info.getGroup()].add(info.getName())
    everything = set().union(*found.values())
    assert everything >= AGGREGATES | RANKINGS | GENERATORS | NUMBERINGS


@pytest.fixture
def rows() -> do.Stream:
    source = do.MemorySource([], schema=SCHEMA)
    return do.Pipeline("p", root="nowhere").source("rows", source, event_time="ts")


@pytest.fixture
def own_aggregate() -> Iterator[str]:
    @do.udaf("double", name="middle_of_mine")
    def middle(x):  # type: ignore[no-untyped-def]
        return x[0]

    yield middle.name
    forget(middle.name)


PLACES: dict[str, Callable[[do.Stream, str], object]] = {
    "filter": lambda rows, text: rows.filter(f"{text} > 1"),
    "select": lambda rows, text: rows.select("k", f"{text} AS n"),
    "with_columns": lambda rows, text: rows.with_columns(n=text),
    "key_by": lambda rows, text: rows.key_by(f"{text} AS n"),
    "unnest": lambda rows, text: rows.unnest(f"array({text}) AS n"),
    "flat_map": lambda rows, text: rows.flat_map(f"explode(array({text})) AS n"),
    "top": lambda rows, text: rows.key_by("k").top(1, by=text),
    "top per window": lambda rows, text: rows.window(do.Tumbling("1 hour")).top(1, by=f"{text} DESC"),
    "as_changes": lambda rows, text: rows.as_changes(f"IF({text} > 1, 'insert', 'delete')"),
    "check": lambda rows, text: rows.to_table("t", checks={"few": f"{text} < 10"}),
    "argument of an aggregate": lambda rows, text: rows.key_by("k").aggregate(n=f"max(v + {text})"),
    "beside an aggregate": lambda rows, text: rows.key_by("k").aggregate(n=f"max(v) + {text}"),
    "filter of an aggregate": lambda rows, text: rows.key_by("k").aggregate(n=f"max(v) FILTER (WHERE {text} > 1)"),
}


@pytest.mark.parametrize("place", PLACES)
def test_every_place_for_an_expression_over_one_row_refuses_them(place: str, rows: do.Stream) -> None:
    for text in ("row_number() OVER (ORDER BY v)", "monotonically_increasing_id()"):
        with pytest.raises(SchemaError, match=r"OVER looks at other rows|begins again in every run"):
            PLACES[place](rows, text)
    PLACES[place](rows, "abs(1)")


@pytest.mark.parametrize("place", [place for place in PLACES if "an aggregate" not in place])
def test_aggregates_are_refused_there_too(place: str, rows: do.Stream, own_aggregate: str) -> None:
    for text in ("sum(v)", f"{own_aggregate}(v)"):
        with pytest.raises(SchemaError, match=r"the aggregate \w+\(\) looks at other rows") as caught:
            PLACES[place](rows, text)
        assert caught.value.pipeline == "p"


def test_the_remedies_can_be_followed(rows: do.Stream) -> None:
    with pytest.raises(SchemaError, match=r"aggregate\(value='max\(v \+ 1\)'\)"):
        rows.select("Max(v + 1) AS n")
    assert rows.key_by("k").aggregate(value="max(v + 1)").columns == ("k", "value")
    assert rows.key_by("k").window(do.Tumbling("1 hour")).aggregate(value="max(v + 1)").filter("value > 1").event_time
    assert rows.key_by("k").top(1, by="v DESC").columns == ("k", "rank", "v", "xs", "ts")
    assert rows.select("sha2(concat_ws('|', k, v), 256) AS id").columns == ("id",)


def test_an_aggregate_of_many_rows_says_what_it_cannot_do(rows: do.Stream) -> None:
    with pytest.raises(SchemaError, match=r"sum\(\) with OVER cannot be kept up to date.*leave the clause out"):
        rows.key_by("k").aggregate(n="sum(v) OVER (PARTITION BY k)")
    with pytest.raises(SchemaError, match=r"array_agg\(\) with WITHIN GROUP cannot be kept up to date.*udaf"):
        rows.key_by("k").aggregate(n="array_agg(v) WITHIN GROUP (ORDER BY v)")
