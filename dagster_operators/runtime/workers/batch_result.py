"""What the batch operators of a stage did in an epoch, put together from the reports of the subtasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.worker_program import Report, add_figures
from dagster_operators.time.frontier import FINISHED, Frontier, meet
from dagster_operators.transactions.codec import decode
from dagster_operators.transactions.manifest import Change, FileEntry


@dataclass
class BatchResult:
    """What the batch operators of a stage did in an epoch.

    Attributes:
        files: The files of each (operator, port) that somebody reads.
        states: What the commit is to do to the state tables.
        watermarks: The output watermark of each operator, the least of its subtasks'.
        held_at: What each operator holds at its outputs, by port: all that its subtasks hold.
        holders: What of each operator holds which times, by the output's stream, by what the user calls it.
        held: The same as a manifest has it, of those of which the watermark does not say it.
        late: Late rows of each operator.
        rejected: Rejected rows of each operator.
        metrics: Figures of each operator, as ``operator.figure``.
        commit_data: For each operator that commits what its subtasks left, by subtask.
    """

    files: dict[tuple[str, str], list[FileEntry]] = field(default_factory=lambda: defaultdict(list))
    states: list[Change] = field(default_factory=list)
    watermarks: dict[str, int] = field(default_factory=dict)
    held_at: dict[str, dict[str, Frontier]] = field(default_factory=lambda: defaultdict(dict))
    held: dict[str, Frontier] = field(default_factory=dict)
    holders: dict[str, dict[str, Frontier]] = field(default_factory=lambda: defaultdict(dict))
    late: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    rejected: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    metrics: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    commit_data: dict[str, dict[str, Any]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, told: Mapping[str, Any]) -> None:
        """Add what a subtask reported, except for its state."""
        for operator, port, entry in told["files"]:
            self.files[operator, port].append(decode(FileEntry, entry))
        for operator, report in told["programs"].items():
            self._add(operator, str(told["subtask"]), Report.from_json(report))

    def _add(self, operator: str, subtask: str, report: Report) -> None:
        self.watermarks[operator] = min(report.watermark, self.watermarks.get(operator, report.watermark))
        for port, held in report.held.items():
            self.held_at[operator][port] = meet([held, self.held_at[operator].get(port, FINISHED)])
        for port, places in report.holders.items():
            found = self.holders[str(StreamRef(operator, port))]
            found |= {place: meet([times, found.get(place, FINISHED)]) for place, times in places.items()}
        self.late[operator] += report.late
        self.rejected[operator] += report.rejected
        add_figures(self.metrics, report.metrics, f"{operator}.")
        if report.commit_data is not None:
            self.commit_data[operator][subtask] = report.commit_data
