"""Tables of changes that are computed anew with others: which changes they have depends on how rows are cut into epochs.

A row that came in one epoch and went in the next is two changes. Where one epoch reads both, as in a rebuild, it is none.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from dagster_operators.runtime.left_out import leading_to_now
from dagster_operators.transactions.transition import unfinished_in

if TYPE_CHECKING:
    from dagster_operators.graph.restricted import Part
    from dagster_operators.runtime.epochs import Epochs
    from dagster_operators.transactions.records import Complete

_log = logging.getLogger(__name__)

AS_IT_CUT: Final = ", epochs_at_once=1"
"""What else to give a rebuild so that it cuts what was read as the pipeline did."""


def logs_beside(epochs: Epochs, part: Part) -> tuple[str, ...]:
    """The tables of changes that would be computed anew, though nobody named them, and could then have fewer changes.

    Args:
        epochs: The pipeline's.
        part: What would be computed anew.
    """
    dataflow, there = epochs.planning.plan().dataflow, epochs.coordinator.view().versions.keys()
    found = [table for name in part.beside if dataflow.type_of((table := dataflow.tables[name]).stream).retracting]
    logs = tuple(one.name for one in found if {f"tables/{one.name}", f"tables/{one.renamed_from}"} & there)
    return logs if logs and was_cut(epochs, dataflow.nodes.keys() - part.operators) else ()


def warn_of_logs(epochs: Epochs, part: Part, at_once: int) -> None:
    """Warn of such tables before a rebuild: what was asked for was another table.

    Args:
        epochs: The pipeline's.
        part: What is computed anew.
        at_once: Of how many epochs one epoch of the rebuild reads at most.
    """
    if at_once > 1 and (logs := logs_beside(epochs, part)):
        _log.warning(
            "%s of the pipeline %s: computed anew, too, as it shows the same state, and has then the changes of fewer epochs "
            "(earlier epochs of it can still be read). To have the changes of each epoch: rebuild with epochs_at_once=1",
            ", ".join(logs), epochs.coordinator.pipeline,
        )  # fmt: skip


def was_cut(epochs: Epochs, others: Collection[str]) -> bool:
    """Whether more than one epoch did something that leads to the tables.

    Args:
        epochs: The pipeline's.
        others: The operators of now that do not lead to them.
    """

    def done(complete: Complete) -> str:
        figures = complete.offsets, complete.watermarks, unfinished_in(complete.metrics)
        kept = [{name: one for name, one in each.items() if name.partition(".")[0] not in others} for each in figures]
        return json.dumps(kept, sort_keys=True, default=str)

    return len({done(complete) for complete, _ in leading_to_now(epochs.coordinator)}) > 1
