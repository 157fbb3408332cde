"""A world in memory for the protocol: the same compare-and-set as real storage, as one immutable value that can be hashed.

Records and manifests are interned: equal content has the same number, so that worlds are compared by numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from dagster_operators.errors import FencedError, LedgerError
from dagster_operators.graph.slice import SourceSlice
from dagster_operators.transactions import effects as fx
from dagster_operators.transactions.manifest import Change, FileEntry, Manifest
from dagster_operators.transactions.plan import DatasetRecord, PlanRecord, Slices, StageRecord
from dagster_operators.transactions.records import Entry, body
from dagster_operators.transactions.stage_keys import StageKey
from dagster_operators.transactions.tables import columns_of
from dagster_operators.transactions.view import LedgerView

PIPELINE = "uuid"
SCHEMA = '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}'
FACTS = "tables/facts"
SUMS = "tables/sums"


def plan_of(*stages: str, source: str = "s", sink: bool | str = False, upstream: Mapping[str, str] | None = None) -> PlanRecord:
    """A chain of stages; the first writes ``FACTS``, the last ``SUMS``.

    Args:
        stages: Their names.
        source: The source's fingerprint.
        sink: Marks the stages that write to the external sink: all of them, or these.
        upstream: What each stage reads (a letter for each stage), if they are no chain.
    """
    before = upstream or {stage: stages[index - 1] for index, stage in enumerate(stages) if index}
    marks = {stage: "+sink" if sink is True or (sink and stage in sink) else "" for stage in stages}
    records = tuple(StageRecord(stage, f"{stage}{marks[stage]}", tuple(before.get(stage, ()))) for stage in stages)
    datasets = {FACTS: DatasetRecord(SCHEMA, "append"), SUMS: DatasetRecord(SCHEMA, "updating")}
    return PlanRecord("-".join(stages), records, {"numbers": source}, datasets)


def looped(before: str, inside: str, after: str) -> PlanRecord:
    """A chain of stages (a letter for each); those inside go round: the first of them reads the last one's round before."""
    plan = plan_of(*before, *inside, *after)
    fed = {inside[0]: (inside[-1],)}
    records = (
        replace(record, loop="loop", feedback=fed.get(record.name, ())) if record.name in inside else record
        for record in plan.stages
    )
    return replace(plan, stages=tuple(records))


def nested(before: str, head: str, inside: str, tail: str, after: str) -> PlanRecord:
    """A chain of stages (a letter for each); from head to tail they go round, and in each round those inside within it."""
    plan = plan_of(*before, *head, *inside, *tail, *after)
    fed = {head[0]: (tail[-1],), inside[0]: (inside[-1],)}
    loops = {**dict.fromkeys((*head, *tail), "outer"), **dict.fromkeys(inside, "inner")}
    records = (
        replace(record, loop=loops[record.name], feedback=fed.get(record.name, ())) if record.name in loops else record
        for record in plan.stages
    )
    return replace(plan, stages=tuple(records), loops={"inner": "outer"})


ROUNDS = 2
"""In how many rounds loops come to rest."""


class Table(NamedTuple):
    """A table: the epochs committed to it in order, and the active files of each version."""

    commits: tuple[int, ...] = ()
    snapshots: tuple[frozenset[str], ...] = (frozenset(),)

    @property
    def files(self) -> frozenset[str]:
        return self.snapshots[-1]

    @property
    def version(self) -> int:
        return len(self.commits)

    @property
    def applied_epoch(self) -> int:
        return self.commits[-1] if self.commits else 0


class Sink(NamedTuple):
    """An external participant that keeps what is prepared by (epoch, data) and heeds the fencing token."""

    generation: int = 0
    prepared: frozenset[tuple[int, str]] = frozenset()
    committed: tuple[tuple[int, str], ...] = ()


