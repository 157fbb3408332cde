"""A dataflow's nodes and who reads whom, as a Mermaid flowchart, as ``dora graph`` draws them."""

from __future__ import annotations

from collections.abc import Iterator

from dagster_operators.api.events.dataflow_file import DataflowFile
from dagster_operators.operators.events.wiring import TIMER, EventOperator, table_of


def mermaid(file: DataflowFile) -> str:
    """The flowchart."""
    return "\n".join(["flowchart TB", *_nodes(file), *_edges(file)])


def _nodes(file: DataflowFile) -> Iterator[str]:
    for source in file.sources:
        if source.outputs:
            yield f'  {table_of(source.node)}[\\"{source.node}"/]'
    timers = {one.source for operator in file.operators for one in operator.inputs if one.source.startswith(TIMER)}
    for timer in sorted(timers):
        yield f'  {_name(timer)}[\\"{timer}"/]'
    for node in dict.fromkeys(operator.node for operator in file.operators):
        own = [operator for operator in file.operators if operator.node == node]
        if own[0].alone:
            yield f'  {_name(node)}["{node}"]'
            continue
        yield f'  subgraph {_name(node)}["{node}"]'
        yield from (f'    {_name(operator.path)}["{operator.id}"]' for operator in own)
        yield "  end"
    for table in file.tables:
        yield f'  {table.table}[("{table.node}")]'


def _edges(file: DataflowFile) -> Iterator[str]:
    senders = {operator.address(output): operator.path for operator in file.operators for output in operator.outputs}
    senders |= {address: source.node for source in file.sources for address, _ in source.addresses()}
    for operator in file.operators:
        for one in operator.inputs:
            sender = senders.get(one.source, one.source)
            yield f"  {_name(sender)} -- {_label(operator, one.source, sender, one.id)} --> {_name(operator.path)}"
    for table in file.tables:
        sender = senders[table.input]
        yield f"  {_name(sender)} -- {table.input.removeprefix(f'{sender}/')} --> {table.table}"


def _label(operator: EventOperator, source: str, sender: str, own: str) -> str:
    """What an edge is called: the output, and the input where that has another name."""
    if sender in (source, operator.path):
        return own
    output = source.removeprefix(f"{sender}/")
    return output if output == own else f"{output} as {own}"


def _name(address: str) -> str:
    return table_of(address)
