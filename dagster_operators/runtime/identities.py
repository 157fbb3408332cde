"""What the operators of a pipeline's program are to the storage root: whose state and whose position each goes on with."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count
from typing import TYPE_CHECKING

from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.operators.relational.source import Source
from dagster_operators.planner.physical_plan import PhysicalPlan
from dagster_operators.time.watermark import MIN_WATERMARK
from dagster_operators.transactions.plan import STATE_OF
from dagster_operators.transactions.records import Complete
from dagster_operators.transactions.view import LedgerView

if TYPE_CHECKING:
    from dagster_operators.plans.pauses import Pause
    from dagster_operators.plans.verdict import Stored


@dataclass(frozen=True)
class Binding:
    """What operators are called in the storage root, where that is not their name.

    Attributes:
        identities: What the state of a physical operator is addressed by.
        origins: What the last completed epoch called a source or physical operator; empty if it takes nothing over from there.
        emptied: The tables that begin from nothing, as it was decided.
        deleted: The datasets that nobody uses then, as it was decided.
    """

    identities: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    emptied: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


class Ledgered:
    """What the ledger says of the operators of the last completed epoch.

    Args:
        view: The ledger.
        last: That epoch.
        operators: The operators of its plan.
        left_behind: The tables and states that a rollback emptied, since no epoch before had them: they are as new.
    """

    def __init__(self, view: LedgerView, last: Complete, operators: Collection[str], left_behind: Collection[str] = ()) -> None:
        self._view = view
        self._left_behind = left_behind
        self._versions = {dataset: 0 if dataset in left_behind else version for dataset, version in view.versions.items()}
        self._last = last
        self._operators = operators

    def identity(self, operator: str) -> str:
        """What an operator's state was addressed by."""
        return self._last.identities.get(operator, operator)

    def part(self, operator: str, part: str) -> str | None:
        """What the state of a part of an operator was addressed by; None if nobody knows that there was such a part."""
        identity = self.identity(operator)
        if not part:
            return identity
        name = f"{operator}{part}"
        found = f"{identity}{part}" if name in self._operators else self._last.identities.get(name, f"{identity}{part}")
        known = self._last.parts.get(found) == identity or not self._tells_parts
        return found if known else None

    @property
    def _tells_parts(self) -> bool:
        """Whether the last epoch's record says whose parts there are; those from before plans were kept do not."""
        return bool(self._last.logical_plan)

    def may_have(self, whole: str, part: str) -> bool:
        """Whether what there is under the name of a part, if anything, is the operator's that is addressed by ``whole``."""
        return part not in self.used or part in self._owners(whole) or not self._tells_parts

    @cached_property
    def used(self) -> frozenset[str]:
        """What there is or just was state under."""
        return frozenset(map(_owner, filter(_is_state, (*self._view.versions, *self._view.dropped)))) | self._in_tables.keys()

    def owner(self, dataset: str | None) -> str | None:
        """What the state that a table is, if it goes on as it is, is addressed by."""
        found = json.loads(self._view.fingerprints.get(dataset or "", "") or "{}").get(STATE_OF)
        return None if found is None else str(found)

    @cached_property
    def _filled(self) -> frozenset[str]:
        return frozenset(_owner(dataset) for dataset, version in self._versions.items() if _is_state(dataset) and version > 0)

    @cached_property
    def _in_tables(self) -> Mapping[str, str]:
        """The tables that are the state of an operator, by what that is addressed by."""
        known = {dataset: text for dataset, text in self._last.fingerprints.items() if self._versions.get(dataset, 0) > 0}
        owners = {dataset: json.loads(text or "{}").get(STATE_OF) for dataset, text in known.items()}
        return {owner: dataset.removeprefix("tables/") for dataset, owner in owners.items() if owner}

    @cached_property
    def stateful(self) -> frozenset[str]:
        """The operators of the last epoch that have state."""
        return frozenset(operator for operator in self._operators if self._parts(operator) or self._is_in_table(operator))

    def _is_in_table(self, operator: str) -> bool:
        return self.identity(operator) in self._in_tables

    def _owners(self, identity: str) -> set[str]:
        """What the state of an operator, and of the parts that it was lowered to, is addressed by."""
        return {identity, *(part for part, whole in self._last.parts.items() if whole == identity)}

    def _parts(self, operator: str) -> set[str]:
        return self._owners(self.identity(operator)) & self._filled

    def table_of(self, operator: str) -> str | None:
        """The table that is an operator's state."""
        return self._in_tables.get(self.identity(operator))

    def states(self, operator: str) -> dict[str, set[str]]:
        """The state tables of an operator that something was written to, by the end of the name of the part that has them."""
        found: dict[str, set[str]] = {}
        for dataset, version in self._versions.items():
            if _is_state(dataset) and version > 0 and _owner(dataset) in self._parts(operator):
                part = self._end_of(operator, _owner(dataset))
                found.setdefault(part, set()).add(dataset.rpartition(".")[2])
        return found

    def declared(self, operator: str) -> set[str]:
        """The state tables that an operator of one part declared in the last epoch, and that something was written to."""
        there = self.datasets(operator)
        return {one.rpartition(".")[2] for one in there if one in self._last.fingerprints and self._versions[one] > 0}

    def ends(self, operator: str) -> list[str]:
        """The ends of the names of all parts of an operator that there is or was state of."""
        whole = self.identity(operator)
        return ["", *(self._end_of(operator, part) for part, owner in self._last.parts.items() if owner == whole)]

    def _end_of(self, operator: str, part: str) -> str:
        """The end of the name of the part of an operator whose state is addressed so."""
        names = [name for name, identity in self._last.identities.items() if identity == part and name.startswith(operator)]
        return names[0].removeprefix(operator) if names else part.removeprefix(self.identity(operator))

    @cached_property
    def left(self) -> frozenset[str]:
        """What state there is of operators that the last epoch did not have."""
        used = {part for operator in self._operators for part in self._parts(operator)}
        return self._filled - used

    def datasets(self, operator: str) -> list[str]:
        """The state tables of an operator that the last epoch had."""
        return self._datasets(self._owners(self.identity(operator)))

    def left_datasets(self, identity: str) -> list[str]:
        """The state tables under a name, and of its parts, that no operator of the last epoch has."""
        used = {owner for operator in self._operators for owner in self._owners(self.identity(operator))}
        return self._datasets(self._owners(identity) - used)

    def _datasets(self, owners: Collection[str]) -> list[str]:
        return [dataset for dataset in self._versions if _is_state(dataset) and _owner(dataset) in owners]

    def is_left(self, identity: str) -> bool:
        """Whether there is state under a name, or of its parts, that no operator of the last epoch has."""
        return not self._owners(identity).isdisjoint(self.left)

    def was_left_behind(self, identity: str) -> bool:
        """Whether a rollback emptied the state under a name, or of its parts."""
        return not self._owners(identity).isdisjoint(_owner(dataset) for dataset in self._left_behind if _is_state(dataset))

    def is_filled(self, end: str) -> bool:
        """Whether there may be rows, or were, in what is told as ``table totals``; of sinks only their plans tell."""
        kind, _, name = end.partition(" ")
        return kind == "sink" or (kind == "table" and self._versions.get(f"tables/{name}", 0) > 0)

    @property
    def named(self) -> frozenset[str]:
        """Whatever something is kept of by name: positions, watermarks, held times, schemas."""
        last = self._last
        keys = (*last.offsets, *last.watermarks, *last.held, *last.finished, *last.schemas, *last.sources)
        return frozenset(key.partition(".")[0] for key in keys)

    def stored(self, former: Collection[str] = ()) -> Stored:
        """The same as verdicts need it.

        Args:
            former: What earlier versions of the package kept of sources, which tells too little to compare.
        """
        from dagster_operators.plans.verdict import Stored

        tables = {name.removeprefix("tables/"): version for name, version in self._versions.items() if _is_table(name)}
        updating = [name for name in tables if _kind(self._last.fingerprints.get(f"tables/{name}", "")) == "updating"]
        return Stored(
            self.stateful,
            frozenset(self._last.parts.get(name, name) for name in self.left),
            frozenset(name for name, version in tables.items() if version > 0),
            frozenset(updating),
            frozenset(name for name, position in self._last.offsets.items() if position is not None),
            {name: told for name, told in self._last.sources.items() if told not in former},
            {one: self._in_tables[self.identity(one)] for one in self._operators if self._is_in_table(one)},
            state_tables=frozenset(self._in_tables.values()),
            decided=self._view.decided,
            timed={name: "" for name, mark in self._last.watermarks.items() if mark != MIN_WATERMARK},
        )


