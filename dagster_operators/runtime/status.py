"""How a pipeline stands, as its storage root tells: for the command line, without an engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import number_of
from dagster_operators.runtime.rebuild_folder import runs_of
from dagster_operators.runtime.results import table_names
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK, format_timestamp
from dagster_operators.transactions.lost import repair_command
from dagster_operators.transactions.stage_keys import pieces

if TYPE_CHECKING:
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.view import LedgerView


@dataclass(frozen=True)
class OpenEpoch:
    """An epoch that has begun and is not complete.

    Attributes:
        epoch: Its number.
        state: ``begun``; ``prepared``: all its stages are; ``decided``: it will be committed, whoever goes on with it.
        prepared: The stages that are prepared.
        missing: Those that are not.
    """

    epoch: int
    state: str
    prepared: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Status:
    """How a pipeline stands.

    Attributes:
        pipeline: Its name.
        root: Its storage root.
        epoch: The last completed epoch; 0 before the first.
        committed_at: When that was.
        oldest_epoch: The oldest epoch that can be read.
        rows: How many rows each table holds.
        versions: The Delta version of each table.
        watermarks: Of each source that has one.
        finished: Sources that have nothing more to give.
        open: The epoch that is under way.
        at_work: Who works on the pipeline; empty when nobody does.
        wrong: Tables and states that are not as the ledger says; ``repair`` settles them.
    """

    pipeline: str
    root: str
    epoch: int = 0
    committed_at: str = ""
    oldest_epoch: int = 1
    rows: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    watermarks: Mapping[str, str] = field(default_factory=dict)
    finished: tuple[str, ...] = ()
    open: OpenEpoch | None = None
    at_work: str = ""
    wrong: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """For people.

        >>> list(Status("flights", "data/flights").lines())
        ['pipeline flights in data/flights', 'no epoch is complete', 'nobody is at work']
        """
        yield f"pipeline {self.pipeline} in {self.root}"
        if not self.epoch:
            yield "no epoch is complete"
        else:
            yield f"epoch {self.epoch} was completed at {self.committed_at}; readable from epoch {self.oldest_epoch}"
        for name, version in self.versions.items():
            rows = (
                f"{number_of(self.rows[name], 'row')}, version {version}" if name in self.rows else "it is not as the ledger says"
            )
            yield f"  table {name}: {rows}"
        for name, watermark in self.watermarks.items():
            yield f"  source {name}: watermark {watermark}"
        if self.open is not None:
            waits = f", not prepared: {', '.join(self.open.missing)}" if self.open.missing else ""
            yield f"epoch {self.open.epoch} is {self.open.state}{waits}"
        yield f"{self.at_work} is at work" if self.at_work else "nobody is at work"
        for name in (dataset.removeprefix("tables/") for dataset in self.wrong):
            yield f"WRONG: {name} is not as the ledger says; to settle it:"
            yield f"    {repair_command(self.root, name)}"


def status_of(coordinator: Coordinator) -> Status:
    """How a pipeline stands.

    Raises:
        DamagedLedgerError: The ledger has lost something.
    """
    view = coordinator.view()
    owner = coordinator.owner_at_work() or runs_of(coordinator.root, coordinator.pipeline).owner_at_work()
    last, wrong = view.last_complete, coordinator.wrong_tables()
    versions = table_names(coordinator.versions().versions) if last else {}
    sound = {name: version for name, version in versions.items() if f"tables/{name}" not in wrong}
    return Status(
        coordinator.pipeline,
        coordinator.root.uri,
        epoch=view.last_epoch,
        committed_at=format_timestamp(int(last.committed_at) * 1_000_000) if last else "",
        oldest_epoch=view.horizon,
        rows={name: sum(file.rows for file in coordinator.files(f"tables/{name}", at)) for name, at in sound.items()},
        versions=versions,
        watermarks=_watermarks(view),
        finished=tuple(last.finished) if last else (),
        open=_open(view),
        at_work=str(owner) if owner else "",
        wrong=tuple(wrong),
    )


def _watermarks(view: LedgerView) -> dict[str, str]:
    last = view.last_complete
    known = {name: mark for name, mark in last.watermarks.items() if name in last.sources} if last else {}
    told = {MAX_WATERMARK: "end: the source is finished"}
    return {name: told.get(mark) or format_timestamp(mark) for name, mark in known.items() if mark != MIN_WATERMARK}


def _open(view: LedgerView) -> OpenEpoch | None:
    begin = view.open_begin
    if begin is None:
        return None
    wanted, missing = pieces(begin.plan, view.prepared)
    state = "decided" if view.decision else "begun" if missing else "prepared"
    return OpenEpoch(begin.epoch, state, tuple(wanted), tuple(missing))
