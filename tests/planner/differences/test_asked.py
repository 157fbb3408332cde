"""What an expression asks of an engine, also within lambdas."""

from __future__ import annotations

import pytest

from dagster_operators.planner.differences.asked import asked_by


@pytest.mark.parametrize(
    ("expression", "name", "types"),
    [
        ("a / 2", "/", ("a", "2")),
        ("transform(xs, x -> x + 1)", "+", ("(xs)[0]", "1")),
        ("transform(xs, xs -> xs + 1)", "+", ("(xs)[0]", "1")),
        ("transform(xs, x -> x.a.b / 2)", "/", ("(xs)[0].a.b", "2")),
        ("filter(xs, (x, i) -> x - i > 1)", "-", ("(xs)[0]", "0")),
        ("aggregate(xs, 0D, (total, x) -> total + x)", "+", ("CAST(0 AS DOUBLE)", "(xs)[0]")),
        ("map_filter(m, (k, v) -> k || v = 'x')", "||", ("MAP_KEYS(m)[0]", "MAP_VALUES(m)[0]")),
        ("transform(xs, x -> transform(x, y -> y * 2))", "*", ("((xs)[0])[0]", "2")),
        ("extract(DOW FROM t)", "extract", ("DOW", "t")),
        ("s NOT LIKE ALL ('a%', 'b%')", "like_any", ("s",)),
        ("rint((a + b))", "rint", ("(a + b)",)),
        ("string(a)", "cast", ("a",)),
        ("concat('(', a, ',')", "concat", ("'('", "a", "','")),
        ("array_join(xs, ',')", "array_join", ("xs", "','")),
        ("position('in' IN a)", "position", ("'in'", "a")),
        ("trim(BOTH 'from' FROM a)", "trim", ("'from'", "a")),
        ("overlay(a PLACING ',' FROM 5 FOR 1)", "overlay", ("a", "','", "5", "1")),
        ("substring(a FROM 2)", "substring", ("a", "2")),
        ("m[a || 'b']", "[]", ("m", "a || 'b'")),
    ],
)
def test_calls_and_operators_with_what_they_are_given(expression: str, name: str, types: tuple[str, ...]) -> None:
    asked_for: list[str] = []
    found = next(one for one in asked_by(expression, asked_for.append) if one.name == name)
    for place in range(len(found.texts)):
        found.type(place)
    assert tuple(asked_for) == types
