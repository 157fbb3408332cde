"""What an epoch is made of: the plan as far as the commit protocol needs it, the slices read, and the handle on the epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from dagster_operators.graph.slice import SourceSlice
from dagster_operators.transactions.codec import added, from_json, to_json
from dagster_operators.transactions.names import Dataset, Digest, Json, Part

_REPEATED: Final = frozenset({"slices", "watermarks", "base_versions", "held", "transition"})
"""What handles of earlier versions had of the begin record."""

EPOCH_FOLDER = "e{epoch}-{attempt}"
"""The folder of an attempt's files inside each dataset it writes."""

EXCHANGES: Final = ".exchanges"
"""The end of the name of a stream that has no rows of an output, but those that the tasks of a stage hand to each other."""

EPOCH_EXCHANGES: Final = "e{epoch}"
"""The folder of an epoch inside such a stream, until the epoch is complete. It has a folder for each attempt, which outlives the
attempt: the next one may go on with its rows."""

STATE_OF = "state_of"
"""In the fingerprint of a table that is the state of an operator: the operator's name."""


@dataclass(frozen=True)
class StageRecord:
    """A stage: its name, what makes its manifests reusable, and the stages it reads.

    Attributes:
        loop: The loop that it is in, so that it runs in rounds; empty for others.
        feedback: In a loop, the stages whose rows of the round before it reads.
    """

    name: Part
    fingerprint: str
    upstream: tuple[str, ...] = ()
    loop: str = added(2, "")
    feedback: tuple[str, ...] = added(2, ())


@dataclass(frozen=True)
class DatasetRecord:
    """A table or a state table.

    Attributes:
        schema_json: Its columns as the JSON of a Spark ``StructType``.
        kind: ``append`` tables only grow, ``updating`` and replaced ones replace files, ``state`` is an operator's.
        fingerprint: What must not change between epochs beside the columns, because the stored data depends on it: a JSON
            object; empty when there is no such thing.
        evolves: Whether its owner reads files of older columns too, so that the columns may change; the Delta table keeps telling
            those it was created with.
        change_feed: Whether Delta readers can ask what each version did to the rows.
        partition_by: The columns of which each file has one value.
        cluster_by: The columns by which a compaction orders its rows.
        target_file_size: About so many bytes a file has that a compaction writes; 0 for the default.
        by_name: Of state, whether the order of its columns means nothing; that of others says who is first of rows that tie.
        may_lack: Of state, columns that files of earlier versions do not have, where they are null.
    """

    schema_json: Json
    kind: Literal["append", "updating", "state"]
    description: str = ""
    fingerprint: Json = ""
    evolves: bool = False
    change_feed: bool = added(2, False)  # noqa: FBT003 - a field, as the others
    partition_by: tuple[str, ...] = added(2, ())
    cluster_by: tuple[str, ...] = added(2, ())
    target_file_size: int = added(2, 0)
    by_name: bool = added(2, False)  # noqa: FBT003 - a field, as the others
    may_lack: tuple[str, ...] = added(2, ())


@dataclass(frozen=True)
class PlanRecord:
    """The plan of a pipeline.

    Attributes:
        fingerprint: Of the whole plan.
        stages: In topological order.
        sources: The fingerprint of each source: what gives its offsets their meaning.
        datasets: By dataset name, ``tables/<table>`` or ``state/<operator>.<state>``.
        schemas: The schema of each source and lookup table, pinned once it was inferred, as the JSON of a Spark ``StructType``.
        operators: What the states of all physical operators are addressed by.
        logical: What the logical plan that the storage root keeps is called; empty when none was kept.
        identities: What the state of an operator is addressed by, of those where that is not the operator's name.
        origins: What the last completed epoch called a source or an operator that has another name now; empty for one that
            takes nothing over from that epoch.
        parts: What the state of further parts that an operator is lowered to is addressed by, with what the operator's own is.
        emptied: The tables that begin from nothing with the epoch.
        deleted: The datasets that nobody uses any more once the epoch is complete, and that are deleted then.
        choices: The way that was taken of doing an operator's work, by the operator's name, where another one may be taken.
        loops: Of loops that are within others, the one that each is in.
        ends: Of loops that end though rows go round, after how many rounds each does.
    """

    fingerprint: str
    stages: tuple[StageRecord, ...]
    sources: Mapping[str, str] = field(default_factory=dict)
    datasets: Mapping[Dataset, DatasetRecord] = field(default_factory=dict)
    schemas: Mapping[str, Json] = field(default_factory=dict)
    operators: tuple[str, ...] = ()
    logical: Digest = added(2, "")  # noqa: RUF009 - a field, as the others
    identities: Mapping[str, str] = added(2, {})
    origins: Mapping[str, str] = added(2, {})
    parts: Mapping[str, str] = added(2, {})
    loops: Mapping[str, str] = added(2, {})
    emptied: tuple[Dataset, ...] = added(2, ())
    deleted: tuple[Dataset, ...] = added(2, ())
    choices: Mapping[str, str] = added(2, {})
    ends: Mapping[str, int] = added(2, {})

    def loops_around(self, stage: StageRecord) -> tuple[str, ...]:
        """The loops that a stage is in, the outermost first."""
        found = [stage.loop] if stage.loop else []
        while found and (around := self.loops.get(found[0])):
            found.insert(0, around)
        return tuple(found)

    def stage(self, name: str) -> StageRecord:
        """The stage of that name (KeyError when there is none)."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise KeyError(name)


@dataclass(frozen=True)
class Slices:
    """What one epoch reads.

    Attributes:
        offsets: The slice of each source that has something new.
        finished: Sources that have nothing after this epoch, ever: their watermark becomes infinite.
        idle: Sources from which nothing is to be expected for now: their watermark goes along with the others'.
        watermarks: How far the watermarks of sources are at the end of the epoch at least, whatever was read.
        timed: Sources whose event times were looked at when they were read before: nobody looks at them again.
        stops: Whether the pipeline is stopped with this epoch, which reads nothing: event operators are told.
        ended: Sources of which nothing more comes until the pipeline is run again.
    """

    offsets: Mapping[str, SourceSlice] = field(default_factory=dict)
    finished: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()
    watermarks: Mapping[str, int] = added(2, {})
    timed: frozenset[str] = added(2, frozenset())
    stops: bool = added(2, default=False)
    ended: frozenset[str] = added(2, frozenset())


@dataclass(frozen=True)
class EpochHandle:
    """An epoch that has begun, as the steps of a run hand it on: what its begin record in the ledger is found by.

    It is as small however much the epoch reads; what that is, is in the record alone.

    Attributes:
        generation: Under which the holder writes.
        begin_id: Which begin of the epoch this is; an epoch begun anew (other slices, other base) has another.

    >>> handle = EpochHandle("flights", "/data/flights", 1, 1, "a1b2")
    >>> EpochHandle.from_json(handle.to_json()) == handle
    True
    """

    pipeline: str
    root: str
    epoch: int
    generation: int
    begin_id: str

    def to_json(self) -> str:
        """The handle as JSON, to be passed between processes."""
        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> EpochHandle:
        """The handle that ``to_json`` wrote; of one of an earlier version, which repeated the begin record, what names it."""
        return from_json(cls, text, without=_REPEATED)
