"""What a pipeline's author does when the pipeline changes: look what follows, decide, delete what left it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, get_args

from dagster_operators.errors import PipelineError

if TYPE_CHECKING:
    from dagster_operators.api.turn import Turn
    from dagster_operators.graph.dataflow import Dataflow
    from dagster_operators.plans.verdict import Choice, Verdict
    from dagster_operators.runtime.comparing import Comparison
    from dagster_operators.runtime.epochs import Epochs
    from dagster_operators.runtime.results import EpochResult
    from dagster_operators.transactions.owner import Owner
    from dagster_operators.transactions.records import Decide


class Changing:
    """The methods of a pipeline that changed since its last epoch."""

    if TYPE_CHECKING:
        _turn: Turn

        @property
        def name(self) -> str:
            """The pipeline's name."""

        @cached_property
        def dataflow(self) -> Dataflow:
            """The graph."""

        @cached_property
        def epochs(self) -> Epochs:
            """The steps of an epoch."""

        @property
        def _owner(self) -> Owner: ...

        def _to_fill(self, epochs: Epochs) -> list[str]:
            """The tables that are filled before the next epoch begins."""

        def _check_filling(self, epochs: Epochs, new: Collection[str]) -> None:
            """Refuse to fill tables where that cannot be done."""

    def changes(self) -> list[Verdict]:
        """What changed since the last completed epoch, and what follows from it; runs nothing.

        ``str()`` of each tells it in a line; those whose ``level`` is ``Level.DECISION`` are refused by the next epoch until
        somebody has decided: see :meth:`decide`. Those without ``choices`` may have a ``remedy``. A pipeline that changed is
        planned on its engine, which alone knows the types of columns.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> source = MemorySource([[("a", 1)], [("a", 2)]], schema="k string, v long")
        >>> for total in ("sum(v)", "max(v)"):
        ...     pipeline = Pipeline("p", root=folder.name, engine="sail")
        ...     keyed = pipeline.source("rows", source).key_by("k")
        ...     table = keyed.aggregate(total=total, name="totals").to_table("totals")
        ...     if total == "sum(v)":
        ...         result = pipeline.run_epoch()
        >>> [(verdict.subject, sorted(verdict.choices)) for verdict in pipeline.changes()]
        [('operator totals', ['restart'])]
        >>> folder.cleanup()
        """
        from dagster_operators.plans.verdict import Level

        compared = self.epochs.comparison()
        found = self._with_filled(compared)
        asked = {verdict.subject for verdict in found if verdict.level is Level.DECISION}
        asked |= {
            f"table {table}" for verdict in found if verdict.level is Level.DECISION for table in _settled(verdict, compared)
        }
        refusals = [verdict for verdict in self.epochs.refusals() if verdict.subject not in asked]
        said = {verdict.subject for verdict in refusals}
        harmless = (Level.FROM_HERE_ON, Level.KEPT, Level.HARMLESS)
        return [one for one in found if one.level not in harmless or one.subject not in said] + refusals

    def _with_filled(self, compared: Comparison) -> list[Verdict]:
        """The verdicts with what becomes of tables that are filled before the next epoch begins, and of all that this settles."""
        from dagster_operators.plans.verdict import Level
        from dagster_operators.runtime.rebuilt_part import part_of

        found = [self._as_filled(verdict) for verdict in compared.verdicts]
        if found == [*compared.verdicts] or not (new := self._to_fill(self.epochs)):
            return found
        try:
            self._check_filling(self.epochs, new)
            self.epochs.planning.comparing.check_decided(compared, new)
        except PipelineError as error:
            told = {f"table {table}" for table in new}
            return [
                replace(one, level=Level.DECISION, problem=error.problem, remedy=error.remedy) if one.subject in told else one
                for one in found
            ]
        settled = self.epochs.planning.comparing.settled_by(compared, part_of(self.epochs, new, ()).tables)
        text = f"it is computed anew with {', '.join(new)} before the next epoch begins (backfill=True)"
        return [replace(one, level=Level.HARMLESS, problem=text, choices={}) if one in settled else one for one in found]

    def _as_filled(self, verdict: Verdict) -> Verdict:
        """The verdict on a new table, or what is new before such ones, that is filled before the next epoch begins."""
        from dagster_operators.plans.verdict import Level

        shown = verdict.tables or (verdict.name,)
        if not verdict.fillable or not self.dataflow.backfilled.issuperset(shown):
            return verdict
        text = "it is new, and is computed over what the epochs have read before the next one begins (backfill=True)"
        return replace(verdict, level=Level.HARMLESS, problem=text, choices={})

    def decide(self, subject: str, choice: Choice) -> list[Decide]:
        """Decide what becomes of a source, operator or table that changed, so that the next epoch goes on.

        The decision is in the ledger, for every run to come, and takes effect with the next epoch; until then it can be changed
        by another one, or taken back: :meth:`withdraw`. It answers the change as it is now: another one is asked for anew.

        Args:
            subject: What it is about, as errors and :meth:`changes` name it: ``"source flights"``, ``"table totals"``.
            choice: ``"keep"``: go on with the state, position or rows there are. ``"restart"``: begin from nothing; a table is
                emptied, with an operator also the updating tables behind it. ``"drop"``: delete what is left.

        Returns:
            What was recorded, for each change of the subject.

        Raises:
            PipelineError: There is no such change, or it does not allow that.
            PipelineBusyError: A run is at work.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> source = MemorySource([[("a", 1)], [("a", 2)]], schema="k string, v long")
        >>> for total in ("sum(v)", "max(v)"):
        ...     pipeline = Pipeline("p", root=folder.name, engine="sail")
        ...     keyed = pipeline.source("rows", source).key_by("k")
        ...     table = keyed.aggregate(total=total, name="totals").to_table("totals")
        ...     if total == "sum(v)":
        ...         result = pipeline.run_epoch()
        >>> decided = pipeline.decide("operator totals", "restart")
        >>> pipeline.run_epoch().epoch, pipeline.to_arrow("totals").to_pylist()
        (2, [{'k': 'a', 'total': 2}])
        >>> folder.cleanup()
        """
        from dagster_operators.plans.verdict import Choice, Level

        if choice not in get_args(Choice):
            raise PipelineError(
                f"{choice!r} cannot be decided", pipeline=self.name, remedy=f"decide one of {', '.join(get_args(Choice))}"
            )
        with self._taken() as epochs:
            epochs.coordinator.settle()
            open_ones = [
                verdict for verdict in epochs.comparison().verdicts if verdict.choices or verdict.level is Level.DECISION
            ]
            if not any(verdict.subject == subject for verdict in open_ones):
                open_ones += epochs.refusals()
            return [epochs.answer(verdict, choice) for verdict in self._verdicts(open_ones, subject, choice)]

    def withdraw(self, subject: str) -> list[Decide]:
        """Take back what was decided, or was to be dropped, since the last epoch.

        Args:
            subject: What it is about, as :meth:`changes` names it.

        Returns:
            What was recorded.

        Raises:
            PipelineError: Nothing was decided about it that waits for the next epoch.
            PipelineBusyError: A run is at work.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> source = MemorySource([[("a", 1)], [("a", 2)]], schema="k string, v long")
        >>> for total in ("sum(v)", "max(v)"):
        ...     pipeline = Pipeline("p", root=folder.name, engine="sail")
        ...     keyed = pipeline.source("rows", source).key_by("k")
        ...     table = keyed.aggregate(total=total, name="totals").to_table("totals")
        ...     if total == "sum(v)":
        ...         result = pipeline.run_epoch()
        >>> decided = pipeline.decide("operator totals", "restart")
        >>> withdrawn = pipeline.withdraw("operator totals")
        >>> [verdict.decided for verdict in pipeline.changes()]
        ['']
        >>> folder.cleanup()
        """
        from dagster_operators.runtime.stored_changes import nothing_decided
        from dagster_operators.transactions.records import Decide

        with self._taken() as epochs:
            epochs.coordinator.settle()
            decided = [verdict for verdict in epochs.comparison().verdicts if verdict.decided]
            found = [verdict for verdict in decided if verdict.subject == subject]
            if found:
                return [epochs.answer(verdict, "withdraw") for verdict in found]
            for_others = epochs.coordinator.view().decided  # what another program than this one asked
            questions = [question for about, question in for_others if about == subject]
            if not questions:
                known = [*(verdict.subject for verdict in decided), *(about for about, _ in for_others)]
                raise nothing_decided(self.name, subject, list(dict.fromkeys(known)))
            return [epochs.coordinator.decide(Decide(0, 0, subject, "withdraw", question)) for question in questions]

    def _verdicts(self, undecided: Collection[Verdict], subject: str, choice: Choice) -> list[Verdict]:
        found = [verdict for verdict in undecided if verdict.subject == subject]
        if not found:
            subjects = ", ".join(repr(verdict.subject) for verdict in undecided)
            about = f"it is about: {subjects}" if subjects else "nothing else is either: run an epoch"
            raise PipelineError(
                f"nothing is to be decided about {subject!r}", pipeline=self.name,
                remedy=f"{about}; if an epoch has carried it out, take the line out of the program",
            )  # fmt: skip
        allowed = [verdict for verdict in found if choice in verdict.choices]
        if not allowed:
            choices = ", ".join(map(repr, found[0].choices))
            otherwise = found[0].remedy or "compute the tables behind it anew: rebuild(...); or change it back"
            raise PipelineError(
                f"{choice!r} is no way out here: {found[0].problem}", pipeline=self.name,
                remedy="; or ".join(filter(None, (f"decide {choices}", found[0].remedy))) if choices else otherwise,
            )  # fmt: skip
        return allowed

    def drop(self, name: str) -> list[str]:
        """Delete a table or an operator's state that the pipeline no longer has, with all files.

        Args:
            name: The name of a table, or of an operator, that the program does not have.

        What the last epoch still had is deleted with the next one, and :meth:`withdraw` takes that back until then.

        Returns:
            The folders below the storage root that are deleted.

        Raises:
            PipelineError: The program has it, or there is nothing of that name.
            PipelineBusyError: A run is at work.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> source = MemorySource([[(1,)], [(2,)]], schema="v long")
        >>> for names in (["kept", "copy"], ["kept"]):
        ...     pipeline = Pipeline("p", root=folder.name, engine="sail")
        ...     rows = pipeline.source("rows", source)
        ...     tables = [rows.filter("v > 0", name=f"of_{name}").to_table(name) for name in names]
        ...     if "copy" in names:
        ...         result = pipeline.run_epoch()
        >>> pipeline.drop("copy")
        ['tables/copy']
        >>> pipeline.run_epoch().rows
        {'kept': 1}
        >>> folder.cleanup()
        """
        if name in self.dataflow.tables:
            raise PipelineError(
                "the pipeline writes the table", pipeline=self.name, table=name, remedy="take it out of the program, then drop it"
            )
        with self._taken() as epochs:
            return epochs.drop(name)

    def restore_times(self, source: str) -> list[str]:
        r"""Say that files that a source has read are still the same: they get the times of change again that they had then.

        A file is known by its path, size and time of change. After a copy of the folder, or a ``touch``, the next epoch is
        refused, as it does not know whether the rows are the same: this says so, for all files that have the size that they had.

        Args:
            source: The name of a :class:`FileSource` over local files.

        Returns:
            The files whose time was set.

        Raises:
            PipelineError: There is no such source, or the times of its files cannot be set.
            PipelineBusyError: A run is at work.

        >>> import os
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import FileSource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> file = Path(folder.name, "in", "a.csv")
        >>> file.parent.mkdir()
        >>> size = file.write_text("v\n1\n")
        >>> pipeline = Pipeline("p", root=f"{folder.name}/root", engine="sail")
        >>> rows = pipeline.source("rows", FileSource(str(file.parent), schema="v long")).to_table("kept")
        >>> result = pipeline.run_epoch()
        >>> os.utime(file, (0, 0))
        >>> [Path(path).name for path in pipeline.restore_times("rows")]
        ['a.csv']
        >>> pipeline.run_epoch().empty
        True
        >>> folder.cleanup()
        """
        with self._taken() as epochs:
            return epochs.restore_times(source)

    def widen(self, table: str) -> EpochResult:
        """Let the columns of a table have the wider types that the program gives them now, with the rows that are in it.

        An ``int`` may become a ``bigint``, a ``float`` a ``double``, a ``decimal`` one of more digits. The files are written
        anew, in an epoch of its own that computes nothing; earlier epochs are read with the types that they had.

        Other pipelines that read the table, as a ``PipelineSource`` or a ``DeltaSource``, have the narrower types in their own
        tables and state: with the next rows they are refused, until ``reset(source, 0, tables="restart")`` of each
        empties what is behind that source and has all of the table read again.

        Args:
            table: The name of a table that is not itself the state of an operator.

        Returns:
            The epoch that did it.

        Raises:
            PipelineError: There is no such table, or its columns do not only become wider.
            LostFileError: A file of the table is gone.
            PipelineBusyError: A run is at work.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> source = MemorySource([[(1,)], [(2,)]], schema="v int")
        >>> for column in ("v", "CAST(v AS bigint) AS v"):
        ...     pipeline = Pipeline("p", root=folder.name, engine="sail")
        ...     rows = pipeline.source("rows", source).select(column, name="chosen").to_table("kept")
        ...     if column == "v":
        ...         result = pipeline.run_epoch()
        >>> widened = pipeline.widen("kept")
        >>> result = pipeline.run_epoch()
        >>> print(pipeline.to_arrow("kept").schema.field("v").type)
        int64
        >>> folder.cleanup()
        """
        with self._turn.taken(self.name):
            return self.widen_on(self.epochs, table, self._owner)

    def widen_on(self, epochs: Epochs, table: str, owner: Owner, *, again: bool = False) -> EpochResult:
        """The same with the steps of epochs that somebody else made, as those of a Dagster run, which may have done it before."""
        from dagster_operators.runtime.results import result_of
        from dagster_operators.runtime.widening import widen
        from dagster_operators.transactions.unlocking import let_go

        epochs.coordinator.open(owner)
        try:
            made = result_of(widen(epochs, table, again=again), tuple(self.dataflow.tables))
        finally:
            epochs.coordinator.close()
        let_go(epochs.coordinator, owner)  # with nothing to do no epoch has ended, which lets it go
        return made

    @contextmanager
    def _taken(self) -> Iterator[Epochs]:
        """The pipeline's epochs, as the owner of the pipeline."""
        with self._turn.taken(self.name):
            coordinator = self.epochs.coordinator
            coordinator.open(self._owner)
            try:
                yield self.epochs
            finally:
                coordinator.close()


def _settled(verdict: Verdict, compared: Comparison) -> Collection[str]:
    """The tables of which is told what becomes of them, where somebody has to decide about what is before them."""
    from dagster_operators.runtime.rebuildable import tables_shown_by

    if verdict.choices or verdict.remedy or compared.after is None:
        return verdict.empties
    return tables_shown_by(verdict, compared.before, compared.after)  # they are computed anew, which nothing else settles
