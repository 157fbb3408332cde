"""Cases of the kind of NebulaStream's system tests over generated rows, cut in many ways; answers computed in plain Python.

Windows with gaps, null keys, numbers of 64 bits without a sign, windows over windows over windows, joins on two keys: each with
an epoch that dies on the way, and where there are several inputs with one of them far ahead of the others.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import cycle, product
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from dagster_operators.transactions.failpoints import watch
from tests.end_to_end.full_computation import moment, plain
from tests.engines import EMBEDDED, SAIL
from tests.operators.cut_input import table_columns

if TYPE_CHECKING:
    from dagster_operators.runtime.engine import Spark

Row = dict[str, Any]
Answer = Counter[tuple[Any, ...]]
Sources = Callable[[str], do.Stream]

SCHEMA = "id decimal(20,0), value decimal(20,0), at timestamp"
BIG = 2**63
"""The first number that 64 bits hold only without a sign."""


def generated(
    seed: int, count: int, *, apart: int, disorder: int, ids: Sequence[int | None], values: Sequence[int | None]
) -> list[Row]:
    """Rows some ``apart`` milliseconds after each other, each up to ``disorder`` milliseconds too early."""
    chance = random.Random(seed)  # noqa: S311 - the same rows each time
    times = [(n + 1) * apart - chance.randrange(disorder + 1) for n in range(count)]
    return [{"id": chance.choice(ids), "value": chance.choice(values), "at": max(time, 0)} for time in times]


INPUTS: dict[str, list[Row]] = {
    "bids": generated(1, 42, apart=230, disorder=99, ids=[1, 2, 3, 12], values=[0, 1, 5, BIG, BIG + 1]),
    "asks": generated(2, 30, apart=310, disorder=99, ids=[1, 2, None], values=[0, 1, 5, BIG, None]),
    "holes": generated(3, 42, apart=230, disorder=99, ids=[None, 1, 2], values=[None, None, 1, 4, 6]),
}


def starts(at: int, size: int, slide: int) -> list[int]:
    """The starts of the windows from 0 on that hold a moment, by trying all; in milliseconds."""
    return [start for start in range(0, at + 1, slide) if at < start + size]


def grouped(rows: list[Row], size: int, slide: int, *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """The rows of each window and key: ``(start, *key)``."""
    groups = defaultdict(list)
    for row in rows:
        for start in starts(row["at"], size, slide):
            groups[start, *(row[key] for key in keys)].append(row)
    return groups


def known(rows: list[Row], column: str = "value") -> list[int]:
    return [row[column] for row in rows if row[column] is not None]


def total(rows: list[Row], column: str = "value") -> int | None:
    return sum(known(rows, column)) if known(rows, column) else None


FROM_0 = "unix_micros(window_start) >= 0"
"""Windows over which a slide goes on begin before 1970 too; NebulaStream's begin at 0."""


def projections(source: Sources) -> None:
    new = source("bids").filter("value != 1").select("id * 3 AS id", "value", "at")
    new.filter(f"id != 36 AND value != {BIG}").with_columns(sum="id + value").with_columns(more="sum + value").to_table("out")


def projections_answer(inputs: Mapping[str, list[Row]]) -> Answer:
    rows = [(row["id"] * 3, row["value"], row["at"]) for row in inputs["bids"] if row["value"] != 1]
    return Counter((id_, value, at, id_ + value, id_ + 2 * value) for id_, value, at in rows if id_ != 36 and value != BIG)


def gaps(source: Sources) -> None:
    windows = source("holes").key_by("id").window(do.Sliding("700 ms", "1 second"))
    windows.aggregate(
        total="sum(value)", least="min(value)", mean="CAST(avg(value) AS double)", values="count(value)", rows="count(*)"
    ).to_table("out")


def gaps_answer(inputs: Mapping[str, list[Row]]) -> Answer:
    found: Answer = Counter()
    for (start, id_), rows in grouped(inputs["holes"], 700, 1000, "id").items():
        values = known(rows)
        mean = sum(values) / len(values) if values else None
        found[id_, start, start + 700, total(rows), min(values, default=None), mean, len(values), len(rows)] += 1
    return found


def gaps_without_keys(source: Sources) -> None:
    source("bids").window(do.Sliding("300 ms", "2 seconds")).aggregate(total="sum(value)", most="max(value)").to_table("out")


def gaps_without_keys_answer(inputs: Mapping[str, list[Row]]) -> Answer:
    groups = grouped(inputs["bids"], 300, 2000)
    return Counter((start, start + 300, total(rows), max(known(rows))) for (start,), rows in groups.items())


def join_in_gaps(source: Sources) -> None:
    window, right = do.Sliding("1500 ms", "2 seconds"), source("asks").rename(id="id2", value="value2", at="at2")
    source("bids").key_by("id", "value").window(window).join(right.key_by("id2", "value2").window(window)).to_table("out")


