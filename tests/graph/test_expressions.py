"""What the text of a Spark SQL expression or schema says, without Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import columns_of, parse_alias


@pytest.mark.parametrize(
    ("expression", "columns"),
    [
        ("a + 1", {"a"}),
        ("A + a", {"A", "a"}),
        ("a.b.c", {"a"}),
        ("a.b.c.d.e.f", {"a"}),
        ("xs[i].b + m['k']", {"xs", "i", "m"}),
        ("`my col` + `a.b`", {"my col", "a.b"}),
        ('a = "text"', {"a"}),
        ("transform(xs, x -> x.f + y)", {"xs", "y"}),
        ("transform(xs, x -> transform(ys, y -> x + y + z))", {"xs", "ys", "z"}),
        ("aggregate(xs, 0, (acc, x) -> acc + x + z, acc -> acc * k)", {"xs", "z", "k"}),
        ("filter(xs, (x, i) -> i > limit)", {"xs", "limit"}),
        ("x + size(filter(xs, x -> x > 1))", {"x", "xs"}),
        ("timestampdiff(MINUTE, a, b)", {"a", "b"}),
        ("date_trunc('DAY', t) + interval 1 day", {"t"}),
        ("extract(day from t)", {"t"}),
        ("cast(a as struct<x: int>).x", {"a"}),
        ("a::int", {"a"}),
        ("struct(a, b as c)", {"a", "b"}),
        ("named_struct('x', a).x", {"a"}),
        ("case a when 1 then b else c end", {"a", "b", "c"}),
        ("current_date", set()),
        ("localtimestamp", set()),
        ("`localtimestamp`", {"localtimestamp"}),
        ("count(*)", set()),
        ("count(distinct a, b) / count(*) filter (where c)", {"a", "b", "c"}),
        ("first(x) ignore nulls", {"x"}),
        ("sum(x) over (partition by k order by t)", {"x", "k", "t"}),
        ("*", {"*"}),
        ("struct(*)", {"*"}),
        ("s.*", {"s"}),
        ("comment", {"comment"}),
        ("end - start", {"end", "start"}),
        ("1 + 2", set()),
    ],
)
def test_columns_read(expression: str, columns: set[str]) -> None:
    assert columns_of(expression) == columns


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("a + 1 AS b", ("a + 1", "b")),
        (" a  +  1   as   `b c` ", ("a  +  1", "b c")),
        ("a b", ("a", "b")),
        ("a", ("a", None)),
        ("a.b", ("a.b", None)),
        ("a::int as n", ("a::int", "n")),
        ("cast(a as int)", ("cast(a as int)", None)),
        ("cast(a as int) as n -- the number", ("cast(a as int)", "n")),
        ("struct(a as b)", ("struct(a as b)", None)),
        ("'x as y' as z", ("'x as y'", "z")),
        ("*", ("*", None)),
    ],
)
def test_alias(text: str, parsed: tuple[str, str | None]) -> None:
    assert parse_alias(text) == parsed


@pytest.mark.parametrize(
    ("expression", "position"),
    [
        ("a +", 3),
        ("foo(", 4),
        ("a b c", 5),
        ("a +\n b c d", 10),
        ("'open", None),
        ("", None),
        ("a, b", None),
        ("a from t", None),
        ("a; b", None),
        ("distinct a", None),
        ("(select max(a) from t)", None),
        ("a in (select b from t)", None),
    ],
)
def test_not_an_expression(expression: str, position: int | None) -> None:
    with pytest.raises(SchemaError) as caught:
        columns_of(expression)
    assert caught.value.expression == expression
    assert caught.value.where.get("position") == position


def test_several_columns_have_no_one_alias() -> None:
    with pytest.raises(SchemaError, match="several columns"):
        parse_alias("explode(m) AS (k, v)")


def test_importing_costs_no_sqlglot() -> None:
    code = "import sys, dagster_operators.graph.expressions; sys.exit('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
