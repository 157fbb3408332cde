"""Columns that nobody behind needs are not read, computed, written between stages or moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, TypeAlias

from typing_extensions import override

from dagster_operators.graph.dataflow import Dataflow, Node
from dagster_operators.graph.expressions import columns_of
from dagster_operators.graph.ports import MAIN, StreamRef
from dagster_operators.graph.rewriting import Rewriting
from dagster_operators.graph.rule import Rewritten, Rule
from dagster_operators.graph.traits import Trait
from dagster_operators.operators.relational.columns import OutputColumn, as_select, projected
from dagster_operators.operators.relational.filter import Filter
from dagster_operators.operators.relational.projection import Drop, Rename, Select, WithColumns
from dagster_operators.operators.relational.source import Source
from dagster_operators.operators.relational.union import Union
from dagster_operators.planner.rules.mark_places import seen_places
from dagster_operators.planner.rules.narrow_source import NarrowSource
from dagster_operators.types.names import quoted

Columns: TypeAlias = frozenset[str] | None
"""Columns that are needed, by their names in small letters; None for all."""


class PruneColumns(Rule):
    """Takes columns out of sources and projections, and before unions, where all who read them say what they need."""

    name: ClassVar[str] = "prune_columns"
    needs: ClassVar[tuple[str, ...]] = ("merge_filters", "merge_projections")

    @override
    def apply(self, plan: Dataflow) -> Rewritten:
        rewriting, seen = Rewriting(plan), seen_places(plan)
        wanted: dict[StreamRef, Columns] = {}
        for node in reversed(list(rewriting)):
            kept = _kept(rewriting, node, wanted)
            for stream, columns in zip(node.inputs, _pruned(rewriting, node, kept, node.name in seen), strict=True):
                before = wanted.get(stream, frozenset())
                wanted[stream] = None if columns is None or before is None else before | columns
        return rewriting.result()


def _kept(rewriting: Rewriting, node: Node, wanted: Mapping[StreamRef, Columns]) -> Columns:
    """The columns of an operator's main output that must stay."""
    stream, columns = StreamRef(node.name), node.type.columns
    asked = wanted.get(stream, frozenset())
    if rewriting.ends_at(stream) or asked is None or columns is None:
        return None
    always = {name.lower() for name in (*(node.type.keys or ()), node.type.event_time) if name is not None}
    kept = asked | always
    kept = kept or frozenset({columns[0].lower()})  # there are no rows without a column
    return kept if len(kept) < len(columns) else None


def _pruned(rewriting: Rewriting, node: Node, kept: Columns, has_seen_places: bool) -> Sequence[Columns]:  # noqa: FBT001
    """Take out of an operator what is not kept; returns what it needs of each input from then on."""
    types = [rewriting.type_of(stream) for stream in node.inputs]
    if has_seen_places and isinstance(node.operator, WithColumns | Rename | Drop | Union):
        return [None] * len(types)
    if len(types) == 1 and (columns := projected(node.operator, types[0])) is not None:
        return [_less_projected(rewriting, node, columns, kept)]
    others = any(rewriting.readers(stream) or rewriting.ends_at(stream) for stream in _side_streams(node))
    if others or node.type.columns is None or any(kind.columns is None for kind in types):
        return [None] * len(types)
    if kept is None or not isinstance(node.operator, Source | Union):
        needs = [_small(needs) for needs in node.operator.reads(types, frozenset(node.type.columns if kept is None else kept))]
        if isinstance(node.operator, Filter) and len(rewriting.readers(StreamRef(node.name))) > 1:
            _less_written(rewriting, node, needs[0])
        return needs
    names = [name for name in node.type.columns or () if name.lower() in kept]
    gone = ", ".join(name for name in node.type.columns or () if name not in names)
    if isinstance(node.operator, Source):
        rewriting.put(NarrowSource.of(node.operator, columns=tuple(names)), ())
        rewriting.did(f"{node.name} is read without {gone}")
        return []
    inputs = [_only(rewriting, node, stream, number, kept) for number, stream in enumerate(node.inputs, 1)]
    rewriting.put(replace(node.operator, chain=True), inputs)
    rewriting.did(f"{node.name} is of streams without {gone}")
    return [kept] * len(inputs)


def _less_written(rewriting: Rewriting, node: Node, needs: Columns) -> None:
    """Let a filter have fewer columns, whose rows several stages read, and which what comes before it does not leave out."""
    (stream,) = node.inputs
    before, names = rewriting.node(stream.operator), rewriting.type_of(stream).columns or ()
    leaves_out = isinstance(before.operator, Source) or projected(before.operator, before.type) is not None
    if needs is None or len(needs) == len(names) or node.type.marks or (leaves_out and rewriting.is_inner(before.name)):
        return
    gone = ", ".join(name for name in names if name.lower() not in needs)
    rewriting.put(replace(node.operator, chain=True), [_only(rewriting, node, stream, 1, needs)])
    rewriting.did(f"{node.name} is of a stream without {gone}")


def _less_projected(rewriting: Rewriting, node: Node, columns: Sequence[OutputColumn], kept: Columns) -> Columns:
    """Take columns out of a projection; returns the input's columns that it needs from then on."""
    stream = rewriting.type_of(node.inputs[0])
    left = [column for column in columns if kept is None or column.name.lower() in kept]
    needs = _small(name for column in left for name in columns_of(column.expression))
    if len(left) == len(columns) and isinstance(node.operator, Select):
        return needs
    made = as_select(node.name, left, chain=node.operator.chain)
    expected = {MAIN: replace(node.type, columns=tuple(column.name for column in left))}
    if Trait.REPEATABLE not in node.operator.traits or made.outputs([stream]) != expected:
        return None
    if len(left) < len(columns):
        rewriting.did(f"{node.name} is made without {', '.join(column.name for column in columns if column not in left)}")
    elif len(needs or ()) == len(stream.columns or ()):
        return needs
    rewriting.put(made, node.inputs)
    return needs


def _only(rewriting: Rewriting, node: Node, stream: StreamRef, number: int, kept: Columns) -> StreamRef:
    """A stream with these columns alone."""
    names = [name for name in rewriting.type_of(stream).columns or () if kept is None or name.lower() in kept]
    name = rewriting.free_name(f"{node.name}_of_{number}")
    rewriting.put(Select(name=name, chain=node.operator.chain, expressions=tuple(map(quoted, names))), [stream])
    return StreamRef(name)


def _side_streams(node: Node) -> list[StreamRef]:
    return [StreamRef(node.name, port) for port in node.outputs if port != MAIN]


def _small(names: Iterable[str] | None) -> Columns:
    return None if names is None else frozenset(name.lower() for name in names)
