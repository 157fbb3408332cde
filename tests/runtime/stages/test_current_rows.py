"""A table that takes an operator's rows as they are is its state: nothing is stored twice, and nothing is lost by it."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError, StageFailedError, UndecidedChangeError
from dagster_operators.graph import expressions
from dagster_operators.runtime.stages.staged_files import StagedFiles
from tests.engines import ENGINES

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = "k long, v string, ts timestamp"


def batch(*rows: tuple[int, str, int]) -> list[dict[str, Any]]:
    return [{"k": k, "v": v, "ts": f"2024-01-01 00:00:{second:02}"} for k, v, second in rows]


EPOCHS = [batch((1, "a", 1), (2, "b", 5)), batch((3, "c", 2)), batch((2, "late", 4), (1, "d", 9), (1, "e", 3))]
LAST = [(1, "d"), (2, "b"), (3, "c")]


def pipeline_of(root: Path, build: Callable[[do.Stream], object], engine: str = "sail") -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(root), engine=ENGINES[engine])
    build(pipeline.source("rows", do.MemorySource(EPOCHS, schema=SCHEMA), event_time="ts"))
    return pipeline


def direct(rows: do.Stream) -> None:
    rows.key_by("k").deduplicate(keep="last", name="newest").to_table("newest")


def read(pipeline: do.Pipeline, table: str = "newest") -> list[tuple[int, str]]:
    return sorted((row.k, row.v) for row in pipeline.read(table).collect())


@pytest.mark.parametrize("engine", ["sail", "spark", "connect"])
@pytest.mark.usefixtures("sail", "spark", "connect")
def test_the_table_is_the_state(tmp_path: Path, engine: str) -> None:
    pipeline = pipeline_of(tmp_path, direct, engine)
    pipeline.run_until_caught_up()
    assert read(pipeline) == LAST
    assert not (tmp_path / "state").exists()
    assert "its state is tables/newest" in pipeline.explain()
    with pytest.raises(PipelineError, match="its state is tables/newest"):
        pipeline.state("newest", "rows")


@pytest.mark.parametrize("engine", ["sail", "spark"])
@pytest.mark.usefixtures("sail", "spark")
def test_without_keys_all_rows_are_one_group(tmp_path: Path, engine: str) -> None:
    def build(rows: do.Stream) -> None:
        rows.key_by().top(2, by="ts DESC").to_table("newest")

    pipeline = pipeline_of(tmp_path, build, engine)
    found = []
    for _ in EPOCHS:
        pipeline.run_epoch()
        found.append([row.v for row in pipeline.read("newest").orderBy("rank").collect()])
    assert found == [["b", "a"], ["b", "c"], ["d", "b"]]


@pytest.mark.usefixtures("sail")
def test_rows_that_somebody_deleted_do_not_come_twice(tmp_path: Path) -> None:
    """Fewer rows of a key than there were ranks: those of higher ranks go too when the key's rows are put out anew."""
    from deltalake import DeltaTable

    epochs = [[{"k": 1, "v": v} for v in values] for values in ([30, 20, 10], [5], [7])]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=ENGINES["sail"])
    rows = pipeline.source("rows", do.MemorySource(epochs, schema="k long, v long"))
    rows.key_by("k").top(3, by="v DESC").to_table("best")
    pipeline.run_epoch()
    DeltaTable(pipeline.snapshot().uri("best")).delete("v > 15")
    pipeline.repair("best", keep="theirs")
    found = []
    for _ in epochs[1:]:
        pipeline.run_epoch()
        found.append(sorted((row["rank"], row.v) for row in pipeline.read("best").collect()))
    assert found == [[(1, 10), (2, 5)], [(1, 10), (2, 7), (3, 5)]]


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_keys_that_are_equal_in_different_bits(tmp_path: Path, spark: object, engine: str) -> None:
    assert spark
    epochs = [[{"k": k, "v": n} for k in keys] for n, keys in enumerate([[0.0, math.nan, None], [-0.0, -math.nan, None], [1.0]])]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=ENGINES[engine])
    rows = pipeline.source("rows", do.MemorySource(epochs, schema="k double, v long"))
    rows.key_by("k").top(1, by="v").to_table("best")
    pipeline.run_until_caught_up()
    assert sorted((str(row.k), row.v) for row in pipeline.read("best").selectExpr("k + 0.0D AS k", "v").collect()) == [
        ("0.0", 0), ("1.0", 2), ("None", 0), ("nan", 0),
    ]  # fmt: skip


