"""However the input is cut into epochs, spread and restarted, the tables hold what one computation over all rows gives."""

from __future__ import annotations

import itertools
import math
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dagster_operators import MemorySource, Pipeline, Sliding, Stream, Tumbling
from dagster_operators.runtime.stages import updating_table
from dagster_operators.state import compaction
from dagster_operators.time.watermark import MAX_WATERMARK
from tests.end_to_end.full_computation import NAMES, SECOND, Results, Row, Scenario, compute, plain
from tests.engines import CONNECT, EMBEDDED, SAIL
from tests.examples import fresh_examples

if TYPE_CHECKING:
    from dagster_operators.runtime.engine import Spark

KEYS: dict[str, list[Any]] = {
    "string": ["a", "b", "B", "", "é", None],
    "long": [0, 1, -1, 2**62, None],
    "double": [0.0, -0.0, 1.5, math.nan, None],
    "decimal(20,2)": [Decimal("1.50"), Decimal("-3.00"), None],
    "date": [date(2024, 2, 29), date(1969, 12, 31), None],
    "boolean": [True, False, None],
}
FIGURES = {
    "n": "count(*)",
    "total": "sum(v)",
    "smallest": "min(v)",
    "largest": "max(v)",
    "mean": "avg(v)",
    "letters": "count(DISTINCT s)",
    "which": "collect_set(s)",
    "newest": "last(s)",
}
WINDOW = ["k", "window_start", "window_end", *FIGURES]
COLUMNS = {
    "kept": ["k", "v", "s", "ts", "w", "name"],
    "tumbling": WINDOW,
    "sliding": WINDOW,
    "coarse": ["k", "window_start", "n"],
    "totals": ["k", *FIGURES],
    "busy": ["k", "n"],
}
EVERY_TABLE = tuple(COLUMNS)
LETTERS = ["a", "b", "c", None]
BASES = [1_700_000_000, -30]  # the second one straddles 1970


@st.composite
def scenarios(draw: st.DrawFn, *, epochs: int = 5, rows: int = 12) -> Scenario:
    key_type = draw(st.sampled_from(sorted(KEYS)))
    keys = KEYS[key_type]
    base = draw(st.sampled_from(BASES)) * SECOND
    times = st.one_of(
        st.integers(0, 90).map(lambda second: base + second * SECOND),
        st.integers(0, 90 * SECOND).map(lambda micros: base + micros),
    )
    row = st.builds(
        Row,
        k=st.sampled_from(keys),
        v=st.none() | st.integers(-9, 9),
        s=st.sampled_from(LETTERS),
        ts=times,
    )
    cut = st.lists(st.lists(row, max_size=rows), max_size=epochs)
    return Scenario(
        key_type=key_type,
        sources=tuple(draw(st.lists(cut, min_size=1, max_size=2))),
        lateness=draw(st.sampled_from([0, 5, 30, 1000])),
        size=draw(st.integers(1, 40)),
        slide=draw(st.integers(1, 60)),
        offset=draw(st.sampled_from([0, 3, -7])),
        partitions=tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))),
        rows_per_file=draw(st.sampled_from([1, 3, 500_000])),
        here=draw(st.sampled_from([0, 32 * 1024 * 1024])),
        tier_length=draw(st.sampled_from([2, 8])),
        restart=draw(st.booleans()),
    )


def dense(key_type: str, base: int, seed: int) -> Scenario:
    """Two sources of three epochs with all that matters: every key, null, late rows, splitting and folding."""
    chance = random.Random(seed)  # noqa: S311 - the same rows each time

    def rows(epoch: int) -> list[Row]:
        times = [(base + epoch * 25 + chance.randrange(-20, 30)) * SECOND + chance.randrange(SECOND) for _ in range(15)]
        keys, numbers = KEYS[key_type], [None, *range(-9, 10)]
        return [Row(chance.choice(keys), chance.choice(numbers), chance.choice(LETTERS), time) for time in times]

    sources = tuple([rows(epoch) for epoch in range(3)] for _ in range(2))
    return Scenario(
        key_type,
        sources,
        lateness=5,
        size=20,
        slide=7,
        offset=3,
        partitions=(3, 1, 4),
        rows_per_file=2,
        here=0,
        tier_length=2,
        restart=True,
    )


DOUBLES = dense("double", BASES[1], seed=1)
STRINGS = dense("string", BASES[0], seed=2)


