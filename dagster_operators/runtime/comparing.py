"""Before an epoch begins: what the pipeline is now, compared with what the last completed epoch ran."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from dagster_operators.connectors.connector import Connector
from dagster_operators.connectors.operator_source import OperatorSource
from dagster_operators.errors import ChangedPipelineError, PipelineError, PlanError, UndecidedChangeError
from dagster_operators.graph.choices import Recorded
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.restricted import reach_of
from dagster_operators.operators.relational.source import Source
from dagster_operators.planner.physical_plan import PhysicalPlan
from dagster_operators.runtime.going_on import go_on
from dagster_operators.runtime.homes import elsewhere, let_go
from dagster_operators.runtime.identities import Binding, Ledgered, bind, source_origins
from dagster_operators.runtime.kept_plans import KeptPlans
from dagster_operators.runtime.past_plans import PastPlans
from dagster_operators.runtime.rebuildable import tables_shown_by, with_the_way
from dagster_operators.runtime.recorded_choices import recorded_choices
from dagster_operators.runtime.renamed_tables import as_of_now, renamed_since, told
from dagster_operators.runtime.stored_changes import ASKED, REBUILD
from dagster_operators.runtime.undecided import undecided
from dagster_operators.runtime.ways_out import WaysOut, ways_out, without_dead_ends
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.plan import PlanRecord
from dagster_operators.transactions.records import Complete, Decide
from dagster_operators.transactions.renaming import as_renamed, rename_tables
from dagster_operators.transactions.view import LedgerView

if TYPE_CHECKING:
    from dagster_operators.plans.logical_plan import LogicalPlan
    from dagster_operators.plans.pauses import Pause
    from dagster_operators.plans.verdict import Verdict


@dataclass(frozen=True)
class Comparison:
    """What changed since the last completed epoch.

    Attributes:
        epoch: That epoch; 0 if there is none.
        before: What it ran; None if that is not known.
        after: What the pipeline is now.
        was: What each operator was called then.
        back: The operators that were not there then, and before.
        elsewhere: The operators that cannot go on with the state that they have, and why.
        verdicts: What follows from each change.
        undecided: Those about which somebody has to decide, and nobody did.
        restarted: The operators and sources of which it was decided that they begin anew.
        let_go: The state tables that operators of the author's own declare no longer.
    """

    epoch: int
    before: LogicalPlan | None
    after: LogicalPlan | None
    was: Mapping[str, str] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    undecided: tuple[Verdict, ...] = ()
    back: Mapping[str, Pause] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    restarted: frozenset[str] = frozenset()
    let_go: Mapping[str, Collection[str]] = field(default_factory=dict)


class Comparing:
    """Compares a pipeline with what its storage root knows of it.

    Args:
        dataflow: The pipeline's graph.
        coordinator: Knows the ledger.
    """

    def __init__(self, dataflow: Dataflow, coordinator: Coordinator) -> None:
        self._given = dataflow
        self._coordinator = coordinator
        self._kept = KeptPlans(coordinator.root)
        self._gone_on = ""

    @property
    def _dataflow(self) -> Dataflow:
        """The graph; its operators go on as they were where their author says nothing."""
        self.go_on()
        return self._given

    def go_on(self) -> None:
        """Give operators the settings of the last completed epoch where their author says nothing."""
        self._gone_on = go_on(self._given, self._coordinator, self._kept, self._gone_on)

    def keep(self) -> str:
        """Store the pipeline's logical plan; what it is called, nothing if no plan can hold it."""
        return self._kept.keep(self._dataflow)

    def recorded_choices(self, plan: PlanRecord, *, begun: bool) -> Recorded:
        """The choices of a plan in the ledger, by the names that operators have now.

        Args:
            plan: The plan of an epoch.
            begun: Whether the epoch is open.
        """
        return recorded_choices(self._dataflow, plan, self._kept, begun=begun)

    def bound(self, view: LedgerView, logical: str, physical: PhysicalPlan, rebuilt: Collection[str] = ()) -> Binding:
        """Whose state and position every operator goes on with.

        Args:
            view: The ledger, with no epoch that is decided and not complete.
            logical: What the pipeline's plan is called, as :meth:`keep` told.
            physical: What it is lowered to.
            rebuilt: The tables that are computed anew, with the state behind them.

        Raises:
            UndecidedChangeError: Something changed, and it has to be decided what becomes of state, positions or tables.
        """
        last = view.last_complete
        if last is None:
            return Binding()
        if logical and logical == last.logical_plan and not view.decisions and not self._declares_others(view, last):
            return Binding(last.identities)
        compared = self.compare(view)
        found = self._superseded(compared, rebuilt)
        settled = self._settled(found, logical, rebuilt)
        if names := self.renamed_tables(view):
            raise PipelineError(
                "tables have other names, and are renamed before an epoch", pipeline=self._dataflow.name, table=next(iter(names)),
                remedy="run an epoch first",
            )  # fmt: skip
        anew = {one.name for one in settled if one.kind == "operator"}
        anew |= found.elsewhere.keys() & self._leading_to(rebuilt)
        self.check_decided(compared, rebuilt)
        return self._bound(found, view, last, physical, anew)

    def check_decided(self, found: Comparison, rebuilt: Collection[str]) -> None:
        """Refuse to compute tables anew before an epoch has carried out what was decided.

        Raises:
            PipelineError: Something was decided that takes effect with an epoch.
        """
        superseded = self._superseded_by(found, rebuilt)
        waiting = [this.subject for this in found.verdicts if this.decided in ("restart", "drop") and this not in superseded]
        if not rebuilt or not waiting:
            return
        new = self._new_tables(found, rebuilt)
        refused = "if it is refused, take the change that it names out of the program, run it, and make that change again"
        first = "take the other changes back and run an epoch" if found.undecided else f"run an epoch first; {refused}"
        if new and not found.undecided:  # it would be filled before that epoch, which does not begin
            first = f"take {', '.join(new)} out of the program, run an epoch, and put it back"
        raise PipelineError(
            f"what was decided about {waiting[0]} takes effect with an epoch of the pipeline", pipeline=self._dataflow.name,
            remedy=f"{first}; or take it back: pipeline.withdraw({waiting[0]!r})",
        )  # fmt: skip

    def _superseded(self, comparison: Comparison, rebuilt: Collection[str]) -> Comparison:
        """The comparison where tables that are computed anew take the place of what was decided about them.

        Only the state that was to be dropped still is: tables are replaced, and operators begin anew with the rebuild.
        """
        from dagster_operators.plans.verdict import Level
        from dagster_operators.plans.verdicts import restarted

        superseded = self._superseded_by(comparison, rebuilt)
        asked = tuple(replace(verdict, level=Level.DECISION, decided="") for verdict in superseded)
        dropped = tuple(replace(verdict, empties=()) for verdict in superseded if verdict.decided == "drop")
        others = tuple(verdict for verdict in comparison.verdicts if verdict not in superseded)
        verdicts = (*others, *asked, *dropped)
        return replace(comparison, verdicts=verdicts, undecided=(*comparison.undecided, *asked), restarted=restarted(verdicts))

    def _superseded_by(self, comparison: Comparison, rebuilt: Collection[str]) -> list[Verdict]:
        """The decided changes that a rebuild settles; a new table that is filled before an epoch takes no decision back."""
        if not rebuilt or self._new_tables(comparison, rebuilt):
            return []
        decided = [verdict for verdict in comparison.verdicts if verdict.decided in ("restart", "drop")]
        return [verdict for verdict in decided if self._is_settled(verdict, comparison, rebuilt)]

    @staticmethod
    def _new_tables(comparison: Comparison, rebuilt: Collection[str]) -> list[str]:
        """The tables that the last epoch did not have, of some that are computed anew."""
        return sorted(set(rebuilt) - {table.name for table in comparison.before.tables}) if comparison.before else []

    def _declares_others(self, view: LedgerView, last: Complete) -> bool:
        """Whether the code of operators, which is not in the plan, declares other state than the last epoch had."""
        own = {node.name: node.name for node in self._dataflow if node.operator.declares_state}
        return bool(own) and bool(let_go(self._dataflow, own, self._ledgered(view, last, None)))

    def as_if_decided(self, view: LedgerView, physical: PhysicalPlan) -> Binding:
        """What :meth:`bound` says, as far as it is decided; nothing is stored, and of what is not decided it means nothing."""
        if view.last_complete is None:
            return Binding()
        found, now = self.compare(view), self.as_of_now(view)
        return self._bound(found, now, now.last_complete or view.last_complete, physical, ())

    def as_of_now(self, view: LedgerView) -> LedgerView:
        """The ledger as it is once the tables are renamed that the program says were."""
        return as_renamed(view, names) if (names := self.renamed_tables(view)) else view

    def differs(self, view: LedgerView) -> bool:
        """Whether the program is not the one of the last completed epoch."""
        last = view.last_complete
        return last is not None and (not last.logical_plan or last.logical_plan != self._kept.name_of(self._dataflow))

    def refused(self, error: ChangedPipelineError) -> Verdict:
        """What the program cannot go on with as it is, as a verdict."""
        from dagster_operators.plans.verdict import Level, Verdict

        operator, table = error.where.get("operator"), error.where.get("table")
        subject = f"operator {operator}" if operator else f"table {table}"
        return Verdict(Level.DECISION, subject, error.problem, remedy=error.remedy, ways=error.ways)

    def keep_refused(self, refused: Sequence[Verdict], view: LedgerView, logical: str) -> None:
        """Keep for those without the program what of it was refused, beside what changed, and which program it was."""
        if view.last_complete is None:
            return
        found = self.compare(view)
        rebuilt = {one.subject: sorted(tables_shown_by(one, found.before, found.after)) for one in refused} if found.after else {}
        self._ask(replace(found, verdicts=(*found.verdicts, *refused)), logical, rebuilt)

    def _bound(
        self, found: Comparison, view: LedgerView, last: Complete, physical: PhysicalPlan, anew: Collection[str]
    ) -> Binding:
        ledgered = self._ledgered(view, last, found.before)
        began = found.restarted | (anew & self._dataflow.nodes.keys())
        emptied, deleted = self._decided(found, ledgered)
        emptied = sorted({*emptied, *self._as_new(found)})
        made = bind(self._dataflow, physical, ledgered, found.was, found.back, restarted=began, emptied=emptied, deleted=deleted)
        return replace(made, emptied=tuple(emptied), deleted=tuple(deleted))

    def _settled(self, found: Comparison, logical: str, rebuilt: Collection[str]) -> list[Verdict]:
        """The changes that are settled by what is computed anew; what is left of others is refused."""
        settled = self.settled_by(found, rebuilt)
        if left := [verdict for verdict in found.undecided if verdict not in settled]:
            raise self._refused(found, left, logical)
        return settled

    def settled_by(self, found: Comparison, rebuilt: Collection[str]) -> list[Verdict]:
        """The changes nobody decided about that are settled when some tables are computed anew."""
        return [verdict for verdict in found.undecided if rebuilt and self._is_settled(verdict, found, rebuilt)]

    def renamed_tables(self, view: LedgerView) -> Mapping[str, str]:
        """What tables were called in the last completed epoch, of those that the program says were renamed since.

        Raises:
            ChangedPipelineError: A table is said to be renamed from what it cannot have been.
        """
        last, now = view.last_complete, tuple(self._dataflow.tables.values())
        if last is None or not any(table.renamed_from for table in now):
            return {}
        if last.logical_plan and last.logical_plan == self._kept.name_of(self._dataflow):
            return {}  # it stays in the program
        return renamed_since(view, self._kept.read(last.logical_plan) if last.logical_plan else None, now)

    def rename_tables(self, rebuilt: Collection[str] = ()) -> None:
        """Move what is in tables that the program says were renamed, in an epoch of its own.

        Args:
            rebuilt: The tables that are computed anew then.

        Raises:
            UndecidedChangeError: Something changed, and it has to be decided what becomes of state, positions or tables.
        """
        view = self._coordinator.view()
        if view.decision is not None or not (names := self.renamed_tables(view)):
            return
        self._settled(self.compare(view), self.keep(), rebuilt)
        last = view.last_complete
        logical = self._kept.with_tables_renamed(last.logical_plan, names) if last and last.logical_plan else ""
        rename_tables(self._coordinator, names, logical)

    def _decided(self, found: Comparison, ledgered: Ledgered) -> tuple[list[str], list[str]]:
        """What the next epoch empties, and what it leaves without use, as it was decided."""
        made = [verdict for verdict in found.verdicts if verdict.decided in ("restart", "drop")]
        emptied = {f"tables/{table}" for one in made if not self._drops_some(one, found) for table in one.empties}
        deleted = {state for verdict in made for state in self._states(verdict, found, ledgered)}
        deleted |= {f"tables/{one.name}" for one in made if one.decided == "drop" and one.kind == "table"}
        versions = self._coordinator.view().versions
        written = {f"tables/{name}" for name in self._dataflow.tables}
        return sorted(emptied & versions.keys() & written), sorted((deleted - written) & versions.keys())

    def _as_new(self, found: Comparison) -> frozenset[str]:
        """Tables that a rollback emptied, as it left the epochs that had them: whatever they were, they begin from nothing."""
        known = {table.name for table in found.before.tables} if found.before else set()
        return self._coordinator.past.left_behind() & {f"tables/{name}" for name in self._dataflow.tables.keys() - known}

    def _is_settled(self, verdict: Verdict, found: Comparison, rebuilt: Collection[str]) -> bool:
        """Whether a change is one of what is computed anew."""
        if verdict.kind == "operator" and verdict.name in self._dataflow.nodes:
            return verdict.name in self._leading_to(rebuilt)
        shown = tables_shown_by(verdict, found.before, found.after) if found.after else set()
        return bool(shown) and shown <= set(rebuilt)

    def _refused(self, found: Comparison, left: Sequence[Verdict], logical: str) -> UndecidedChangeError:
        """The error about what nobody decided, which is kept for those who decide without the program."""
        decided = [one for one in found.verdicts if one.decided]
        ways = ways_out([*found.undecided, *decided], found.before, found.after) if found.after else WaysOut()
        self._ask(replace(found, verdicts=tuple(without_dead_ends(found.verdicts, ways))), logical, ways.rebuilt)
        where = self._dataflow.name, self._coordinator.root.uri
        return undecided(*where, found.epoch, without_dead_ends(left, ways), ways)

    def _leading_to(self, tables: Collection[str]) -> frozenset[str]:
        """The operators that lead to some of the program's tables."""
        return reach_of(self._dataflow).before([self._dataflow.tables[name].stream.operator for name in tables])

    def same_time(self, sources: Collection[str], view: LedgerView) -> frozenset[str]:
        """The sources that had the same column as event time in the last epoch."""
        found = self.compare(view)
        before = {node.name: node.operator for node in found.before.nodes} if found.before else {}
        now = {name: self._dataflow.nodes[name].operator for name in sources}
        then = {name: before.get(found.was.get(name, "")) for name in sources}
        return frozenset(
            name
            for name, operator in now.items()
            if isinstance(operator, Source) and isinstance(was := then[name], Source) and operator.event_time == was.event_time
        )

    def states_behind(self, tables: Collection[str], view: LedgerView) -> list[str]:
        """The state tables there are of the operators that lead to some tables."""
        if view.last_complete is None:
            return []
        found = self.compare(view)
        ledgered = self._ledgered(view, view.last_complete, found.before)
        operators = self._leading_to(tables)
        kept = [dataset for name in operators & found.was.keys() for dataset in ledgered.datasets(found.was[name])]
        return kept + [one for name in operators & found.back.keys() for one in ledgered.left_datasets(found.back[name].identity)]

    def origins(self, view: LedgerView) -> Mapping[str, str]:
        """What the last completed epoch called each source, as :meth:`bound` says; without an engine, and nothing is stored."""
        last = view.last_complete
        if last is None or (not view.decisions and last.logical_plan == (self._kept.name_of(self._dataflow) or None)):
            return {}
        found = self.compare(view)
        ledgered = self._ledgered(view, last, found.before)
        return source_origins(self._dataflow, ledgered, found.was, found.restarted)

    def formerly(self, view: LedgerView) -> Mapping[str, Connector]:
        """What sources were in the last completed epoch whose position they go on from, of those that changed."""
        last = view.last_complete
        if last is None or last.logical_plan == (self._kept.name_of(self._dataflow) or None):
            return {}
        found = self.compare(view)
        before = {node.name: node.operator for node in found.before.nodes} if found.before else {}
        sources = {name: before.get(former) for name, former in found.was.items()}
        connectors = {name: source.connector for name, source in sources.items() if isinstance(source, Source)}
        return {name: connector for name, connector in connectors.items() if isinstance(connector, Connector)}

    def waiting(self, view: LedgerView) -> Mapping[str, str]:
        """What was decided, by subject, that an epoch of the program carries out even if its sources hold nothing new.

        Decisions that answer no change of this program, as they were made for another one, begin no epoch: it would end them.
        """
        if not view.decided:
            return {}
        found = self.compare(view)
        return {} if found.undecided else {one.subject: one.decided for one in found.verdicts if one.decided}

    def compare(self, view: LedgerView) -> Comparison:
        """What changed since the last completed epoch, and what follows from it."""
        from dagster_operators.plans.matching import match
        from dagster_operators.plans.renamings import check_known
        from dagster_operators.plans.verdict import Level
        from dagster_operators.plans.verdicts import judge, restarted

        names, last, after = self.renamed_tables(view), view.last_complete, self.logical()
        same = {name: name for name in self._dataflow.nodes}
        if last is None:
            return Comparison(0, None, after, same)
        before = self._kept.read(last.logical_plan) if last.logical_plan else None
        if before is None or after is None:
            return Comparison(last.epoch, before, after, same)
        view, before = as_of_now(view, before, names)
        last = view.last_complete or last
        ledgered, was = self._ledgered(view, last, before), match(before, after).operators
        past = PastPlans(self._coordinator, self._kept)
        check_known(before, after, lambda: {*last.offsets, *ledgered.left, *past.names()})
        pauses = past.pauses(before, after, was, ledgered, last)
        back = {name: pause for name, pause in pauses.operators.items() if name not in was}
        left = elsewhere(self._dataflow, was, ledgered)
        gone = {name: tables for name, tables in let_go(self._dataflow, was, ledgered).items() if name not in left}
        missing = past.left_out(before, after, was, last)
        stored = ledgered.stored(self._former_fingerprints())
        stored = replace(
            stored,
            timed=past.time_columns(before, after, was, stored.timed),
            pauses=pauses,
            elsewhere=left,
            let_go=gone,
            left_out=missing,
            emptied=view.emptied,
        )
        verdicts = (*told(names), *with_the_way(judge(before, after, stored, self._fingerprints()), before))
        undecided = tuple(one for one in verdicts if one.level is Level.DECISION)
        return Comparison(last.epoch, before, after, was, verdicts, undecided, back, left, restarted(verdicts), gone)

    def identity_in(self, complete: Complete, operator: str, logical: str) -> str:
        """What the state of a physical operator was addressed by in an epoch, whatever it was called then."""
        from dagster_operators.plans.matching import match

        before = self._kept.read(complete.logical_plan) if complete.logical_plan else None
        after = self.logical()
        was = match(before, after).operators.get(logical, logical) if before and after else logical
        named = f"{was}{operator.removeprefix(logical)}"
        return complete.identities.get(named, named)

    def answer(self, verdict: Verdict, choice: Literal["keep", "restart", "drop", "withdraw"]) -> Decide:
        """Record what was decided about a change, for the next epoch; taken back is what earlier versions recorded, too."""
        decided = self._coordinator.view().decided
        former = [one for one in verdict.questions[1:] if choice == "withdraw" and (verdict.subject, one) in decided]
        *_, last = (self._coordinator.decide(Decide(0, 0, verdict.subject, choice, one)) for one in (*former, verdict.question))
        return last

    @staticmethod
    def _drops_some(verdict: Verdict, found: Comparison) -> bool:
        """Whether an operator goes on without some of its state: tables that it declares no longer, parts that it has no more."""
        return verdict.decided == "drop" and bool(verdict.was) and found.was.get(verdict.name) == verdict.was

    def _states(self, verdict: Verdict, found: Comparison, ledgered: Ledgered) -> list[str]:
        """The state tables that nobody uses any more once what a verdict is about begins from nothing, or is dropped."""
        if not verdict.was:
            return []
        name = verdict.name
        if self._drops_some(verdict, found):
            return [one for one in ledgered.datasets(verdict.was) if one.rpartition(".")[2] in found.let_go.get(name, ())]
        put_back = name not in found.was  # an operator of the last epoch may have that name too
        if put_back and verdict.decided != "drop":
            return ledgered.left_datasets(verdict.was)
        return ledgered.datasets(verdict.was)

    def drop(self, name: str) -> list[str]:
        """Delete a table or the state of an operator that the pipeline no longer has; which datasets that are.

        What the last epoch had is deleted with the next one, as other decisions take effect.

        Raises:
            PipelineError: The pipeline has it, or there is nothing of that name.
        """
        view = self._coordinator.settle()
        last = view.last_complete
        found = [f"tables/{name}"] if name not in self._dataflow.tables else []
        if last is not None:
            before = self._kept.read(last.logical_plan) if last.logical_plan else None
            kept = self.compare(view).was
            ledgered = self._ledgered(view, last, before)
            if name not in kept.values():
                found += ledgered.datasets(name) if name in self._operators(before) else ledgered.left_datasets(name)
        root = self._coordinator.root
        datasets = [dataset for dataset in found if dataset in view.versions or root.children(dataset)]
        if not datasets:
            raise PipelineError(
                f"the pipeline left no table or state {name!r} behind", pipeline=self._dataflow.name,
                remedy="name a table or an operator that is no longer in the program; if it was dropped, take the line out",
            )  # fmt: skip
        found_now = self.compare(view)
        leaving = [one for one in found_now.verdicts if one.name == name and one.kind in ("table", "operator")]
        if leaving and found_now.before is not None:
            for verdict in leaving:
                self.answer(verdict, "drop")
        else:
            self._coordinator.drop(datasets)
        return datasets

    def logical(self) -> LogicalPlan | None:
        """The pipeline's plan, without rows that sources hold themselves; None if no plan can hold it."""
        from dagster_operators.plans.logical_plan import LogicalPlan

        try:
            return LogicalPlan.of(self._dataflow).without_rows()
        except PlanError:  # an operator is not registered
            return None

    def _ledgered(self, view: LedgerView, last: Complete, plan: LogicalPlan | None) -> Ledgered:
        return Ledgered(view, last, self._operators(plan), self._coordinator.past.left_behind())

    def _operators(self, plan: LogicalPlan | None) -> list[str]:
        return list(self._dataflow.nodes) if plan is None else [node.name for node in plan.nodes]

    def _fingerprints(self) -> dict[str, str]:
        sources = {node.name: node.operator for node in self._dataflow if isinstance(node.operator, Source)}
        return {name: source.connector.fingerprint() for name, source in sources.items()}

    def _former_fingerprints(self) -> frozenset[str]:
        """What earlier versions of the package kept of the user's own sources, which told less of them."""
        connectors = [node.operator.connector for node in self._dataflow if isinstance(node.operator, Source)]
        return frozenset(one.former_fingerprint() for one in connectors if isinstance(one, OperatorSource))

    def _ask(self, found: Comparison, logical: str, offers: Mapping[str, Sequence[str]]) -> None:
        questions = [{**one.to_json(), REBUILD: list(offers.get(one.subject, ()))} for one in found.verdicts]
        asked = {"plan": logical, "epoch": found.epoch, "questions": questions, "elsewhere": dict(found.elsewhere)}
        self._coordinator.root.write(ASKED, json.dumps(asked).encode())
