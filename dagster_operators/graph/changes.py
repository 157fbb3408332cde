"""What a row of a stream means: a new row, the current row of its key, or a change that may take a row back.

The three kinds are those of Flink's changelogs: append, upsert and retract. Every stream has one, and every input port of an
operator says which it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Final

CHANGE: Final = "_change"
"""The column of a retracting stream that says what a row does; rows of no other stream have it."""

DELETED: Final = "__deleted"
"""On an updating stream: whether the row of this key is to leave the table. Streams without such rows may lack the column."""

OPERATION: Final = "__operation"
"""Of rows that a source tells operations by: what is done to the row of its key, insert, upsert, update or delete.

Behind a blank each the columns are told whose values are what they were, by :func:`told_column`.
"""

PLACE: Final = "__place"
"""Of such rows: their order within an epoch, a whole number."""

ENTRY: Final = (OPERATION, PLACE)
"""The columns that such rows have beside those of the row."""

INSERT: Final = "insert"
"""In :data:`CHANGE`: the row is new."""

UPDATE_BEFORE: Final = "update_before"
"""In :data:`CHANGE`: the row as it was before an update; it is taken back."""

UPDATE_AFTER: Final = "update_after"
"""In :data:`CHANGE`: the row as it is after an update."""

DELETE: Final = "delete"
"""In :data:`CHANGE`: the row is taken back."""

ADDS: Final = (INSERT, UPDATE_AFTER)
"""The changes that bring a row."""

REMOVES: Final = (UPDATE_BEFORE, DELETE)
"""The changes that take a row back."""


class ChangeKind(Enum):
    """How the rows of a stream change what there was before.

    Attributes:
        APPEND: Every row is new and stays.
        UPSERT: A row is the current one of its key, in place of the row before.
        RETRACT: A row is added or taken back, as :data:`CHANGE` says; equal rows count as often as they were added.
    """

    APPEND = "append"
    UPSERT = "upsert"
    RETRACT = "retract"


@dataclass(frozen=True)
class Changes:
    """The kind of a stream's rows.

    Attributes:
        kind: What they do.
        keys: Of an upsert stream the key columns; none for one row in all.

    >>> Changes.APPEND, Changes.upsert(("k",)).keys
    (Changes(kind=<ChangeKind.APPEND: 'append'>, keys=()), ('k',))
    """

    APPEND: ClassVar[Changes]
    RETRACT: ClassVar[Changes]

    kind: ChangeKind
    keys: tuple[str, ...] = ()

    @classmethod
    def upsert(cls, keys: tuple[str, ...]) -> Changes:
        """One current row per key.

        >>> str(Changes.upsert(("origin", "dest")))
        'updating, one row per origin, dest'
        """
        return cls(ChangeKind.UPSERT, keys)

    def __str__(self) -> str:
        if self.kind is ChangeKind.UPSERT:
            return f"updating, one row per {', '.join(self.keys)}" if self.keys else "updating, one row in all"
        return "append" if self.kind is ChangeKind.APPEND else "retracting, each row an addition or a removal"


MOVE: Final = "move"
"""In :data:`OPERATION`: the row of the key goes, since it has another one now; all but the key is that of the new row."""

TRUNCATE: Final = "truncate"
"""In :data:`OPERATION`: all rows there are go."""

OF_SEVERAL: Final = ".parts.json"
"""How the name of a file of events ends that are of several parts, between which there is no order; told behind a truncation."""


def told_column(name: str) -> str:
    """A column's name without blanks.

    >>> told_column("a b")
    '612062'
    """
    return name.encode().hex()


MARKS: Final[Mapping[ChangeKind, tuple[str, ...]]] = {
    ChangeKind.APPEND: (),
    ChangeKind.UPSERT: (DELETED,),
    ChangeKind.RETRACT: (CHANGE,),
}
"""The columns in which rows of a kind say what they mean. An operator that hands rows on hands these on too."""

Changes.APPEND = Changes(ChangeKind.APPEND)
Changes.RETRACT = Changes(ChangeKind.RETRACT)
