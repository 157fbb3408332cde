"""Spark's data types as values: how they are spelt, and what one may ask about them.

There are two spellings of a whole number's type and the like: that of SQL and ``DataType.simpleString`` (``bigint``) and that of
schemas in JSON (``long``). As text a type has the first one, so that two spellings of one type compare equal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from typing_extensions import override

from dagster_operators.types.names import quoted, quoted_if_needed

WORDS_IN_JSON: Final[Mapping[str, str]] = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
"""What the types are called in JSON that have another name there."""

WHOLE_NUMBERS_IN_JSON: Final = frozenset(WORDS_IN_JSON.values())
"""What whole numbers are called in JSON."""

_WHOLE = frozenset(WORDS_IN_JSON)
_FLOATING = frozenset({"float", "double"})
_MOMENTS = frozenset({"timestamp", "timestamp_ntz"})
_SIMPLE = _WHOLE | _FLOATING | _MOMENTS | {"string", "binary", "boolean", "date"}
_LONGEST_KEY_DECIMAL = 18


@dataclass(frozen=True)
class Spelling:
    """A way of writing types.

    Attributes:
        name: How the names of a struct's fields are written.
        word: How the names of types are written.
        said: What is written behind a field of a struct.
    """

    name: Callable[[str], str] = quoted_if_needed
    word: Callable[[str], str] = str
    said: Callable[[Field], str] = lambda _: ""


SIMPLE: Final = Spelling()
"""As ``DataType.simpleString`` does, and so that it can be read as DDL."""


class DataType(ABC):
    """One of Spark's types."""

    @abstractmethod
    def text(self, spelling: Spelling = SIMPLE) -> str:
        """The type as text."""

    def __str__(self) -> str:
        return self.text()

    @property
    def sql(self) -> str:
        """The type as it stands in an expression, whatever its fields are called.

        >>> Array(Struct((Field("x", Plain("bigint")),))).sql
        'array<struct<`x`:bigint>>'
        """
        return self.text(_SQL)

    @property
    def spelt_as_json(self) -> str:
        """The type in the words that JSON has for it, for people who know them from there.

        >>> Array(Plain("bigint")).spelt_as_json
        'array<long>'
        """
        return self.text(_WORDS_OF_JSON)

    # --- what one may ask --------------------------------------------------------------------------------------------

    @property
    def is_timestamp(self) -> bool:
        """Whether it is a moment, with a time zone or without: what an event time may be.

        >>> Plain("timestamp_ntz").is_timestamp, Plain("date").is_timestamp
        (True, False)
        """
        return isinstance(self, Plain) and self.name in _MOMENTS

    @property
    def is_whole_number(self) -> bool:
        """Whether it is a whole number, of any size."""
        return isinstance(self, Plain) and self.name in _WHOLE

    @property
    def is_number(self) -> bool:
        """Whether it is a number: whole, floating-point or decimal.

        >>> Decimal(10, 2).is_number, Plain("string").is_number
        (True, False)
        """
        return isinstance(self, Decimal) or (isinstance(self, Plain) and self.name in _WHOLE | _FLOATING)

    @property
    def is_nested(self) -> bool:
        """Whether it has types in it."""
        return isinstance(self, Array | Map | Struct)

    @property
    def is_simple(self) -> bool:
        """Whether its values are stored alike by whoever writes them.

        >>> Decimal(10, 2).is_simple, Array(Plain("int")).is_simple, Plain("variant").is_simple
        (True, False, False)
        """
        return isinstance(self, Decimal) or (isinstance(self, Plain) and self.name in _SIMPLE)

    @property
    def is_rewritable(self) -> bool:
        """Whether this process writes it as all engines do; not maps: Sail does not read those of several writers together.

        >>> Array(Plain("int")).is_rewritable, Array(Map(Plain("int"), Plain("int"))).is_rewritable
        (True, False)
        """
        match self:
            case Array(element):
                return element.is_rewritable
            case Struct(fields):
                return all(one.type.is_rewritable for one in fields)
            case _:
                return self.is_simple

    @property
    def has_order(self) -> bool:
        """Whether an engine can sort by it: not by maps and variants, nor by what they are in.

        >>> Array(Plain("int")).has_order, Array(Map(Plain("int"), Plain("int"))).has_order
        (True, False)
        """
        return True

    @property
    def is_key(self) -> bool:
        """Whether state can be found by it: its hash and its equality are settled.

        >>> Plain("string").is_key, Decimal(18, 2).is_key, Decimal(20, 2).is_key
        (True, True, False)
        """
        return not self.is_nested

    @property
    def kind(self) -> str:
        """What an error calls it: ``number`` for all numbers, else what kind of type it is, without what is in it.

        >>> Plain("int").kind, Decimal(10, 2).kind, Array(Plain("int")).kind, Plain("timestamp").kind
        ('number', 'number', 'array', 'timestamp')
        """
        return "number" if self.is_number else self.shown.partition("(")[0]

    @property
    def shown(self) -> str:
        """What an error calls it where numbers are not alike, without what is in it.

        >>> Plain("bigint").shown, Decimal(10, 2).shown, Array(Plain("bigint")).shown
        ('long', 'decimal(10,2)', 'array')
        """
        return self.spelt_as_json.partition("<")[0]


