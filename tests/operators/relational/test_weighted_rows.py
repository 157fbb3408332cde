"""Rows with weights: what takes a row back that is not there is found, whatever else there is of its key."""

from __future__ import annotations

import pytest

from dagster_operators.operators.relational.weighted_rows import WEIGHT, added_up, not_there, repeated

SCHEMA = f"k string, n int, v double, {WEIGHT} long"
OLD = [
    ("a", 1, 0.5, 1), ("a", 1, 0.5, 1), ("a", 2, float("nan"), 1), (None, None, None, 1), ("b", 3, -0.0, 2), ("b", 3, -0.0, -1),
]  # fmt: skip
"""In several runs of a state: a row twice, one that was taken back once, and others of the same keys."""


@pytest.fixture(params=["sail", "spark"])
def session(request):
    return request.getfixturevalue(request.param)


def test_what_is_taken_back_is_looked_for(session):
    def wrong(*rows):
        new = added_up(session.createDataFrame(list(rows), SCHEMA))
        try:
            return not_there(new, session.createDataFrame(OLD, SCHEMA)).collect() != []
        except Exception as error:  # noqa: BLE001 - each engine has errors of its own
            return "a change takes a row back that is not there" in str(error)

    there = [("a", 1, 0.5, -2), ("a", 2, float("nan"), -1), (None, None, None, -1), ("b", 3, -0.0, -1), ("c", 9, 1.0, 1)]
    assert not wrong(*there)
    assert not wrong(("a", 1, 0.5, -3), ("a", 1, 0.5, 1))
    for row in (("a", 1, 0.5, -3), ("a", 2, 0.5, -1), (None, None, None, -2), ("b", 3, -0.0, -2), ("c", 9, 1.0, -1)):
        assert wrong(row)


def test_of_nothing_nothing_is_taken(session):
    rows = session.createDataFrame([("a", 1, 0.5, 1)], SCHEMA)
    assert not not_there(rows, None).collect()
    with pytest.raises(Exception, match="a change takes a row back that is not there"):
        not_there(rows.selectExpr("k", "n", "v", f"-1L AS {WEIGHT}"), None).collect()


def test_the_key_of_a_row_that_is_not_there_is_told(session):
    rows = session.createDataFrame([("a", 1, 0.5, -1)], SCHEMA).withColumnRenamed("n", "it's")
    with pytest.raises(Exception, match=r"not there \(a delete or an update_before of the key k=a, it's=1\)"):
        repeated(rows, keys=["`k`", "`it's`"]).collect()
    with pytest.raises(Exception, match=r"of the key k=a\)"):
        repeated(rows.selectExpr("*", "1L AS `__since`"), keys=["`k`", "`__since`"]).collect()
    binary = rows.selectExpr("X'FF01' AS b", "named_struct('b', X'FF01') AS s", "array(1, 2) AS a", "X'6162' AS t", WEIGHT)
    with pytest.raises(Exception, match=r"of the key b=.+, s=.+, a=\[1, 2\], t=ab\)"):
        repeated(binary, keys=["`b`", "s", "a", "t"]).collect()
    unknown = session.createDataFrame([(None, 1, 0.5, -1)], SCHEMA)
    with pytest.raises(Exception, match=r"of the key k=null\)"):
        repeated(unknown, 1, ["`k`"]).collect()
