"""Joins by key: a null key has partners, as it is a group of its own, and other conditions may come in."""

from __future__ import annotations

import pytest

from dagster_operators.operators.key_join import join_by_keys, with_keys_of

ROWS = [(1, "a", 10), (1, None, 20), (None, None, 30), (2, "a", 40)]


@pytest.fixture(params=["sail", "spark"])
def session(request):
    return request.getfixturevalue(request.param)


def values(frame):
    return sorted(row["v"] for row in frame.collect())


def test_rows_with_and_without_a_partner(session):
    rows = session.createDataFrame(ROWS, "`k 1` int, k2 string, v int")
    others = session.createDataFrame([(1, None, 20), (1, None, 21), (None, None, 0), (2, "b", 0)], rows.schema)
    keys = ["k 1", "k2"]
    assert values(join_by_keys(rows, others, keys, "left_semi")) == [20, 30]
    assert values(join_by_keys(rows, others, keys, "left_anti")) == [10, 40]
    assert values(join_by_keys(rows, others, keys, "left_semi", conditions=["one.v <= other.v"])) == [20]
    assert values(join_by_keys(rows, others, [], "left_semi")) == [10, 20, 30, 40]
    assert values(with_keys_of(rows, others, keys)) == [20, 30]
    assert values(with_keys_of(rows, others, ["k 1"])) == [10, 20, 30, 40]
    assert values(with_keys_of(rows, others, [])) == [10, 20, 30, 40]


def test_keys_may_be_compared_otherwise(session):
    rows = session.createDataFrame([("A", 1), ("b", 2)], "k string, v int")
    others = session.createDataFrame([("a",)], "k string")
    assert values(join_by_keys(rows, others, ["k"], "left_semi", value=lambda column, key: f"lower({column})")) == [1]
