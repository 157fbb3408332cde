"""The plan of a part of a pipeline goes on with what the engine said of the whole: it is asked about nothing twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import dagster_operators as do
from dagster_operators.planner import plan as planner
from dagster_operators.planner.plan import Plan
from dagster_operators.runtime.epochs import Epochs
from dagster_operators.runtime.rebuilt_part import part_of
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")


def pipeline(root: Path, kind: str = "long", total: str = "sum(v)") -> do.Pipeline:
    made = do.Pipeline("parts", root=str(root), engine=SAIL)
    rows = made.source("rows", do.MemorySource([], schema=f"k string, v {kind}"))
    some = rows.filter("v > 0", name="some")
    some.to_table("clean")
    some.key_by("k").aggregate(n="count(*)", total=total, name="per_key").to_table("totals", checks={"some": "n > 0"})
    return made


def beside(made: do.Pipeline, place: Path) -> Epochs:
    return made.epochs_beside(made.epochs)(part_of(made.epochs, ["totals"], ()), str(place))


def same(one: Plan, other: Plan) -> bool:
    """A dataflow is an object of its own; all that follows from it is compared."""
    return replace(one, dataflow=other.dataflow) == other and one.fingerprint == other.fingerprint


def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    analyse = planner.analyse
    monkeypatch.setattr(planner, "analyse", lambda flow, node, inputs: names.append(node.name) or analyse(flow, node, inputs))
    return names


def test_the_engine_is_asked_nothing_about_a_part_of_what_it_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pipeline(tmp_path / "root")
    whole = beside(made, tmp_path / "alone").plan()
    names = asked(monkeypatch)
    part = beside(made, tmp_path / "part")
    part.planning.be_part_of(made.epochs.planning)
    assert same(part.plan(), whole)
    assert not names


def test_of_what_reads_other_columns_it_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide, narrow = (pipeline(tmp_path / kind, kind).epochs.planning for kind in ("long", "int"))
    session, made = narrow.session, narrow.plan()
    known = wide.plan()
    names = asked(monkeypatch)
    assert same(planner.plan(session, narrow.dataflow, narrow.input_schemas(), known), made)
    assert {"rows", "some"} <= set(names)
    names.clear()
    assert same(planner.plan(session, narrow.dataflow, narrow.input_schemas(), made), made)
    assert "rows" not in names


def test_a_plan_keeps_the_columns_that_it_was_made_with(tmp_path: Path) -> None:
    planning = pipeline(tmp_path).epochs.planning
    given = planning.input_schemas()
    made, read = planner.plan(planning.session, planning.dataflow, given), dict(given)
    given["rows"] = "others"
    assert made.found.inputs == read


def test_of_an_operator_that_is_another_it_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = pipeline(tmp_path / "one").epochs.plan()
    other = pipeline(tmp_path / "other", total="max(v)").epochs.planning
    made = other.plan()
    names = asked(monkeypatch)
    assert same(planner.plan(other.session, other.dataflow, other.input_schemas(), known), made)
    assert "per_key" in names
    assert "rows" not in names
