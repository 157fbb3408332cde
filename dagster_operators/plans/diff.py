"""What differs between two plans, node by node: a pure function of both."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.values import Encodable, canonical, is_shown_by_fields, shown
from dagster_operators.plans.changed_lines import changed_lines
from dagster_operators.plans.logical_plan import LogicalPlan, PlanNode
from dagster_operators.plans.shown import node_json, node_text, value_json
from dagster_operators.time.watermark import format_duration

Change = tuple[Any, Any]
"""What something was and what it is."""


@dataclass(frozen=True)
class Changed:
    """Something that is in both plans, and differs.

    Attributes:
        name: What it is called.
        fields: What it was and is, by setting; ``kind`` and ``inputs`` of operators are among them.
        durations: The settings of these that are lengths of time, in microseconds.
        texts: The settings that are texts of many lines, of which those are told that changed.
        derived: The settings that follow from these, and are not told beside them.
    """

    name: str
    fields: Mapping[str, Change]
    durations: Collection[str] = ()
    texts: Collection[str] = ()
    derived: Collection[str] = ()

    @property
    def told_fields(self) -> Mapping[str, Change]:
        """The settings that are told."""
        left_out = self.derived if any(name in self.texts for name in self.fields) else ()
        return {name: change for name, change in self.fields.items() if name not in left_out}

    def told(self, field: str, value: Any) -> str:
        """What a setting was or is, as people read it.

        >>> Changed("joined", {"keep": (60_000_000, None)}, ["keep"]).told("keep", 60_000_000)
        '1 minute'
        """
        return format_duration(value) if field in self.durations and isinstance(value, int) else shown(value)


@dataclass(frozen=True)
class PlanDiff:
    """What differs between two plans.

    Attributes:
        added: Operators that only the later plan has.
        removed: Operators that only the earlier one has.
        changed: Operators whose settings differ.
        moved: Operators that read other streams: what they read, and what they read now.
        ends: Tables, sinks, side streams, loops and functions that were added, removed or changed, as ``table late``; what is not
            there is None.
        packages: The versions of packages that differ.

    >>> bool(PlanDiff())
    False
    """

    added: tuple[PlanNode, ...] = ()
    removed: tuple[PlanNode, ...] = ()
    changed: tuple[Changed, ...] = ()
    moved: Mapping[str, Change] = field(default_factory=dict)
    ends: tuple[Changed, ...] = ()
    packages: Mapping[str, Change] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.moved or self.ends)

    def to_json(self) -> dict[str, Any]:
        """The differences as JSON values."""
        return {
            "added": list(map(node_json, self.added)),
            "removed": list(map(node_json, self.removed)),
            "changed": {change.name: _pairs(change.fields) for change in self.changed},
            "moved": {name: [list(map(str, before)), list(map(str, after))] for name, (before, after) in self.moved.items()},
            "ends": {change.name: _pairs(change.fields) for change in self.ends},
            "packages": {name: list(change) for name, change in self.packages.items()},
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from (f"+ {node_text(node)}" for node in self.added)
        yield from (f"- {node_text(node)}" for node in self.removed)
        for change in (*self.changed, *self.ends):
            for name, (before, after) in change.told_fields.items():
                if name in change.texts:
                    yield f"~ {change.name}: {name}"
                    yield from changed_lines(before, after)
                    continue
                for part, was, now in _parts(name, before, after):
                    texts = ("not there" if value is None else change.told(part, value) for value in (was, now))
                    yield f"~ {change.name}: {part} was {next(texts)}, is {next(texts)}"
        for name, (before, after) in self.moved.items():
            yield f"~ {name}: reads {', '.join(map(str, after)) or 'nothing'}, read {', '.join(map(str, before)) or 'nothing'}"
        for name, (before, after) in self.packages.items():
            yield f"  {name} was {before or 'not there'}, is {after or 'not there'}"


def diff(before: LogicalPlan, after: LogicalPlan) -> PlanDiff:
    """What differs between an earlier and a later plan.

    Args:
        before: The earlier plan.
        after: The later one.
    """
    old, new = ({node.name: node for node in plan.nodes} for plan in (before, after))
    both = [name for name in new if name in old]
    changed = {name: _settings(old[name], new[name]) for name in both}
    return PlanDiff(
        tuple(node for name, node in new.items() if name not in old),
        tuple(node for name, node in old.items() if name not in new),
        tuple(_changed(new[name].operator, name, found) for name, found in changed.items() if found),
        {name: (old[name].inputs, new[name].inputs) for name in both if old[name].inputs != new[name].inputs},
        tuple(_changes(_ends(before), _ends(after))),
        {name: change for name, change in _by_name(before.packages, after.packages).items() if change[0] != change[1]},
    )


def _parts(name: str, before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    """A setting that differs; of two objects of one kind, their own settings that differ, as ``connector.schema``."""
    alike = isinstance(before, Encodable) and isinstance(after, Encodable) and before.kind == after.kind
    if not (alike and is_shown_by_fields(before) and is_shown_by_fields(after)):
        return [(name, before, after)]
    pairs = _differing(_by_name(before.encode(), after.encode()))
    return [(f"{name}.{part}", *pair) for part, pair in pairs.items()] or [(name, before, after)]


def _changed(operator: LogicalOperator, name: str, fields: Mapping[str, Change]) -> Changed:
    return Changed(name, fields, operator.durations, operator.texts, operator.derived)


def _settings(before: PlanNode, after: PlanNode) -> dict[str, Change]:
    pairs = _by_name(
        {"kind": before.operator.kind, **before.operator.encode()}, {"kind": after.operator.kind, **after.operator.encode()}
    )
    return _differing(pairs)


def _key(asset_key: tuple[str, ...]) -> dict[str, str]:
    return {"asset_key": "/".join(asset_key)} if asset_key else {}


def _ends(plan: LogicalPlan) -> dict[str, dict[str, Any]]:
    """What is not an operator, by what it is and its name, with what it is made of."""
    found: dict[str, dict[str, Any]] = {}
    for table in plan.tables:
        checks = {f"check {name}": (c.expression, c.blocking) for name, c in table.checks.items()}
        tags = {f"tag {name}": value for name, value in table.tags.items()}
        columns = {f"column {name}": said for name, said in table.columns.items()}
        settings = {"stream": str(table.stream), "description": table.description, "owners": table.owners}
        feed: dict[str, Any] = {"change_feed": True} if table.change_feed else {}
        layout: dict[str, Any] = {"partition_by": table.partition_by} if table.partition_by else {}
        layout |= {"cluster_by": table.cluster_by} if table.cluster_by else {}
        layout |= {"target_file_size": table.target_file_size} if table.target_file_size else {}
        layout |= {"replaced": True} if table.replaced else {}
        was = {"renamed_from": table.renamed_from} if table.renamed_from else {}
        told = {**settings, **_key(table.asset_key), **feed, **layout, **was}
        found[f"table {table.name}"] = {**told, **columns, **checks, **tags}
    for sink in plan.sinks:
        settings = {"stream": str(sink.stream), "description": sink.description}
        found[f"sink {sink.name}"] = {**settings, **_key(sink.asset_key), "kind": sink.sink.kind, **sink.sink.encode()}
    for stream, name in plan.side_streams:
        found[f"side stream {stream}"] = {"name": name}
    for loop in plan.loops:
        fed = {f"feed {name}": str(stream) for name, stream in loop.feedback}
        within: dict[str, Any] = {"within": loop.parent} if loop.parent else {}
        within |= {"ends": True} if loop.ends else {}
        found[f"loop {loop.name}"] = {"limit": loop.limit, "within_subtask": loop.within_subtask, **within, **fed}
    for name, reference in plan.functions.items():
        found[f"function {name}"] = {"place": str(reference), "content": reference.digest}
    return found


def _changes(before: Mapping[str, dict[str, Any]], after: Mapping[str, dict[str, Any]]) -> Iterator[Changed]:
    for name, (old, new) in _by_name(before, after).items():
        fields = _differing(_by_name(old or {}, new or {}))
        if fields:
            yield Changed(name, fields)


def _differing(pairs: Mapping[str, Change]) -> dict[str, Change]:
    return {name: change for name, change in pairs.items() if canonical(change[0]) != canonical(change[1])}


def _by_name(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Change]:
    return {name: (before.get(name), after.get(name)) for name in {**before, **after}}


def _pairs(fields: Mapping[str, Change]) -> dict[str, Any]:
    return {name: [value_json(before), value_json(after)] for name, (before, after) in fields.items()}


def only_order(change: Change) -> bool:
    """Whether pairs of names and what they mean are in another order, which is all that changed.

    >>> one, other = ("a", "sum(v)"), ("b", "max(v)")
    >>> only_order(((one, other), (other, one))), only_order((("a", "b"), ("b", "a")))
    (True, False)
    """
    was, now = (value if isinstance(value, tuple) and all(isinstance(one, tuple) for one in value) else None for value in change)
    return was is not None and now is not None and was != now and sorted(was) == sorted(now)
