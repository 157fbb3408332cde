"""Semantic annotations: the fields that a function hands on, leaves alone or looks at, as its author declares them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from dagster_operators.api.datasets.keys import position
from dagster_operators.errors import PipelineError
from dagster_operators.optimizer.properties.fields import Field, Forwarding

if TYPE_CHECKING:
    from dagster_operators.api.datasets.row_types import RowType


class Annotated(ABC):
    """A data set whose function may be annotated.

    Attributes:
        inputs: The data sets that the function reads.
        fields: The names of the result's fields.
        read_fields: For each input, the fields that the function looks at, where its author declares them.
    """

    inputs: tuple[Any, ...]
    fields: tuple[str, ...] | None

    def __init__(self) -> None:
        self._forwarded: dict[int, Forwarding] = {}
        self.read_fields: dict[int, tuple[Field, ...]] = {}

    @property
    @abstractmethod
    def row_type(self) -> RowType:
        """Its fields."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """The name that plans and errors have."""

    def with_forwarded_fields(self, *fields: str) -> Self:
        """Fields that the function hands on unchanged: ``"k"``, ``"f0->f1"``, or ``"*"`` for all.

        The optimizer relies on them: an exchange or a sort by such a field is not made again behind the function.

        Raises:
            PipelineError: There is no such field, or two fields go to one place.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> rows = LocalProgram().rows([("a", 1)], "k", "v")
        >>> rows.map(lambda row: (row.v, row.k)).with_forwarded_fields("k->f1").forwarding().moves
        ((0, 1),)
        """
        return self._forwards(0, fields)

    def with_forwarded_fields_first(self, *fields: str) -> Self:
        """Fields of the first of two inputs that the function hands on unchanged.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> rows = LocalProgram().rows([("a", 1)], "k", "v")
        >>> joined = rows.join(rows).where("k").equal_to("k").with_function(lambda first, second: (first.k, second.v))
        >>> joined.with_forwarded_fields_first("k->f0").forwarding(0).moves
        ((0, 0),)
        """
        return self._forwards(0, fields)

    def with_forwarded_fields_second(self, *fields: str) -> Self:
        """Fields of the second of two inputs that the function hands on unchanged.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> rows = LocalProgram().rows([("a", 1)], "k", "v")
        >>> joined = rows.join(rows).where("k").equal_to("k").with_function(lambda first, second: (first.k, second.v))
        >>> joined.with_forwarded_fields_second("v->f1").forwarding(1).moves
        ((1, 1),)
        """
        return self._forwards(1, fields)

    def with_non_forwarded_fields(self, *fields: str) -> Self:
        """Fields that the function changes; all others are handed on, so the result has the fields of the input.

        Raises:
            PipelineError: The number of fields is not known, or the result has other fields than the input.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> rows = LocalProgram().rows([("a", 1, 2)], "k", "v", "w")
        >>> rows.map(lambda row: (row.k, row.v + 1, row.w)).with_non_forwarded_fields("v").forwarding().moves
        ((0, 0), (2, 2))
        """
        return self._forwards_others(0, fields)

    def with_non_forwarded_fields_first(self, *fields: str) -> Self:
        """Fields of the first of two inputs that the function changes; all others are handed on.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> rows = LocalProgram().rows([("a", 1)], "k", "v")
        >>> joined = rows.join(rows).where("k").equal_to("k").with_function(lambda first, second: (first.k, second.v))
        >>> joined.with_non_forwarded_fields_first("v").forwarding(0).moves
        ((0, 0),)
        """
        return self._forwards_others(0, fields)

    def with_non_forwarded_fields_second(self, *fields: str) -> Self:
        """Fields of the second of two inputs that the function changes; all others are handed on.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> rows = LocalProgram().rows([("a", 1)], "k", "v")
        >>> joined = rows.join(rows).where("k").equal_to("k").with_function(lambda first, second: (first.k, second.v))
        >>> joined.with_non_forwarded_fields_second("k").forwarding(1).moves
        ((1, 1),)
        """
        return self._forwards_others(1, fields)

    def with_read_fields(self, *fields: str) -> Self:
        """Fields that the function looks at. Plans are the same with them and without, as Flink's are.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> rows = LocalProgram().rows([("a", 1)], "k", "v")
        >>> rows.filter(lambda row: row.v > 0).with_read_fields("v").read_fields
        {0: (1,)}
        """
        return self._reads(0, fields)

    def with_read_fields_first(self, *fields: str) -> Self:
        """Fields of the first of two inputs that the function looks at.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> rows = LocalProgram().rows([("a", 1)], "k", "v")
        >>> rows.cross(rows).with_function(lambda first, second: first.v).with_read_fields_first("v").read_fields
        {0: (1,)}
        """
        return self._reads(0, fields)

    def with_read_fields_second(self, *fields: str) -> Self:
        """Fields of the second of two inputs that the function looks at.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> rows = LocalProgram().rows([("a", 1)], "k", "v")
        >>> rows.cross(rows).with_function(lambda first, second: second.v).with_read_fields_second("v").read_fields
        {1: (1,)}
        """
        return self._reads(1, fields)

    def _forwards(self, number: int, fields: Sequence[str]) -> Self:
        self._require_texts(fields)
        names = self._input(number).names
        width = range(len(names)) if names else range(0)
        parsed = Forwarding.parse(";".join(fields), list(width))
        moves = []
        for source, target in parsed.moves:  # a field that keeps its name keeps its place where the result has no names
            place = position(source, names)
            moves.append((place, place if target == source and self.fields is None else position(target, self.fields)))
        return self._declare(number, Forwarding(tuple(moves)))

    def _forwards_others(self, number: int, fields: Sequence[str]) -> Self:
        self._require_texts(fields)
        row = self._input(number)
        width, own = _width(row), _width(self.row_type)
        if width is None or (own is not None and own != width):
            known = "not known" if width is None else f"{width}, and those of the result are {own}"
            raise PipelineError(
                f"the fields of the input are {known}", operator=self.shown,
                remedy="declare the fields that the function hands on: with_forwarded_fields('f0')",
            )  # fmt: skip
        changed = {position(field, row.names) for field in _listed(fields)}
        return self._declare(number, Forwarding.of(field for field in range(width) if field not in changed))

    def _reads(self, number: int, fields: Sequence[str]) -> Self:
        self._require_texts(fields)
        row = self._input(number)
        self.read_fields[number] = tuple(position(field, row.names) for field in _listed(fields))
        return self

    def _require_texts(self, fields: Sequence[str]) -> None:
        for field in fields:
            if not isinstance(field, str):
                raise PipelineError(
                    f"{field!r} is no text that names fields", operator=self.shown,
                    remedy="write fields as texts, by name or as 'f0' by position: with_forwarded_fields('f0')",
                )  # fmt: skip

    def _input(self, number: int) -> RowType:
        if number >= len(self.inputs):
            raise PipelineError(
                "the operator has one input", operator=self.shown,
                remedy="leave _second out: with_forwarded_fields('f0')",
            )  # fmt: skip
        row: RowType = self.inputs[number].row_type
        return row

    def _declare(self, number: int, forwarding: Forwarding) -> Self:
        if number in self._forwarded:
            raise PipelineError(
                "the forwarded fields of an input are declared twice", operator=self.shown,
                remedy="declare them in one call, either those that are forwarded or those that are not",
            )  # fmt: skip
        self._forwarded[number] = forwarding
        return self

    def forwarding(self, number: int = 0) -> Forwarding:
        """The fields of an input that the function hands on, as its author declares them.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> LocalProgram().rows([("a", 1)], "k", "v").map(tuple).with_forwarded_fields("*").forwarding().moves
        ((0, 0), (1, 1))
        """
        return self._forwarded.get(number, Forwarding())

    @property
    def declares_forwarded(self) -> bool:
        """Whether its author declares which fields the function forwards."""
        return bool(self._forwarded)


def _width(row: RowType) -> int | None:
    known = row.names if row.names is not None else row.types
    return None if known is None else len(known)


def _listed(fields: Sequence[str]) -> list[str]:
    return [part.strip() for field in fields for part in field.split(";") if part.strip()]
