"""A change data feed that an operator takes for rows: a warning, and none for who knows what its rows are."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest

import dagster_operators as do


def feed() -> do.Stream:
    return do.Pipeline("p", root="unused").source("orders", do.DeltaSource("lake/orders", changes=True))


@pytest.mark.parametrize(
    "count",
    [
        lambda: feed().key_by("k").aggregate(n="count(*)"),
        lambda: feed().filter("v > 1").select("k", "v").key_by("k").top(1, by="v"),
        lambda: feed().with_columns(w="v + 1").key_by("k").aggregate(n="sum(w)"),
        lambda: feed().with_columns(w="'it\\'s not _change_type'").key_by("k").aggregate(n="count_if(w = '_change_type')"),
    ],
    ids=["aggregate", "top", "behind others", "in a constant"],
)
def test_updates_counted_as_rows_are_warned_of(count: Callable[[], do.Stream]) -> None:
    with pytest.warns(UserWarning, match=r"takes the change data feed of 'orders' .*as_changes\(\)") as seen:
        count()
    assert [one.filename for one in seen] == [__file__]


@pytest.mark.parametrize(
    "count",
    [
        lambda: feed().as_changes().key_by("k").aggregate(n="count(*)"),
        lambda: feed().key_by("k", "_change_type").aggregate(n="count(*)"),
        lambda: feed().key_by("k").aggregate(n="count_if(_change_type = 'delete')"),
        lambda: feed().filter("_change_type = 'insert'").key_by("k").aggregate(n="count(*)"),
        lambda: feed().select("k"),
    ],
    ids=["changes", "key", "aggregate", "filter", "no state"],
)
def test_who_knows_what_the_rows_are_is_not_warned(count: Callable[[], do.Stream]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        count()


def test_each_feed_of_a_union_is_warned_of() -> None:
    pipeline = do.Pipeline("p", root="unused")
    kinds = {"a": True, "b": True, "rows": False}
    one, other, rows = (pipeline.source(name, do.DeltaSource(name, changes=feed)) for name, feed in kinds.items())
    known = pipeline.source("known", do.DeltaSource("known", changes=True)).filter("_change_type = 'insert'")
    with pytest.warns(UserWarning, match="takes the change data feed") as seen:
        one.union(other).union(rows).union(known).key_by("k").aggregate(n="count(*)")
    assert [str(warning.message).split("'")[3] for warning in seen] == ["a", "b"]


def test_unions_of_a_stream_with_itself_are_looked_through_once() -> None:
    stream = feed()
    for _ in range(100):
        stream = stream.union(stream.filter("v > 1"))
    with pytest.warns(UserWarning, match="'orders'") as seen:
        stream.key_by("k").aggregate(n="count(*)")
    assert len(seen) == 1


def test_a_long_chain_is_looked_through() -> None:
    stream = feed()
    for number in range(1500):
        stream = stream.filter(f"v > {number}")
    with pytest.warns(UserWarning, match="'orders'"):
        stream.key_by("k").aggregate(n="count(*)")
