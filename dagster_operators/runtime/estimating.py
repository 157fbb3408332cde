"""How much operators read, as the last epoch was: what choices between ways of doing their work are made by.

All of it lies in the ledger and in what sources note of the files of a slice; nothing is read for it. What is not known is left
out, and the choice is then the operator's author's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from dagster_operators.errors import OperatorsError
from dagster_operators.graph.alternatives import PREFERRED, CostModel
from dagster_operators.graph.sizes import BySize, Sizes
from dagster_operators.planner.lowering import way_now

if TYPE_CHECKING:
    from dagster_operators.connectors.connector import Connector
    from dagster_operators.graph.dataflow import Dataflow
    from dagster_operators.planner.plan import Plan
    from dagster_operators.transactions.plan import Slices
    from dagster_operators.transactions.view import LedgerView


def estimate(dataflow: Dataflow, view: LedgerView, connector: Callable[[str], Connector | None], parallelism: int) -> None:
    """Let a dataflow choose ways by the sizes of the last epoch, unless its author gave it another cost model.

    Args:
        dataflow: The dataflow.
        view: The ledger.
        connector: The connector of a source or lookup.
        parallelism: How many parts there are.
    """
    before = view.last_read
    if before is None or not (dataflow.cost_model is PREFERRED or isinstance(dataflow.cost_model, BySize)):
        return
    asked = dict(_sizes(dataflow, before, connector))
    model = BySize(asked, parallelism)
    if asked and model != dataflow.cost_model:
        dataflow.cost_model = model


def goes_otherwise(made: Plan, costs: CostModel) -> bool:
    """Whether an operator of a plan would go another way by the sizes that are known now."""
    known = made.physical.nodes
    choices = {name: known[name].choice for name in costs.sizes if name in known} if isinstance(costs, BySize) else {}
    return any(choice is not None and way_now(made.dataflow, name) != choice.taken for name, choice in choices.items())


def _sizes(dataflow: Dataflow, read: Slices, connector: Callable[[str], Connector | None]) -> Iterator[tuple[str, Sizes]]:
    """How much those operators read that choose by it: at most all of the sources that their rows come from."""
    choosing = [node for node in dataflow if node.operator.chooses_by_size]
    if not choosing:
        return
    sources: dict[str, frozenset[str]] = {}
    for node in dataflow:
        before = (sources.get(stream.operator, frozenset({stream.operator})) for stream in node.inputs)
        sources[node.name] = frozenset().union(*before) if node.inputs else frozenset({node.name})

    @cache
    def size_of(name: str) -> int | None:
        return bytes_read(read, connector(name), name, dataflow.renamed.get(name, name))

    def all_of(names: frozenset[str]) -> int | None:
        sizes = [size for name in names if (size := size_of(name)) is not None]
        return sum(sizes) if len(sizes) == len(names) else None

    for node in choosing:
        yield node.name, Sizes(tuple(all_of(sources[stream.operator]) for stream in node.inputs), size_of(node.name))


def bytes_read(read: Slices, connector: Connector | None, *names: str) -> int | None:
    """The bytes that an epoch read of a source or a lookup table; none of a source that had nothing new."""
    piece = next((read.offsets[name] for name in names if name in read.offsets), None)
    if connector is None or piece is None or piece.items is None:
        return None
    try:
        return connector.bytes_of(piece.items)
    except OperatorsError:  # what is gone since then is found when it is read
        return None
