"""What authors of operators test with.

:class:`OperatorHarness` drives an operator over Arrow batches without Spark; :func:`check_operator` tries what must hold for
every logical operator.
"""

from dagster_operators.testing.harness import OperatorHarness, Snapshot
from dagster_operators.testing.operator_kit import check_operator

__all__ = ["OperatorHarness", "Snapshot", "check_operator"]
