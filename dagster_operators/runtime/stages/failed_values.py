"""Which expression it was that a value did not fit: engines say what was wrong with a value, and not where it was computed.

An engine's text is recognised as being about a cast, about a number that is too large for its type, or about a division by zero.
Of the operators of the stage those count that have an expression in which that can happen. Where none has, the engine failed at
something of its own, or where no expression of the user's is: then nothing is said of values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import OperatorFailedError, OperatorsError, SchemaError, StageFailedError, UnfitValueError
from dagster_operators.graph.expressions import parse_alias, parsed, tokens_of

if TYPE_CHECKING:
    from dagster_operators.graph.dataflow import Dataflow
    from dagster_operators.graph.operator import LogicalOperator

FAILED: Final = "the stage failed: "

CAST: Final = "CAST"

_TYPES: Final = frozenset(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIMESTAMP", "BOOLEAN"))
"""Types that are also functions, which cast: ``int(x)``."""

_MOST_TOLD: Final = 3


@dataclass(frozen=True)
class _Failure:
    """One kind: how engines tell of it, what can be meant, and what to do."""

    text: re.Pattern[str]
    problem: str
    remedy: str
    nodes: tuple[str, ...]


_OF_SAIL: Final = r"Can't cast value|Cast error: value of \S+ is out of range"
"""It calculates whole numbers in a wider type and casts the result, so that such a text is of a cast or of a calculation."""

_FAILURES: Final = (
    _Failure(
        re.compile(r"(?:DIVIDE|REMAINDER)_BY_ZERO|(?:[Dd]ivi(?:sion|de)|[Rr]emainder) by zero"),
        "a number is divided by zero",
        "have nothing come of it, by nullif(divisor, 0) in place of the divisor, or leave such rows out with filter(...) before",
        ("Div", "IntDiv", "Mod", "Anonymous"),
    ),
    _Failure(
        re.compile(
            r"CAST_INVALID_INPUT|Cannot cast (?:string|value)|Error parsing timestamp|CAST_OVERFLOW|Cannot cast to Decimal|"
            + _OF_SAIL
        ),
        "a value is not one of the type that it is to have",
        "write try_cast(x AS type), which gives null for such values (sum and avg of text cast it to double), "
        "or leave such rows out with filter(...) before",
        (CAST, "Sum", "Avg"),
    ),
    _Failure(
        re.compile(r"a sum of decimals needs more than \d+ digits"),
        "a sum is too large for a decimal",
        "sum CAST(x AS double), which may lose some digits, or decimals with fewer digits behind the point",
        ("Sum", "Avg"),
    ),
    _Failure(
        re.compile(
            r"ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE|Arithmetic [Oo]verflow|Int\d+ overflow on|"
            r"Overflow (?:happened on|while rounding)|" + _OF_SAIL
        ),
        "a number is too large for its type",
        "compute with a wider type: CAST(x AS decimal(38, 0)) of whole numbers, or CAST(x AS double), which may lose some digits",
        ("Add", "Sub", "Mul", "Neg", "Abs", "Sum", "Avg", "Pow", "Round"),
    ),
)


def failed_value(error: StageFailedError, written: Dataflow, names: Collection[str]) -> UnfitValueError | None:
    """The error that names the operator, column and expression.

    None if Python of the user's own raised, if the engine's text is about something else, or if none of the operators has an
    expression in which that can happen.

    Args:
        error: That of the stage; what the engine said is its cause.
        written: The pipeline's graph as its author wrote it.
        names: The operators that may be meant.
    """
    if isinstance(error, OperatorFailedError) or isinstance(error.__cause__, OperatorFailedError):
        return None  # Python of the user's own raised: "division by zero" is no word of the engine's then
    text = str(error.__cause__ or error)
    meant = {kind: found for kind in _FAILURES if kind.text.search(text) and (found := _meant(kind, written, names))}
    if not meant:
        return None
    found = [*dict.fromkeys(one for several in meant.values() for one in several)]
    where: dict[str, Any] = {}
    problem = f"{', or '.join(kind.problem for kind in meant)} ({error.problem.removeprefix(FAILED)})"
    if len(found) == 1:
        name, column, expression = found[0]
        where = {"operator": name, **({"column": column} if column else {}), "expression": expression}
    else:
        told = "; ".join(f"{name}: {f'{column} = ' if column else ''}{text}" for name, column, text in found[:_MOST_TOLD])
        problem += f", in one of {told}{f' (and {len(found) - _MOST_TOLD} more)' if len(found) > _MOST_TOLD else ''}"
        where = {"operator": found[0][0]} if len({name for name, _, _ in found}) == 1 else {}
    return UnfitValueError(FAILED + problem, remedy="; ".join(kind.remedy for kind in meant), **{**where, **error.where})


def _meant(kind: _Failure, written: Dataflow, names: Collection[str]) -> list[tuple[str, str, str]]:
    """The operators, columns and expressions in which a failure can happen."""
    return [
        (name, column, expression)
        for name in written.nodes if name in names
        for column, expression in _expressions(written.nodes[name].operator)
        if _can(expression, kind.nodes)
    ]  # fmt: skip


def _expressions(operator: LogicalOperator) -> Iterator[tuple[str, str]]:
    """The SQL expressions of an operator's settings, each with the column that it makes, if it makes one."""
    settings = operator.config()
    for name in ("condition", "call"):
        if isinstance(text := settings.get(name), str):
            yield "", text
    for name in ("expressions", "aggregates"):
        given = settings.get(name)
        if isinstance(given, dict):
            yield from ((str(column), str(text)) for column, text in given.items())
        elif isinstance(given, list):
            yield from (_named(str(text)) for text in given)


def _named(text: str) -> tuple[str, str]:
    try:
        expression, alias = parse_alias(text)
    except SchemaError:
        return "", text
    return alias or "", expression


def _can(expression: str, nodes: tuple[str, ...]) -> bool:
    from sqlglot import exp

    wanted = tuple(getattr(exp, name) for name in nodes if name != CAST)
    try:
        return any(isinstance(node, wanted) for node in parsed(expression).walk()) or (CAST in nodes and _casts(expression))
    except OperatorsError:
        return False


def _casts(expression: str) -> bool:
    """Whether a value that is none of a type fails: the tree has CAST and TRY_CAST as one.

    >>> [_casts(text) for text in ("CAST(k AS int)", "k::int", "int(k)", "try_cast(k AS int)", "k = 'CAST'")]
    [True, True, True, False, False]
    """
    from sqlglot import TokenType

    texts = [token.text.upper() for token in tokens_of(expression) if token.token_type is not TokenType.STRING]
    calls = zip(["", *texts], texts, texts[1:], strict=False)
    return bool({CAST, "::"} & set(texts)) or any(
        name in _TYPES and after == "(" and before != "AS" for before, name, after in calls
    )
