"""Whose state each operator goes on with: names that make up another name when put together give nobody another's state."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import dagster_operators as do
from dagster_operators.plans.pauses import Pause
from dagster_operators.runtime.identities import Ledgered, bind
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.records import Complete


@dataclass
class Lowered:
    """What a pipeline is lowered to, as far as names go."""

    parts: dict[str, list[str]]
    nodes: dict[str, object] = field(default_factory=dict)

    def __iter__(self):
        for logical, parts in self.parts.items():
            yield from (SimpleNamespace(name=f"{logical}{part}", logical=logical) for part in parts)


def dataflow(*names):
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.FileSource("in", schema="v long"))
    for name in names:
        rows.filter("v > 1", name=name)
    return pipeline.dataflow


def ledgered(states, operators, *, identities=None, parts=None, plan="abc"):
    last = Complete(
        1, 1, "b", Owner.of_process(), {}, {}, {}, (), {}, {}, {}, 0.0, 0.0, {}, "p", {}, {}, {}, logical_plan=plan,
        identities=identities or {}, parts=parts or {},
    )  # fmt: skip
    view = SimpleNamespace(versions={f"state/{one}.totals": 1 for one in states}, dropped=(), fingerprints={}, decisions=())
    return Ledgered(view, last, ["rows", *operators])


def bound(known, parts, was=None, back=None, restarted=()):
    """What the state of each physical operator is addressed by."""
    lowered = Lowered({"rows": [""], **parts})
    found = bind(dataflow(*parts), lowered, known, {"rows": "rows", **(was or {})}, back or {}, restarted=restarted).identities
    return {node.name: found.get(node.name, node.name) for node in lowered if node.logical != "rows"}


def test_a_part_of_a_new_operator_gets_no_state_that_another_left():
    """The part ``key`` of ``per`` would be called as ``per_key`` is, which is no longer in the pipeline."""
    known = ledgered(["per_key"], [])
    assert bound(known, {"per": ["_key", ""]}) == {"per": "per", "per_key": "per_key_2"}


def test_a_new_part_of_an_operator_that_goes_on_gets_no_state_that_another_left():
    known = ledgered(["per", "per_key"], ["per", "per_key"])
    assert bound(known, {"per": ["_key", ""]}, {"per": "per"}) == {"per": "per", "per_key": "per_key_2"}


def test_it_keeps_what_it_was_given_then():
    known = ledgered(["per", "per_key", "per_key_2"], ["per"], identities={"per_key": "per_key_2"}, parts={"per_key_2": "per"})
    assert bound(known, {"per": ["_key", ""]}, {"per": "per"}) == {"per": "per", "per_key": "per_key_2"}
    assert known.states("per") == {"": {"totals"}, "_key": {"totals"}}


def test_an_operator_that_is_put_back_gets_its_own_parts_and_no_other_s():
    known = ledgered(["per", "per_key", "per_build"], [], parts={"per_build": "per"})
    found = bound(known, {"per": ["_key", "_build", ""]}, back={"per": Pause(1, "per", missed=False, identity="per")})
    assert found == {"per": "per", "per_build": "per_build", "per_key": "per_key_2"}


def test_what_begins_afresh_has_nothing_that_was_there():
    known = ledgered(["per", "per_key", "per_2_key"], ["per"], parts={"per_key": "per"})
    assert bound(known, {"per": ["_key", ""]}, {"per": "per"}, restarted=["per"]) == {"per": "per_3", "per_key": "per_3_key"}


def test_parts_go_on_under_their_operator_s_identity():
    identities, parts = {"per": "per_2", "per_key": "per_2_key"}, {"per_2_key": "per_2"}
    known = ledgered(["per_2", "per_2_key"], ["per"], identities=identities, parts=parts)
    assert bound(known, {"per": ["_key", ""]}, {"per": "per"}) == {"per": "per_2", "per_key": "per_2_key"}
    assert bound(known, {"now": ["_key", ""]}, {"now": "per"}) == {"now": "per_2", "now_key": "per_2_key"}


def test_roots_from_before_parts_were_recorded_go_on():
    known = ledgered(["per", "per_key"], ["per"], plan="")
    assert bound(known, {"per": ["_key", ""]}, {"per": "per"}) == {"per": "per", "per_key": "per_key"}
