"""Computing tables anew, with the state behind them, over what the epochs of a pipeline have read.

It is done beside the pipeline, as a pipeline of its own in a folder of the storage root, with its own ledger: in as many epochs
as it takes, and taken up again where it was after a kill, while the pipeline's own epochs go on. When it has read all that they
have, its files are taken over in one epoch of the pipeline, in the commit of every epoch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import (
    BadInputError,
    ChangedPipelineError,
    EngineError,
    LedgerError,
    PipelineError,
    RestoredTableError,
    SourceError,
    call_of,
)
from dagster_operators.graph.restricted import Part
from dagster_operators.runtime.commands import source_named
from dagster_operators.runtime.cut_by_epochs import cut_in, forgetful_in
from dagster_operators.runtime.history_choosing import History, HistoryChoosing
from dagster_operators.runtime.rebuild_folder import FOLDER, RUNS, RebuildFolder, leave
from dagster_operators.runtime.rejects_beside import new_rejects, rejects_of
from dagster_operators.storage.presence import lost_files
from dagster_operators.time.watermark import MIN_WATERMARK, format_timestamp
from dagster_operators.transactions.carrying import carried
from dagster_operators.transactions.failpoints import reach
from dagster_operators.transactions.lost import computed_anew, lost_table, written_files
from dagster_operators.transactions.manifest import Change, FileEntry, TableTime
from dagster_operators.transactions.records import Begin, Complete, Decision
from dagster_operators.transactions.transition import Transition, unfinished_in
from dagster_operators.transactions.unlocking import unlock

if TYPE_CHECKING:
    from dagster_operators.graph.slice import SourceSlice
    from dagster_operators.runtime.epochs import Epochs
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.effects import StageAttempt
    from dagster_operators.transactions.owner import Owner
    from dagster_operators.transactions.plan import PlanRecord
    from dagster_operators.transactions.view import LedgerView

_TIMES: Final = 3
"""How often it computes all, in one run: again as a lookup table was another by the end than when it began."""


@dataclass(frozen=True)
class Request:
    """What is to be computed anew.

    Attributes:
        part: The tables, with what leads to them.
        since: The first epoch of which something is read.
        at_once: Of how many epochs one epoch of the rebuild reads at most.
        empty: Whether all that was read may be left out.
    """

    part: Part
    since: int
    at_once: int
    empty: bool = False


class Rebuilding:
    """Computes tables of a pipeline anew.

    Args:
        epochs: The pipeline's.
        beside: The same for a part of it, in a folder of the storage root.
        request: What is to be computed.
    """

    def __init__(self, epochs: Epochs, beside: Callable[[Part, str], Epochs], request: Request) -> None:
        self._epochs = epochs
        self._run = epochs.coordinator
        self._part, self._request, self._beside = request.part, request, beside
        self._folder = RebuildFolder(self._run.root, beside(self._part, self._run.root.join(RUNS)).coordinator)

    def run(self, owner: Owner, *, wait_seconds: float = 0) -> Complete:
        """Compute, and take over what was computed.

        Raises:
            UndecidedChangeError: Something else of the pipeline changed, and it has to be decided what becomes of it.
            PipelineError: A source does not keep what it gave, or rows went to a sink, which cannot take them back.
            SourceError: What an epoch has read is gone.
            PipelineBusyError: Another rebuild is at work; or, when all is computed, another run on the pipeline.
        """
        with self._folder.taken(owner, wait_seconds):
            self._rename(owner, wait_seconds)
            self._made_anew()
            try:
                self._begin()
                unlock(self._shadow.coordinator, owner)  # who was at it does not have the folder any more
                if self._over() is None:
                    with source_named(self._run.root.uri):
                        self._choosing.check()
                    self._catch_up(owner)
                made = self._taken_over(owner, wait_seconds)
            finally:
                leave(self._shadow.coordinator, owner)
            self._folder.delete()
            return made

    def _rename(self, owner: Owner, wait_seconds: float) -> None:
        """Have tables that the program says were renamed be so before."""
        comparing = self._epochs.planning.comparing
        if comparing.renamed_tables(self._run.view()):
            self._run.open(owner, wait_seconds=wait_seconds)
            try:
                self._run.settle()
                comparing.rename_tables(self._part.tables)
            finally:
                self._run.close()

    def _taken_over(self, owner: Owner, wait_seconds: float) -> Complete:
        """Have the pipeline take over what is in the folder, unless a run that died has done so."""
        self._run.open(owner, wait_seconds=wait_seconds)
        try:
            view = self._settled()
            self._look(view)
            over = self._over()
            if over is not None:
                return over
            self._catch_up(owner)  # what was completed meanwhile
            return self._take_over()
        finally:
            self._run.close()

    def _settled(self) -> LedgerView:
        """The ledger, with the logs of what is replaced as it says, should they or their files be lost."""
        replaced = self._may_be_lost()
        view = self._run.settle(replaced)
        wrong = self._run.wrong_tables()
        if others := [dataset for dataset in wrong if dataset in self._record.datasets and dataset not in replaced]:
            anew = {dataset for dataset in replaced if not dataset.endswith("_rejects")}
            raise RestoredTableError(
                f"a table that is not computed anew is not as the ledger says: {self._run.tell(others[0]) or 'it is gone'}",
                pipeline=self._run.pipeline, table=others[0],
                remedy=f"{lost_table(others[:1], view)}; both together: {computed_anew([*anew, *others], view)}",
            )  # fmt: skip
        return view

    def _may_be_lost(self) -> set[str]:
        """The tables, states and rejects of which nothing that there is has to be read."""
        rejects = {rejects_of(source) for source in self._choosing.sources}
        return {*(f"tables/{table}" for table in self._part.tables), *self._states(), *rejects}

    # --- computing ---------------------------------------------------------------------------------------------------

    def _made_anew(self) -> None:
        """Open what is in the folder, or will be."""
        self._shadow = self._beside(self._part, self._run.root.join(FOLDER))
        self._shadow.planning.be_part_of(self._epochs.planning)
        made = self._shadow.coordinator.past
        self._choosing = HistoryChoosing(self._shadow.planning, made, self._request.at_once, empty=self._request.empty)

    def _look(self, view: LedgerView) -> None:
        """See what there is to be read, and that nothing else has to be decided."""
        if view.last_complete is None:
            raise LedgerError(
                "no epoch was completed yet", pipeline=self._run.pipeline, remedy="run one: there is nothing to compute anew"
            )
        self._record = self._planned()
        timed = self._epochs.planning.comparing.same_time(self._choosing.sources, view)
        origins = self._record.origins
        self._choosing.history = History.of(self._run, self._choosing.sources, origins, self._request.since, timed)

    def _planned(self) -> PlanRecord:
        """What the pipeline is behind it."""
        return self._epochs.planning.rebuilt(self._part.tables)

    def _begin(self) -> None:
        """Go on with what a run before this one has computed, if it is the same."""
        self._look(self._run.view())
        told = self._folder.told
        if told.get("id") == self._id and self._is_of_use():
            return
        if told:
            self._delete()
        self._folder.tell({"id": self._id, "tables": list(self._part.tables)})

    def _delete(self) -> None:
        """Begin with nothing computed, and the lookup tables of now."""
        self._folder.delete()
        self._made_anew()
        self._look(self._run.view())

    @property
    def _id(self) -> str:
        return id_of(
            self._shadow.plan().fingerprint, self._part.tables, self._request.since, self._record, self._choosing.lookups,
            at_once=self._request.at_once,
        )  # fmt: skip

    def _is_of_use(self) -> bool:
        """Whether to go on with what is in the folder: it was not taken over before the last epoch, nor put back since."""
        if self._over() is not None:
            return True
        was_taken_over = not self._begins().isdisjoint(one.begin_id for one in self._run.history())
        return not was_taken_over and not self._choosing.is_stale(self._shadow.coordinator.view())

    def _over(self) -> Complete | None:
        """The epoch that took over what is in the folder, should a run have died right then: nothing was completed since."""
        view, shadow = self._run.view(), self._shadow.coordinator.view()
        return view.last_complete if shadow.last_complete and view.taken == shadow.pipeline else None

    def _begins(self) -> set[str]:
        """The ids of the begin records that name this folder's ledger; reads the whole ledger of the pipeline."""
        shadow = self._shadow.coordinator.view()
        if shadow.last_complete is None:
            return set()
        begins = (one for one in self._run.records(Begin) if isinstance(one, Begin) and one.transition is not None)
        return {one.begin_id for one in begins if one.transition is not None and one.transition.taken == shadow.pipeline}

    def _catch_up(self, owner: Owner) -> None:
        """Compute what is left, all of it over one state of each lookup table: where that is gone, all begins anew."""
        for time in range(1, _TIMES + 1):
            try:
                self._compute(owner)
            except (SourceError, EngineError) as error:
                if not self._choosing.is_outdated():
                    raise
                if time == _TIMES:
                    raise PipelineError(
                        "a lookup table was replaced each time before all was computed, which is to be of one state of it",
                        pipeline=self._run.pipeline, lookups=", ".join(self._choosing.lookups),
                        remedy="rebuild when nobody writes it; or look up a Delta table, whose versions stay",
                    ) from error  # fmt: skip
            else:
                return
            leave(self._shadow.coordinator, owner)
            self._delete()
            self._folder.tell({"id": self._id, "tables": list(self._part.tables)})

    def _compute(self, owner: Owner) -> None:
        while (handle := self._shadow.begin(owner, choose=self._choosing.choose)) is not None:
            try:
                self._shadow.run_stages(handle)
            except BadInputError as error:
                self._choosing.tell(error)
                raise
            self._folder.check()
            self._shadow.commit(handle)

    # --- taking over -------------------------------------------------------------------------------------------------

    def _take_over(self) -> Complete:
        view, shadow = self._run.view(), self._shadow.coordinator
        last, made = view.last_complete, shadow.last_complete()
        if last is None or made is None:
            raise LedgerError(
                "nothing was computed", pipeline=self._run.pipeline,
                remedy="start the rebuild again: another run has deleted what this one computed",
            )  # fmt: skip
        taken = dict(self._taken(made))
        self._check(view, last, made, taken)
        before = self._states()
        to = self._behind(last, made)
        left = tuple(dataset for dataset in before if dataset not in self._record.datasets)
        plan = replace(self._record, deleted=(*self._record.deleted, *left))
        self._folder.check()
        gone = self._replaced(taken, before)
        seconds = sum(epoch.committed_at - epoch.started_at for epoch in self._shadow.coordinator.history())
        return self._run.transit(
            plan, to, lambda attempt: self._changes(attempt, view, made, taken, before), gone, seconds=seconds
        )

    def _replaced(self, taken: Mapping[str, str], before: Collection[str]) -> set[str]:
        """The tables and states of which nothing stays."""
        return {*taken.values(), *before}

    def _states(self) -> list[str]:
        """The state tables there are of what is computed anew."""
        return self._epochs.planning.comparing.states_behind(self._part.tables, self._run.view())

    def _taken(self, made: Complete) -> Iterator[tuple[str, str]]:
        """What the pipeline calls the tables and states that were computed."""
        yield from ((f"tables/{table}", f"tables/{table}") for table in self._part.tables)
        for dataset in made.versions:
            if dataset.startswith("state/"):
                operator, _, state = dataset.removeprefix("state/").rpartition(".")
                yield dataset, f"state/{self._record.identities.get(operator, operator)}.{state}"

    def _check(self, view: LedgerView, last: Complete, made: Complete, taken: Mapping[str, str]) -> None:
        """What was computed must be what the pipeline has, at the same places of its sources."""
        shadow = self._shadow.coordinator.view().last_plan
        for dataset, name in taken.items():
            ours, theirs = self._record.datasets.get(name), shadow.datasets.get(dataset) if shadow else None
            if ours is None or theirs is None or ours.schema_json != theirs.schema_json:
                raise PipelineError(
                    "a table would be computed otherwise than the whole pipeline does it", pipeline=view.name, table=name,
                    remedy="rebuild all tables: pipeline.rebuild()",
                )  # fmt: skip
        marks = carried(last.watermarks, self._record.origins)
        for source in self._choosing.sources:
            if made.watermarks.get(source, MIN_WATERMARK) > marks.get(source, MIN_WATERMARK) > MIN_WATERMARK:
                self._folder.delete()
                raise ChangedPipelineError(
                    f"what was computed is at {format_timestamp(made.watermarks[source])} by the lateness of now, "
                    f"and the pipeline at {format_timestamp(marks[source])}",
                    pipeline=view.name, source=source,
                    remedy="run an epoch first; or leave the lateness as it was; or "
                    f"{call_of('set_watermark', source, format_timestamp(made.watermarks[source]))}",
                )  # fmt: skip

    def _behind(self, last: Complete, made: Complete) -> Transition:
        origins, operators = self._record.origins, set(self._shadow.plan().physical.nodes) - set(self._choosing.sources)
        watermarks = {name: mark for name, mark in carried(last.watermarks, origins).items() if name not in operators}
        # Where time began anew (a reset, a new event time) it is what the rebuild came to: state has what was put out by then.
        anew = {name for name in self._choosing.sources if watermarks.get(name, MIN_WATERMARK) == MIN_WATERMARK}
        held = {name: one for name, one in carried(last.held, origins).items() if name.partition(".")[0] not in operators}
        others = {name: one for name, one in carried(last.metrics, origins).items() if name.partition(".")[0] not in operators}
        computed = self._shadow.coordinator.history()
        return Transition(
            "rebuild", ", ".join(self._part.tables), carried(last.offsets, origins),
            {**watermarks, **{name: mark for name, mark in made.watermarks.items() if name in operators | anew}},
            tuple(sorted(carried(dict.fromkeys(last.finished), origins))),
            {**held, **{name: one for name, one in made.held.items() if name.partition(".")[0] in operators}},
            tables=tuple(self._part.tables), since=self._request.since, taken=self._shadow.coordinator.view().pipeline,
            unfinished=unfinished_in({**others, **made.metrics}), times=self._times(last, made),
            epochs_at_once=self._request.at_once, cut=cut_in(computed), forgot=tuple(sorted(forgetful_in(made))),
        )  # fmt: skip

    def _times(self, last: Complete, made: Complete) -> dict[str, TableTime]:
        anew, there = self._part.tables, self._record.datasets
        kept = {name: time for name, time in last.times.items() if name not in anew and f"tables/{name}" in there}
        return {**kept, **{name: time for name, time in made.times.items() if name in anew}}

    def _changes(
        self, attempt: StageAttempt, view: LedgerView, made: Complete, taken: Mapping[str, str], before: Collection[str]
    ) -> Iterator[Change]:
        """All files of what was computed, in the attempt's own folder, instead of all that there were."""
        for dataset, name, files in self._computed(made, taken):
            adds: list[FileEntry] = []
            for entry in files:
                path = f"{attempt.directory(name)}/{entry.path}"
                self._run.root.link(f"{FOLDER}/{dataset}/{entry.path}", f"{name}/{path}")
                adds.append(replace(entry, path=path))
                reach("rebuild:half_taken", stage=attempt.stage)
            version = view.versions.get(name, 0)
            gone = [entry.path for entry in self._run.files(name, version)] if name in view.versions else []
            yield Change(name, tuple(adds), tuple(gone))
        for name in set(before) & self._record.datasets.keys() - set(taken.values()):
            yield Change(name, (), tuple(entry.path for entry in self._run.files(name, view.versions[name])))
        yield from self._rejects(attempt, view, made)
        reach("rebuild:taken", stage=attempt.stage)

    def _rejects(self, attempt: StageAttempt, view: LedgerView, made: Complete) -> Iterator[Change]:
        """What was rejected, and was not before."""
        for name in sorted({rejects_of(source) for source in self._choosing.sources} & {*made.versions, *view.versions}):
            files = self._run.files(name, view.versions[name]) if name in view.versions else []
            there = [file.path for file in files]
            lost = lost_files(self._run.root, written_files(name, files))
            anew = self._shadow.coordinator.files(name, made.versions[name]) if name in made.versions else []
            found = [f"{FOLDER}/{name}/{file.path}" for file in anew]
            gone = [path.removeprefix(f"{name}/") for path in lost]
            change = new_rejects(self._run.root, name, there, found, attempt.directory(name), lost=gone)
            if change is not None:
                yield change

    def _computed(self, made: Complete, taken: Mapping[str, str]) -> Iterator[tuple[str, str, list[FileEntry]]]:
        """The files of what was computed, with what the pipeline calls it."""
        shadow = self._shadow.coordinator
        known = decided_files(shadow)
        for dataset, name in taken.items():
            files = shadow.files(dataset, made.versions[dataset])
            yield dataset, name, [known.get((dataset, found.path), found) for found in files]


