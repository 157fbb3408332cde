"""Stopping a pipeline: event operators are told, in an epoch that reads nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from dagster_operators.errors import PipelineError
from dagster_operators.operators.events.stopped import EVENT_OPERATORS, STOPPED
from dagster_operators.operators.relational.source import Source
from dagster_operators.runtime.results import EpochResult

if TYPE_CHECKING:
    from dagster_operators.graph.dataflow import Dataflow
    from dagster_operators.runtime.epochs import Epochs
    from dagster_operators.transactions.plan import Slices
    from dagster_operators.transactions.view import LedgerView


class Stopping:
    """The method of a pipeline that stops it."""

    if TYPE_CHECKING:

        @property
        def name(self) -> str:
            """The pipeline's name."""

        @property
        def dataflow(self) -> Dataflow:
            """The graph."""

        @property
        def epochs(self) -> Epochs:
            """The steps of an epoch."""

        def _run_epoch(
            self,
            wait_seconds: float,
            watermarks: Mapping[str, int] | None = None,
            choose: Callable[[LedgerView], Slices | None] | None = None,
        ) -> EpochResult: ...

    def stop(self, *, ended: str | Collection[str] = (), wait_seconds: float = 0) -> EpochResult:
        """Tell event operators that the pipeline is stopped: they get ``STOP``, and what they send then is in their tables.

        That is done in an epoch of its own, which reads nothing, and is taken up by the next run if it was begun and not
        committed. When the pipeline is run again, operators go on with the state that was saved when they had been told.

        Args:
            ended: Sources of which nothing more comes until then: what reads them gets ``INPUT_CLOSED`` first.
            wait_seconds: How long to wait for another run of the pipeline to end.

        Returns:
            The epoch; ``empty`` where there are no event operators, or where no epoch has run since they were told.

        Raises:
            PipelineError: There is no such source.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)]], schema="v long")).to_table("kept")
        >>> pipeline.run_epoch().empty, pipeline.stop().empty  # there is nobody to be told
        (False, True)
        >>> folder.cleanup()
        """
        names = (ended,) if isinstance(ended, str) else tuple(ended)
        for name in names:
            node = self.dataflow.nodes.get(name)
            if node is None or not isinstance(node.operator, Source):
                raise PipelineError("there is no such source", pipeline=self.name, source=name, remedy="name a source")
        while True:
            choosing = _Choosing(self.epochs, names, is_told=self._is_told())
            result = self._run_epoch(wait_seconds, choose=choosing.choose)
            if result.empty or choosing.stops:
                return result

    def _is_told(self) -> bool:
        """Whether there is nobody who is to be told that the pipeline is stopped, unless an epoch is open."""
        last = self.epochs.coordinator.past.last_computed()
        operators = [name for name, node in self.dataflow.nodes.items() if node.operator.kind == EVENT_OPERATORS]
        return last is None or all(f"{name}.{STOPPED}" in last.metrics for name in operators)


class _Choosing:
    """Chooses what the epoch reads: that of one that is open, or nothing.

    Attributes:
        stops: Whether the pipeline is stopped with the epoch that was chosen last.
    """

    def __init__(self, epochs: Epochs, ended: Collection[str], *, is_told: bool) -> None:
        self._epochs = epochs
        self._ended = ended
        self._is_told = is_told
        self.stops = False

    def choose(self, view: LedgerView) -> Slices | None:
        if self._is_told and view.open_begin is None:
            return None
        found = self._epochs.stopping(view, self._ended)
        self.stops = found.stops
        return found