def build(scenario: Scenario, root: str, engine: Spark, tables: tuple[str, ...], partitions: int) -> Pipeline:
    pipeline = Pipeline("same_answer", root=root, engine=engine)
    rows = _sources(pipeline, scenario)
    if partitions > 1:
        rows = rows.transform(lambda frame: frame.repartition(partitions), columns=["k", "v", "s", "ts"])
    names = MemorySource([[{"s": letter, "name": name} for letter, name in NAMES.items()]], schema="s string, name string")
    kept = rows.filter("v IS NULL OR v % 5 <> 0").with_columns(w="coalesce(v, 0) * 2").lookup(names, on="s")
    by_key = kept.key_by("k")
    size, offset = f"{scenario.size} s", scenario.offset * SECOND
    tumbling = by_key.window(Tumbling(size, offset=offset)).aggregate(FIGURES, name="per_window")
    sliding = by_key.window(Sliding(size, f"{scenario.slide} s", offset=offset)).aggregate(FIGURES, name="per_slide")
    coarse = tumbling.key_by("k").window(Tumbling(3 * scenario.size * SECOND, offset=offset)).aggregate(n="sum(n)", name="coarse")
    totals = by_key.aggregate(FIGURES, name="per_key")
    busy = totals.filter("total > 2").select("k", "n")
    outputs = {"kept": kept, "tumbling": tumbling, "sliding": sliding, "coarse": coarse, "totals": totals, "busy": busy}
    for table in tables:
        outputs[table].to_table(table)
    return pipeline


def _sources(pipeline: Pipeline, scenario: Scenario) -> Stream:
    schema = f"k {scenario.key_type}, v long, s string, ts timestamp"
    streams = [
        pipeline.source(
            f"rows_{number}",
            MemorySource([[row.as_dict() for row in rows] for rows in epochs], schema=schema),
            event_time="ts",
            lateness=f"{scenario.lateness} s",
            finished=True,
        )
        for number, epochs in enumerate(scenario.sources)
    ]
    return streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]


@contextmanager
def spread(engine: Spark, scenario: Scenario) -> Iterator[None]:
    """Files and folds as small as the scenario wants them; the session shuffles as before when this ends."""
    conf, name = engine.session().conf, "spark.sql.shuffle.partitions"
    before = conf.get(name, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(updating_table, "ROWS_PER_FILE", scenario.rows_per_file)
        patch.setattr(updating_table, "HERE", scenario.here)
        patch.setattr(compaction, "TIER_LENGTH", scenario.tier_length)
        yield
    if before is None:
        conf.unset(name)
    else:
        conf.set(name, before)


def run(scenario: Scenario, engine: Spark, tables: tuple[str, ...]) -> Results:
    late: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as root, spread(engine, scenario):
        pipeline = build(scenario, root, engine, tables, scenario.partitions[0])
        watermarks: dict[str, int] = {}
        for partitions in itertools.cycle(scenario.partitions):
            engine.session().conf.set("spark.sql.shuffle.partitions", str(partitions))
            if scenario.restart:
                pipeline = build(scenario, root, engine, tables, partitions)
            result = pipeline.run_epoch()
            if result.empty:
                break
            late.update(result.late_rows)
            watermarks = dict(result.watermarks)
        assert set(watermarks.values()) == {MAX_WATERMARK}
        return Results({table: rows_of(pipeline, table) for table in tables}, dict(late))


def rows_of(pipeline: Pipeline, table: str) -> Counter[Any]:
    return Counter(tuple(map(plain, row)) for row in pipeline.read(table).select(*COLUMNS[table]).collect())


def check(scenario: Scenario, engine: Spark, tables: tuple[str, ...] = EVERY_TABLE) -> None:
    expected, found = compute(scenario), run(scenario, engine, tables)
    for table in tables:
        assert found.tables[table] == expected.tables[table], table
    for operator, late in found.late.items():
        assert late == expected.late.get(operator, 0), operator


def test_the_dense_examples_have_something_in_every_table_and_late_rows() -> None:
    for scenario in (DOUBLES, STRINGS):
        expected = compute(scenario)
        assert all(len(expected.tables[table]) > 1 for table in EVERY_TABLE)
        assert all(expected.late.values())


@pytest.mark.usefixtures("sail")
@fresh_examples(10)
@example(DOUBLES)
@example(STRINGS)
@given(scenario=scenarios())
def test_any_cut_gives_the_full_computation_on_sail(scenario: Scenario) -> None:
    check(scenario, SAIL)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@fresh_examples(3, shrinking=120)
@example(DOUBLES)
@given(scenario=scenarios(epochs=3))
def test_any_cut_gives_the_full_computation_on_spark(scenario: Scenario) -> None:
    check(scenario, EMBEDDED)


@pytest.mark.slow
@pytest.mark.usefixtures("connect")
@fresh_examples(2, shrinking=120)
@example(STRINGS)
@given(scenario=scenarios(epochs=3))
def test_any_cut_gives_the_full_computation_on_spark_connect(scenario: Scenario) -> None:
    check(scenario, CONNECT, ("kept", "tumbling", "coarse", "totals"))
