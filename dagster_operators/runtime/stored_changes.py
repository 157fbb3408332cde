"""What changed in a pipeline, as far as its storage root tells: for those who look and decide without the program."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.connectors.connector import Connector
from dagster_operators.connectors.operator_source import OperatorSource
from dagster_operators.errors import LedgerError, PipelineError
from dagster_operators.operators.relational.source import Source
from dagster_operators.runtime.identities import Ledgered
from dagster_operators.runtime.kept_plans import KeptPlans
from dagster_operators.runtime.past_plans import PastPlans
from dagster_operators.runtime.rebuildable import only_in_program, with_the_way
from dagster_operators.runtime.renamed_tables import as_of_now, renamed_since, told
from dagster_operators.runtime.ways_out import ways_out, without_dead_ends
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.plan import PlanRecord
from dagster_operators.transactions.records import Complete, Decide
from dagster_operators.transactions.transition import Transition
from dagster_operators.transactions.transition_epoch import plan_of_transition
from dagster_operators.transactions.view import LedgerView

if TYPE_CHECKING:
    from dagster_operators.plans.diff import PlanDiff
    from dagster_operators.plans.logical_plan import LogicalPlan
    from dagster_operators.plans.verdict import Verdict

ASKED: Final = "plans/asked.json"
"""What a run asked for when it refused to begin."""

REBUILD: Final = "rebuild"
"""Under which it told the tables that may be computed anew instead."""

_CARRIED: Final = "carried"
"""Under which the epoch is told that computes nothing and behind which it asks the same."""


@dataclass(frozen=True)
class StoredDiff:
    """What changed since the last completed epoch.

    Attributes:
        pipeline: The pipeline's name.
        epoch: That epoch.
        changes: What differs between the plans.
        verdicts: What follows from each change.
        offers: By what a change is about, the tables that may be computed anew instead.
        in_program: The tables that the program alone can compute anew, and no command.
    """

    pipeline: str
    epoch: int
    changes: PlanDiff
    verdicts: tuple[Verdict, ...]
    offers: Mapping[str, Sequence[str]]
    in_program: Collection[str] = ()

    def lines(self) -> Iterator[str]:
        """For people: what changed, what follows from it, and for what needs a decision the ways on."""
        from dagster_operators.plans.verdict import Level

        yield f"since epoch {self.epoch} of {self.pipeline}:"
        yield str(self.changes) or "nothing changed"
        for verdict in self.verdicts:
            yield str(verdict)
            if verdict.level is not Level.DECISION:
                continue
            if verdict.remedy:
                yield f"    {verdict.remedy}"
                if not (verdict.choices or verdict.renamed_from):
                    continue
            if verdict.renamed_from:
                yield f"    in the program: renamed_from={verdict.renamed_from!r}"
            yield from (f"    {choice}: {meaning}" for choice, meaning in verdict.choices.items())
            if tables := self.offers.get(verdict.subject):
                named = repr([*tables] if tables[1:] else tables[0])
                by_command = {*tables}.isdisjoint(self.in_program)
                typed = f"rebuild {' '.join(tables)}" if by_command else f"in Python: pipeline.rebuild({named})"
                yield f"    {typed}: compute it anew, with the state behind it, from all that its sources gave"

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        verdicts = [
            {**one.to_json(), "level": one.level.value, "decided": one.decided, REBUILD: list(self.offers.get(one.subject, ()))}
            for one in self.verdicts
        ]
        return {"pipeline": self.pipeline, "epoch": self.epoch, "changes": self.changes.to_json(), "verdicts": verdicts}


def _fingerprints(plan: LogicalPlan) -> dict[str, str]:
    """What gives the positions of sources their meaning, of those that a plan tells all of."""
    sources = {node.name: node.operator.connector for node in plan.nodes if isinstance(node.operator, Source)}
    known = {name: one for name, one in sources.items() if isinstance(one, Connector) and not isinstance(one, OperatorSource)}
    return {name: connector.fingerprint() for name, connector in known.items()}


class StoredChanges:
    """A storage root, its last completed epoch, and what was asked since.

    Args:
        coordinator: Knows the ledger; open if something is to be decided.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._kept = KeptPlans(coordinator.root)

    def compared(self, plan: LogicalPlan | None = None) -> StoredDiff:
        """What changed, and what follows from it.

        Args:
            plan: The pipeline as it is now; by default the one that was refused last.

        Raises:
            LedgerError: No epoch is complete, no plan was kept of it, or no pipeline was refused since.
        """
        from dagster_operators.plans.diff import diff
        from dagster_operators.plans.matching import match, named_as_before
        from dagster_operators.plans.verdict import Level, Verdict

        view, last, before = self._last(self._coordinator.view())
        asked = {} if plan else self._asked(view, last)
        after = plan or self._kept.read(asked["plan"])
        changes = diff(before, named_as_before(after, match(before, after)))
        if plan:
            verdicts = self._judged(view, last, before, plan)
            ways = ways_out([one for one in verdicts if one.decided or one.level is Level.DECISION], before, plan)
            verdicts, offers = without_dead_ends(verdicts, ways), ways.rebuilt
        else:
            verdicts = [Verdict.from_json(told).answered(view.decided) for told in asked["questions"]]
            offers = {told["subject"]: told.get(REBUILD, []) for told in asked["questions"]}
        return StoredDiff(self._coordinator.pipeline, last.epoch, changes, tuple(verdicts), offers, only_in_program(after))

    def _judged(self, view: LedgerView, last: Complete, before: LogicalPlan, plan: LogicalPlan) -> list[Verdict]:
        """What follows from a plan that has not run. Where state would be stored, only its pipeline knows."""
        from dagster_operators.plans.matching import match
        from dagster_operators.plans.renamings import check_known
        from dagster_operators.plans.verdicts import judge

        names = renamed_since(view, before, plan.tables)
        view, before = as_of_now(view, before, names)
        last = view.last_complete or last
        ledgered = Ledgered(view, last, [node.name for node in before.nodes], self._coordinator.past.left_behind())
        past, was = PastPlans(self._coordinator, self._kept), match(before, plan).operators
        check_known(before, plan, lambda: {*last.offsets, *ledgered.left, *past.names()})
        pauses, missing = past.pauses(before, plan, was, ledgered, last), past.left_out(before, plan, was, last)
        stored = ledgered.stored()
        timed = past.time_columns(before, plan, was, stored.timed)
        stored = replace(stored, pauses=pauses, left_out=missing, timed=timed, emptied=view.emptied)
        return [*told(names), *with_the_way(judge(before, plan, stored, _fingerprints(plan)), before)]

    def decide(self, subject: str, choice: Any) -> None:
        """Answer what the run that was refused last asked.

        Raises:
            PipelineError: It did not ask that, or it does not allow that answer.
            LedgerError: No run was refused since the last completed epoch.
        """
        from dagster_operators.plans.verdict import Verdict

        view, last, _ = self._last(self._coordinator.settle())
        refused = self._asked(view, last)
        everything = refused["questions"]
        asked = [told for told in everything if told["subject"] == subject]
        fitting = [verdict for told in asked if choice in (verdict := Verdict.from_json(told)).choices]
        if not fitting:
            raise PipelineError(
                f"{choice!r} is no answer to what was asked about {subject!r}", pipeline=self._coordinator.pipeline,
                remedy=_ways_on(asked or everything, self._in_program(refused)) or "nothing is to be decided: run an epoch",
            )  # fmt: skip
        for verdict in fitting:
            self._coordinator.decide(Decide(0, 0, subject, choice, verdict.question))

    def _in_program(self, asked: Mapping[str, Any]) -> Collection[str]:
        """The tables that the refused program alone can compute anew."""
        return only_in_program(self._kept.read(asked["plan"])) if asked.get("plan") else ()

    def withdraw(self, subject: str) -> None:
        """Take back what was decided about something since the last epoch.

        Raises:
            PipelineError: Nothing was decided about it.
        """
        view = self._coordinator.settle()
        questions = [question for about, question in view.decided if about == subject]
        if not questions:
            raise nothing_decided(self._coordinator.pipeline, subject, [about for about, _ in view.decided])
        for question in questions:
            self._coordinator.decide(Decide(0, 0, subject, "withdraw", question))

    def program(self) -> tuple[bytes, str]:
        """The plan of the pipeline that was refused since the last completed epoch, else of that epoch; and which of them it is.

        Raises:
            LedgerError: No plan was kept of it, or no epoch is complete.
        """
        view, last, _ = self._last(self._coordinator.view())
        asked = asked_behind(self._last_asked(), view)
        if asked:
            return self._kept.data(asked["plan"]), f"the one that was refused after epoch {asked['epoch']}"
        return self._kept.data(last.logical_plan), f"that of the last epoch, {last.epoch}"

    def refused(self) -> str:
        """What the plan is called of the program that was refused since the last completed epoch; nothing if none was."""
        return str(asked_behind(self._last_asked(), self._coordinator.view()).get("plan", ""))

    def carry(self, plan: PlanRecord, to: Transition, settled: str = "") -> None:
        """Let what was refused since the last completed epoch stay so behind an epoch that computes nothing, once there is that.

        Args:
            plan: What the pipeline is behind that epoch.
            to: The epoch.
            settled: What it settles, as the subject of what was asked.
        """
        if asked := asked_behind(self._last_asked(), self._coordinator.view()):
            (stage,) = plan_of_transition(plan, to).stages
            told = {**asked, _CARRIED: {"stage": stage.fingerprint, "settled": settled}}
            self._coordinator.root.write(ASKED, json.dumps(told).encode())

    def drop(self, name: str) -> list[str]:
        """Forget and delete a table, or an operator's state.

        Args:
            name: The table or operator.

        Raises:
            PipelineError: The last epoch had it, or there is nothing of that name.
        """
        view, last, before = self._last(self._coordinator.settle())
        operators = [node.name for node in before.nodes]
        if name in operators or any(table.name == name for table in before.tables):
            raise PipelineError(
                f"the last epoch had {name!r}", pipeline=self._coordinator.pipeline,
                remedy=f"in the program that no longer has it call, in Python: pipeline.drop({name!r})",
            )  # fmt: skip
        found = [f"tables/{name}", *Ledgered(view, last, operators).left_datasets(name)]
        datasets = [dataset for dataset in found if dataset in view.versions or self._coordinator.root.children(dataset)]
        if not datasets:
            raise PipelineError(
                f"the pipeline left no table or state {name!r} behind", pipeline=self._coordinator.pipeline,
                remedy="name a table or an operator that is no longer in it",
            )  # fmt: skip
        self._coordinator.drop(datasets)
        return datasets

    def _last(self, view: LedgerView) -> tuple[LedgerView, Complete, LogicalPlan]:
        last = view.last_complete
        if last is None or not last.logical_plan:
            raise LedgerError(
                "no epoch is complete of which a plan was kept", pipeline=self._coordinator.pipeline,
                file=self._coordinator.root.uri, remedy="run an epoch with this version of the package first",
            )  # fmt: skip
        return view, last, self._kept.read(last.logical_plan)

    def _asked(self, view: LedgerView, last: Complete) -> Mapping[str, Any]:
        asked = asked_behind(self._last_asked(), view)
        if not asked:
            raise LedgerError(
                f"no run was refused since epoch {last.epoch}", pipeline=self._coordinator.pipeline,
                remedy="run the changed pipeline, which says what is to be decided; or give its plan as a FILE",
            )  # fmt: skip
        return asked

    def _last_asked(self) -> Mapping[str, Any]:
        root = self._coordinator.root
        try:
            asked: Mapping[str, Any] = json.loads(root.read(ASKED) or b"{}")
        except (ValueError, RecursionError):  # what a run asked is not to be guessed
            raise LedgerError(
                "what the last refused run asked cannot be read",
                pipeline=self._coordinator.pipeline,
                file=root.join(ASKED),
                remedy="run the changed pipeline, which says again what is to be decided",
            ) from None
        return asked


