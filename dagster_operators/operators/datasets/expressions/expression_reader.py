"""Spark SQL read as terms over columns of known types; what would not mean the same here as on the engines is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NoReturn

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import parse_alias, parsed, tokens_of
from dagster_operators.operators.datasets.expressions.terms import (
    BothTerm,
    CalledTerm,
    ChoiceTerm,
    ColumnTerm,
    ConstantTerm,
    KnownTerm,
    Term,
)
from dagster_operators.types.data_type import DataType, Decimal, Plain
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

BOOLEAN, DOUBLE, FLOAT, INT, LONG, STRING = map(Plain, ("boolean", "double", "float", "int", "bigint", "string"))
_WHOLE: Final = tuple(map(Plain, ("tinyint", "smallint", "int", "bigint")))
_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_COMPARED: Final = (BOOLEAN, *_WHOLE, FLOAT, DOUBLE, STRING, *map(Plain, ("binary", "date", "timestamp", "timestamp_ntz")))
_CAST_TO: Final = {"TEXT": STRING, "VARCHAR": STRING} | {
    name.upper(): Plain(name) for name in ("bigint", "int", "smallint", "tinyint", "double", "float", "boolean", "date")
}
"""The types that values are cast to, by their names in the parsed text."""
_POINT: Final = Plain("decimal literal")
"""The type of a number with a point, until it stands beside a double."""
_VOID: Final = Plain("void")
"""The type of NULL, until it stands beside something."""
_LEAST_INT: Final = -(2**31)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")

COMPARISONS: Final = {"EQ": "=", "NEQ": "<>", "GT": ">", "GTE": ">=", "LT": "<", "LTE": "<=", "NullSafeEQ": "<=>"}
CALCULATIONS: Final = {"Add": "+", "Sub": "-", "Mul": "*"}
_PREDICATES: Final = frozenset({*COMPARISONS, "Is", "In", "Between", "Not", "And", "Or"})
_FUNCTIONS: Final = {"isnull": "is null", "isnotnull": "is null"}


class ExpressionReader:
    """Reads expressions over some columns.

    Args:
        columns: The columns.
        operator: The operator, for errors.

    >>> import pyarrow as pa
    >>> reader = ExpressionReader(Schema.from_ddl("k string, v int"), "select")
    >>> term = reader.term("v * 2 > 4 OR k IS NULL")
    >>> str(term.type), term.values(pa.record_batch({"k": ["a", "b", None], "v": pa.array([1, 3, None], pa.int32())})).to_pylist()
    ('boolean', [False, True, True])
    >>> reader.term("upper(k)")
    Traceback (most recent call last):
    dagster_operators.errors.SchemaError: UPPER(k) is not computed within a data set [operator 'select', expression 'upper(k)']. \
