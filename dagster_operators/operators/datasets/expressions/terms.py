"""Terms of expressions over Arrow batches, which mean what Spark means by them: null, NaN, and numbers that do not fit.

A term is worked out for the rows alone that need it: what stands behind ``AND``, or in a branch of ``CASE``, fails for no others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from dagster_operators.errors import BadInputError
from dagster_operators.types.arrow_schema import arrow_type
from dagster_operators.types.data_type import DataType

_OVERFLOW: Final = "cast the operands to a wider type, as CAST(v AS BIGINT), or leave such rows out before"


@dataclass(frozen=True)
class Term(ABC):
    """A part of an expression.

    Attributes:
        type: The type of its values.
    """

    type: DataType

    @property
    def can_fail(self) -> bool:
        """Whether there are values for which it fails."""
        return False

    @abstractmethod
    def values(self, batch: pa.RecordBatch) -> Any:
        """An array with its value for each row.

        Raises:
            BadInputError: A result does not fit its type, or something is divided by zero.
        """

    def where(self, batch: pa.RecordBatch, needed: Any) -> Any:
        """The values of some rows; those of others may be anything.

        Args:
            batch: The rows.
            needed: Whether the value of each row is needed; none is null.
        """
        if not self.can_fail:
            return self.values(batch)
        found = self.values(batch.filter(needed))
        return pc.replace_with_mask(pa.nulls(batch.num_rows, found.type), needed, found)


@dataclass(frozen=True)
class ColumnTerm(Term):
    """A column.

    Attributes:
        number: Its position.
    """

    number: int

    @override
    def values(self, batch: pa.RecordBatch) -> Any:
        return batch.column(self.number)


@dataclass(frozen=True)
class ConstantTerm(Term):
    """A constant.

    Attributes:
        value: The value; None is null.
    """

    value: Any

    @override
    def values(self, batch: pa.RecordBatch) -> Any:
        return pa.repeat(pa.scalar(self.value, arrow_type(self.type)), batch.num_rows)


@dataclass(frozen=True)
class CalledTerm(Term):
    """An operation whose operands are all worked out.

    Attributes:
        name: Its name.
        operands: The operands.
    """

    name: str
    operands: tuple[Term, ...]

    @property
    @override
    def can_fail(self) -> bool:
        return self.name in _FAILING or any(operand.can_fail for operand in self.operands)

    @override
    def values(self, batch: pa.RecordBatch) -> Any:
        given = [operand.values(batch) for operand in self.operands]
        try:
            return CALLS[self.name](*given, *([arrow_type(self.type)] if self.name in _WITH_TYPE else []))
        except pa.ArrowInvalid as error:
            raise BadInputError(f"a result does not fit the type {self.type}: {error}", remedy=_OVERFLOW) from error


@dataclass(frozen=True)
class BothTerm(Term):
    """``AND``, or ``OR``: the second operand is worked out where the first one does not decide.

    Attributes:
        first: The first operand.
        second: The second one.
        ends: The truth value of the first that decides.
    """

    first: Term
    second: Term
    ends: bool

    @property
    @override
    def can_fail(self) -> bool:
        return self.first.can_fail or self.second.can_fail

    @override
    def values(self, batch: pa.RecordBatch) -> Any:
        first = self.first.values(batch)
        second = self.second.where(batch, pc.not_equal(pc.fill_null(first, not self.ends), self.ends))
        return pc.or_kleene(first, second) if self.ends else pc.and_kleene(first, second)


@dataclass(frozen=True)
class ChoiceTerm(Term):
    """``CASE``: the value behind the first condition that is true.

    Attributes:
        branches: Each condition with its value.
        default: The value where none is true.
    """

    branches: tuple[tuple[Term, Term], ...]
    default: Term

    @property
    @override
    def can_fail(self) -> bool:
        return self.default.can_fail or any(term.can_fail for branch in self.branches for term in branch)

    @override
    def values(self, batch: pa.RecordBatch) -> Any:
        left = pa.repeat(True, batch.num_rows)  # noqa: FBT003 - as Arrow has it
        chosen: list[tuple[Any, Any]] = []
        for condition, value in self.branches:
            holds = pc.and_(left, pc.fill_null(condition.where(batch, left), False))  # noqa: FBT003 - as Arrow has it
            chosen.append((holds, value.where(batch, holds)))
            left = pc.and_(left, pc.invert(holds))
        result = self.default.where(batch, left)
        for holds, values in chosen:
            result = pc.if_else(holds, values, result)
        return result


@dataclass(frozen=True)
class KnownTerm(Term):
    """``coalesce``: the first operand that is not null.

    Attributes:
        operands: The operands.
    """

    operands: tuple[Term, ...]

    @property
    @override
    def can_fail(self) -> bool:
        return any(operand.can_fail for operand in self.operands)

    @override
    def values(self, batch: pa.RecordBatch) -> Any:
        result = self.operands[0].values(batch)
        for operand in self.operands[1:]:
            left = pc.is_null(result)
            result = pc.if_else(left, operand.where(batch, left), result)
        return result


def _equal(first: Any, second: Any) -> Any:
    """Whether values are equal: every NaN is, as Spark has it."""
    if not pa.types.is_floating(first.type):
        return pc.equal(first, second)
    return pc.or_(pc.equal(first, second), pc.and_(pc.is_nan(first), pc.is_nan(second)))


def _greater(first: Any, second: Any) -> Any:
    """Whether values are larger: NaN is the largest number."""
    if not pa.types.is_floating(first.type):
        return pc.greater(first, second)
    return pc.or_(pc.greater(first, second), pc.and_(pc.is_nan(first), pc.invert(pc.is_nan(second))))


def _same(first: Any, second: Any) -> Any:
    nulls = pc.is_null(first), pc.is_null(second)
    both = pc.fill_null(_equal(first, second), False)  # noqa: FBT003 - as Arrow has it
    return pc.or_(both, pc.and_(*nulls))


def _quotient(first: Any, second: Any) -> Any:
    _refuse_zero(first, second)
    return pc.divide(first, second)


def _rest(first: Any, second: Any) -> Any:
    """What is left of a division, with the sign of what is divided."""
    _refuse_zero(first, second)
    one, by = pa.scalar(1, second.type), second
    # By -1 nothing is left, as by 1, and the smallest number divided by it does not fit. By 0 only null is divided, which stays.
    for odd in (-1, 0):
        by = pc.if_else(pc.equal(second, pa.scalar(odd, second.type)), one, by)
    return pc.subtract(first, pc.multiply(by, pc.divide(first, by)))


def _refuse_zero(first: Any, second: Any) -> None:
    if pc.any(pc.and_(pc.is_valid(first), pc.equal(second, pa.scalar(0, second.type)))).as_py():
        raise BadInputError("something is divided by zero", remedy="write nullif(x, 0) for what it is divided by")


def _cast(values: Any, kind: pa.DataType) -> Any:
    # A whole number that a floating-point number does not hold is rounded; all else is as it is, or does not fit.
    return pc.cast(values, kind, safe=not pa.types.is_floating(kind))


CALLS: Final[dict[str, Callable[..., Any]]] = {
    "+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked, "negative": pc.negate_checked, "abs": pc.abs_checked,
    "/": _quotient, "%": _rest, "cast": _cast,
    "=": _equal, "<>": lambda first, second: pc.invert(_equal(first, second)), "<=>": _same,
    ">": _greater, "<": lambda first, second: _greater(second, first),
    ">=": lambda first, second: pc.invert(_greater(second, first)),
    "<=": lambda first, second: pc.invert(_greater(first, second)),
    "not": pc.invert, "is null": pc.is_null,
    "is nan": lambda values: pc.fill_null(pc.is_nan(values), False),  # noqa: FBT003 - as Arrow has it
    "is true": lambda values: pc.fill_null(values, False),  # noqa: FBT003 - as Arrow has it
    "is false": lambda values: pc.invert(pc.fill_null(values, True)),  # noqa: FBT003 - as Arrow has it
    "length": pc.utf8_length,
}  # fmt: skip
"""What each operation gives for arrays of its operands' values."""

_FAILING: Final = frozenset({"+", "-", "*", "negative", "abs", "/", "%", "cast"})
_WITH_TYPE: Final = frozenset({"cast"})