def bind(
    dataflow: Dataflow,
    physical: PhysicalPlan,
    ledgered: Ledgered,
    was: Mapping[str, str],
    back: Mapping[str, Pause],
    *,
    restarted: Collection[str],
    emptied: Collection[str] = (),
    deleted: Collection[str] = (),
) -> Binding:
    """Give every operator the state and position that are its own.

    Args:
        dataflow: The pipeline.
        physical: What it is lowered to.
        ledgered: What there is.
        was: What operators were called in the last epoch.
        back: The operators that are put back: with what they left, or it was decided that they begin anew.
        restarted: The operators and sources that are to begin from nothing.
        emptied: The tables that are.
        deleted: The datasets that are deleted with the epoch: one that is new, and has the name of what left them, has others.
    """
    parts: dict[str, list[str]] = {name: [] for name in dataflow.nodes}
    for node in physical:
        parts.setdefault(node.logical, []).append(node.name.removeprefix(node.logical))
    for name, former in was.items():
        parts[name] = parts[name] or ledgered.ends(former)  # it does not run now, and keeps what it has
    found = _Addresses(parts, ledgered)
    kept = [name for name in parts if name in was and name not in restarted]
    found.go_on({name: was[name] for name in kept})
    new = [name for name in parts if name not in kept]
    dropped = {_owner(dataset) for dataset in deleted if _is_state(dataset)}
    for name in sorted(new, key=lambda one: one in dataflow.automatic):  # who has a name of their own choose first
        home = physical.own_table(name) if name in physical.nodes and name not in restarted else None
        owner = None if home in emptied else ledgered.owner(home)
        owner = back[name].identity if name in back and name not in restarted else owner
        if owner is not None and owner not in found.taken:  # it was taken out, and goes on
            found.begin(name, owner)
            continue
        afresh = name in restarted or name in dataflow.automatic or ledgered.was_left_behind(name)
        afresh = afresh or not dropped.isdisjoint(found.wanted(name, name, afresh=True))
        avoid = found.taken | ledgered.used if afresh else found.taken
        found.begin(name, next(one for one in _names(name, dataflow) if not avoid & found.wanted(name, one, afresh=afresh)))
    identities = {name: identity for name, identity in found.identities.items() if name != identity}
    earlier = {name: pause.former for name, pause in back.items() if pause.former not in was.values()} | dict(was)
    return Binding(identities, dict(_origins(dataflow, parts, ledgered.named, earlier, restarted)))