def join_on_two_keys(source: Sources) -> None:
    window, right = do.Tumbling("1 second"), source("asks").rename(at="at2")
    source("bids").key_by("id", "value").window(window).join(right.key_by("id", "value").window(window)).to_table("out")


def join_answer(size: int, slide: int) -> Callable[[Mapping[str, list[Row]]], Answer]:
    def answer(inputs: Mapping[str, list[Row]]) -> Answer:
        lefts, rights = (grouped(inputs[name], size, slide, "id", "value") for name in ("bids", "asks"))
        return Counter(
            (id_, value, start, start + size, one["at"], other["at"])
            for start, id_, value in lefts
            if id_ is not None and value is not None  # null equals nothing
            for one, other in product(lefts[start, id_, value], rights.get((start, id_, value), []))
        )

    return answer


def stacked(source: Sources) -> None:
    first = source("bids").filter("id < 5").key_by("id").window(do.Sliding("1 second", "500 ms")).aggregate(a="sum(value)")
    second = (
        first.filter(FROM_0).select("id", "window_start", "a").key_by("id").window(do.Tumbling("1 second")).aggregate(b="sum(a)")
    )
    third = second.select("id", "window_start", "b").filter("id < 3").window(do.Tumbling("2 seconds"))
    third.aggregate(total="sum(b)").to_table("out")


def stacked_answer(inputs: Mapping[str, list[Row]]) -> Answer:
    groups = grouped([row for row in inputs["bids"] if row["id"] < 5], 1000, 500, "id")
    first = [{"id": id_, "at": start, "value": total(rows)} for (start, id_), rows in groups.items()]
    second = [{"id": id_, "at": start, "value": total(rows)} for (start, id_), rows in grouped(first, 1000, 1000, "id").items()]
    third = grouped([row for row in second if row["id"] < 3], 2000, 2000)
    return Counter((start, start + 2000, total(rows)) for (start,), rows in third.items())


def union(source: Sources) -> None:
    wide = {column: f"CAST({column} AS decimal(20,0))" for column in ("id", "value")}
    both = source("bids").union(source("asks"), source("holes").with_columns(wide))
    both.window(do.Tumbling("1 second")).aggregate(most="max(value)", rows="count(*)").to_table("out")


def union_answer(inputs: Mapping[str, list[Row]]) -> Answer:
    groups = grouped([row for rows in inputs.values() for row in rows], 1000, 1000)
    return Counter((start, start + 1000, max(known(rows), default=None), len(rows)) for (start,), rows in groups.items())


def hot_items(source: Sources) -> None:
    counts = source("bids").key_by("id").window(do.Sliding("3 seconds", "1 second")).aggregate(num="count(id)").filter(FROM_0)
    counts, second = counts.select("id", "window_start AS begin", "num"), do.Tumbling("1 second")
    most = counts.window(second).aggregate(most="max(num)").select("window_start AS begin_most", "most")
    joined = counts.key_by("num").window(second).join(most.key_by("most").window(second))
    joined.select("id", "window_start", "window_end", "num").to_table("out")


def hot_items_answer(inputs: Mapping[str, list[Row]]) -> Answer:
    counts = {group: len(rows) for group, rows in grouped(inputs["bids"], 3000, 1000, "id").items()}
    most: Counter[int] = Counter()
    for (start, _), count in counts.items():
        most[start] = max(most[start], count)
    return Counter((id_, start, start + 1000, num) for (start, id_), num in counts.items() if num == most[start])


def three_streams(source: Sources) -> None:
    window = do.Tumbling("1 second")
    names = ("bids", "asks", "holes")
    bids, asks, holes = (
        source(name).key_by("id").window(window).aggregate({f"n_{name}": "count(*)"}).key_by("id").window() for name in names
    )
    bids.join(asks, how="left").key_by("id").window().join(holes).to_table("out")


def three_streams_answer(inputs: Mapping[str, list[Row]]) -> Answer:
    bids, asks, holes = (grouped(inputs[name], 1000, 1000, "id") for name in ("bids", "asks", "holes"))
    return Counter(
        (id_, start, start + 1000, len(bids[start, id_]), len(asks[start, id_]) if (start, id_) in asks else None, len(rows))
        for (start, id_), rows in holes.items()
        if id_ is not None and (start, id_) in bids
    )


CASES: dict[str, tuple[tuple[str, ...], Callable[[Sources], None], Callable[[Mapping[str, list[Row]]], Answer]]] = {
    "projections": (("bids",), projections, projections_answer),
    "gaps": (("holes",), gaps, gaps_answer),
    "gaps_without_keys": (("bids",), gaps_without_keys, gaps_without_keys_answer),
    "join_in_gaps": (("bids", "asks"), join_in_gaps, join_answer(1500, 2000)),
    "join_on_two_keys": (("bids", "asks"), join_on_two_keys, join_answer(1000, 1000)),
    "stacked": (("bids",), stacked, stacked_answer),
    "union": (("bids", "asks", "holes"), union, union_answer),
    "hot_items": (("bids",), hot_items, hot_items_answer),
    "three_streams": (("bids", "asks", "holes"), three_streams, three_streams_answer),
}