@pytest.mark.usefixtures("sail")
def test_other_tables_leave_it_in_the_state(tmp_path: Path) -> None:
    def build(rows: do.Stream) -> None:
        rows.key_by("k").deduplicate(keep="last", name="newest").select("k", "v").to_table("newest")

    pipeline = pipeline_of(tmp_path, build)
    pipeline.run_until_caught_up()
    assert read(pipeline) == LAST
    assert [row.k for row in pipeline.state("newest", "rows").collect()]
    assert "state table state/newest.rows" in pipeline.explain()


def refused(pipeline: do.Pipeline) -> str:
    with pytest.raises(UndecidedChangeError) as caught:
        pipeline.run_epoch()
    return str(caught.value)


def renamed(rows: do.Stream) -> None:
    rows.key_by("k").deduplicate(keep="last", name="newest").to_table("latest")


def behind_a_select(rows: do.Stream) -> None:
    rows.key_by("k").deduplicate(keep="last", name="newest").select("k", "v", "ts").to_table("newest_2")


def behind_a_select_in_place(rows: do.Stream) -> None:
    rows.key_by("k").deduplicate(keep="last", name="newest").select("k", "v", "ts").to_table("newest")


def by_another_order(rows: do.Stream) -> None:
    rows.key_by("k").deduplicate(keep="first", name="newest").to_table("newest")


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize(
    ("first", "then", "subject", "told"),
    [
        (direct, renamed, "operator newest", "its state is the table 'newest', and would be the table 'latest'"),
        (direct, behind_a_select, "operator newest", "its state is the table 'newest', and would be in state tables"),
        (direct, behind_a_select_in_place, "operator newest", "its state is the table 'newest', and would be in state tables"),
        (behind_a_select, direct, "operator newest", "its state is in state tables, and would be the table 'newest'"),
        (behind_a_select_in_place, direct, "operator newest", "its state is in state tables, and would be the table 'newest'"),
        (direct, by_another_order, "table newest", "'newest' is another kind of operator now, whose state it is"),
    ],
)
def test_a_state_is_not_left_behind(
    tmp_path: Path, first: Callable[[do.Stream], object], then: Callable[[do.Stream], object], subject: str, told: str
) -> None:
    pipeline_of(tmp_path / "root", first).run_epoch()
    changed = pipeline_of(tmp_path / "root", then)
    message = refused(changed)
    assert f"- {subject}: {told}\n" in message
    assert message.count("pipeline.decide(") == message.count(f"pipeline.decide('{subject}', 'restart')") == 1
    shutil.copytree(tmp_path / "root", tmp_path / "changed_back")
    again = pipeline_of(tmp_path / "changed_back", first)
    again.run_until_caught_up()
    assert read(again, *again.tables) == LAST
    changed.decide(subject, "restart")
    changed.run_until_caught_up()
    since = [(1, "e" if then is by_another_order else "d"), (2, "late"), (3, "c")]
    assert read(pipeline_of(tmp_path / "root", then), *changed.tables) == since


@pytest.mark.usefixtures("sail")
def test_a_table_that_is_a_state_again_begins_empty(tmp_path: Path) -> None:
    """There and back: the table that was the state has rows of then, which the operator's state since then does not know."""
    pipeline_of(tmp_path, direct).run_epoch()
    for body in (behind_a_select, direct):
        pipeline = pipeline_of(tmp_path, body)
        refused(pipeline)
        pipeline.decide("operator newest", "restart")
        pipeline.run_epoch()
    assert read(pipeline) == [(1, "d"), (2, "late")]
    assert pipeline_of(tmp_path, direct).run_epoch().empty


