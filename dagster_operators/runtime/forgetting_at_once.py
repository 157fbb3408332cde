"""Operators that forget keys, in a rebuild: they forget at the end of an epoch, and a rebuild has fewer epochs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dagster_operators.operators.forgetful import Forgetful
from dagster_operators.runtime.logs_beside import was_cut

if TYPE_CHECKING:
    from dagster_operators.graph.operator import LogicalOperator
    from dagster_operators.graph.restricted import Part
    from dagster_operators.runtime.epochs import Epochs

_log = logging.getLogger(__name__)


def warn_of_forgetting(epochs: Epochs, part: Part, at_once: int) -> None:
    """Warn before a rebuild in which keys are remembered that the pipeline's epochs would have forgotten.

    Args:
        epochs: The pipeline's.
        part: What is computed anew.
        at_once: Of how many epochs one epoch of the rebuild reads at most.
    """
    nodes = epochs.planning.plan().dataflow.nodes
    found = [name for name in sorted(part.operators) if _forgets(nodes[name].operator)]
    if at_once > 1 and found and was_cut(epochs, nodes.keys() - part.operators):
        _log.warning(
            "%s of the pipeline %s: forgets keys when an epoch ends, and up to %d epochs are read at once: a key that came back "
            "between them goes on with what it had. To have keys forgotten as in the epochs: rebuild with epochs_at_once=1",
            ", ".join(found), epochs.coordinator.pipeline, at_once,
        )  # fmt: skip


def _forgets(operator: LogicalOperator) -> bool:
    return isinstance(operator, Forgetful) and operator.forget_after is not None
