"""Why something is asked: facts of a change as values, by which a decision is known again whatever words tell it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from dagster_operators.graph.values import canonical


class Why(Enum):
    """The kinds of reasons. Their values are in ledgers: they stay as they are."""

    TAKEN_BACK = "rows would be taken back otherwise"
    UNKNOWN = "kind that is not known"
    SETTINGS = "settings"
    ELSEWHERE = "state elsewhere"
    LET_GO = "state no longer declared"
    LEFT_BEHIND = "state left behind"
    IN_TABLE = "state of a table"
    BEHIND_CHANGES = "new behind changes"
    WITHOUT_PAST = "new without past"
    CHANGED_KEY = "key computed otherwise"
    OTHER_STREAMS = "other streams"
    CHANGED_BEFORE = "computed otherwise before"
    MIXED = "computes what another did"
    MIXED_WITHIN = "parts mixed up"
    RENAMED_WITHIN = "parts renamed"
    STALE = "state of an earlier epoch"
    COMPUTED_ANEW = "another one only computed anew"
    NOT_TAKEN_BACK = "nothing takes back"
    NEVER_HAD = "takes back what it never had"
    EXCHANGED = "has what another had"
    PARTITIONS = "partitions"
    REPLACED = "rows replaced or not"
    PUT_BACK = "put back"
    BEHIND_STATE = "new behind state"
    TAKES_PLACE = "in the place of another"
    BEGINS = "begins without state"
    MOVED = "reads elsewhere"
    NOT_READ = "not read for some epochs"
    EVENT_TIME = "event time"
    WATERMARK = "watermark of another column"
    LEFT_OUT = "computed anew without it"
    GIVEN_AGAIN = "gives again"


@dataclass(frozen=True)
class Reason:
    """A fact of a change.

    Attributes:
        why: Its kind.
        names: The names and values that tell it from others of the kind.
    """

    why: Why
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, why: Why, *names: object) -> Reason:
        """The fact with its names as texts."""
        return cls(why, tuple(map(str, names)))

    @classmethod
    def of_settings(cls, fields: Mapping[str, tuple[Any, Any]]) -> Reason:
        """The fact that settings are others, with digests of what each was and is.

        >>> Reason.of_settings({"n": (1, 2)}) == Reason.of_settings({"n": (1, 3)})
        False
        """
        pairs = (
            (name, *(hashlib.sha256(canonical(one).encode()).hexdigest()[:12] for one in pair)) for name, pair in fields.items()
        )
        return cls(Why.SETTINGS, tuple(part for pair in pairs for part in pair))

    def to_json(self) -> list[str]:
        """The same as JSON values."""
        return [self.why.value, *self.names]

    @classmethod
    def from_json(cls, told: Sequence[str]) -> Reason:
        """What :meth:`to_json` gave.

        >>> Reason.from_json(Reason.of(Why.PUT_BACK, 3).to_json()) == Reason.of(Why.PUT_BACK, 3)
        True
        """
        return cls(Why(told[0]), tuple(told[1:]))


def question_of(subject: str, reasons: Sequence[Reason]) -> str:
    """What a decision answers: another change of the same subject is another question, and other words are not.

    >>> question_of("table t", [Reason.of(Why.PUT_BACK, 3)]) == question_of("table t", [Reason.of(Why.PUT_BACK, 4)])
    False
    """
    kind, _, name = subject.partition(" ")
    told = json.dumps([kind, name, *(reason.to_json() for reason in reasons)])
    return hashlib.sha256(told.encode()).hexdigest()[:12]