To do: write it where an engine computes it, before data_set(), as in stream.filter('...'); or write a function
    """

    def __init__(self, columns: Schema, operator: str) -> None:
        self._columns = columns
        self._operator = operator
        self._text = ""

    def term(self, text: str) -> Term:
        """An expression as a term.

        Raises:
            SchemaError: It is none, names no column, or does not mean the same within a data set as on the engines.
        """
        self._text = parse_alias(text)[0]
        if any(token.text.lower().startswith("try_") for token in tokens_of(self._text)):
            self._refuse(parsed(self._text))
        return self._settled(self._read(parsed(self._text)))

    @cached_property
    def _rules(self) -> dict[str, Callable[[Any], Term]]:
        return {
            "Paren": lambda node: self._read(node.this), "Column": self._column, "Literal": lambda node: self._literal(node, 1),
            "Boolean": lambda node: ConstantTerm(BOOLEAN, bool(node.this)), "Null": lambda _: ConstantTerm(_VOID, None),
            "Neg": self._negative, "Abs": self._absolute, "Mod": self._rest, "Div": self._quotient,
            "And": lambda node: self._both(node, ends=False), "Or": lambda node: self._both(node, ends=True),
            "Not": lambda node: CalledTerm(BOOLEAN, "not", (self._truth(node.this),)),
            "Is": self._is, "In": self._in, "Between": self._between, "TryCast": self._cast, "Cast": self._cast,
            "Case": self._case, "If": self._if, "Coalesce": self._coalesce, "Nullif": self._null_if,
            "IsNan": self._is_nan, "Length": self._length, "Anonymous": self._anonymous,
            **dict.fromkeys(COMPARISONS, self._comparison), **dict.fromkeys(CALCULATIONS, self._calculation),
        }  # fmt: skip

    def _read(self, node: Expression) -> Term:
        rule = self._rules.get(type(node).__name__)
        return self._refuse(node) if rule is None else rule(node)

    def _operand(self, node: Expression) -> Term:
        """An operand, which is no comparison without brackets: Spark's order of such is another one."""
        if type(node).__name__ in _PREDICATES:
            self._fail("a comparison stands within another operation", "write brackets around it: (a = b) IS NULL")
        return self._read(node)

    def _truth(self, node: Expression) -> Term:
        term = self._read(node)
        if term.type not in (BOOLEAN, _VOID):
            self._fail(f"a truth value is asked for, and {_shown(term.type)} is there", "compare it with something: v > 0")
        return self._as(term, BOOLEAN)

    def _column(self, node: Any) -> Term:
        if len(node.parts) > 1:
            return self._refuse(node)
        name = node.name
        places = [number for number, known in enumerate(self._columns.names) if known == name]
        places = places or [number for number, known in enumerate(self._columns.names) if known.lower() == name.lower()]
        if len(places) != 1:
            listed = ", ".join(self._columns.names)
            problem = f"several columns are called {name!r}" if places else f"there is no column {name!r}"
            raise SchemaError(
                problem, operator=self._operator, column=name, expression=self._text, remedy=f"use one of: {listed}"
            )
        kind = self._columns.fields[places[0]].type
        return ColumnTerm(STRING if str(kind).startswith("varchar(") else kind, places[0])

    def _literal(self, node: Any, sign: int) -> Term:
        text = node.this
        if node.is_string:
            return self._refuse(node) if "\\" in self._text else ConstantTerm(STRING, text)
        if "e" in text.lower():
            return ConstantTerm(DOUBLE, sign * float(text))
        if "." in text:
            return ConstantTerm(_POINT, sign * float(text))
        number = sign * int(text)
        if number == _LEAST_INT:
            self._fail("engines differ in the type of this number", "write CAST(-2147483648L AS INT), or -2147483648L")
        kind = INT if _fits(number, INT) else LONG
        return ConstantTerm(kind, number) if _fits(number, kind) else self._refuse(node)

    def _negative(self, node: Any) -> Term:
        if type(node.this).__name__ == "Literal" and not node.this.is_string:
            return self._literal(node.this, -1)
        term = self._operand(node.this)
        if isinstance(term, ConstantTerm) and term.type in (*_WHOLE, DOUBLE):  # -3L, which is one literal
            return ConstantTerm(term.type, -term.value) if _fits(-term.value, term.type) else self._refuse(node)
        return CalledTerm(term.type, "negative", (term,)) if term.type in (*_WHOLE, DOUBLE) else self._refuse(node)

    def _absolute(self, node: Any) -> Term:
        term = self._read(node.this)
        return CalledTerm(term.type, "abs", (term,)) if term.type in (*_WHOLE, DOUBLE) else self._refuse(node)

    def _calculation(self, node: Any) -> Term:
        first, second = self._together(node, self._operand(node.this), self._operand(node.expression))
        if first.type not in (*_WHOLE, DOUBLE):
            self._refuse(node)
        return CalledTerm(first.type, CALCULATIONS[type(node).__name__], (first, second))

    def _rest(self, node: Any) -> Term:
        first, second = self._together(node, self._operand(node.this), self._operand(node.expression))
        return CalledTerm(first.type, "%", (first, second)) if first.type in _WHOLE else self._refuse(node)

    def _quotient(self, node: Any) -> Term:
        operands = [self._operand(node.this), self._operand(node.expression)]
        if any(operand.type not in (*_WHOLE, DOUBLE, _POINT) for operand in operands):
            self._refuse(node)
        if DOUBLE not in [operand.type for operand in operands] and _POINT in [operand.type for operand in operands]:
            self._refuse(node)  # it is a decimal
        first, second = (self._as(operand, DOUBLE) for operand in operands)
        return CalledTerm(DOUBLE, "/", (first, second))

    def _comparison(self, node: Any) -> Term:
        first, second = self._operand(node.this), self._operand(node.expression)
        return self._compared(node, COMPARISONS[type(node).__name__], first, second)

    def _compared(self, node: Any, name: str, first: Term, second: Term) -> Term:
        first, second = self._together(node, first, second)
        if first.type not in _COMPARED and not isinstance(first.type, Decimal):
            self._refuse(node)
        return CalledTerm(BOOLEAN, name, (first, second))

    def _both(self, node: Any, *, ends: bool) -> Term:
        return BothTerm(BOOLEAN, self._truth(node.this), self._truth(node.expression), ends)

    def _is(self, node: Any) -> Term:
        kind = type(node.expression).__name__
        if kind == "Null":
            return CalledTerm(BOOLEAN, "is null", (self._settled(self._operand(node.this)),))
        if kind != "Boolean":
            return self._refuse(node)
        self._operand(node.this)
        return CalledTerm(BOOLEAN, "is true" if node.expression.this else "is false", (self._truth(node.this),))

    def _in(self, node: Any) -> Term:
        values = node.args.get("expressions") or []
        if not values:
            return self._refuse(node)
        tests = [self._compared(node, "=", self._operand(node.this), self._operand(value)) for value in values]
        kinds = {test.operands[0].type for test in tests if isinstance(test, CalledTerm)}
        if len(kinds) > 1:  # Spark makes all of them one type first
            self._fail("the values are of several types", "write values of the column's type: v IN (1L, 2L)")
        result = tests[0]
        for test in tests[1:]:
            result = BothTerm(BOOLEAN, result, test, ends=True)
        return result

    def _between(self, node: Any) -> Term:
        value, low, high = (self._operand(part) for part in (node.this, node.args["low"], node.args["high"]))
        if node.args.get("symmetric"):
            return self._refuse(node)
        parts = self._compared(node, ">=", value, low), self._compared(node, "<=", value, high)
        return BothTerm(BOOLEAN, *parts, ends=False)

    def _cast(self, node: Any) -> Term:
        term, kind = self._read(node.this), self._type(node)
        if term.type == STRING and kind == Plain("date") and isinstance(term, ConstantTerm) and _DATE.fullmatch(term.value):
            try:
                return ConstantTerm(kind, date.fromisoformat(term.value))
            except ValueError:
                return self._refuse(node)
        if isinstance(term, ConstantTerm) and term.type in (*_WHOLE, _POINT) and kind == DOUBLE:
            return ConstantTerm(DOUBLE, float(term.value))
        if isinstance(term, ConstantTerm) and term.type in _WHOLE and kind in _WHOLE and _fits(term.value, kind):
            return ConstantTerm(kind, term.value)
        known = term.type == kind or (term.type in _WHOLE and kind in (*_WHOLE, DOUBLE, STRING)) or term.type == _VOID
        known = known or (term.type == FLOAT and kind == DOUBLE)
        return self._as(term, kind) if known else self._refuse(node)

    def _type(self, node: Any) -> DataType:
        kind = node.args["to"]
        if kind.expressions or kind.this.name not in _CAST_TO:
            self._refuse(node)
        return _CAST_TO[kind.this.name]

    def _case(self, node: Any) -> Term:
        of = node.args.get("this")
        branches = []
        for branch in node.args["ifs"]:
            condition = self._truth(branch.this) if of is None else self._compared(
                node, "=", self._operand(of), self._operand(branch.this)
            )  # fmt: skip
            branches.append((condition, self._read(branch.args["true"])))
        return self._choice(node, branches, node.args.get("default"))

    def _if(self, node: Any) -> Term:
        return self._choice(node, [(self._truth(node.this), self._read(node.args["true"]))], node.args.get("false"))

    def _choice(self, node: Any, branches: Sequence[tuple[Term, Term]], default: Any) -> Term:
        last = ConstantTerm(_VOID, None) if default is None else self._read(default)
        *values, last = self._of_one_type(node, [*(value for _, value in branches), last])
        pairs = tuple((condition, value) for (condition, _), value in zip(branches, values, strict=True))
        return ChoiceTerm(last.type, pairs, last)

    def _coalesce(self, node: Any) -> Term:
        operands = self._of_one_type(node, [self._read(part) for part in (node.this, *node.expressions)])
        return KnownTerm(operands[0].type, tuple(operands))

    def _null_if(self, node: Any) -> Term:
        first, second = self._read(node.this), self._read(node.expression)
        equal = self._compared(node, "=", first, second)
        return ChoiceTerm(first.type, ((equal, self._as(ConstantTerm(_VOID, None), first.type)),), first)

    def _is_nan(self, node: Any) -> Term:
        term = self._read(node.this)
        return CalledTerm(BOOLEAN, "is nan", (term,)) if term.type in (FLOAT, DOUBLE) else self._refuse(node)

    def _length(self, node: Any) -> Term:
        term = self._read(node.this)
        return CalledTerm(INT, "length", (term,)) if term.type == STRING else self._refuse(node)

    def _anonymous(self, node: Any) -> Term:
        name = str(node.this).lower()
        if name not in _FUNCTIONS or len(node.expressions) != 1:
            return self._refuse(node)
        test = CalledTerm(BOOLEAN, _FUNCTIONS[name], (self._settled(self._read(node.expressions[0])),))
        return test if name == "isnull" else CalledTerm(BOOLEAN, "not", (test,))

    def _together(self, node: Any, first: Term, second: Term) -> tuple[Term, Term]:
        """Two operands in the type by which they are calculated with, or compared."""
        one, other = self._of_one_type(node, [first, second])
        return one, other

    def _of_one_type(self, node: Any, terms: Sequence[Term]) -> list[Term]:
        kinds = list(dict.fromkeys(term.type for term in terms if term.type != _VOID)) or [_VOID]
        kind = kinds[0]
        if len(kinds) > 1 or kind == _POINT:
            if set(kinds) <= set(_WHOLE):
                kind = max(kinds, key=_WHOLE.index)
            elif DOUBLE in kinds and set(kinds) <= {*_WHOLE, DOUBLE, _POINT}:
                kind = DOUBLE
            else:
                self._fail(
                    f"{' and '.join(map(_shown, kinds))} stand beside each other",
                    "write both in one type: 0.5D for 0.5, CAST(v AS DOUBLE), DATE '2024-01-31'",
                )
        if kind == _VOID:
            self._refuse(node)
        return [self._as(term, kind) for term in terms]

    def _as(self, term: Term, kind: DataType) -> Term:
        if term.type == kind:
            return term
        if isinstance(term, ConstantTerm) and (term.value is None or kind == DOUBLE):
            return ConstantTerm(kind, None if term.value is None else float(term.value))
        if isinstance(term, ConstantTerm) and kind in _WHOLE:
            return ConstantTerm(kind, term.value)
        return CalledTerm(kind, "cast", (term,))

    def _settled(self, term: Term) -> Term:
        """A term whose type is one of columns."""
        if term.type in (_POINT, _VOID):
            self._fail(f"{_shown(term.type)} has no type by itself here", "write 0.5D for 0.5, and CAST(NULL AS INT) for NULL")
        return term

    def _refuse(self, node: Any) -> NoReturn:
        shown = node.sql(dialect="spark")
        self._fail(
            f"{shown} is not computed within a data set",
            "write it where an engine computes it, before data_set(), as in stream.filter('...'); or write a function",
        )

    def _fail(self, problem: str, remedy: str) -> NoReturn:
        raise SchemaError(problem, operator=self._operator, expression=self._text, remedy=remedy)


def _fits(number: Any, kind: DataType) -> bool:
    bits = _BITS.get(str(kind))
    return bits is None or -(1 << bits - 1) <= number < 1 << bits - 1


def _shown(kind: DataType) -> str:
    return "a number with a point" if kind == _POINT else "NULL" if kind == _VOID else str(kind)
