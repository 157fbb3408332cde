"""The past epochs of a ledger, read once per process and then only what is new."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dagster_operators.transactions.carrying import carried
from dagster_operators.transactions.records import Begin, Complete

if TYPE_CHECKING:
    from dagster_operators.graph.slice import SourceSlice
    from dagster_operators.transactions.ledger import DeltaLedger


class History:
    """Completed epochs, and what each of them read.

    The begin records hold the exact content of every slice, so the first call reads the whole ledger.
    """

    def __init__(self, ledger: DeltaLedger) -> None:
        self._ledger = ledger
        self._seen = 0
        self._completed: list[Complete] = []
        self._slices: dict[str, list[tuple[int, SourceSlice]]] = {}
        self._begun: dict[str, Begin] = {}

    def completed(self) -> list[Complete]:
        """All completed epochs, oldest first."""
        self._catch_up()
        return list(self._completed)

    def slices(self, source: str) -> Iterator[tuple[int, SourceSlice]]:
        """The slices of a source in the completed epochs, in order."""
        self._catch_up()
        return iter(tuple(self._slices.get(source, ())))

    def _catch_up(self) -> None:
        view = self._ledger.view()
        if view.entries and view.entries[0].seq <= self._seen + 1:
            entries = iter([entry for entry in view.entries if entry.seq > self._seen])
        else:
            entries = self._ledger.scan({Begin.kind, Complete.kind}, self._seen)
        for entry in entries:
            self._seen = entry.seq
            if isinstance(entry.record, Begin):
                self._begun[entry.record.begin_id] = entry.record
            elif isinstance(entry.record, Complete):
                self._add(entry.record)
        self._seen = max(self._seen, view.entries[-1].seq)

    def _add(self, complete: Complete) -> None:
        self._completed.append(complete)
        begin = self._begun[complete.begin_id]
        self._begun.clear()  # of other begins of the same epoch nothing was committed
        if begin.plan.origins:
            self._slices = carried(self._slices, begin.plan.origins)
        for source, part in begin.slices.offsets.items():
            self._slices.setdefault(source, []).append((complete.epoch, part))
