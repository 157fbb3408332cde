"""Spark SQL expressions as text: what columns they read and what their result is called, found without Spark.

sqlglot reads them only to understand them. What runs is always the text as its author wrote it, never sqlglot's rendering.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from dagster_operators.errors import PipelineError, SchemaError

if TYPE_CHECKING:
    from sqlglot import Token
    from sqlglot.expressions import Expression

__all__ = [
    "Called",
    "calls_of",
    "columns_of",
    "has_window",
    "is_repeatable",
    "located_columns",
    "parse_alias",
    "parsed",
    "require_mapping",
    "require_texts",
    "tokens_of",
    "without_comments",
]

_PREFIX = "SELECT "
_KNOWN = 16_384
"""Expressions of which is remembered what was found: more than a large pipeline has."""
_CONSTANTS = frozenset({"localtimestamp", "session_user", "grouping__id"})
"""What Spark lets one write without parentheses though it is a function, and sqlglot takes for a column."""

_NOT_CALLED_AFTER = frozenset({"like", "ilike", "."})
"""After these, ``any (...)`` and the like are no calls: ``x LIKE ANY ('a%', 'b%')``."""

_CHANGING = re.compile(
    r"(?i)rand\w*|uniform|uuid|shuffle|monotonically_increasing_id|spark_partition_id|now|curdate|current_\w+|localtimestamp|"
    r"unix_timestamp|input_file_\w+|reflect|java_method|try_reflect|over"
)
"""What may give something else the next time (a column of such a name only costs time)."""


def columns_of(expression: str) -> frozenset[str]:
    """The input columns that an expression reads, as they are written there.

    Of a field of a struct it is the struct's column; the variables of lambdas are none. ``*`` stands for all columns where
    the expression has it outside ``count(*)``. Whether names match in spite of their case is left to the caller.

    Raises:
        SchemaError: The text is no expression, or holds a subquery; with its position.

    >>> sorted(columns_of("transform(xs, x -> x.a + `the y`) [0] + s.field.deep"))
    ['s', 'the y', 'xs']
    >>> sorted(columns_of("count(*) FILTER (WHERE dep_delay > 15)"))
    ['dep_delay']
    """
    return _columns_of(expression)


@lru_cache(maxsize=_KNOWN)
def _columns_of(expression: str) -> frozenset[str]:
    from sqlglot import exp

    tree = parsed(expression)
    if tree.find(exp.Query):
        _fail(expression, "a subquery is no expression over one row", "join with the other stream, or look it up")
    names = set()
    for node in tree.find_all(exp.Column, exp.Star):
        if isinstance(node, exp.Column):
            quoted = isinstance(node.this, exp.Identifier) and node.this.quoted
            if quoted or node.name.lower() not in _CONSTANTS:
                names.add(node.parts[0].name)
        elif not isinstance(node.parent, (exp.Count, exp.Column)):
            names.add("*")
    return frozenset(names)


def require_texts(what: str, texts: Iterable[object], **where: Any) -> None:
    """Make sure that what should be expressions, or names, are texts.

    Raises:
        SchemaError: One is none.

    >>> require_texts("expression", ["v + 1", 5], operator="select")
    Traceback (most recent call last):
    dagster_operators.errors.SchemaError: 5 is no expression [operator 'select']. To do: write it as Spark SQL, in quotes
    """
    for text in texts:
        if not isinstance(text, str):
            raise SchemaError(f"{text!r} is no {what}", **where, remedy="write it as Spark SQL, in quotes")


def require_mapping(given: object, **where: Any) -> None:
    """Make sure that columns are given with their expressions.

    Raises:
        PipelineError: They are not.
    """
    if isinstance(given, Mapping) and not all(isinstance(name, str) and name.strip() for name in given):
        raise PipelineError("an expression has no name", **where, remedy="give each a name that is not empty")
    if given is not None and not isinstance(given, Mapping):
        remedy = "write name='expression', or {'name': 'expression'}"
        raise PipelineError(f"{given!r} does not say what each expression is called", **where, remedy=remedy)


@lru_cache(maxsize=_KNOWN)
def located_columns(expression: str) -> frozenset[tuple[int, int, str]] | None:
    """Where the names of the columns stand that an expression reads: start, end and name of each; None if that is not clear.

    It is not where the expression has lambdas, whose variables could be taken for columns, or ``*``.

    >>> sorted(located_columns("a + `b c`.d + A")), located_columns("transform(xs, x -> x + a)")
    ([(0, 1, 'a'), (4, 9, 'b c'), (14, 15, 'A')], None)
    """
    from sqlglot import exp

    tree = parsed(expression)
    if tree.find(exp.Lambda, exp.Star, exp.Query):
        return None
    found = set()
    for node in tree.find_all(exp.Column):
        first = node.parts[0]
        if not first.args.get("quoted") and node.name.lower() in _CONSTANTS:
            continue
        if "start" not in first.meta:
            return None
        found.add((first.meta["start"] - len(_PREFIX), first.meta["end"] + 1 - len(_PREFIX), first.name))
    return frozenset(found)


@lru_cache(maxsize=_KNOWN)
def parse_alias(expression: str) -> tuple[str, str | None]:
    """An expression without its alias, and the alias if it has one.

    >>> parse_alias("a + 1 AS `b c`")
    ('a + 1', 'b c')
    >>> parse_alias("a.b")
    ('a.b', None)
    """
    from sqlglot import TokenType, exp

    tree = parsed(expression)
    tokens = tokens_of(expression)
    if isinstance(tree, exp.Aliases):
        _fail(expression, "the expression has several columns", "write one expression for each column")
    if not isinstance(tree, exp.Alias):
        return expression[tokens[0].start : tokens[-1].end + 1], None
    body = tokens[:-1]
    if body[-1].token_type is TokenType.ALIAS:
        body = body[:-1]
    return expression[body[0].start : body[-1].end + 1], tree.alias


@dataclass(frozen=True)
class Called:
    """A function that an expression calls.

    Attributes:
        name: Its name in lower case.
        arguments: Its arguments with their brackets, as written.
        position: Its first character, counted from 1.
    """

    name: str
    arguments: str
    position: int


@lru_cache(maxsize=_KNOWN)
def calls_of(expression: str) -> tuple[Called, ...]:
    """The functions that an expression calls, in the order in which they are written.

    >>> [(call.name, call.arguments) for call in calls_of("Sum(a * (b + 1)) / `count`(*)")]
    [('sum', '(a * (b + 1))'), ('count', '(*)')]
    """
    from sqlglot import TokenType

    tokens, found = tokens_of(expression), []
    for number, (token, following) in enumerate(pairwise(tokens)):
        before = tokens[number - 1].text.lower() if number else ""
        if following.token_type is not TokenType.L_PAREN or token.token_type is TokenType.STRING or before in _NOT_CALLED_AFTER:
            continue
        if token.text[:1].isalpha() or token.text[:1] == "_":
            end = tokens[_closing(tokens, number + 1)].end
            found.append(Called(token.text.lower(), expression[following.start : end + 1], token.start + 1))
    return tuple(found)


def _closing(tokens: Sequence[Token], opening: int) -> int:
    """Which token closes the bracket that one opens; the last one if none does."""
    from sqlglot import TokenType

    depth = 0
    for number in range(opening, len(tokens)):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(tokens[number].token_type, 0)
        if depth == 0:
            return number
    return len(tokens) - 1


@lru_cache(maxsize=_KNOWN)
def has_window(expression: str) -> bool:
    """Whether some function in an expression looks at other rows by OVER.

    >>> has_window("sum(v) OVER (PARTITION BY k)"), has_window("over + 1")
    (True, False)
    """
    from sqlglot import exp

    return parsed(expression).find(exp.Window) is not None


@lru_cache(maxsize=_KNOWN)
def is_repeatable(expression: str) -> bool:
    """Whether an expression of Spark's own functions gives the same value again for the same row.

    Functions of the user's own are not known here; windows (OVER) may break ties either way.

    >>> is_repeatable("upper(name)"), is_repeatable("rand() < 0.5"), is_repeatable("'rand()'"), is_repeatable("current_date")
    (True, False, True, False)
    """
    from sqlglot import TokenType

    kinds = (TokenType.STRING, TokenType.IDENTIFIER)
    return not any(_CHANGING.fullmatch(token.text) for token in tokens_of(expression) if token.token_type not in kinds)


@lru_cache(maxsize=_KNOWN)
def is_plain(expression: str) -> bool:
    """Whether an expression is repeatable and calls common functions of SQL only: none that somebody may have defined.

    >>> is_plain("origin IN ('EWR', 'JFK')"), is_plain("length(upper(k)) < 3"), is_plain("my_udf(k)"), is_plain("rand() < 1")
    (True, True, False, False)
    """
    from sqlglot import exp

    return is_repeatable(expression) and parsed(expression).find(exp.Anonymous, exp.AnonymousAggFunc, exp.Query) is None


def tokens_of(expression: str) -> list[Token]:
    """The expression's tokens in Spark's dialect, each with its ``start`` and ``end`` (inclusive) in the text."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import TokenError

    try:
        return Dialect.get_or_raise("spark").tokenize(expression)
    except TokenError as error:
        _fail(expression, f"the expression cannot be read: {str(error).splitlines()[0]}")


