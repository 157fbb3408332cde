"""What authors of operators test with: :class:`OperatorHarness` drives an operator without Spark."""

from dagster_operators.testing.harness import OperatorHarness, Snapshot

__all__ = ["OperatorHarness", "Snapshot"]
