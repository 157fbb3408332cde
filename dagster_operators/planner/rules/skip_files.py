"""Files of a source that have no row for the filters behind it are not read."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from dagster_operators.connectors.connector import Connector
from dagster_operators.graph.conditions import tells_apart
from dagster_operators.graph.dataflow import Dataflow, Node
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.rewriting import Rewriting
from dagster_operators.graph.rule import Rewritten, Rule
from dagster_operators.graph.traits import Trait
from dagster_operators.operators.relational.filter import Filter
from dagster_operators.operators.relational.source import Source
from dagster_operators.planner.rules.narrow_source import NarrowSource


class SkipFiles(Rule):
    """Tells a source the conditions of the filters behind it, if all that reads it is filters; these stay where they are."""

    name: ClassVar[str] = "skip_files"
    needs: ClassVar[tuple[str, ...]] = ("prune_columns",)

    @override
    def apply(self, plan: Dataflow) -> Rewritten:
        rewriting = Rewriting(plan)
        for node in rewriting:
            if isinstance(node.operator, Source) and _skips(node.operator):
                conditions = _conditions(rewriting, node)
                if conditions:
                    rewriting.put(NarrowSource.of(node.operator, any_of=conditions), ())
                    rewriting.did(f"{node.name} may leave files out that have no row with {' or '.join(conditions)}")
        return rewriting.result()


def _skips(source: Source) -> bool:
    connector = source.connector
    return isinstance(connector, Connector) and connector.skips_files and connector.on_corrupt == "fail"


def _conditions(rewriting: Rewriting, node: Node) -> tuple[str, ...]:
    """The conditions of all who read a source; none if somebody needs all rows, or no file could be left out by a condition."""
    stream = StreamRef(node.name)
    readers = [rewriting.node(name).operator for name in rewriting.readers(stream)]
    filters = [reader for reader in readers if isinstance(reader, Filter) and Trait.REPEATABLE in reader.traits]
    conditions = tuple(dict.fromkeys(reader.condition for reader in filters))
    whole = rewriting.ends_at(stream) or len(filters) < len(readers)
    return conditions if conditions and not whole and all(map(tells_apart, conditions)) else ()
