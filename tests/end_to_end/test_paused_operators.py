"""Operators that did not run for some epochs: their state is asked about if rows came meanwhile, and every answer is right.

Stands for the fault script a16.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.api.stream import Stream
from dagster_operators.cli.main import main
from dagster_operators.graph.ports import StreamRef
from dagster_operators.plans.verdict import Level
from tests.end_to_end.test_changed_pipelines import SCHEMA, Changed, clean, refused, rows
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")


@pytest.fixture
def changed(tmp_path: Path) -> Changed:
    return Changed(tmp_path)


def counted(name: str | None, *, written: bool = True, key: str = "k") -> Callable[[Any], None]:
    """A count of each key, whose table may be taken out while its line stays."""

    def body(stream: Any) -> None:
        clean(stream)
        counts = stream.with_columns(k=key).key_by("k").aggregate(n="count(*)", name=name)
        if written:
            counts.to_table("totals")

    return body


def asked(pipeline: do.Pipeline) -> set[str]:
    return {verdict.subject for verdict in pipeline.changes() if verdict.level is Level.DECISION}


@pytest.mark.parametrize("name", ["per_key", None])
@pytest.mark.parametrize("choice", ["keep", "restart"])
def test_the_table_behind_an_operator_is_put_back(changed: Changed, choice: Any, name: str | None) -> None:
    changed.run("a,1", "b,1")(counted(name))
    for line in ("a,2", "b,2"):
        changed.run(line)(counted(name, written=False))
    changed.arrive("a,3")
    pipeline = changed.pipeline(counted(name))
    (operator,) = asked(pipeline) - {"table totals"}
    assert operator.startswith("operator ")
    assert "since epoch 1, the rows since then are not in its state" in str(refused(pipeline))
    pipeline.decide(operator, choice)
    if choice == "keep":
        pipeline.decide("table totals", "keep")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "totals") == Counter({("a", 2): 1, ("b", 1): 1} if choice == "keep" else {("a", 1): 1})
    more = {("a", 2): 1, ("b", 2): 1} if choice == "keep" else {("a", 1): 1, ("b", 1): 1}
    assert rows(changed.run("b,4")(counted(name)), "totals") == Counter(more)


@pytest.mark.parametrize("news", [True, False])
def test_a_sink_that_is_put_back(changed: Changed, *, news: bool) -> None:
    """What it was not given meanwhile it never is: that is asked about."""

    def body(stream: Any) -> None:
        clean(stream)
        stream.to_sink(Written(changed.root), name="out")

    def given() -> Counter[int]:
        return Counter(int(line) for line in (changed.place / "sink.txt").read_text().split())

    changed.run("a,1")(body)
    changed.run(*(["a,2"] if news else []))(clean)
    changed.arrive("a,3")
    pipeline = changed.pipeline(body)
    if news:
        assert "sink 'out'" in str(refused(pipeline))
        assert asked(pipeline) == {"sink out"}
        done = CliRunner().invoke(main, ["decide", changed.root, "sink", "out", "keep"])
        assert done.exit_code == 0, done.output
    pipeline.run_until_caught_up()
    assert given() == Counter([1, 3])


class Written(do.Sink):
    """Writes the values to a file beside the root; what is prepared goes with the commit data."""

    def __init__(self, root: str) -> None:
        self.root = root

    def write(self, rows: Any, attempt: Any) -> Any:
        return [value for batch in rows for value in batch["v"].to_pylist()]

    def prepare(self, epoch: int, commit_data: Any, generation: int) -> None: ...

    def commit(self, epoch: int, commit_data: Any) -> None:
        with (Path(self.root).parent / "sink.txt").open("a") as file:
            file.writelines(f"{value}\n" for value in commit_data)

    def abort(self, epoch: int, generation: int) -> None: ...

    def recover(self, decided_epoch: int, generation: int) -> None: ...


def test_state_that_is_a_table_is_asked_about_once(changed: Changed) -> None:
    def best(*, written: bool = True) -> Callable[[Any], None]:
        def body(stream: Any) -> None:
            clean(stream)
            top = stream.key_by("k").top(1, by="v DESC", name="best")
            if written:
                top.to_table("leaders")

        return body

    changed.run("a,5")(best())
    changed.run("a,9")(best(written=False))
    changed.arrive("a,7")
    pipeline = changed.pipeline(best())
    assert asked(pipeline) == {"table leaders"}
    pipeline.decide("table leaders", "restart")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "leaders") == Counter({("a", 1, 7): 1})


def test_a_key_that_changed_while_the_operator_did_not_run(changed: Changed) -> None:
    changed.run("a,1")(counted("per_key", key="lower(k)"))
    changed.run("a,1")(counted("per_key", written=False, key="lower(k)"))
    changed.run("a,1")(counted("per_key", written=False, key="upper(k)"))
    pipeline = changed.pipeline(counted("per_key", key="upper(k)"))
    assert "the column 'k', by which it keeps its state, is computed in another way" in str(refused(pipeline))


def test_what_state_is_addressed_by_is_known_while_the_operator_does_not_run(changed: Changed) -> None:
    """The losses are aggregate_k_2 first, then aggregate_k, under the state of before; they stand still, and come back."""

    def both(first: str, *written: str) -> Callable[[Any], None]:
        def body(stream: Any) -> None:
            for table in (first, "losses" if first == "gains" else "gains"):
                sign = ">" if table == "gains" else "<"
                counts = stream.filter(f"v {sign} 0").key_by("k").aggregate(n="count(*)")
                if table in written:
                    counts.to_table(table)

        return body

    changed.run("a,1", "a,-1")(both("gains", "gains", "losses"))
    changed.run("a,1", "a,1")(both("losses", "gains", "losses"))
    changed.run("a,1")(both("losses", "gains"))
    changed.run("a,1", "a,-1")(both("gains", "gains"))
    changed.arrive("a,-1")
    pipeline = changed.pipeline(both("losses", "gains", "losses"))
    assert asked(pipeline) == {"operator aggregate_k", "table losses"}
    pipeline.decide("operator aggregate_k", "keep")
    pipeline.decide("table losses", "keep")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "losses") == Counter({("a", 2): 1})
    assert rows(pipeline, "gains") == Counter({("a", 5): 1})


def with_branch(changed: Changed, *parts: str) -> do.Pipeline:
    """A pipeline with a second source and what is behind it; its last parts may be taken out."""
    pipeline = do.Pipeline("changed", root=changed.root, engine=SAIL)
    files = do.FileSource(str(changed.place / "in/*.csv"), schema=SCHEMA)
    pipeline.source("rows", files).filter("v > 0").to_table("clean")
    if "source" in parts:
        rows_of_branch = pipeline.source("more", do.FileSource(str(changed.place / "more/*.csv"), schema=SCHEMA))
        if "operator" in parts:
            counts = rows_of_branch.key_by("k").aggregate(n="count(*)")
            if "table" in parts:
                counts.to_table("counts")
    return pipeline


@pytest.mark.parametrize("paused", [(), ("source",), ("source", "operator")], ids=["all", "behind the source", "table"])
def test_a_branch_whose_source_stood_still_as_well_goes_on_unasked(changed: Changed, paused: tuple[str, ...]) -> None:
    """What came meanwhile is read once it is back: nothing is missing in its state or table."""
    whole = ("source", "operator", "table")
    for parts in (whole, paused, whole):
        changed.arrive("a,1")
        changed.arrive("a,1", folder="more")
        pipeline = with_branch(changed, *parts)
        assert asked(pipeline) == set()
        pipeline.run_until_caught_up()
    assert rows(pipeline, "counts") == Counter({("a", 3): 1})
    assert sum(rows(pipeline, "clean").values()) == 3


def test_a_branch_is_asked_about_if_another_reader_of_its_source_went_on(changed: Changed) -> None:
    def also(*parts: str) -> do.Pipeline:
        pipeline = with_branch(changed, "source", *parts)
        Stream(pipeline.dataflow, StreamRef("more")).to_table("all")
        return pipeline

    for parts in (("operator", "table"), ()):
        changed.arrive("a,1", folder="more")
        also(*parts).run_until_caught_up()
    assert asked(also("operator", "table")) == {"operator aggregate_k", "table counts"}