@pytest.mark.usefixtures("sail")
def test_rows_that_wait_are_not_forgotten(tmp_path: Path) -> None:
    """Behind a union rows wait for their window; without it nothing waits, so what waits already would never come out."""

    def counts(rows: do.Stream, *, both: bool) -> None:
        one = rows.key_by("k").window(do.Tumbling("1 s")).aggregate(n="count(*)", name="one")
        other = rows.window(do.Tumbling("10 s")).aggregate(n="count(*)", name="other").with_columns(k="0L")
        stream = one.union(other.select("k", "window_start", "window_end", "n")) if both else one
        stream.window().aggregate(n="sum(n)", name="sums").to_table("sums")

    pipeline_of(tmp_path, lambda rows: counts(rows, both=True)).run_epoch()
    pipeline = pipeline_of(tmp_path, lambda rows: counts(rows, both=False))
    message = refused(pipeline)
    assert "- operator sums: it would keep no state any more, and what waits in the state that it has would not come" in message
    assert message.count("pipeline.decide(") == message.count("pipeline.decide('operator sums', 'restart')") == 1
    pipeline.decide("operator sums", "restart")
    pipeline.run_until_caught_up()
    assert [(row.window_start.second, row.n) for row in pipeline.read("sums").collect()] == [(5, 1)]


@pytest.mark.usefixtures("sail")
def test_what_the_table_depends_on_may_not_change(tmp_path: Path) -> None:
    def top(n: int) -> Callable[[do.Stream], object]:
        return lambda rows: rows.key_by("k").top(n, by="v", name="first").to_table("first")

    pipeline_of(tmp_path, top(1)).run_epoch()
    pipeline = pipeline_of(tmp_path, top(2))
    assert "operator first: what its state depends on changed: n was 1, and is 2\n" in refused(pipeline)
    pipeline.decide("operator first", "restart")
    pipeline.run_until_caught_up()
    assert read(pipeline, "first") == [(1, "d"), (1, "e"), (2, "late"), (3, "c")]


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The columns of what was stored of new rows, epoch by epoch."""
    found: list[list[str]] = []
    write = StagedFiles.write

    def spy(self: StagedFiles, frame: Any, dataset: str, directory: str, schema_json: str, *, longest: int = 0) -> Any:
        if dataset.startswith("streams/"):
            found.append(frame.columns)
        return write(self, frame, dataset, directory, schema_json, longest=longest)

    monkeypatch.setattr(StagedFiles, "write", spy)
    return found


@do.udf("string", name="upper_of_mine")
def upper_of_mine(v):  # type: ignore[no-untyped-def]
    import pyarrow.compute as pc

    return pc.utf8_upper(v)


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize(
    ("expression", "columns"),
    [("lower(v)", ["k"]), ("upper_of_mine(v)", ["k", "v", "ts"]), ("concat(v, uuid())", ["k", "v", "ts"])],
)
def test_rows_are_computed_twice_only_if_that_is_cheap_and_the_same(
    tmp_path: Path, stored: list[list[str]], expression: str, columns: list[str]
) -> None:
    def build(rows: do.Stream) -> None:
        rows.select("k", f"{expression} AS v", "ts").key_by("k").deduplicate(keep="last").to_table("newest")

    pipeline = pipeline_of(tmp_path, build)
    pipeline.run_until_caught_up()
    assert [(k, v[:1].lower()) for k, v in read(pipeline)] == LAST
    assert stored == [columns] * (len(EPOCHS) - 1)  # in the first epoch there is no table to look into


@pytest.mark.usefixtures("sail")
def test_keys_that_differ_the_second_time_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should an expression that changes get past the check, an old row is not lost by it."""
    import re

    monkeypatch.setattr(expressions, "_CHANGING", re.compile("nothing"))

    def build(rows: do.Stream) -> None:
        rows.select("uuid() || 'unseen' AS k", "v", "ts").key_by("k").deduplicate(keep="last", name="newest").to_table("newest")

    pipeline = pipeline_of(tmp_path, build)
    pipeline.run_epoch()
    with pytest.raises(StageFailedError, match="other keys when it was computed a second time") as caught:
        pipeline.run_epoch()
    assert caught.value.operator == "newest"
