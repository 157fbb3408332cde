"""What authors of operators test with.

:class:`OperatorHarness` drives an operator over Arrow batches without Spark; :func:`check_operator` tries what must hold for
every logical operator.
"""

from typing import Final

from dagster_operators.testing.harness import HarnessSnapshot, OperatorHarness
from dagster_operators.testing.operator_kit import check_operator

Snapshot: Final = HarnessSnapshot
"""The name that it had, which that of a pipeline has too."""

__all__ = ["HarnessSnapshot", "OperatorHarness", "Snapshot", "check_operator"]