def decided_files(run: Coordinator) -> dict[tuple[str, str], FileEntry]:
    """All files that epochs have added, by dataset and path, with all that is known of their rows; reads the whole ledger."""
    return {
        (change.dataset, entry.path): entry
        for record in run.records(Decision)
        if isinstance(record, Decision)
        for manifest in record.manifests
        for change in manifest.changes
        for entry in change.adds
    }


def id_of(
    fingerprint: str,
    tables: Collection[str],
    since: int,
    record: PlanRecord,
    lookups: Mapping[str, SourceSlice] | None = None,
    *,
    at_once: int,
) -> str:
    """What tells a rebuild from another one, so that it does not go on with what that one computed.

    Args:
        fingerprint: Of the plan that computes.
        tables: The tables that are computed anew.
        since: The first epoch of which something is read.
        record: The record of that part of the pipeline.
        lookups: The lookup tables as they are read.
        at_once: Of how many epochs one of its epochs reads at most: which rows are late, and which keys forgotten, goes by that.
    """
    pins = [{name: piece.items for name, piece in lookups.items()}] if lookups else []
    datasets = sorted((name, dataset.schema_json, *dataset.partition_by) for name, dataset in record.datasets.items())
    told = json.dumps([fingerprint, tuple(tables), since, at_once, dict(record.sources), datasets, *pins])
    return hashlib.sha256(told.encode()).hexdigest()[:16]