class World(NamedTuple):
    ledger: tuple[int, ...] = ()
    tables: tuple[tuple[str, Table], ...] = ()
    files: frozenset[tuple[str, int, str]] = frozenset()
    """Kind of dataset (tables or streams), epoch and attempt of files that exist."""
    manifests: frozenset[tuple[int, str]] = frozenset()
    """Number and attempt of manifests that exist."""
    sink: Sink = Sink()

    def view(self) -> LedgerView:
        return view_of(self.ledger)

    def table(self, dataset: str) -> Table | None:
        return dict(self.tables).get(dataset)

    def with_table(self, dataset: str, table: Table) -> World:
        return self._replace(tables=tuple(sorted({**dict(self.tables), dataset: table}.items())))


_numbers: dict[str, int] = {}
_values: list[Any] = []


def intern(text: str, value: Any) -> int:
    number = _numbers.setdefault(text, len(_values))
    if number == len(_values):
        _values.append(value)
    return number


def interned(number: int) -> Any:
    return _values[number]


_known: dict[int, tuple[Any, int]] = {}


def record_number(record: Any) -> int:
    """The number of a record."""
    return _remembered(record, lambda: f"{record.kind}{record.generation}{body(record)}")


def manifest_number(manifest: Manifest) -> int:
    """The number of a manifest."""
    return _remembered(manifest, manifest.to_json)


def _remembered(value: Any, text: Callable[[], str]) -> int:
    """The number of a value, remembered by identity because making its text takes long."""
    known = _known.get(id(value))
    if known is None:
        known = _known[id(value)] = (value, intern(text(), value))
    return known[1]


@cache
def view_of(ledger: tuple[int, ...]) -> LedgerView:
    if not ledger:
        return LedgerView(0, PIPELINE, "model", ())
    return view_of(ledger[:-1]).appended(len(ledger), Entry(len(ledger), 0.0, interned(ledger[-1])))


def forget() -> None:
    """Let go of all records and manifests, once no world of theirs is looked at any more."""
    for known in (_numbers, _values, _known):
        known.clear()
    view_of.cache_clear()