def feed(pipeline: do.Pipeline, size: int, ahead: str | None, inputs: Mapping[str, list[Row]]) -> Sources:
    """The sources, cut; if one is to be ahead, the others have nothing until it is through."""

    def source(name: str) -> do.Stream:
        rows = [{**row, "at": moment(row["at"] * 1000)} for row in inputs[name]]
        batches: list[Any] = [rows[start : start + size] for start in range(0, len(rows), size)]
        if ahead not in (None, name):
            batches = [[] for _ in inputs[str(ahead)][::size]] + batches
        schema = SCHEMA.replace("decimal(20,0)", "int") if name == "holes" else SCHEMA
        return pipeline.source(name, do.MemorySource(batches, schema=schema), event_time="at", lateness="99 ms", finished=True)

    return source


class CrashError(Exception):
    """The end of an epoch that is not told to anyone."""


def crash(name: str) -> None:
    if name == "after:append_decision":
        raise CrashError


@contextmanager
def shuffled(engine: Spark, partitions: int) -> Iterator[None]:
    conf, name = engine.session().conf, "spark.sql.shuffle.partitions"
    before = conf.get(name, None)
    conf.set(name, str(partitions))
    try:
        yield
    finally:
        conf.unset(name) if before is None else conf.set(name, before)


def shown(value: Any) -> Any:
    """A value as the answers have it: moments in milliseconds, decimals as whole numbers."""
    value = plain(value)
    if hasattr(value, "timestamp"):
        return round(value.timestamp() * 1000)
    return int(value) if isinstance(value, Decimal) else value


def check(
    engine: Spark,
    case: str,
    size: int,
    *,
    partitions: int,
    ahead: str | None = None,
    epochs: int | None = None,
    inputs: Mapping[str, list[Row]] = INPUTS,
) -> None:
    """Run a case and compare; with ``epochs``, the epoch after these dies, and a pipeline made anew goes on."""
    _, build, answer = CASES[case]

    def made() -> do.Pipeline:
        pipeline = do.Pipeline("case", root=root, engine=engine, parallelism=partitions)
        build(feed(pipeline, size, ahead, inputs))
        return pipeline

    late = 0
    with tempfile.TemporaryDirectory() as root, shuffled(engine, partitions):
        pipeline = made()
        if epochs is not None:
            late += sum(sum(pipeline.run_epoch().late_rows.values()) for _ in range(epochs))
            with watch(crash), pytest.raises(CrashError):
                pipeline.run_epoch()
            pipeline = made()
        late += sum(sum(result.late_rows.values()) for result in pipeline.run_until_caught_up())
        found = pipeline.read("out").select(*table_columns(pipeline, "out"))
        rows = Counter(tuple(map(shown, row)) for row in found.collect())
    assert rows == answer(inputs) != Counter()
    assert late == 0


def test_the_answers_have_rows_for_every_trap() -> None:
    answers = {case: answer(INPUTS) for case, (_, _, answer) in CASES.items()}
    assert all(answer.total() >= 3 for answer in answers.values()), {case: answer.total() for case, answer in answers.items()}
    assert any(row[0] is None and row[3] is None for row in answers["gaps"])  # a null key, and a group of nulls only
    assert sum(row[-1] for row in answers["gaps"].elements()) < len(INPUTS["holes"])  # rows in gaps
    assert any(row[2] >= BIG for row in answers["gaps_without_keys"])
    assert any(row[1] >= BIG for row in answers["join_on_two_keys"])
    assert max(Counter(row[1] for row in answers["hot_items"]).values()) > 1  # ties


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize("case", CASES)
def test_the_answer_does_not_depend_on_the_cut(case: str) -> None:
    check(SAIL, case, 7, partitions=1)
    check(SAIL, case, 1000, partitions=3)


@pytest.mark.slow
@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize(("case", "partitions"), list(zip(CASES, cycle((3, 1)))))
def test_an_epoch_for_each_row(case: str, partitions: int) -> None:
    check(SAIL, case, 1, partitions=partitions, inputs={name: rows[:20] for name, rows in INPUTS.items()})


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize("case", [case for case in CASES if case != "projections"])
def test_an_epoch_that_dies_is_completed_by_the_next_run(case: str) -> None:
    check(SAIL, case, 15, partitions=3, epochs=1)


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize(
    ("case", "ahead"), [(case, name) for case, (names, _, _) in CASES.items() if len(names) > 1 for name in names]
)
def test_an_input_may_be_far_ahead_of_the_others(case: str, ahead: str) -> None:
    check(SAIL, case, 15, partitions=2, ahead=ahead)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("case", ["gaps", "join_in_gaps", "stacked"])
def test_the_answer_is_the_same_on_spark(case: str) -> None:
    check(EMBEDDED, case, 15, partitions=3, epochs=1)