def _ways_on(asked: Sequence[Mapping[str, Any]], in_program: Collection[str]) -> str:
    """What may be decided about what was asked, and what is to be done where nothing can be."""
    told = ", ".join(f"{one['subject']} ({', '.join(one['choices'])})" for one in asked if one["choices"])
    others = [f"for {one['subject']} ({one['problem']}) {_way_on(one, in_program)}" for one in asked if not one["choices"]]
    return "; ".join([*([f"what may be decided: {told}"] if told else ()), *others])


def _way_on(asked: Mapping[str, Any], in_program: Collection[str]) -> str:
    tables = asked.get(REBUILD) or []
    where = "" if {*tables}.isdisjoint(in_program) else "in Python: "
    anew = f"compute it anew: {where}pipeline.rebuild({tables}); or " if tables else ""
    return str(asked.get("remedy") or f"{anew}change it back")


def asked_behind(asked: Mapping[str, Any], view: LedgerView) -> Mapping[str, Any]:
    """What of it is still asked behind the last completed epoch: nothing if another program, or its own, ran since."""
    last, carried = view.last_complete, asked.get(_CARRIED)
    if last is None or asked.get("epoch") == last.epoch:
        return asked if last else {}
    made = [stage.fingerprint for stage in view.last_plan.stages] if view.last_plan else []
    if carried is None or asked["epoch"] != last.epoch - 1 or made != [carried["stage"]]:
        return {}
    left = [told for told in asked["questions"] if told["subject"] != carried["settled"]]
    return {**{name: told for name, told in asked.items() if name != _CARRIED}, "epoch": last.epoch, "questions": left}


def nothing_decided(pipeline: str, subject: str, decided: Collection[str]) -> PipelineError:
    """The error about a decision that is to be taken back and was not made."""
    return PipelineError(
        f"nothing is decided about {subject!r} that waits for the next epoch", pipeline=pipeline,
        remedy=f"it is about: {', '.join(map(repr, decided))}" if decided else "nothing else is either",
    )  # fmt: skip
