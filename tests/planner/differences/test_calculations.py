"""The places of calculations in a text are those that a parser finds."""

from __future__ import annotations

import pytest

from dagster_operators.planner.differences.calculations import calculations_in


def found(expression: str) -> list[list[str]]:
    return [[expression[slice(*one.place)] for one in chain.operands] for chain in calculations_in(expression)]


@pytest.mark.parametrize(
    ("expression", "chains"),
    [
        ("a + b - c", [["a", "b", "c"]]),
        ("a + b * c", [["a", "b * c"]]),
        ("a * b % c * d", [["a * b"], ["a * b % c * d"]]),
        ("-a - -b", [["-a", "-b"]]),
        ("CASE WHEN a > 1 THEN -1 - a END + 2L", [["CASE WHEN a > 1 THEN -1 - a END", "2L"], ["-1", "a"]]),
        ("f(a + 1, xs[b - 1]) AS `a + b`", [["a", "1"], ["b", "1"]]),
        ("aggregate(xs, 0, (s, x) -> s + x)", [["s", "x"]]),
        ("t + INTERVAL -1 DAY BETWEEN u AND v + w", [["t", "INTERVAL -1 DAY"], ["v", "w"]]),
        ("count(*) * 2", [["count(*) * 2"]]),
        ("s.* ", []),
        ("'a + b'", []),
    ],
)
def test_places(expression: str, chains: list[list[str]]) -> None:
    assert found(expression) == chains


def test_a_very_long_sum_is_one_chain() -> None:
    assert [len(chain) for chain in found(" + ".join(["a * b"] * 5000))] == [5000]
