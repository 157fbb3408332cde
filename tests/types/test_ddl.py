"""Schemas in DDL: what is read, what is refused and where, and what is written."""

from __future__ import annotations

import pytest

from dagster_operators.errors import SchemaError
from dagster_operators.types.ddl import parse_ddl, parse_type, render_ddl


@pytest.mark.parametrize(
    ("ddl", "types"),
    [
        ("k string, total long", {"k": "string", "total": "bigint"}),
        ("t timestamp, n TIMESTAMP_NTZ, l timestamp_ltz", {"t": "timestamp", "n": "timestamp_ntz", "l": "timestamp"}),
        ("a: int, b:short", {"a": "int", "b": "smallint"}),
        ("a decimal, b decimal(5), c numeric(10, 2)", {"a": "decimal(10,0)", "b": "decimal(5,0)", "c": "decimal(10,2)"}),
        ("s struct<a:int, b: array<map<string,double>>>", {"s": "struct<a:int,b:array<map<string,double>>>"}),
        ("s struct<`a b` : int not null comment 'x'>", {"s": "struct<`a b`:int>"}),
        ("e struct<>", {"e": "struct<>"}),
        ("date date, comment string, v varchar(3)", {"date": "date", "comment": "string", "v": "varchar(3)"}),
        ("größe real", {"größe": "float"}),
    ],
)
def test_ddl(ddl: str, types: dict[str, str]) -> None:
    assert {field.name: str(field.type) for field in parse_ddl(ddl)} == types


def test_what_is_said_of_a_column() -> None:
    (field,) = parse_ddl(r"`my col` string NOT NULL COMMENT 'it\'s a \\'")
    assert (field.name, field.nullable, field.comment) == ("my col", False, "it's a \\")
    (struct,) = parse_ddl("s struct<`a b` : int not null comment 'x', c int>")
    assert render_ddl([struct]) == "`s` struct<`a b`:int NOT NULL COMMENT 'x',c:int>"
    assert render_ddl([struct], everything=False) == "`s` struct<`a b`:int,c:int>"


@pytest.mark.parametrize(
    ("ddl", "position"),
    [
        ("", 1),
        ("k", 2),
        ("k strin", 3),
        ("k string,", 10),
        ("k array<int", 12),
        ("k string v long", 10),
        ("k string; v", 9),
        ("k decimal(39)", 13),
    ],
)
def test_not_a_schema(ddl: str, position: int) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_ddl(ddl)
    assert (caught.value.expression, caught.value.position) == (ddl, position)


def test_not_a_type() -> None:
    with pytest.raises(SchemaError, match="unexpected 'x'"):
        parse_type("long x")


def test_a_column_is_declared_once() -> None:
    with pytest.raises(SchemaError, match="'K' twice"):
        parse_ddl("k string, K long")