@dataclass(frozen=True)
class Plain(DataType):
    """A type without anything in it.

    Attributes:
        name: In the spelling of SQL, such as ``bigint``, ``char(3)`` or ``interval day to second``.
    """

    name: str

    @override
    def text(self, spelling: Spelling = SIMPLE) -> str:
        return spelling.word(self.name)

    @property
    @override
    def has_order(self) -> bool:
        return self.name != "variant"

    @property
    def most_characters(self) -> int | None:
        """How many characters a text may have; None for other types, and where there is no limit.

        >>> Plain("varchar(3)").most_characters, Plain("char(2)").most_characters, Plain("string").most_characters
        (3, 2, None)
        """
        return int(self.name.partition("(")[2].rstrip(")")) if self.name.startswith(("char(", "varchar(")) else None


@dataclass(frozen=True)
class Decimal(DataType):
    """A decimal number.

    Attributes:
        precision: How many digits it has.
        scale: How many of them are behind the point.
    """

    precision: int
    scale: int

    @override
    def text(self, spelling: Spelling = SIMPLE) -> str:
        return f"{spelling.word('decimal')}({self.precision},{self.scale})"

    @property
    @override
    def is_key(self) -> bool:
        return self.precision <= _LONGEST_KEY_DECIMAL


@dataclass(frozen=True)
class Array(DataType):
    """A list of values.

    Attributes:
        element: Their type.
        nullable: Whether they may be null.
    """

    element: DataType
    nullable: bool = True

    @override
    def text(self, spelling: Spelling = SIMPLE) -> str:
        return f"{spelling.word('array')}<{self.element.text(spelling)}>"

    @property
    @override
    def has_order(self) -> bool:
        return self.element.has_order


@dataclass(frozen=True)
class Map(DataType):
    """Values by key.

    Attributes:
        key: The keys' type.
        value: The values' type.
        nullable: Whether values may be null.
    """

    key: DataType
    value: DataType
    nullable: bool = True

    @override
    def text(self, spelling: Spelling = SIMPLE) -> str:
        return f"{spelling.word('map')}<{self.key.text(spelling)},{self.value.text(spelling)}>"

    @property
    @override
    def has_order(self) -> bool:
        return False


@dataclass(frozen=True)
class Field:
    """A column of a schema, or a field of a struct.

    Attributes:
        name: Its name, without backticks.
        type: Its type.
        nullable: Whether it may be null.
        metadata: What else is said of it, as JSON values.
    """

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def comment(self) -> str | None:
        """What it is for, as its author says."""
        found: str | None = self.metadata.get("comment")
        return found


@dataclass(frozen=True)
class Struct(DataType):
    """Several named values.

    Attributes:
        fields: In order.
    """

    fields: tuple[Field, ...]

    @override
    def text(self, spelling: Spelling = SIMPLE) -> str:
        parts = (f"{spelling.name(part.name)}:{part.type.text(spelling)}{spelling.said(part)}" for part in self.fields)
        return f"{spelling.word('struct')}<{','.join(parts)}>"

    @property
    @override
    def has_order(self) -> bool:
        return all(part.type.has_order for part in self.fields)


@dataclass(frozen=True)
class Opaque(DataType):
    """A type that only an engine understands, such as a class of the user's own.

    Attributes:
        name: What a schema in JSON calls it.
        json: What that has for it.
    """

    name: str
    json: str

    @override
    def text(self, spelling: Spelling = SIMPLE) -> str:
        return spelling.word(self.name)


_SQL: Final = Spelling(name=quoted)
_WORDS_OF_JSON: Final = Spelling(name=str, word=lambda word: WORDS_IN_JSON.get(word, word))
