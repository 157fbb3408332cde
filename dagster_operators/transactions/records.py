"""The ledger's records. Each is one row; together, in order, they are all the protocol ever knows.

>>> plan = PlanRecord("p", ())
>>> record = Begin(epoch=1, generation=1, begin_id="b", slices=Slices(), watermarks={}, base_versions={}, plan=plan)
>>> from_body("begin", body(record)) == record
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, TypeAlias

from dagster_operators.errors import DamagedLedgerError, LedgerError, LedgerVersionError
from dagster_operators.graph.slice import JSON
from dagster_operators.time.frontier import Frontier
from dagster_operators.transactions.codec import MADE_WHOLE, added, from_json, to_json
from dagster_operators.transactions.manifest import CheckOutcome, Manifest, TableTime
from dagster_operators.transactions.names import Dataset, Digest, Json, Part
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.plan import PlanRecord, Slices
from dagster_operators.transactions.transition import Transition


@dataclass(frozen=True)
class Format:
    """The first record: the version of the format and which pipeline this is.

    Attributes:
        pipeline: A uuid made with the ledger; tables carry it, so that a deleted and recreated ledger does not fit them.
        name: The pipeline's name.
    """

    kind: ClassVar[str] = "format"
    epoch: ClassVar[int] = 0
    generation: ClassVar[int] = 0
    format: int
    pipeline: Part
    name: Part


@dataclass(frozen=True)
class Generation:
    """An owner took over; records of a lower generation are refused from here on."""

    kind: ClassVar[str] = "generation"
    epoch: ClassVar[int] = 0
    generation: int
    owner: Owner


@dataclass(frozen=True)
class Begin:
    """An epoch began. The last one of an undecided epoch counts; the same ``begin_id`` again means only the plan changed.

    Attributes:
        watermarks: Per source, and per operator that holds time, as the epoch begins.
        held: The times that operators hold at their outputs then, by stream.
        transition: What the epoch makes of the pipeline instead of computing something; None for all others.
        decided: What was decided before it and waits for the epoch after it, as this one computes nothing.
    """

    kind: ClassVar[str] = "begin"
    epoch: int
    generation: int
    begin_id: str
    slices: Slices
    watermarks: Mapping[str, int]
    base_versions: Mapping[Dataset, int]
    plan: PlanRecord
    held: Mapping[str, Frontier] = added(2, {})
    transition: Transition | None = added(2, None)  # noqa: RUF009 - a field, as the others
    decided: tuple[Decide, ...] = added(2, ())


@dataclass(frozen=True)
class Prepared:
    """An attempt at a stage wrote its manifest.

    Attributes:
        stage: The stage, or the text of its :class:`~dagster_operators.transactions.stage_keys.StageKey`.
        digest: The SHA-256 of the manifest's text.
        goes_round: How many of its rows go round to the next round of its loop.
    """

    kind: ClassVar[str] = "prepared"
    epoch: int
    generation: int
    begin_id: str
    stage: Part
    attempt: Part
    fingerprint: str
    reads: Mapping[Part, Part]
    digest: str
    goes_round: int = added(2, 0)


@dataclass(frozen=True)
class Decision:
    """The epoch will be committed: the one atomic point. It holds all that is needed to carry it out.

    Attributes:
        manifests: The one manifest of each stage, in topological order.
        expected: The version of each dataset once the epoch is complete.
    """

    kind: ClassVar[str] = "decision"
    epoch: int
    generation: int
    begin_id: str
    manifests: tuple[Manifest, ...]
    expected: Mapping[Dataset, int]


@dataclass(frozen=True)
class Complete:
    """The epoch is complete: all tables are at ``versions``.

    Attributes:
        offsets: Where each source stands at the end of the epoch.
        watermarks: Per source, and per operator that holds time, at the end of the epoch.
        finished: Sources that have nothing more to give.
        rows: Rows per output, as are ``late_rows`` per operator and ``rejected_rows``.
        started_at: When the epoch began and ``committed_at`` when it was complete, in seconds since 1970.
        seconds: Per stage.
        fingerprints: Of each dataset: what must not change.
        sources: The fingerprint of each source, which gives ``offsets`` their meaning.
        last_epochs: The last epoch that committed to each dataset, as the dataset's application transaction says.
        external: External participants of the epoch.
        schemas: The schema of each source and lookup table, pinned from the first epoch on.
        horizon: The oldest epoch that could be read then.
        metrics: Figures that operators report, as ``operator.figure``.
        held: The times that operators hold at their outputs at the end of the epoch, by stream.
        logical_plan: What the logical plan that the storage root keeps is called; empty when none was kept.
        identities: What the state of an operator is addressed by, of those where that is not the operator's name.
        parts: What the state of further parts of an operator is addressed by, in this epoch or one before, with what the
            operator's own is.
        transition: What the epoch did instead of computing something, for people; empty for all others.
        holders: What of operators holds which times, by stream, by what the user calls it; not told behind a transition.
        sinks: The last epoch that each external participant has something of, of those epochs that lead here.
        times: How far time has come in each table of the plan with an event time.
        contents: What the files of each dataset sum up to (``content_sums.py``), where that is known.
    """

    kind: ClassVar[str] = "complete"
    epoch: int
    generation: int
    begin_id: str
    owner: Owner
    versions: Mapping[Dataset, int]
    offsets: Mapping[str, JSON]
    watermarks: Mapping[str, int]
    finished: tuple[str, ...]
    rows: Mapping[str, int]
    late_rows: Mapping[str, int]
    rejected_rows: Mapping[str, int]
    started_at: float
    committed_at: float
    seconds: Mapping[str, float]
    plan: str
    fingerprints: Mapping[str, Json]
    sources: Mapping[str, str]
    last_epochs: Mapping[Dataset, int]
    checks: tuple[CheckOutcome, ...] = ()
    external: tuple[str, ...] = ()
    schemas: Mapping[str, Json] = field(default_factory=dict)
    horizon: int = 1
    metrics: Mapping[str, float] = field(default_factory=dict)
    held: Mapping[str, Frontier] = added(2, {})
    logical_plan: Digest = added(2, "")  # noqa: RUF009 - a field, as the others
    identities: Mapping[str, str] = added(2, {})
    parts: Mapping[str, str] = added(2, {})
    transition: str = added(2, "")
    holders: Mapping[str, Mapping[str, Frontier]] = added(2, {})
    sinks: Mapping[str, int] = added(2, {})
    times: Mapping[str, TableTime] = added(2, {})
    contents: Mapping[Dataset, str] = added(2, {})


@dataclass(frozen=True)
class Repair:
    """A table that was found at another version than expected was accepted or put back; ``version`` is expected from here on.

    Attributes:
        applied_epoch: The table's application transaction then: the last of our epochs that is in it.
        commit: The digest of the version's log entry, which tells it from another one of the same number; empty when unknown.
    """

    kind: ClassVar[str] = "repair"
    epoch: int
    generation: int
    dataset: Dataset
    keep: Literal["ours", "theirs"]
    found_version: int
    version: int
    applied_epoch: int
    commit: str = added(2, "")


@dataclass(frozen=True)
class Clean:
    """Files that only epochs before this one needed may be gone from here on."""

    kind: ClassVar[str] = "clean"

    epoch: int
    generation: int


@dataclass(frozen=True)
class Decide:
    """Somebody decided what is to become of a source, operator or table that changed, or left the pipeline.

    The next epoch carries it out, if the change is still the one that it answers; a later decision about the same question takes
    its place. When that epoch is complete, the ledger knows the pipeline as it became.

    Attributes:
        epoch: The last completed epoch then.
        subject: What it is about, as ``source landed``, ``operator per_key``, ``table totals``.
        choice: ``keep`` what there is, ``restart`` from nothing, or ``drop`` what is left; ``withdraw`` takes a decision back.
        question: Which change it answers.
        emptied: The datasets that earlier versions of the package had emptied by then.
    """

    kind: ClassVar[str] = "decide"
    epoch: int
    generation: int
    subject: str
    choice: Literal["keep", "restart", "drop", "withdraw"]
    question: str
    emptied: tuple[Dataset, ...] = ()


@dataclass(frozen=True)
class Drop:
    """Datasets that the pipeline no longer has are forgotten, and deleted.

    Attributes:
        epoch: The last completed epoch then.
    """

    kind: ClassVar[str] = "drop"
    epoch: int
    generation: int
    datasets: tuple[Dataset, ...]


Record: TypeAlias = Format | Generation | Begin | Prepared | Decision | Complete | Repair | Clean | Decide | Drop

_KINDS: Final[Mapping[str, type[Record]]] = {
    kind.kind: kind for kind in (Format, Generation, Begin, Prepared, Decision, Complete, Repair, Clean, Decide, Drop)
}


@dataclass(frozen=True)
class Entry:
    """A record as it stands in the ledger: its place in the order, and when it was written (seconds since 1970)."""

    seq: int
    at: float
    record: Record = field(compare=True)


def body(record: Record) -> str:
    """The record's fields as JSON."""
    return to_json(record)


def from_body(kind: str, text: str) -> Record:
    """The record that ``body`` wrote.

    Raises:
        LedgerVersionError: The kind is not known to this version of the package.
        DamagedLedgerError: It is damaged.
    """
    if kind not in _KINDS:
        raise LedgerVersionError(f"the ledger has records of the unknown kind {kind!r}", remedy="upgrade dagster_operators")
    try:
        return from_json(_KINDS[kind], text)
    except LedgerVersionError:
        raise
    except LedgerError as error:
        raise DamagedLedgerError(f"a record of the ledger cannot be read: {error.problem}", remedy=MADE_WHOLE) from None
