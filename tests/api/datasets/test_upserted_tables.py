"""Tables that have a row of each key of a data set: that of the last epoch which computed one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators import MemorySource, Pipeline
from dagster_operators.errors import BadInputError, OperatorFailedError, PipelineError, SchemaError
from dagster_operators.transactions.failpoints import watch
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples

EPOCHS: list[Any] = [[("a", 1), ("a", 2), ("b", 5)], [], [("c", 1), ("a", 7)]]
pytestmark = pytest.mark.in_process
ENGINE = pytest.mark.parametrize(
    "engine", [pytest.param("sail", marks=pytest.mark.sail), pytest.param("spark", marks=pytest.mark.spark)]
)


class LostError(Exception):
    """A process that is gone."""


def sums(root: Path, epochs: list[Any] = EPOCHS, engine: str = "sail", **settings: Any) -> Pipeline:
    pipeline = Pipeline("p", root=str(root), engine=ENGINES[engine])
    rows = pipeline.source("rows", MemorySource(epochs, schema="k string, v long"))
    data = rows.data_set().group_by("k").sum("v")
    data.to_table("sums", **{"mode": "upsert", "key": ["k"], **settings})
    return pipeline


def rows_in(pipeline: Pipeline, table: str = "sums") -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in pipeline.to_arrow(table).to_pylist())


def of_epochs(epochs: list[Any]) -> Counter[tuple[Any, ...]]:
    """The table as a dictionary has it: in each epoch the sums of its keys take the place of those before."""
    expected: dict[str, int] = {}
    for epoch in epochs:
        fresh = Counter[str]()
        for key, value in epoch:
            fresh[key] += value
        expected |= {key: fresh[key] for key, _ in epoch}
    return Counter(expected.items())


@ENGINE
def test_a_row_takes_the_place_of_the_row_of_its_key(engine: str, tmp_path: Path) -> None:
    pipeline = sums(tmp_path, engine=engine)
    for number in range(1, len(EPOCHS) + 1):
        pipeline.run_epoch()
        assert rows_in(pipeline) == of_epochs(EPOCHS[:number])
    pipeline.rebuild()  # epoch by epoch
    assert rows_in(pipeline) == of_epochs(EPOCHS)


@pytest.mark.sail
@fresh_examples(15)
@given(st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-9, 9)), min_size=1, max_size=5), min_size=1, max_size=3))
def test_any_epochs_give_the_rows_of_a_dictionary(tmp_path_factory: pytest.TempPathFactory, epochs: list[Any]) -> None:
    pipeline = sums(tmp_path_factory.mktemp("upserts"), epochs)
    pipeline.run_until_caught_up()
    assert rows_in(pipeline) == of_epochs(epochs)


@pytest.mark.sail
@pytest.mark.parametrize("after", [0.0, 0.3, 0.6, 0.9, 1.0])
def test_an_epoch_that_died_is_upserted_once(tmp_path: Path, after: float) -> None:
    """The second epoch dies at a failpoint, early or late; the next run ends it, or begins it again."""
    epochs = [EPOCHS[0], EPOCHS[2]]
    passed: list[str] = []
    counted = sums(tmp_path / "counted", epochs)
    counted.run_epoch()
    with watch(passed.append):
        counted.run_epoch()
    place = round(after * (len(passed) - 1))
    seen: list[str] = []

    def die(name: str) -> None:
        seen.append(name)
        if len(seen) > place:
            raise LostError(name)

    pipeline = sums(tmp_path / "died", epochs)
    pipeline.run_epoch()
    with watch(die), pytest.raises(LostError):
        pipeline.run_epoch()
    again = sums(tmp_path / "died", epochs)
    again.run_until_caught_up()
    assert rows_in(again) == rows_in(counted) == of_epochs(epochs)


@pytest.mark.sail
def test_an_epoch_whose_function_failed_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    def build(*, fails: bool) -> Pipeline:
        pipeline = Pipeline("p", root=str(tmp_path), engine=SAIL)
        rows = pipeline.source("rows", MemorySource([EPOCHS[0], EPOCHS[2]], schema="k string, v long"))
        zero = 0 if fails else 1
        data = rows.data_set().map(lambda row: (row.k, row.v if row.k != "c" else row.v // zero), schema="k string, v long")
        data.group_by("k").sum("v").to_table("sums", mode="upsert", key=["k"])
        return pipeline

    failing = build(fails=True)
    failing.run_epoch()
    with pytest.raises(OperatorFailedError, match="ZeroDivisionError"):
        failing.run_epoch()
    assert rows_in(failing) == of_epochs(EPOCHS[:1])
    mended = build(fails=False)
    mended.run_until_caught_up()
    assert rows_in(mended) == of_epochs(EPOCHS)


@pytest.mark.sail
def test_two_rows_of_a_key_in_an_epoch_are_refused_and_grouping_is_the_way_out(tmp_path: Path) -> None:
    def build(root: Path, *, grouped: bool) -> Pipeline:
        pipeline = Pipeline("p", root=str(root), engine=SAIL)
        data = pipeline.source("rows", MemorySource(EPOCHS, schema="k string, v long")).data_set()
        one = data.group_by("k").max_by("v") if grouped else data
        one.to_table("t", mode="upsert", key=["k"])
        return pipeline

    refused = build(tmp_path / "refused", grouped=False)
    with pytest.raises(BadInputError, match="two rows of the epoch have the key a"):
        refused.run_epoch()
    assert not refused.history()
    grouped = build(tmp_path / "grouped", grouped=True)
    grouped.run_until_caught_up()
    assert rows_in(grouped, "t") == Counter([("a", 7), ("b", 5), ("c", 1)])


def test_a_key_goes_with_the_mode_and_is_of_the_data_set(tmp_path: Path) -> None:
    """What is refused is refused where it is written, and leaves the pipeline as it was."""
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"key": []}, PipelineError, r"key=\['id'\]"),
        ({"mode": "append"}, PipelineError, "only rows that are upserted have a key"),
        ({"mode": "replace"}, PipelineError, "only rows that are upserted have a key"),
        ({"mode": "merge"}, PipelineError, "mode"),
        ({"key": "k"}, PipelineError, r"\['k'\]"),
        ({"key": [0]}, PipelineError, "0"),
        ({"key": ["k", "k"]}, PipelineError, "twice"),
        ({"key": ["z"]}, SchemaError, "there is no column 'z' of the table.*k, v"),
    ]
    pipeline = Pipeline("p", root=str(tmp_path))
    data = pipeline.source("rows", MemorySource(EPOCHS, schema="k string, v long")).data_set().group_by("k").sum("v")
    for settings, error, message in wrong:
        with pytest.raises(error, match=message):
            data.to_table("sums", **{"mode": "upsert", "key": ["k"], **settings})
        assert not pipeline.tables
    with pytest.raises(PipelineError, match="is no sink"):
        data.to_sink("sums", name="sums")
    assert data.to_table("sums", mode="upsert", key=["k"]).columns == ("k", "v"), "a refused call left its operator behind"
    with pytest.raises(PipelineError, match="'sums'"):
        data.to_table("sums", name="other", mode="upsert", key=["k"])
    data.to_table("more", name="other")


@pytest.mark.sail
def test_the_columns_of_a_key_may_be_declared_at_the_table(tmp_path: Path) -> None:
    pipeline = Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", MemorySource([[("a", 1)], [("a", 2)]], schema="k string, v long"))
    rows.data_set().map(lambda row: (row.k, row.v)).to_table("t", mode="upsert", key=["k"], schema="k string, v long")
    pipeline.run_until_caught_up()
    assert rows_in(pipeline, "t") == Counter([("a", 2)])
