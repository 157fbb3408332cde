"""What a change of a pipeline does to what is stored, and what there is stored: the values that judging takes and gives."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal, TypeAlias

from dagster_operators.errors import WayOn
from dagster_operators.plans.pauses import Pauses
from dagster_operators.plans.reason import Reason, Why, question_of

Choice: TypeAlias = Literal["keep", "restart", "drop"]
"""What may be decided: go on with what there is, begin from nothing, or delete what is left."""


class Level(Enum):
    """What a change does to what is stored."""

    HARMLESS = "harmless"
    FROM_HERE_ON = "applies from here on"
    KEPT = "state is kept"
    DECISION = "needs a decision"
    DECIDED = "decided"


@dataclass(frozen=True)
class Verdict:
    """What one change does.

    Attributes:
        level: How much it does.
        subject: What changed: ``source landed``, ``operator per_key``, ``table totals``, ``sink warehouse``.
        problem: What changed, and what follows from it.
        choices: What may be decided, with what each means; only where a decision is needed.
        renamed_from: What the subject may have been called before, if it may have been renamed.
        empties: The tables that are emptied if it is restarted.
        was: What the subject was called in the last epoch, or has state under.
        decided: What was decided about it; empty if nothing was.
        tables: The tables that settle it when they are computed anew, of a source.
        fillable: Whether it is a new table, which could have the rows of before: ``to_table(..., backfill=True)``.
        remedy: What to do about it where nothing can be decided, or instead of that, as an error's.
        read_anew: What the last epoch called the source that may be read anew, with all that is behind it beginning from nothing.
        reasons: The facts by which a decision is known again; of verdicts that earlier versions asked, none.
        ways: The methods that the remedy offers; of verdicts that were stored, none.
    """

    level: Level
    subject: str
    problem: str
    choices: Mapping[Choice, str] = field(default_factory=dict)
    renamed_from: str = ""
    empties: tuple[str, ...] = ()
    was: str = ""
    decided: str = ""
    tables: tuple[str, ...] = ()
    fillable: bool = False
    remedy: str = ""
    read_anew: str = ""
    reasons: tuple[Reason, ...] = ()
    ways: frozenset[WayOn] = frozenset()

    @property
    def kind(self) -> str:
        """The kind of what changed: ``source``, ``operator``, ``table`` or ``sink``."""
        return self.subject.partition(" ")[0]

    @property
    def name(self) -> str:
        """The name of what changed."""
        return self.subject.partition(" ")[2]

    @property
    def question(self) -> str:
        """The key of a decision: another change of the same subject has another one, and other words for it do not."""
        return question_of(self.subject, self.reasons) if self.reasons else self.former_question

    @property
    def former_question(self) -> str:
        """The key that earlier versions stored a decision under."""
        return hashlib.sha256(f"{self.subject}: {self.problem}".encode()).hexdigest()[:12]

    @property
    def questions(self) -> tuple[str, ...]:
        """All keys that a decision may be stored under."""
        return tuple(dict.fromkeys((self.question, self.former_question)))

    def is_because(self, why: Why) -> bool:
        """Whether a reason is of a kind."""
        return any(reason.why is why for reason in self.reasons)

    def to_json(self) -> dict[str, Any]:
        """What is told of it, as JSON values."""
        level = (Level.DECISION if self.decided else self.level).value
        choices = {str(choice): meaning for choice, meaning in self.choices.items()}
        about = {"level": level, "subject": self.subject, "problem": self.problem}
        remedy = {"remedy": self.remedy} if self.remedy else {}
        reasons = {"reasons": [reason.to_json() for reason in self.reasons]} if self.reasons else {}
        return {**about, "choices": choices, "renamed_from": self.renamed_from, **remedy, **reasons}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Verdict:
        """What :meth:`to_json` gave, and earlier versions of the package for those that need a decision.

        >>> Verdict.from_json(Verdict(Level.DECISION, "table t", "it is gone", {"drop": "delete it"}).to_json()).choices
        {'drop': 'delete it'}
        """
        level = Level(told.get("level", Level.DECISION.value))
        renamed, remedy = told.get("renamed_from", ""), told.get("remedy", "")
        reasons = tuple(map(Reason.from_json, told.get("reasons", ())))
        return cls(level, told["subject"], told["problem"], told["choices"], renamed, remedy=remedy, reasons=reasons)

    def __str__(self) -> str:
        told = f"decided: {self.decided}, takes effect with the next epoch" if self.decided else self.level.value
        return f"{self.subject}: {self.problem} ({told})"

    def answered(self, decided: Mapping[tuple[str, str], str]) -> Verdict:
        """The verdict with what was decided about it.

        Args:
            decided: By subject and question.
        """
        choice = next((decided[self.subject, one] for one in self.questions if (self.subject, one) in decided), "")
        return replace(self, level=Level.DECIDED, decided=choice) if choice else self


@dataclass(frozen=True)
class Stored:
    """What the ledger knows beside the plan of the last epoch.

    Attributes:
        stateful: The operators of that plan that have state.
        in_tables: Those of them whose state is a table, with it.
        state_tables: All tables that are the state of an operator, also of one that is no longer in that plan.
        elsewhere: The operators that cannot go on with the state that they have, and why: it would be somewhere else.
        let_go: The state tables that operators of the author's own declare no longer.
        decided: What was decided since the last epoch, by subject and question.
        left: What operators that are no longer in that plan have left state under.
        tables: All tables there are, of the pipeline now and of earlier ones.
        updating: Those of them whose rows replace each other.
        positions: The sources that have a position.
        sources: What gave positions their meaning, by source.
        pauses: What the last epoch did not run, and one before did.
        left_out: By the source, the tables that it leads to again, and that were computed anew without it.
        emptied: The operators that a reset had begin anew, of which there was no epoch since.
        timed: The sources that have a watermark, with the column that it is of; empty if that is not known.
    """

    stateful: Collection[str] = ()
    left: Collection[str] = ()
    tables: Collection[str] = ()
    updating: Collection[str] = ()
    positions: Collection[str] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    in_tables: Mapping[str, str] = field(default_factory=dict)
    state_tables: Collection[str] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    decided: Mapping[tuple[str, str], str] = field(default_factory=dict)
    pauses: Pauses = field(default_factory=Pauses)
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    emptied: Collection[str] = ()
    let_go: Mapping[str, Collection[str]] = field(default_factory=dict)
    timed: Mapping[str, str] = field(default_factory=dict)
