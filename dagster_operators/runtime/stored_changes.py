"""What changed in a pipeline, as far as its storage root tells: for those who look and decide without the program."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import LedgerError, PipelineError
from dagster_operators.runtime.identities import Ledgered
from dagster_operators.runtime.kept_plans import KeptPlans
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.records import Complete, Decide
from dagster_operators.transactions.view import LedgerView

if TYPE_CHECKING:
    from dagster_operators.plans.logical_plan import LogicalPlan

ASKED = "plans/asked.json"
"""What a run asked for when it refused to begin."""


class StoredChanges:
    """A storage root, its last completed epoch, and what was asked since.

    Args:
        coordinator: Knows the ledger; open if something is to be decided.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._kept = KeptPlans(coordinator.root)

    def told(self, plan: LogicalPlan | None = None) -> Iterator[str]:
        """What changed, line by line.

        Args:
            plan: The pipeline as it is now; by default the one that was refused last.

        Raises:
            LedgerError: No epoch is complete, no plan was kept of it, or no pipeline was refused since.
        """
        from dagster_operators.plans.diff import diff
        from dagster_operators.plans.matching import match, named_as_before
        from dagster_operators.plans.verdict import Level, Verdict
        from dagster_operators.plans.verdicts import judge

        view, last, before = self._last(self._coordinator.view())
        asked = {} if plan else self._asked(last)
        after = plan or self._kept.read(asked["plan"])
        yield f"since epoch {last.epoch} of {self._coordinator.pipeline}:"
        changes = str(diff(before, named_as_before(after, match(before, after))))
        yield changes or "nothing changed"
        if plan:
            operators, left = [node.name for node in before.nodes], self._coordinator.past.left_behind()
            verdicts = judge(before, after, Ledgered(view, last, operators, left).stored())
        else:
            verdicts = [Verdict.from_json(told).answered(view.decided) for told in asked["questions"]]
        for verdict in verdicts:
            yield str(verdict)
            if verdict.level is Level.DECISION:
                if verdict.renamed_from:
                    yield f"    in the program: renamed_from={verdict.renamed_from!r}"
                yield from (f"    {choice}: {meaning}" for choice, meaning in verdict.choices.items())

    def decide(self, subject: str, choice: Any) -> None:
        """Answer what the run that was refused last asked.

        Raises:
            PipelineError: It did not ask that, or it does not allow that answer.
            LedgerError: No run was refused since the last completed epoch.
        """
        from dagster_operators.plans.verdict import Verdict

        last = self._last(self._coordinator.settle())[1]
        everything = [verdict for told in self._asked(last)["questions"] if (verdict := Verdict.from_json(told)).choices]
        asked = [verdict for verdict in everything if verdict.subject == subject]
        fitting = [verdict for verdict in asked if choice in verdict.choices]
        if not fitting:
            told = [f"{verdict.subject} ({', '.join(verdict.choices)})" for verdict in asked or everything]
            raise PipelineError(
                f"{choice!r} is no answer to what was asked about {subject!r}", pipeline=self._coordinator.pipeline,
                remedy=f"what may be decided: {', '.join(told)}",
            )  # fmt: skip
        for verdict in fitting:
            self._coordinator.decide(Decide(0, 0, subject, choice, verdict.question))

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

    def program(self) -> bytes:
        """The plan of the pipeline that was refused since the last completed epoch, else of that epoch.

        Raises:
            LedgerError: No plan was kept of it, or no epoch is complete.
        """
        _, last, _ = self._last(self._coordinator.view())
        asked = self._last_asked()
        return self._kept.data(asked["plan"] if asked.get("epoch") == last.epoch else last.logical_plan)

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
                remedy="call pipeline.drop(...) in the program that no longer has it, or run an epoch without it first",
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

    def _asked(self, last: Complete) -> Mapping[str, Any]:
        asked = self._last_asked()
        if asked.get("epoch") != last.epoch:
            raise LedgerError(
                f"no run was refused since epoch {last.epoch}", pipeline=self._coordinator.pipeline,
                remedy="run the changed pipeline, which says what is to be decided; or give its plan as a FILE",
            )  # fmt: skip
        return asked

    def _last_asked(self) -> Mapping[str, Any]:
        root = self._coordinator.root
        try:
            asked: Mapping[str, Any] = json.loads(root.read(ASKED) or b"{}")
        except ValueError:  # what a run asked is not to be guessed
            raise LedgerError(
                "what the last refused run asked cannot be read",
                pipeline=self._coordinator.pipeline,
                file=root.join(ASKED),
                remedy="run the changed pipeline, which says again what is to be decided",
            ) from None
        return asked


def nothing_decided(pipeline: str, subject: str, decided: Collection[str]) -> PipelineError:
    """The error about a decision that is to be taken back and was not made."""
    return PipelineError(
        f"nothing is decided about {subject!r} that waits for the next epoch", pipeline=pipeline,
        remedy=f"it is about: {', '.join(map(repr, decided))}" if decided else "nothing else is either",
    )  # fmt: skip