@lru_cache(maxsize=_KNOWN)
def without_comments(expression: str) -> str:
    """The expression as written, with a blank in place of each comment, so that it can be put into other text.

    >>> without_comments("v /* the value */ > 1 -- big"), without_comments("k = '-- k' OR k = '/*'")
    ('v > 1', "k = '-- k' OR k = '/*'")
    """
    tokens = tokens_of(expression)
    starts, ends = [token.start for token in tokens], [token.end + 1 for token in tokens]
    gaps = [expression[end:start] for end, start in zip([0, *ends], [*starts, len(expression)], strict=True)]
    if not any(gap.strip() for gap in gaps):
        return expression
    written = [expression[start:end] for start, end in zip(starts, ends, strict=True)]
    blank = [" " if gap.strip() else gap for gap in gaps]
    return "".join(gap + text for gap, text in zip(blank, [*written, ""], strict=True)).strip()


@lru_cache(maxsize=256)
def parsed(expression: str) -> Expression:
    """The tree of one expression, with its alias if it has one; not to be changed, for whoever asks next has the same."""
    from sqlglot import exp, parse
    from sqlglot.errors import ParseError

    tokens_of(expression)
    try:
        statements = parse(_PREFIX + expression, dialect="spark")
    except ParseError as error:
        _fail(expression, *_explain(error), position=_position(expression, error))
    query = statements[0]
    if len(statements) != 1 or not isinstance(query, exp.Select) or not query.expressions:
        _fail(expression, "not one expression")
    if len(query.expressions) != 1 or any(value for name, value in query.args.items() if name != "expressions"):
        _fail(expression, "not one expression but more", "write one expression for each column, without FROM, WHERE, ...")
    tree: Expression = query.expressions[0]
    return tree


def _explain(error: Exception) -> tuple[str, str]:
    """What is wrong and what to do."""
    found = getattr(error, "errors", None) or [{}]
    description = found[0].get("description") or str(error).splitlines()[0]
    if description.startswith("Required keyword"):  # the parser's word for an operator that lacks an operand
        description = "something is missing"
    near = found[0].get("highlight")
    return f"the expression cannot be read: {description}" + (f" near {near!r}" if near else ""), "write it as Spark SQL"


def _position(expression: str, error: Exception) -> int | None:
    """The first character, counted from 1, of what the parser stumbled over."""
    found = (getattr(error, "errors", None) or [{}])[0]
    line, column = found.get("line"), found.get("col")
    if line is None or column is None:
        return None
    before = sum(len(text) + 1 for text in expression.split("\n")[: line - 1])
    start = before + int(column) - len(found.get("highlight") or "") - (len(_PREFIX) if line == 1 else 0)
    return max(start, 0) + 1


def _fail(expression: str, problem: str, remedy: str = "write it as Spark SQL", *, position: int | None = None) -> NoReturn:
    raise SchemaError(problem, expression=expression, position=position, remedy=remedy)
