"""Few rows are joined in the task that has them: the same rows, and no job of Spark's beside the one that wants them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import dagster_operators as do
from dagster_operators.operators.key_join import join_by_keys, with_keys_of
from dagster_operators.operators.one_task import (
    _Mark,
    _mark,
    all_of,
    are_few,
    in_one_task,
    is_in_one_task,
    joined,
    made_of,
    of_size,
    part_of,
)
from dagster_operators.runtime.stages.stage_inputs import gathered
from tests.engines import ENGINES
from tests.spark_jobs import last_job

SCHEMA = "k string, v int"


def numbers(seed, rows):
    chance = random.Random(seed)  # noqa: S311
    return [(chance.choice(["a", "b", "c", None]), chance.randrange(9)) for _ in range(rows)]


def given(frame):
    return sorted(map(tuple, frame.collect()), key=str)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_the_rows_are_those_of_any_other_join(spark, seed):
    left, right = (spark.createDataFrame(numbers(100 * seed + rows, rows), SCHEMA).repartition(3) for rows in (20, 9))
    few_left, few_right = (in_one_task(frame, 900, 20) for frame in (left, right))
    for how in ("left_semi", "left_anti"):
        for conditions in ([], ["one.v < other.v"]):
            plain, here = (
                join_by_keys(one, other, ["k"], how, conditions=conditions)
                for one, other in ((left, right), (few_left, few_right))
            )
            assert given(here) == given(plain)
            assert are_few(here)
            assert not is_in_one_task(plain)
    renamed, few_renamed = (frame.selectExpr("k AS k2", "v AS v2") for frame in (right, few_right))
    for how in ("inner", "left", "right", "full"):
        for on in ("k = k2", "k <=> k2", "k = k2 AND v < v2", "v < v2"):
            here = joined(few_left, part_of(few_renamed, few_right), _expr(on), how)
            assert given(here) == given(left.join(renamed, on=_expr(on), how=how))


def _expr(text):
    from pyspark.sql import functions as F

    return F.expr(text)


def test_nothing_is_moved_for_it(spark, tmp_path, capsys):
    for name, seed in (("one", 1), ("two", 2)):
        spark.createDataFrame(numbers(seed, 50), SCHEMA).repartition(3).write.parquet(str(tmp_path / name))
    one, two = (in_one_task(spark.read.parquet(str(tmp_path / name)), 900, 50) for name in ("one", "two"))
    both = all_of(one, with_keys_of(two, one, ["k"]))
    assert are_few(both)
    both.groupBy("k").agg({"v": "sum"}).explain()
    plan = capsys.readouterr().out
    assert "ShuffledHashJoin" in plan
    assert "Exchange" not in plan
    before = last_job(spark)
    both.groupBy("k").agg({"v": "sum"}).collect()
    assert last_job(spark) - before == 1


def test_only_what_is_known_is_joined_so(spark):
    rows = spark.createDataFrame(numbers(1, 5), SCHEMA)
    few, many = in_one_task(rows, 90, 5), in_one_task(rows, 90, None)
    assert not is_in_one_task(rows)
    assert not are_few(many)
    one, other = "one.k = other.k", [frame.alias("other") for frame in (rows, few, many)]
    other = [part_of(alias, frame) for alias, frame in zip(other, (rows, few, many), strict=True)]
    assert not is_in_one_task(joined(rows.alias("one"), other[1], _expr(one), "inner")), "of the left side nothing is known"
    left = {frame: part_of(frame.alias("one"), frame) for frame in (few, many)}
    assert [is_in_one_task(joined(left[few], each, _expr(one), "inner")) for each in other] == [False, True, False]
    assert [is_in_one_task(joined(left[many], other[1], _expr(one), how)) for how in ("left", "left_semi")] == [True, False]
    assert not are_few(joined(left[few], other[1], _expr(one), "inner")), "of each row may have come many"
    assert not is_in_one_task(all_of(few, rows))
    assert not are_few(all_of(few, many))
    assert not is_in_one_task(made_of(rows.select("k"), rows))
    assert not are_few(made_of(few.selectExpr("explode(sequence(1, v)) AS n"), few)), "one row may have made many"
    assert are_few(made_of(few, few)), "nothing was made of it"


def test_how_much_is_few(spark, tmp_path):
    for number in range(17):
        (tmp_path / f"{number:02}.csv").write_text("k,v\na,1\n", encoding="utf-8")
    (tmp_path / "99.csv").write_text("k,v\n" + "a,1\n" * (256 * 1024), encoding="utf-8")
    source = do.FileSource(tmp_path, schema=SCHEMA)
    items = sorted(source.choose(None, lambda: iter(())).slice.items)
    schema = source.infer_schema(spark)

    def known(some):
        rows = gathered(source.read(spark, some, schema), source, some)
        return is_in_one_task(rows), are_few(rows)

    assert known(items[:16]) == (True, True)
    assert known(items[:17]) == (False, False), "one task would open one file after another"
    assert known(items[-1:]) == (True, False), "so long a text may have many rows"


def test_sail_has_no_jobs_to_spare(sail):
    rows = in_one_task(sail.createDataFrame(numbers(1, 5), SCHEMA), 90, 5)
    assert not is_in_one_task(rows)


@pytest.mark.parametrize("lookup", ["csv", "parquet"])
def test_an_epoch_with_a_lookup_is_one_job(spark, tmp_path: Path, lookup: str):
    airlines = spark.createDataFrame([("AA", "American"), ("UA", "United")], "carrier string, name string")
    writer = airlines.coalesce(1).write.option("header", "true")
    getattr(writer, lookup)(str(tmp_path / "airlines"))
    pipeline = do.Pipeline("lookups", root=str(tmp_path / "root"), engine=ENGINES["spark"])
    table = do.FileSource(f"{tmp_path}/airlines/*.{lookup}", schema="carrier string, name string")
    flights = do.FileSource(f"{tmp_path}/landing", format="csv", schema="carrier string, n int", max_files=1)
    found = pipeline.source("flights", flights).filter("n > 0").lookup(table, on="carrier")
    found.select("n", "name").to_table("named")
    (tmp_path / "landing").mkdir()
    for day in range(2):
        (tmp_path / "landing" / f"{day}.csv").write_text(f"carrier,n\nAA,{day}\nUA,1\nDL,2\n,3\n", encoding="utf-8")
        before = last_job(spark)
        pipeline.run_epoch()
    assert last_job(spark) - before == 1
    expected = [(1, "American"), (1, "United"), (1, "United"), (2, None), (2, None), (3, None), (3, None)]
    assert given(pipeline.read("named")) == sorted(expected, key=str)


MB = 1024 * 1024


@pytest.fixture
def unasked(spark):
    """Spark copies nothing by itself, however small."""
    names = ("spark.sql.autoBroadcastJoinThreshold", "spark.sql.adaptive.autoBroadcastJoinThreshold")
    before = {name: spark.conf.get(name, None) for name in names}
    for name in names:
        spark.conf.set(name, "1b")
    yield spark
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@pytest.mark.parametrize(
    ("how", "left", "right", "copied"),
    [
        ("inner", (100 * MB, 5_000_000), (20 * MB, 200_000), "BuildRight"),
        ("inner", (20 * MB, 200_000), (100 * MB, 5_000_000), "BuildLeft"),
        ("left", (100 * MB, 5_000_000), (20 * MB, 200_000), "BuildRight"),
        ("left_semi", (100 * MB, 5_000_000), (20 * MB, 200_000), "BuildRight"),
        ("left_anti", (100 * MB, 5_000_000), (20 * MB, 200_000), "BuildRight"),
        ("left_semi", (20 * MB, 200_000), (100 * MB, 5_000_000), ""),
        ("full", (100 * MB, 5_000_000), (20 * MB, 200_000), ""),
        ("inner", (60 * MB, 5_000_000), (20 * MB, 200_000), ""),
        ("inner", (1000 * MB, 5_000_000), (20 * MB, 300_000), ""),
        ("inner", (1000 * MB, 5_000_000), (20 * MB, None), ""),
        ("inner", (1000 * MB, 5_000_000), (40 * MB, 200_000), ""),
        ("inner", (100 * MB, 5_000_000), (1 * MB, 3_000), ""),
    ],
)
def test_the_side_that_is_clearly_smaller_is_copied(unasked, how, left, right, copied):
    """And adaptive execution keeps to it; of marks alone nothing depends but the way."""
    one, other = (
        of_size(unasked.range(0, 50, 1, 4).selectExpr(f"id % 7 AS k{name}", f"id AS {name}"), *size)
        for name, size in (("v", left), ("w", right))
    )
    found = joined(part_of(one.filter("v > 1"), one), part_of(other.filter("w > 2"), other), _expr("kv = kw"), how)
    assert not is_in_one_task(found)
    plain = one.filter("v > 1").join(other.filter("w > 2"), _expr("kv = kw"), how)
    assert given(found) == given(plain)
    plan = found._jdf.queryExecution().executedPlan().toString().partition("Initial Plan")[0]
    assert ("BroadcastHashJoin" in plan, copied in plan) == (bool(copied), True)


def test_sizes_add_up(spark):
    rows = spark.createDataFrame(numbers(1, 5), SCHEMA)
    few, many, unknown = (
        in_one_task(rows, 90, 5),
        of_size(rows.filter("v > 1"), 5 * MB, 500),
        of_size(rows.filter("v > 2"), 5 * MB, None),
    )
    small, large = _Mark(5 * MB + 90, 505, here=False), _Mark(100 * MB, None, here=False)
    assert [_mark(all_of(few, each)) for each in (many, unknown)] == [small, _Mark(5 * MB + 90, None, here=False)]
    assert _mark(all_of(few, rows)) is None
    assert small.is_copied_to(large)
    assert not small.is_copied_to(_Mark(100 * MB, None)), "what is in one task moves nowhere"
    assert _mark(made_of(many.filter("v > 1"), many)) == _Mark(5 * MB, None, here=False)


def test_no_side_is_copied_where_the_user_forbids_it(unasked):
    unasked.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    large, small = of_size(unasked.range(50), 100 * MB, 5_000_000), of_size(unasked.range(9), 20 * MB, 200_000)
    rows = joined(large.withColumnRenamed("id", "k"), small, _expr("k = id"), "inner")
    assert "BroadcastHashJoin" not in rows._jdf.queryExecution().executedPlan().toString()