class _Addresses:
    """What the state of operators and of their further parts is addressed by: each by something of its own.

    Args:
        parts: The ends of the names of what each operator is lowered to; that of its last part is empty.
        ledgered: What there is.
    """

    def __init__(self, parts: Mapping[str, list[str]], ledgered: Ledgered) -> None:
        self._parts = parts
        self._ledgered = ledgered
        self.identities: dict[str, str] = {}
        self.taken: set[str] = set()

    def wanted(self, name: str, identity: str, *, afresh: bool) -> set[str]:
        """What an operator under an identity would use; its further parts can do with others, unless it is to begin afresh."""
        return {f"{identity}{part}" for part in self._parts[name] if afresh or not part}

    def go_on(self, was: Mapping[str, str]) -> None:
        """Give operators of the last epoch what they had, then what their new parts need."""
        for name, earlier in was.items():
            had = {part: self._ledgered.part(earlier, part) for part in self._parts[name]}
            self._take({f"{name}{part}": identity for part, identity in had.items() if identity is not None})
        for name, earlier in was.items():
            self.begin(name, self._ledgered.identity(earlier))

    def begin(self, name: str, identity: str) -> None:
        """Let an operator use an identity, and its parts those that are made of it, unless these are another operator's."""
        for part in self._parts[name]:
            if f"{name}{part}" not in self.identities:
                own = f"{identity}{part}"
                free = (one for one in chain((own,), (f"{own}_{number}" for number in count(2))) if self._is_free(one, identity))
                self._take({f"{name}{part}": next(free) if part else identity})

    def _is_free(self, part: str, whole: str) -> bool:
        return part not in self.taken and self._ledgered.may_have(whole, part)

    def _take(self, found: Mapping[str, str]) -> None:
        self.identities.update(found)
        self.taken.update(found.values())


def source_origins(dataflow: Dataflow, ledgered: Ledgered, was: Mapping[str, str], restarted: Collection[str]) -> dict[str, str]:
    """What :func:`bind` says of the sources, which is known before the pipeline is lowered to anything."""
    sources = {node.name: [""] if isinstance(node.operator, Source) else [] for node in dataflow}
    return dict(_origins(dataflow, sources, ledgered.named, was, restarted))


def _names(name: str, dataflow: Dataflow) -> Iterator[str]:
    yield name
    number = 2
    while True:
        if f"{name}_{number}" not in dataflow.nodes:
            yield f"{name}_{number}"
        number += 1


def _origins(
    dataflow: Dataflow, parts: Mapping[str, list[str]], known: Collection[str], was: Mapping[str, str], restarted: Collection[str]
) -> Iterator[tuple[str, str]]:
    taken = set(was.values())
    for name, node in dataflow.nodes.items():
        before = "" if name in restarted else was.get(name, "")
        if before == name:
            continue
        back = not before and name not in restarted and name not in taken and isinstance(node.operator, Source)
        for part in parts[name]:
            if before and f"{before}{part}" in known:
                yield f"{name}{part}", f"{before}{part}"
            elif not back and f"{name}{part}" in known:
                yield f"{name}{part}", ""


def _is_state(dataset: str) -> bool:
    return dataset.startswith("state/")


def _is_table(dataset: str) -> bool:
    return dataset.startswith("tables/")


def _owner(dataset: str) -> str:
    return dataset.removeprefix("state/").rpartition(".")[0]


def _kind(fingerprint: str) -> str:
    found = json.loads(fingerprint or "{}").get("table", "")
    return str(found)
