"""A part of a dataflow: some of its tables, with all that their rows are made from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.reach import Reach
from dagster_operators.graph.time_range import TimeRange


def reach_of(dataflow: Dataflow) -> Reach:
    """Which operators of a dataflow read which."""
    return Reach.of(dataflow, dataflow.feedback.items())


def computed_each_epoch(dataflow: Dataflow) -> frozenset[str]:
    """The tables whose rows follow from what each epoch computed: replaced ones, and those behind all rows of a table.

    Epochs that read what several others have read give other rows.
    """
    behind = reach_of(dataflow).behind([node.name for node in dataflow if node.operator.gives_all])
    tables = dataflow.tables.items()
    return frozenset(name for name, table in tables if table.replaced or table.stream.operator in behind)


def read_whole(dataflow: Dataflow, operators: Collection[str]) -> frozenset[str]:
    """The tables all rows of which some operators read in each epoch.

    Args:
        dataflow: The pipeline.
        operators: The names of operators of it.
    """
    read = {stream for name in operators if dataflow.nodes[name].operator.gives_all for stream in dataflow.nodes[name].inputs}
    return frozenset(name for name, table in dataflow.tables.items() if table.stream in read)


def restricted_to(dataflow: Dataflow, tables: Collection[str], rules_off: Collection[str]) -> Dataflow:
    """The part of a dataflow that leads to some of its tables, without sinks.

    Args:
        dataflow: The whole.
        tables: The names of the tables.
        rules_off: The names of the planner's rules that are not applied to it.
    """
    kept = reach_of(dataflow).before([dataflow.tables[name].stream.operator for name in tables])
    made = Dataflow(dataflow.name)
    made.choices, made.rules_off = dataflow.choices.copy(), frozenset(rules_off)
    made.nodes |= {name: node for name, node in dataflow.nodes.items() if name in kept}
    made.scopes |= {name: scope for name, scope in dataflow.scopes.items() if any(node.scope == name for node in made)}
    made.feedback |= {name: stream for name, stream in dataflow.feedback.items() if name in kept}
    made.side_streams |= {stream: name for stream, name in dataflow.side_streams.items() if stream.operator in kept}
    made.automatic |= dataflow.automatic & kept
    for name in dataflow.tables:
        if name in tables:
            made.add_table(dataflow.tables[name])
    return made


@dataclass(frozen=True)
class Part:
    """What is computed anew together: tables, and the operators with state that nobody else's rows come from.

    Attributes:
        tables: The tables.
        operators: All operators that lead to them.
        beside: Those of the tables that were not asked for.
        between: The range of event time of which alone rows are computed; None for all.
    """

    tables: tuple[str, ...]
    operators: frozenset[str]
    beside: tuple[str, ...] = ()
    between: TimeRange | None = None


def part_with(dataflow: Dataflow, tables: Collection[str], stateful: Collection[str]) -> Part:
    """The tables, and all others that belong to them.

    Those are the tables that show the state of an operator which leads to one of them, if they can be computed anew, and those
    all rows of which such an operator reads.

    Args:
        dataflow: The pipeline.
        tables: The names of tables of it.
        stateful: The operators that have state.
    """
    reach, never = reach_of(dataflow), computed_each_epoch(dataflow)
    ends = {name: table.stream.operator for name, table in dataflow.tables.items()}
    found: set[str] = set()
    wanted = set(tables)
    while wanted - found:
        found |= wanted
        before = reach.before([ends[name] for name in found])
        shown = reach.behind([name for name in before if name in stateful])
        wanted |= {name for name, operator in ends.items() if operator in shown and name not in never}
        wanted |= read_whole(dataflow, before)  # as they were behind each of the epochs
    beside = tuple(name for name in ends if name in found and name not in tables)
    return Part(tuple(name for name in ends if name in found), reach.before([ends[name] for name in found]), beside)
