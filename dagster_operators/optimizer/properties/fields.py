"""Fields of rows, and which of them an operator hands on unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dagster_operators.errors import PipelineError

Field: TypeAlias = int | str
"""A field, by its position or by its name."""

Fields: TypeAlias = tuple[Field, ...]
"""Fields in an order that matters."""

FieldSet: TypeAlias = frozenset[Field]
"""Fields in any order."""


def in_order(fields: Fields | FieldSet) -> Fields:
    """The fields in an order: their own where they have one, else positions first, then names.

    >>> in_order(frozenset({2, 0})), in_order(("b", "a"))
    ((0, 2), ('b', 'a'))
    """
    if isinstance(fields, tuple):
        return fields
    return tuple(sorted(fields, key=lambda field: (isinstance(field, str), field)))


def is_unordered_prefix(fields: Fields, wanted: FieldSet) -> bool:
    """Whether a sequence of fields begins with fields of a set, with as many as the set has.

    >>> is_unordered_prefix((1, 0, 2), frozenset({0, 1})), is_unordered_prefix((1, 2, 0), frozenset({0, 1}))
    (True, False)
    """
    return len(wanted) <= len(fields) and all(field in wanted for field in fields[: len(wanted)])


@dataclass(frozen=True)
class Forwarding:
    """The fields of an input whose values an operator's output has, unchanged, and where.

    Attributes:
        moves: Pairs of a field of the input and a field of the output.
        all_fields: Whether each field of the input is that field of the output.

    >>> swap = Forwarding(((0, 1), (1, 0)))
    >>> swap.target(0), swap.source(0), swap.target(2)
    (1, 1, None)
    >>> Forwarding.everything().target(2)
    2
    """

    moves: tuple[tuple[Field, Field], ...] = ()
    all_fields: bool = False

    def __post_init__(self) -> None:
        targets = [target for _, target in self.moves]
        if len(set(targets)) < len(targets):
            twice = next(target for target in targets if targets.count(target) > 1)
            raise PipelineError(
                "two fields are forwarded to one field of the output", field=twice,
                remedy="name each field of the output once in the forwarded fields",
            )  # fmt: skip

    @classmethod
    def everything(cls) -> Forwarding:
        """That of an operator whose output has the fields of its input.

        >>> Forwarding.everything().source("k")
        'k'
        """
        return cls(all_fields=True)

    @classmethod
    def of(cls, fields: Iterable[Field]) -> Forwarding:
        """That of an operator which keeps some fields where they are.

        >>> Forwarding.of(["k"]).target("k"), Forwarding.of(["k"]).target("v")
        ('k', None)
        """
        return cls(tuple((field, field) for field in fields))

    @classmethod
    def parse(cls, text: str, fields: Sequence[Field]) -> Forwarding:
        """The forwarding of a text in Flink's form: fields, moves of fields, or ``*`` for all, with semicolons between.

        Args:
            text: For example ``"f0; f2->f1"``.
            fields: The fields that ``*`` stands for.

        Raises:
            PipelineError: A move has no field on one side, or a field of the output is named twice.

        >>> Forwarding.parse("f0; f2->f1", ["f0", "f1", "f2"])
        Forwarding(moves=(('f0', 'f0'), ('f2', 'f1')), all_fields=False)
        """
        moves: list[tuple[Field, Field]] = []
        for part in filter(None, (part.strip() for part in text.split(";"))):
            if part == "*":
                moves += [(field, field) for field in fields]
                continue
            source, arrow, target = (piece.strip() for piece in part.partition("->"))
            if not source or (arrow and not target):
                raise PipelineError(
                    f"forwarded fields cannot be read: {part!r}", remedy="write them as in 'f0; f2->f1', or '*' for all fields"
                )
            moves.append((source, target or source))
        return cls(tuple(moves))

    def target(self, source: Field) -> Field | None:
        """The field of the output with the value of a field of the input; the first of several.

        >>> Forwarding(((0, 2), (0, 1))).target(0)
        1
        """
        if self.all_fields:
            return source
        targets = frozenset(target for field, target in self.moves if field == source)
        return in_order(targets)[0] if targets else None

    def source(self, target: Field) -> Field | None:
        """The field of the input whose value a field of the output has.

        >>> Forwarding(((0, 2), (0, 1))).source(2)
        0
        """
        return target if self.all_fields else next((field for field, moved_to in self.moves if moved_to == target), None)

    def only(self, sources: Iterable[Field]) -> Forwarding:
        """What is left where only some fields of the input are known to be handed on.

        >>> Forwarding.everything().only([0]), Forwarding(((0, 1), (1, 0))).only([1]).moves
        (Forwarding(moves=((0, 0),), all_fields=False), ((1, 0),))
        """
        fields = tuple(sources)
        if self.all_fields:
            return Forwarding.of(fields)
        return Forwarding(tuple((field, target) for field, target in self.moves if field in fields))


NOTHING_FORWARDED = Forwarding()
"""That of an operator of which nothing is known."""