class Model:
    """Performs effects on a world. Tests break it on purpose by overriding a method.

    Args:
        epochs: How many epochs the source has data for.
    """

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def perform(self, world: World, effect: fx.Effect, unique: str) -> tuple[World, Any]:
        """The world after the effect, and its result; errors are raised."""
        return getattr(self, effect.name.split("_participant")[0] if isinstance(effect, fx.CallParticipant) else _method(effect))(
            world, effect, unique
        )

    def read_ledger(self, world, effect, unique):
        return world, world.view()

    def append(self, world, effect, unique):
        if effect.version != len(world.ledger):
            return world, fx.Conflict(world.view())
        world = world._replace(ledger=(*world.ledger, record_number(effect.record)))
        return world, world.view()

    def check_owner(self, world, effect, unique):
        return world, fx.Liveness(alive=False)  # the worst: whoever looks may take over at any time

    def make_id(self, world, effect, unique):
        return world, unique

    def now(self, world, effect, unique):
        return world, 0.0

    def choose(self, world, effect, unique):
        last = effect.view.last_epoch
        return world, Slices({"numbers": SourceSlice(last, last + 1, [last])}) if last < self.epochs else None

    def status(self, world, dataset):
        table = world.table(dataset)
        return fx.TableStatus(table.version, PIPELINE, table.applied_epoch, columns_of(SCHEMA)) if table else fx.TableStatus()

    def read_tables(self, world, effect, unique):
        return world, {dataset: self.status(world, dataset) for dataset in effect.datasets}

    def create_table(self, world, effect, unique):
        if world.table(effect.dataset) is None:
            world = world.with_table(effect.dataset, Table())
        return world, self.status(world, effect.dataset)

    def find_missing(self, world, effect, unique):
        return world, tuple(path for path in effect.removes if path not in world.table(effect.dataset).snapshots[effect.version])

    def find_lost(self, world, effect, unique):
        return world, {path: "is missing" for path in effect.files if not self.is_there(world, path)}

    def tell_versions(self, world, effect, unique):
        return world, ""

    def is_there(self, world, path):
        kind, _, folder, _ = path.split("/")
        epoch, _, attempt = folder.removeprefix("e").partition("-")
        return (kind, int(epoch), attempt) in world.files

    def commit_table(self, world, effect, unique):
        table = world.table(effect.dataset)
        if table.version != effect.base:
            return world, fx.Conflict()
        files = (table.files - set(effect.change.removes)) | {file.path for file in effect.change.adds}
        after = Table((*table.commits, effect.epoch), (*table.snapshots, frozenset(files)))
        return world.with_table(effect.dataset, after), None

    def run_stage(self, world, effect, unique):
        attempt = effect.attempt
        plan = world.view().plan
        names = [stage.name for stage in plan.stages]
        key = StageKey.parse(attempt.stage)
        fed = any(key.stage in stage.feedback for stage in plan.stages)
        path = f"{attempt.directory('')}/{attempt.stage}"
        entry = (FileEntry(path, 1, 1),)
        changes = [Change(f"streams/{attempt.stage}", entry)]
        if attempt.stage == names[0]:
            changes.append(Change(FACTS, entry))
        if attempt.stage == names[-1]:
            changes.append(Change(SUMS, entry, tuple(sorted(world.table(SUMS).snapshots[attempt.begin.base_versions[SUMS]]))))
        for read in attempt.upstream.values():
            assert ("streams", attempt.epoch, read.attempt) in world.files or world.view().generation > attempt.handle.generation
        manifest = Manifest(
            "model", attempt.epoch, attempt.stage, attempt.attempt, attempt.fingerprint, attempt.reads, tuple(changes),
            commit_data={"sink": attempt.attempt} if attempt.fingerprint.endswith("+sink") else {},
            goes_round=int(fed and key.iteration[-1] < ROUNDS - 1),
        )  # fmt: skip
        written = {(kind, attempt.epoch, attempt.attempt) for kind in ("tables", "streams")}
        return world._replace(files=world.files | written), manifest

    def write_manifest(self, world, effect, unique):
        manifest = effect.manifest
        number = manifest_number(manifest)
        return world._replace(manifests=world.manifests | {(number, manifest.attempt)}), str(number)

    def read_manifest(self, world, effect, unique):
        if (int(effect.digest), effect.attempt) not in world.manifests:
            raise LedgerError("a manifest is missing")
        return world, interned(int(effect.digest))

    def list_attempts(self, world, effect, unique):
        kinds = {"streams"} if effect.streams_only else {"streams", "tables"}
        found = {attempt for kind, epoch, attempt in world.files if epoch == effect.epoch and kind in kinds}
        return world, frozenset(found)

    def delete_attempts(self, world, effect, unique):
        kinds = {"streams"} if effect.streams_only else {"streams", "tables"}
        gone = {(kind, effect.epoch, attempt) for kind in kinds for attempt in effect.attempts}
        manifests = frozenset(item for item in world.manifests if item[1] not in effect.attempts)
        return world._replace(files=world.files - gone, manifests=manifests), None

    def fenced_sink(self, world, effect):
        if effect.generation < world.sink.generation:
            raise FencedError("the sink has seen a newer run")
        return world.sink._replace(generation=effect.generation)

    def prepare(self, world, effect, unique):
        sink = self.fenced_sink(world, effect)
        return world._replace(sink=sink._replace(prepared=sink.prepared | {(effect.epoch, effect.data)})), None

    def commit(self, world, effect, unique):
        sink, item = world.sink, (effect.epoch, effect.data)
        if item in sink.committed:
            return world, None
        assert item in sink.prepared, "commit of something that is not prepared"
        return world._replace(sink=sink._replace(prepared=sink.prepared - {item}, committed=(*sink.committed, item))), None

    def abort(self, world, effect, unique):
        sink = self.fenced_sink(world, effect)
        return world._replace(
            sink=sink._replace(prepared=frozenset(item for item in sink.prepared if item[0] != effect.epoch))
        ), None

    def recover(self, world, effect, unique):
        if effect.generation <= world.sink.generation:
            return world, None
        sink = self.fenced_sink(world, effect)
        return world._replace(
            sink=sink._replace(prepared=frozenset(item for item in sink.prepared if item[0] <= effect.epoch))
        ), None


def _method(effect: fx.Effect) -> str:
    return "append" if isinstance(effect, fx.Append) else effect.name
