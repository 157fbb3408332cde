"""What applies from here on: operators without state that come or go, and settings of sources, told where nothing else is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from dagster_operators.connectors.connector import Connector
from dagster_operators.graph.values import shown
from dagster_operators.operators.relational.source import Source
from dagster_operators.plans.compared import ComparedPlans
from dagster_operators.plans.diff import diff
from dagster_operators.plans.matching import Matching, named_as_before
from dagster_operators.plans.shape import PlanShape
from dagster_operators.plans.verdict import Level, Verdict

_HARMLESS: Final = frozenset({"name", "chain", "asset_key"})
"""Settings of a source by which no row comes out otherwise."""

_TOLD: Final = frozenset({"event_time"})
"""Those of which it is told what becomes of the watermark."""


def applied(compared: ComparedPlans, matching: Matching, verdicts: Collection[Verdict]) -> Iterator[Verdict]:
    """What else makes rows come out otherwise from here on.

    Args:
        compared: The plan, and that of the last epoch.
        matching: Which operator is which.
        verdicts: What is told already.
    """
    said = {verdict.subject for verdict in verdicts}
    decided = {verdict.subject for verdict in verdicts if verdict.level in (Level.DECISION, Level.DECIDED)}
    asked = {verdict.name for verdict in verdicts if verdict.subject in decided}
    ends = compared.old.streams_of_ends.keys() & compared.new.streams_of_ends.keys()
    now = {name: name for name in compared.former}
    then = {former: name for name, former in compared.former.items()}
    for names, shape, there, text in (
        (compared.added, compared.new, now, "it is new, and applies to what comes from here on"),
        (compared.removed, compared.old, then, "it is no longer in the pipeline, which applies to what comes from here on"),
    ):
        told = _before_what_goes_on(shape, there, ends, asked) if names else frozenset()
        for name in names:
            if name in told and f"operator {name}" not in said and shape.nodes[name].operator.kind != Source.kind:
                yield Verdict(Level.FROM_HERE_ON, f"operator {name}", text)
    yield from (verdict for verdict in _sources(compared, matching) if verdict.subject not in decided)


def _before_what_goes_on(
    shape: PlanShape, there: Mapping[str, str], ends: Collection[str], asked: Collection[str]
) -> frozenset[str]:
    """The operators that lead to others, tables or sinks that there were and are, and to none of which something is asked."""
    found, settled = set[str](), set[str]()
    for name in reversed(shape.nodes):
        behind = [reader for _, _, reader in shape.consumers.get(name, ())]
        own = [end for _, end in shape.own_ends.get(name, ()) if end in ends]
        if any(one in found or one in there for one in behind) or own:
            found.add(name)
        told = {there.get(one, one) for one in behind} | {end.partition(" ")[2] for end in own}
        if not told.isdisjoint(asked) or not settled.isdisjoint(behind):
            settled.add(name)
    return frozenset(found - settled)


def _sources(compared: ComparedPlans, matching: Matching) -> Iterator[Verdict]:
    names = {former: name for name, former in compared.former.items()}
    for change in diff(compared.old.plan, named_as_before(compared.new.plan, matching)).changed:
        name = names[change.name]
        old, new = compared.old.nodes[change.name].operator, compared.new.nodes[name].operator
        if not isinstance(old, Source) or not isinstance(new, Source) or name not in compared.new.running:
            continue
        fields = {one: pair for one, pair in change.fields.items() if one not in _HARMLESS | _TOLD | {"connector"}}
        told = [f"{one} was {change.told(one, was)}, and is {change.told(one, now)}" for one, (was, now) in fields.items()]
        if "connector" in change.fields and old.connector.kind == new.connector.kind:
            told += _connector(old, new)
        if told:
            yield Verdict(Level.FROM_HERE_ON, f"source {name}", "; ".join(told))


def _connector(old: Source, new: Source) -> Iterator[str]:
    """The settings by which a source reads what comes otherwise; where it reads is told as such."""
    if not isinstance(old.connector, Connector) or not isinstance(new.connector, Connector):
        return  # of a kind that is not known here
    places = old.connector.positions().keys() | new.connector.positions().keys()
    before, after = old.connector.encode(), new.connector.encode()
    for one in {**before, **after}:
        if one not in places and before.get(one) != after.get(one) and one not in ("path", "batches", "left_out"):
            yield f"{one} was {shown(before.get(one))}, and is {shown(after.get(one))}"
