"""Schemas as Spark writes them in DDL: ``k string, total long, s struct<a: int>``, read and written without Spark.

The grammar is that of ``StructType.fromDDL``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from dagster_operators.errors import SchemaError
from dagster_operators.types.data_type import Array, DataType, Decimal, Field, Map, Plain, Spelling, Struct
from dagster_operators.types.names import quoted, quoted_if_needed

_TOKEN = re.compile(
    r"""\s* (?: (?P<quoted> `(?:[^`]|``)*` )
            | (?P<string> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
            | (?P<word> \w+ )
            | (?P<mark> [<>(),:] ) )""",
    re.VERBOSE,
)

_SPELLINGS = {
    "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float", "dec": "decimal",
    "numeric": "decimal", "character": "char", "timestamp_ltz": "timestamp",
}  # fmt: skip
_PLAIN = frozenset({
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp",
    "timestamp_ntz", "void", "variant",
})  # fmt: skip
_ELSEWHERE: Final = {
    "text": "string", "str": "string", "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint",
    "bool": "boolean", "float32": "float", "float64": "double", "datetime": "timestamp", "timestamptz": "timestamp",
    "bytes": "binary", "number": "decimal", "list": "array", "dict": "map",
}  # fmt: skip
"""What other systems call the types."""

_MAX_PRECISION = 38


def parse_ddl(ddl: str) -> tuple[Field, ...]:
    """The columns that a DDL schema declares.

    Raises:
        SchemaError: The text is no schema, or two columns have one name; says where.

    >>> for field in parse_ddl("k string NOT NULL, total: long, s struct<a:int, b:array<dec(10,2)>> COMMENT 'pair'"):
    ...     print(field.name, field.type, field.nullable, field.comment)
    k string False None
    total bigint True None
    s struct<a:int,b:array<decimal(10,2)>> True pair
    """
    if not isinstance(ddl, str):
        raise SchemaError(f"{ddl!r} is no schema", remedy="write it as Spark does: 'k string, v long'")
    reader = _Reader(ddl)
    fields = reader.fields()
    reader.expect_end()
    names: set[str] = set()
    for field in fields:
        if field.name.lower() in names:
            raise SchemaError(
                f"the schema declares {field.name!r} twice",
                expression=ddl,
                column=field.name,
                remedy="give one of them another name",
            )
        names.add(field.name.lower())
    return fields


def parse_type(text: str) -> DataType:
    """The type that a text names.

    Raises:
        SchemaError: It names none; says where.

    >>> str(parse_type("array<long>"))
    'array<bigint>'
    """
    reader = _Reader(text)
    found = reader.type()
    reader.expect_end()
    return found


def render_ddl(fields: Sequence[Field], *, everything: bool = True) -> str:
    """Columns as DDL.

    Args:
        fields: The columns.
        everything: Also comments, and what is said of nested fields.

    >>> render_ddl(parse_ddl("k string NOT NULL, s struct<a: int NOT NULL> COMMENT 'pair'"))
    "`k` string NOT NULL, `s` struct<a:int NOT NULL> COMMENT 'pair'"
    """
    if everything:
        return ", ".join(f"{quoted(field.name)} {field.type.text(_FULL)}{_said(field)}" for field in fields)
    return ", ".join(f"{quoted(field.name)} {field.type}{'' if field.nullable else ' NOT NULL'}" for field in fields)


def _said(field: Field) -> str:
    comment = "" if field.comment is None else " COMMENT '" + re.sub(r"(['\\])", r"\\\1", field.comment) + "'"
    return ("" if field.nullable else " NOT NULL") + comment


_FULL = Spelling(quoted_if_needed, said=_said)


def _unescaped(literal: str) -> str:
    return re.sub(r"\\(.)", r"\1", literal[1:-1])


def _meant(written: str) -> str:
    """The type that is likely to be meant.

    >>> _meant("text"), _meant("lonk"), _meant("geometry")
    ("; did you mean 'string'?", "; did you mean 'long'?", '')
    """
    known = [*_PLAIN, *_SPELLINGS, "array", "map", "struct", "decimal", "char", "varchar"]
    close = [_ELSEWHERE[written]] if written in _ELSEWHERE else get_close_matches(written, sorted(known), n=1, cutoff=0.65)
    return f"; did you mean {close[0]!r}?" if close else ""


class _Reader:
    """A recursive-descent reader over the tokens of one DDL text."""

    def __init__(self, ddl: str) -> None:
        self.ddl = ddl
        self.tokens: list[tuple[str, str, int]] = []
        self.next = 0
        position = 0
        while ddl[position:].strip():
            match = _TOKEN.match(ddl, position)
            if match is None:
                position += len(ddl[position:]) - len(ddl[position:].lstrip())
                raise self.error(f"unexpected {ddl[position]!r}", position)
            kind = str(match.lastgroup)
            self.tokens.append((kind, match[kind], match.start(kind)))
            position = match.end()

    def error(self, problem: str, position: int | None = None) -> SchemaError:
        if position is None:
            position = self.tokens[self.next][2] if self.next < len(self.tokens) else len(self.ddl)
        return SchemaError(
            f"not a schema: {problem}", expression=self.ddl, position=position + 1,
            remedy="write it as Spark does: name type, name type, ...",
        )  # fmt: skip

    def take(self, *texts: str) -> bool:
        """Consumes the given tokens if they come next, all of them."""
        found = [text.lower() for kind, text, _ in self.tokens[self.next : self.next + len(texts)] if kind in ("word", "mark")]
        if found != list(texts):
            return False
        self.next += len(texts)
        return True

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.error(f"expected {text!r}")

    def expect_end(self) -> None:
        if self.next < len(self.tokens):
            raise self.error(f"unexpected {self.tokens[self.next][1]!r}")

    def token(self, kinds: tuple[str, ...], wanted: str) -> str:
        if self.next >= len(self.tokens) or self.tokens[self.next][0] not in kinds:
            raise self.error(f"expected {wanted}")
        self.next += 1
        return self.tokens[self.next - 1][1]

    def name(self) -> str:
        text = self.token(("word", "quoted"), "a column name")
        return text[1:-1].replace("``", "`") if text.startswith("`") else text

    def number(self) -> int:
        text = self.token(("word",), "a number")
        if not text.isdigit():
            self.next -= 1
            raise self.error("expected a number")
        return int(text)

    def fields(self) -> tuple[Field, ...]:
        found = [self.field()]
        while self.take(","):
            found.append(self.field())
        return tuple(found)

    def field(self) -> Field:
        name = self.name()
        self.take(":")
        kind = self.type()
        nullable = not self.take("not", "null")
        said = {"comment": _unescaped(self.token(("string",), "a comment in quotes"))} if self.take("comment") else {}
        return Field(name, kind, nullable, said)

    def type(self) -> DataType:
        written = self.token(("word",), "a type").lower()
        kind = _SPELLINGS.get(written, written)
        match kind:
            case "array":
                self.expect("<")
                inner = self.type()
                self.expect(">")
                return Array(inner)
            case "map":
                self.expect("<")
                key = self.type()
                self.expect(",")
                value = self.type()
                self.expect(">")
                return Map(key, value)
            case "struct":
                return self.struct()
            case "decimal":
                return self.decimal()
            case "char" | "varchar":
                self.expect("(")
                length = self.number()
                self.expect(")")
                return Plain(f"{kind}({length})")
            case _ if kind in _PLAIN:
                return Plain(kind)
            case _:
                self.next -= 1
                raise self.error(f"no type is called {written!r}{_meant(written)}")

    def struct(self) -> Struct:
        self.expect("<")
        if self.take(">"):
            return Struct(())
        fields = self.fields()
        self.expect(">")
        return Struct(fields)

    def decimal(self) -> Decimal:
        precision, scale = 10, 0
        if self.take("("):
            precision = self.number()
            scale = self.number() if self.take(",") else 0
            if not 0 <= scale <= precision <= _MAX_PRECISION:
                raise self.error(f"a decimal has at most {_MAX_PRECISION} digits, and no more of them after the point")
            self.expect(")")
        return Decimal(precision, scale)
