"""The order of rules, switching them off, what they may not change, and rules of other packages."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

import dagster_operators as do
from dagster_operators.catalog import loading
from dagster_operators.catalog.catalog import Catalog
from dagster_operators.operators.arrow.registry import ENTRY_POINTS
from dagster_operators.planner.rules.merge_filters import MergeFilters
from dagster_operators.planner.rules.rule_set import RuleSet, optimised
from dagster_operators.plugins import Filter, PipelineError, Rewriting, Rewritten, Rule, Select
from tests.engines import SAIL


class Made(Rule):
    def __init__(self, name, needs=(), needed_by=(), apply=None):
        self.name, self.needs, self.needed_by, self.does = name, needs, needed_by, apply

    def apply(self, plan):
        return self.does(plan) if self.does else Rewritten(plan, ("nothing",))


class Spelt(Rule):
    """Writes ``v > 1`` in place of ``1 < v``."""

    name = "spelt"
    needs = ("redundant_unions",)

    def apply(self, plan):
        rewriting = Rewriting(plan)
        for node in rewriting:
            if isinstance(node.operator, Filter) and node.operator.condition == "1 < v":
                rewriting.put(replace(node.operator, condition="v > 1"), node.inputs)
                rewriting.did(f"turned {node.name} round")
        return rewriting.result()


def register(catalog):
    catalog.add_rule(Spelt)


def names(rules):
    return [rule.name for rule in RuleSet(rules)]


def flow(**settings):
    pipeline = do.Pipeline("p", root="unused", **settings)
    return pipeline, pipeline.source(
        "rows", do.MemorySource([[{"k": "a", "v": 2}, {"k": "b", "v": 1}]], schema="k string, v long")
    )


def test_the_order_is_that_of_registration_where_none_needs_another():
    assert names([Made("a"), Made("b"), Made("c")]) == ["a", "b", "c"]
    assert names([Made("a", needs=("c",)), Made("b", needed_by=("a",)), Made("c")]) == ["b", "c", "a"]


def test_an_unknown_name_is_an_error_that_names_both():
    with pytest.raises(PipelineError, match="the rule 'a' names the rule 'x', which is not there") as caught:
        RuleSet([Made("a", needs=("x",))])
    assert caught.value.rule == "a"
    with pytest.raises(PipelineError, match="the rule 'a' names the rule 'y'"):
        RuleSet([Made("a", needed_by=("y",))])


def test_a_cycle_is_an_error_that_names_all_in_it():
    with pytest.raises(PipelineError, match="no order fits what the rules 'a', 'b' need"):
        RuleSet([Made("c"), Made("a", needs=("b",)), Made("b", needs=("a",))])


def test_a_rule_that_is_switched_off_is_passed_over():
    pipeline, rows = flow(rules_off=["redundant_projections"])
    rows.select("k", "v", name="same").key_by("k").aggregate(n="sum(v)").to_table("t")
    assert "same" in optimised(pipeline.dataflow).plan.nodes
    assert "rules" not in pipeline.explain().splitlines()
    other, rows = flow()
    rows.select("k", "v", name="same").key_by("k").aggregate(n="sum(v)").to_table("t")
    assert "same" not in optimised(other.dataflow).plan.nodes
    assert "  redundant_projections: same changes no column, and is left out" in other.explain().splitlines()
    assert "-> same" in other.explain(rules=False)


def test_one_rule_may_be_given_by_its_name_alone():
    pipeline, rows = flow(rules_off="push_filters")
    rows.to_table("out")
    assert pipeline.dataflow.rules_off == {"push_filters"}
    pipeline, rows = flow(rules_off="push_filter")
    rows.to_table("out")
    with pytest.raises(PipelineError, match=r"there is no rule 'push_filter'.*did you mean 'push_filters'"):
        pipeline.explain()


def test_rules_off_holds_for_a_pipeline_of_a_plan_and_is_checked():
    pipeline, rows = flow()
    rows.select("k", "v", name="same").aggregate(n="count(*)").to_table("t")
    again = do.Pipeline.from_plan(pipeline.to_plan(), root="unused", rules_off=["redundant_projections"])
    assert "same" in optimised(again.dataflow).plan.nodes
    wrong = do.Pipeline.from_plan(pipeline.to_plan(), root="unused", rules_off=["redundant_projection"])
    with pytest.raises(PipelineError, match=r"there is no rule 'redundant_projection'.*did you mean 'redundant_projections'"):
        wrong.explain()


def test_the_recorded_plan_is_the_one_that_was_written():
    with_rules, rows = flow()
    without, others = flow(rules_off=["redundant_projections"])
    for stream in (rows, others):
        stream.select("k", "v", name="same").aggregate(n="count(*)").to_table("t")
    with_rules.explain()
    assert with_rules.to_plan() == without.to_plan()


def test_a_grown_pipeline_is_optimised_anew():
    pipeline, rows = flow()
    rows.select("k", "v", name="same").aggregate(n="count(*)").to_table("t")
    first = optimised(pipeline.dataflow)
    assert optimised(pipeline.dataflow) is first
    rows.filter("v > 2").to_table("u")
    assert "filter" in optimised(pipeline.dataflow).plan.nodes
    nodes = pipeline.dataflow.nodes
    nodes["filter"] = replace(nodes["filter"])  # as an operator's settings of before are put in
    assert optimised(pipeline.dataflow).plan.nodes["filter"] is nodes["filter"]


@pytest.fixture
def another_package(monkeypatch):
    point = EntryPoint("another", f"{__name__}:register", ENTRY_POINTS)
    monkeypatch.setattr(loading, "entry_points", lambda group: [point] if group == ENTRY_POINTS else [])
    monkeypatch.setattr(loading, "_default", [])


@pytest.mark.sail
@pytest.mark.usefixtures("another_package", "sail")
def test_a_rule_of_another_package_is_applied_and_shown(tmp_path):
    pipeline, rows = flow(engine=SAIL)
    pipeline.root = str(tmp_path)
    rows.filter("1 < v").to_table("t")
    assert "  spelt: turned filter round" in pipeline.explain().splitlines()
    pipeline.run_epoch()
    assert [row.k for row in pipeline.read("t").collect()] == ["a"]


def test_two_packages_cannot_bring_one_rule():
    catalog = Catalog()
    catalog.of("one").add_rule(Spelt)
    with pytest.raises(PipelineError, match="the rule 'spelt' comes with 'one' and with 'two'"):
        catalog.of("two").add_rule(Spelt)
    catalog.of("one").add_rule("other", f"{__name__}:Spelt")
    with pytest.raises(PipelineError, match=r"registers .*Spelt' as the rule 'other', which it is not"):
        catalog.rules()


def test_without_a_rule_of_ours_that_fails_the_pipeline_runs_and_says_so(monkeypatch):
    def fail(self, plan):
        raise PipelineError("no such thing")

    monkeypatch.setattr(MergeFilters, "apply", fail)
    pipeline, rows = flow()
    rows.filter("v > 1", name="a").filter("v > 2", name="b").select("k", "v", name="same").filter("v > 3", name="c").to_table("t")
    with pytest.warns(RuntimeWarning, match=r"'merge_filters' failed: no such thing.*rules_off=\['merge_filters'\]"):
        made = optimised(pipeline.dataflow)
    assert {"a", "b"} <= made.plan.nodes.keys()
    assert "same" not in made.plan.nodes
    assert [what for rule, what in made.steps if rule == "merge_filters"] == ["failed, and changed nothing: no such thing"]


def test_a_rule_that_takes_away_what_a_table_has_is_an_error_that_names_it():
    pipeline, rows = flow()
    rows.filter("v > 1").to_table("t")

    def spoil(plan):
        rewriting = Rewriting(plan)
        rewriting.put(Select(name="filter", expressions=("k",)), plan.nodes["filter"].inputs)
        return rewriting.result()

    with pytest.raises(PipelineError, match=r"the rule 'bad' failed: the stream 'filter' is another one.*rules_off=\['bad'\]"):
        RuleSet([Made("bad", apply=spoil)]).apply(pipeline.dataflow)
    assert RuleSet([Made("bad", apply=spoil)]).apply(pipeline.dataflow, ["bad"]).steps == ()


class Retyped(Rule):
    """Gives a column another type, as no rule may."""

    name = "retyped"

    def apply(self, plan):
        rewriting = Rewriting(plan)
        for node in rewriting:
            if isinstance(node.operator, Select):
                rewriting.put(Select(name=node.name, expressions=("CAST(v AS long) AS v",)), node.inputs)
        return rewriting.result()


def register_retyped(catalog):
    catalog.add_rule(Retyped)


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
def test_a_rule_whose_plan_fails_the_check_is_left_out_and_named(tmp_path, monkeypatch):
    point = EntryPoint("another", f"{__name__}:register_retyped", ENTRY_POINTS)
    monkeypatch.setattr(loading, "entry_points", lambda group: [point] if group == ENTRY_POINTS else [])
    monkeypatch.setattr(loading, "_default", [])
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([[{"k": "a", "v": 2}]], schema="k string, v int"))
    rows.filter("v > 1").filter("v > 0").select("v", name="last").to_table("t")
    with pytest.warns(RuntimeWarning, match=r"rule 'retyped' of the planner failed: .*'last'.*rules_off=\['retyped'\]"):
        pipeline.run_epoch()
    assert pipeline.to_arrow("t").to_pylist() == [{"v": 2}]
    steps = pipeline.explain().splitlines()
    assert any(line.startswith("  retyped: is left out: ") for line in steps)
    assert any(line.startswith("  merge_filters: ") for line in steps)
