"""What the text of a Spark SQL expression or schema says, without Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import Field, columns_of, parse_alias, parse_ddl


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


@pytest.mark.parametrize(
    ("ddl", "fields"),
    [
        ("k string, total long", [Field("k", "string"), Field("total", "bigint")]),
        (
            "t timestamp, n TIMESTAMP_NTZ, l timestamp_ltz",
            [Field("t", "timestamp"), Field("n", "timestamp_ntz"), Field("l", "timestamp")],
        ),
        ("a: int, b:short", [Field("a", "int"), Field("b", "smallint")]),
        (
            "a decimal, b decimal(5), c numeric(10, 2)",
            [Field("a", "decimal(10,0)"), Field("b", "decimal(5,0)"), Field("c", "decimal(10,2)")],
        ),
        ("s struct<a:int, b: array<map<string,double>>>", [Field("s", "struct<a:int,b:array<map<string,double>>>")]),
        ("s struct<`a b` : int not null comment 'x'>", [Field("s", "struct<`a b`:int>")]),
        ("e struct<>", [Field("e", "struct<>")]),
        ("`my col` string NOT NULL COMMENT 'it\\'s'", [Field("my col", "string", nullable=False, comment="it's")]),
        (
            "date date, comment string, v varchar(3)",
            [Field("date", "date"), Field("comment", "string"), Field("v", "varchar(3)")],
        ),
        ("größe real", [Field("größe", "float")]),
    ],
)
def test_ddl(ddl: str, fields: list[Field]) -> None:
    assert parse_ddl(ddl) == tuple(fields)


@pytest.mark.parametrize(
    ("ddl", "position"),
    [
        ("", 1),
        ("k", 2),
        ("k strin", 3),
        ("k string,", 10),
        ("k array<int", 12),
        ("k string v long", 10),
        ("k string; v", 9),
        ("k decimal(39)", 13),
    ],
)
def test_not_a_schema(ddl: str, position: int) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_ddl(ddl)
    assert (caught.value.expression, caught.value.position) == (ddl, position)


def test_a_column_is_declared_once() -> None:
    with pytest.raises(SchemaError, match="'K' twice"):
        parse_ddl("k string, K long")


_TYPES = st.recursive(
    st.sampled_from(
        ["int", "bigint", "string", "double", "timestamp", "timestamp_ntz", "date", "binary", "boolean", "decimal(10,2)"]
    ),
    lambda inner: st.one_of(
        inner.map("array<{}>".format),
        st.tuples(inner, inner).map(lambda pair: f"map<{pair[0]},{pair[1]}>"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda types: f"struct<{','.join(f'f{i}:{t}' for i, t in enumerate(types))}>"
        ),
    ),
    max_leaves=8,
)


@given(st.lists(_TYPES, min_size=1, max_size=5))
def test_types_in_sparks_spelling_read_back_as_themselves(types: list[str]) -> None:
    fields = parse_ddl(", ".join(f"`c {i}` {kind}" for i, kind in enumerate(types)))
    assert [field.type for field in fields] == types
