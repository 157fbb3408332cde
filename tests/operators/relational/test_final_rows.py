"""The rows of changes that are final: each once, when the watermark has passed it, against a plain computation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import PipelineError, SchemaError
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples
from tests.operators.change_logs import BASE, SCHEMA, ChangeLog, Row, at, change_logs, each_epoch, plain, read

if TYPE_CHECKING:
    from pathlib import Path


def seconds(row: Row) -> float:
    return row[3].timestamp() - BASE


def final(log: ChangeLog, epochs: int, lateness: int) -> tuple[Counter[Row], int]:
    """The rows that came out, and how many changes of the last epoch were late."""
    there: Counter[Row] = Counter()
    mark, late = float("-inf"), 0
    for changes in log.epochs[:epochs]:
        late = sum(seconds(row) < mark for _, row in changes)
        for op, row in changes:
            if seconds(row) >= mark:
                there[row] += 1 if op in ("insert", "update_after") else -1
        mark = max(mark, *(seconds(row) - lateness for _, row in changes))
    return Counter({plain(row): count for row, count in there.items() if count and seconds(row) < mark}), late


def checked(root: Path, engine: Any, log: ChangeLog, lateness: int) -> None:
    results = []

    def build(pipeline: do.Pipeline) -> None:
        settled = log.stream(pipeline, lateness=f"{lateness} s").final(name="settled")
        settled.to_table("settled")
        settled.late().to_table("late")
        results.append(pipeline)

    def check(pipeline: do.Pipeline, epoch: int) -> None:
        wanted, late = final(log, epoch, lateness)
        assert read(pipeline, "settled") == wanted, epoch
        assert pipeline.history()[-1].late_rows.get("settled", 0) == late

    each_epoch(root, engine, log, build, check)


A, B = ("a", 0.5, 3, at(1)), (None, None, None, at(8))
LOG = ChangeLog((
    (("insert", A), ("insert", A), ("insert", B), ("insert", ("b", 1.0, 1, at(12)))),
    (("delete", A), ("update_before", B), ("update_after", ("c", 2.0, 2, at(9))), ("insert", ("d", 1.0, 1, at(30)))),
    (("delete", A), ("insert", ("e", 1.0, 1, at(20))), ("delete", ("d", 1.0, 1, at(30))), ("insert", ("f", 1.0, 1, at(60)))),
))  # fmt: skip


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def test_each_row_comes_once_when_the_watermark_has_passed_it(engine: str, request: Any, tmp_path: Path) -> None:
    request.getfixturevalue(engine)
    checked(tmp_path, ENGINES[engine], LOG, 5)


@pytest.mark.slow
@pytest.mark.usefixtures("sail")
@fresh_examples(10)
@example(log=LOG, lateness=0)
@given(log=change_logs(values=st.none() | st.sampled_from([0.5, 2.0])), lateness=st.sampled_from([0, 10, 30]))
def test_any_history(tmp_path_factory: pytest.TempPathFactory, log: ChangeLog, lateness: int) -> None:
    checked(tmp_path_factory.mktemp("settled"), SAIL, log, lateness)


def source(*, schema: str = f"{SCHEMA}, op string") -> do.Stream:
    return do.Pipeline("p", root="nowhere").source("rows", do.MemorySource([], schema=schema), event_time="ts")


def test_an_append_stream_with_its_event_time_comes_of_changes() -> None:
    settled = source().as_changes("op").final()
    assert (settled.columns, settled.event_time) == (("k", "v", "n", "ts"), "ts")
    assert not settled._type.retracting
    hourly = settled.key_by("k").window(do.Tumbling("1 hour"))
    other = settled.select("k AS l", "ts AS u").key_by("l").window(do.Tumbling("1 hour"))
    assert hourly.join(other).columns == ("k", "window_start", "window_end", "v", "n", "ts", "u")


def test_what_has_no_final_rows_is_refused_with_a_way_out() -> None:
    with pytest.raises(SchemaError, match=r"they are final when they come.*leave final\(\) out"):
        source().final()
    with pytest.raises(SchemaError, match=r"final needs an event time.*group by the time"):
        source().to_changes("k", order_by="n").final()
    pipeline = do.Pipeline("p", root="nowhere")
    rows = pipeline.source("rows", do.MemorySource([], schema=f"{SCHEMA}, op string"), event_time="ts").as_changes("op")
    rated = do.MemorySource([], schema="k string, rate long, since timestamp")
    rates = pipeline.source("rates", rated, event_time="since")
    recent = rows.within_last("1 hour").filter("n > 1")
    for wanted in (
        recent.final,
        lambda: recent.window(do.Tumbling("1 hour")).aggregate(n="count(*)", emit="final"),
        lambda: recent.window(do.Tumbling("1 hour")).top(1, by="n", emit="final"),
        lambda: recent.join_as_of(rates, on="k", columns=["rate", "ts"], keep="1 hour").final(),
    ):
        with pytest.raises(PipelineError, match=r"within_last takes each back.*before within_last"):
            wanted()
    assert source().as_changes("op").filter("n > 1").final().within_last("1 hour").columns
    assert rows.join_as_of(rates, on="k", columns=["rate", "ts"], keep="1 hour").final().columns


WANTING_TIME: tuple[Callable[[do.Stream], object], ...] = (
    lambda rows: rows.final(),
    lambda rows: rows.within_last("1 day"),
    lambda rows: rows.key_by("k").window(do.Tumbling("1 day")),
    lambda rows: rows.key_by("k").aggregate(m="max(n)", forget_after="1 day"),
    lambda rows: rows.key_by("k").top(1, by="n", emit="final"),
    lambda rows: rows.key_by("k").pivot("n", [1], m="count(*)", emit="final"),
)
_WAY = re.compile(r"into a table, (\S+), and read its changes in another pipeline: (.*?);")


def told_way(build: Callable[[do.Stream], object], rows: do.Stream) -> tuple[str, ...]:
    with pytest.raises(PipelineError) as refused:
        build(rows)
    way = _WAY.search(refused.value.remedy)
    assert way, refused.value.remedy
    assert way.end() < refused.value.remedy.index("in place of windows")
    return way.groups()


@pytest.mark.usefixtures("sail")
def test_rows_that_replace_each_other_get_an_event_time_as_it_is_told(tmp_path: Path) -> None:
    totals = do.Pipeline("totals", root=str(tmp_path / "totals"), engine=SAIL)
    given = [[("a", at(1)), ("b", at(2))], [("a", at(3))], [("c", at(60))]]
    rows = totals.source("rows", do.MemorySource(given, schema="k string, at timestamp"), event_time="at")
    current = rows.key_by("k").aggregate(at="max(at)", n="count(*)")
    ((table, read),) = {told_way(build, current) for build in WANTING_TIME}
    eval(f"current{table}", {"current": current})  # noqa: S307 - as it is told
    totals.run_until_caught_up()
    report = do.Pipeline("report", root=str(tmp_path / "report"), engine=SAIL)
    names = {"PipelineSource": do.PipelineSource, "root": str(tmp_path / "totals"), "report": report}
    changes = eval(f"report.{read}", names)  # noqa: S307
    changes.final().to_table("settled")
    for build in WANTING_TIME[1:4]:
        build(changes)
    report.run_until_caught_up()
    assert sorted((row.k, row.n) for row in report.read("settled").collect()) == [("a", 2), ("b", 1)]
    for build in WANTING_TIME[4:]:
        with pytest.raises(PipelineError) as refused:
            build(changes)
        (windows,) = re.findall(r"(window\(.*?\))\.", refused.value.remedy)
        build(_Windowed(changes, windows))  # type: ignore[arg-type]


@dataclass
class _Windowed:
    """A stream whose keys are put into windows as an error says."""

    stream: do.Stream
    told: str

    def key_by(self, *keys: str) -> Any:
        return eval(f"keyed.{self.told}", {"keyed": self.stream.key_by(*keys), "Tumbling": do.Tumbling})  # noqa: S307


@pytest.mark.slow
@pytest.mark.usefixtures("sail")
def test_what_is_corrected_for_a_while_is_final_then(tmp_path: Path) -> None:
    """The temporal join says for how long it corrects: its watermark is as far behind."""
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    asked = [[("a", at(100))], [("b", at(101))], [("a", at(300))]]
    told = [[("a", 1, at(0)), ("a", 0, at(101))], [("a", 2, at(50)), ("b", 5, at(99))], [("a", 7, at(300))]]
    rows = pipeline.source("rows", do.MemorySource(asked, schema="k string, ts timestamp"), event_time="ts")
    rates = pipeline.source("rates", do.MemorySource(told, schema="k string, rate long, since timestamp"), event_time="since")
    joined = rows.join_as_of(rates, on="k", columns=["rate", "ts"], keep="60 s")
    joined.final().to_table("settled")
    joined.latest("k", "ts").to_table("now")
    found = []
    for _ in asked:
        pipeline.run_epoch()
        found.append([sorted((row.k, row.rate) for row in pipeline.read(table).collect()) for table in ("settled", "now")])
    assert found == [
        [[], [("a", 1)]],
        [[], [("a", 2), ("b", 5)]],
        [[("a", 2), ("b", 5)], [("a", 2), ("a", 7), ("b", 5)]],
    ]
    for_ever = rows.join_as_of(rates, on="k", columns=["rate", "ts"])
    with pytest.raises(SchemaError, match="final needs an event time"):
        for_ever.final()
