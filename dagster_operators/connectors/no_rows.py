"""The sink of a stream that has no rows: it is there so that the operator behind which the stream is has work to do."""

from __future__ import annotations

from dagster_operators.connectors.sink import Sink, SinkAttempt, SinkRows
from dagster_operators.graph.slice import JSON


class NoRows(Sink):
    """Takes part in commits and does nothing.

    >>> NoRows().config()
    {'sink': 'NoRows'}
    """

    def write(self, rows: SinkRows, attempt: SinkAttempt) -> JSON:  # noqa: ARG002 - there are none
        """Nothing."""
        return None

    def prepare(self, epoch: int, commit_data: JSON, generation: int) -> None:
        """Nothing."""

    def commit(self, epoch: int, commit_data: JSON) -> None:
        """Nothing."""

    def abort(self, epoch: int, generation: int) -> None:
        """Nothing."""

    def recover(self, decided_epoch: int, generation: int) -> None:
        """Nothing."""
