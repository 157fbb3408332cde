"""``dagster-operators run``: epochs one after another, until nothing is new, for some time, or until somebody stops it."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from dagster_operators.api.events.clock import Clock
from dagster_operators.api.events.sender import Sender
from dagster_operators.cli.plans import epoch_json
from dagster_operators.errors import number_of

if TYPE_CHECKING:
    from dagster_operators.api.pipeline import Pipeline
    from dagster_operators.cli.kept_lines import KeptLines, Lines
    from dagster_operators.connectors.source_operator import SourceOperator
    from dagster_operators.runtime.results import EpochResult

_PAUSE: Final = 0.2
"""Seconds between two looks at sources that hold nothing new."""


class Running:
    """A pipeline that is run.

    Args:
        pipeline: The pipeline.
        limit: For how many seconds from the end of the first epoch it goes on when its sources hold nothing new.
        lines: Lines as they come, and where they are kept for a source, if they are read; at their end the run ends.
        source: That source.
        as_json: Whether each epoch is told as JSON; then all else is told on standard error.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        limit: float,
        lines: tuple[Lines, KeptLines] | None = None,
        source: str | None = None,
        *,
        as_json: bool = False,
    ) -> None:
        self._pipeline = pipeline
        self._limit = limit
        self._lines = lines
        self._source = source
        self._as_json = as_json
        self._stopped = threading.Event()
        self._handlers: dict[int, Callable[[int, object], None]] = {}
        self._is_clocked = _reads(pipeline, Clock)
        self._sends = _reads(pipeline, Sender)
        self.count = 0

    def run(self) -> int:
        """Run epochs, until the pipeline is stopped if it goes on; how many there were."""
        self._run()
        if self._limit:
            self._tell(self._pipeline.stop(ended=self._source if self._source and self._is_over() else ()))
        return self.count

    def _run(self) -> None:
        end = float("inf")
        self._keep(0)
        while True:
            result = self._pipeline.run_epoch()
            self._handle()
            end = min(end, time.monotonic() + self._limit)
            self._tell(result)
            if self._stopped.is_set():
                return
            more = self._keep(0)
            if (result.empty or self._is_clocked) and not more:
                if time.monotonic() >= end or self._is_over():
                    return
                self._keep(_PAUSE)
            elif self._sends and self._limit and time.monotonic() >= end:
                return

    def _tell(self, result: EpochResult) -> None:
        """Say what an epoch did, if there was one."""
        if result.empty:
            return
        self.count += 1
        if self._as_json:
            click.echo(json.dumps(epoch_json(result)))
        else:
            rows = ", ".join(f"{table} {rows}" for table, rows in result.rows.items() if rows)
            click.echo(f"epoch {result.epoch}: {rows or 'no rows'} ({sum(result.seconds.values()):.1f} s)")
        self._tell_ignored(result)

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Within it Ctrl-C and SIGTERM end the run behind the epoch that it is at; a second one ends it at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, _frame: object) -> None:
            self._stopped.set()
            self._handlers.pop(number, None)
            signal.signal(number, before[signal.Signals(number)])

        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._handlers = dict.fromkeys(before, stop)
            self._handle()
            yield
        finally:
            self._handlers = {}
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self) -> None:
        """Be told of signals, also where an engine that another thread started since would end with them, as Sail's server."""
        for number, handler in list(self._handlers.items()):  # one that comes meanwhile takes its own out
            if number in self._handlers:
                signal.signal(number, handler)

    def _keep(self, seconds: float) -> bool:
        """Keep the lines that have come, or come in some seconds; whether there were any."""
        if self._lines is None:
            self._stopped.wait(seconds)
            return False
        lines, kept = self._lines
        found = lines.take(seconds)
        if found:
            kept.keep(found)
            click.echo(f"{number_of(kept.count, 'line')} {'is' if kept.count == 1 else 'are'} kept", err=self._as_json)
        return bool(found)

    def _tell_ignored(self, result: EpochResult) -> None:
        """Say which outputs messages were sent to that the file does not declare."""
        from dagster_operators.operators.events.event_program import IGNORED

        for name, count in sorted(result.metrics.items()):
            _, _, figure = name.partition(".")
            if figure.startswith(IGNORED):
                address = figure.removeprefix(IGNORED)
                told = (
                    f"{address} is sent, and is not declared: {count:.0f} messages are ignored; add it to outputs: to keep them"
                )
                click.echo(f"warning: {told}", err=True)

    def _is_over(self) -> bool:
        return self._lines is not None and self._lines[0].is_over


def _reads(pipeline: Pipeline, kind: type[SourceOperator]) -> bool:
    """Whether a pipeline reads a source of a kind that may always have something new, so that no epoch is empty.

    Such are the clock of a dataflow of timers alone, and a node without inputs.
    """
    sources = [node.operator for node in pipeline.dataflow if node.operator.kind == "source"]
    return any(isinstance(getattr(source.connector, "operator", None), kind) for source in sources)  # type: ignore[attr-defined]
