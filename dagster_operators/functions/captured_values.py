"""The values that stand in a plan for Python values which are none themselves."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from dagster_operators.functions.references import Reference
from dagster_operators.graph.values import Fields, check_fields, shown


class Captured:
    """What the kinds of captured values have in common: their fields are values."""

    kind: ClassVar[str]

    def encode(self) -> Fields:
        """What it is made of."""
        return dict(vars(self))

    @classmethod
    def decode(cls, fields: Fields) -> Any:
        """The value that was encoded."""
        names = [part.name for part in dataclasses.fields(cls)]  # type: ignore[arg-type]
        check_fields(f"a value of the kind {cls.kind!r}", fields, dict.fromkeys(names, True))
        return cls(**fields)


@dataclass(frozen=True)
class Collection(Captured):
    """A list, set or dict; a dict's items are pairs.

    Attributes:
        type: Which of them.
        items: What is in it, captured; a set's items are sorted by their text.
    """

    kind: ClassVar[str] = "collection"
    type: str
    items: tuple[Any, ...]

    def __str__(self) -> str:
        items = [": ".join(map(shown, item)) for item in self.items] if self.type == "dict" else map(shown, self.items)
        opened, closed = ("[", "]") if self.type == "list" else ("{", "}")
        return f"{opened}{', '.join(items)}{closed}"


@dataclass(frozen=True)
class Written(Captured):
    """A value that can be written as text and read from it: a time, a decimal, a path, a pattern.

    Attributes:
        type: What it is.
        text: The value.
    """

    kind: ClassVar[str] = "written"
    type: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class ArrowBytes(Captured):
    """An Arrow schema, type or table, or a pandas DataFrame, as an IPC stream.

    Attributes:
        type: ``schema``, ``type``, ``table`` or ``pandas``.
        data: The stream.
    """

    kind: ClassVar[str] = "arrow"
    type: str
    data: bytes

    def __str__(self) -> str:
        return f"arrow {self.type} of {len(self.data)} bytes"


@dataclass(frozen=True)
class Member(Captured):
    """A member of an enumeration.

    Attributes:
        type: The enumeration.
        name: The member's name.
    """

    kind: ClassVar[str] = "member"
    type: Reference
    name: str

    def __str__(self) -> str:
        return f"{self.type}.{self.name}"


@dataclass(frozen=True)
class Declared(Captured):
    """A state table that an operator declares.

    Attributes:
        type: Its kind: ``keyed``, ``time``, ``global`` or ``list``.
        schema: Its columns as DDL.
        key: The key's columns.
        time: The column of the rows' event time.
        retention: In microseconds.
        version: Of the rows' meaning.
        migrate: Brings rows of older versions into the declared shape.
    """

    kind: ClassVar[str] = "state_table"
    type: str
    schema: str
    key: tuple[str, ...]
    time: str | None
    retention: int | None
    version: int
    migrate: Reference | None

    def __str__(self) -> str:
        return f"{self.type}({self.schema})"


@dataclass(frozen=True)
class Opaque(Captured):
    """Something that a plan cannot hold, told apart by its digest.

    Attributes:
        type: Its type's name.
        digest: Of its content, as far as that can be seen.
    """

    kind: ClassVar[str] = "opaque"
    type: str
    digest: str

    def __str__(self) -> str:
        return f"<{self.type}>"


@dataclass(frozen=True, eq=False, repr=False)
class Secret:
    """A secret that was given again: it is in no plan, and has no text."""

    value: Any

    def __repr__(self) -> str:
        return "Secret(...)"
