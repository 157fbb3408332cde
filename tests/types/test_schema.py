"""Schemas go through DDL, JSON and Arrow unchanged, and mean there what PySpark says they mean."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from dagster_operators.errors import SchemaError
from dagster_operators.types.arrow_schema import arrow_type, spark_type
from dagster_operators.types.data_type import Array, Field, Map, Opaque, Plain, Struct
from dagster_operators.types.ddl import parse_type
from dagster_operators.types.schema import Schema
from tests.types.schemas import CARRIED, anything, comments, schemas, types

many = settings(max_examples=200, deadline=None)
ONLY_IN_JSON = ("void", "variant", "char(3)", "varchar(7)", "interval day to second", "interval year", "time(6)")


@many
@given(schemas(types(nulls=st.just(True)), comments))  # noqa: FBT003
def test_ddl_and_back(schema: Schema) -> None:
    assert Schema.from_ddl(schema.to_ddl()) == schema


@many
@given(schemas(types(plain=(*CARRIED, *ONLY_IN_JSON)), anything))
def test_json_and_back(schema: Schema) -> None:
    assert Schema.from_json(schema.to_json()) == schema
    for field in json.loads(schema.to_json())["fields"]:
        assert list(field) == sorted(field)


@many
@given(schemas())
def test_arrow_and_back(schema: Schema) -> None:
    assert Schema.from_arrow(schema.to_arrow()) == schema


@many
@given(schemas(types(nulls=st.just(True))))  # noqa: FBT003
def test_ddl_json_and_arrow_in_turn(schema: Schema) -> None:
    through_json = Schema.from_json(Schema.from_ddl(schema.to_ddl()).to_json())
    assert Schema.from_arrow(through_json.to_arrow()) == schema


@many
@given(schemas(types(plain=(*CARRIED, *ONLY_IN_JSON[:4])), comments))
def test_pyspark_reads_and_writes_the_same_json(schema: Schema) -> None:
    theirs = StructType.fromJson(json.loads(schema.to_json()))
    assert Schema.from_json(theirs.json()) == schema
    assert json.loads(theirs.json()) == json.loads(schema.to_json())
    assert [str(field.type).replace("`", "") for field in schema] == [
        field.dataType.simpleString().replace("`", "") for field in theirs.fields
    ]


@many
@given(schemas())
def test_pyspark_converts_to_the_same_arrow(schema: Schema) -> None:
    theirs = to_arrow_schema(StructType.fromJson(json.loads(schema.to_json())), timezone="UTC")
    assert theirs.equals(schema.to_arrow(), check_metadata=False)


@many
@given(types())
def test_a_type_can_be_read_from_its_text(kind) -> None:
    assert str(parse_type(str(kind))) == str(kind)
    assert str(parse_type(kind.sql)) == str(kind)
    assert str(parse_type(kind.spelt_as_json.replace("`", ""))) == str(kind) if "<" not in str(kind) else True


@many
@given(schemas(types(plain=(*CARRIED, *ONLY_IN_JSON)), anything))
def test_nulls_everywhere_is_all_that_changes(schema: Schema) -> None:
    def flags(value: object, found: list[bool]) -> list[bool]:
        if isinstance(value, dict):
            found += [
                value[name] for name in ("nullable", "containsNull", "valueContainsNull") if name in value and "type" in value
            ]
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            flags(part, found)
        return found

    loose = schema.with_nulls()
    assert [(field.name, str(field.type), field.metadata) for field in loose] == [
        (field.name, str(field.type), field.metadata) for field in schema
    ]
    assert loose.with_nulls() == loose
    assert all(flags([field["type"] for field in json.loads(loose.to_json())["fields"]], []))
    assert all(field.nullable for field in loose)


def test_what_is_declared_says_nothing_of_what_is_within() -> None:
    declared = Schema.of("s struct<a: int NOT NULL COMMENT 'x'> NOT NULL COMMENT 'y'")
    assert declared.fields == (Field("s", Struct((Field("a", Plain("int")),)), nullable=False, metadata={"comment": "y"}),)
    arrow = pa.schema(
        [pa.field("m", pa.map_(pa.string(), pa.field("v", pa.large_list(pa.field("i", pa.int8(), nullable=False)))))]
    )
    assert Schema.of(arrow).fields == (Field("m", Map(Plain("string"), Array(Plain("tinyint")))),)


def test_arrow_s_units_become_spark_s() -> None:
    given_schema = pa.schema({"t": pa.timestamp("ns", "Europe/Rome"), "n": pa.timestamp("s"), "s": pa.large_string()})
    assert Schema.of(given_schema).to_arrow() == pa.schema(
        {"t": pa.timestamp("us", "UTC"), "n": pa.timestamp("us"), "s": pa.string()}
    )


@pytest.mark.parametrize("kind", ["void", "variant", "interval day to second"])
def test_what_arrow_batches_cannot_carry(kind: str) -> None:
    with pytest.raises(SchemaError, match=f"the type {kind} cannot be carried"):
        arrow_type(Plain(kind))
    with pytest.raises(SchemaError, match=r"\[column 'c'\]"):
        Schema((Field("a", Plain("int")), Field("c", Array(Plain(kind))))).to_arrow()


def test_what_spark_has_no_type_for() -> None:
    with pytest.raises(SchemaError, match="no type for Arrow's time64"):
        spark_type(pa.time64("us"))


def test_two_columns_of_one_name() -> None:
    with pytest.raises(SchemaError, match="'K' twice"):
        Schema.of(pa.schema({"k": pa.int8(), "K": pa.int8()}))


def test_a_type_of_the_user_s_own_is_handed_on() -> None:
    udt = {"type": "udt", "class": "a.B", "pyClass": None, "sqlType": "long"}
    text = json.dumps({"type": "struct", "fields": [{"metadata": {}, "name": "u", "nullable": True, "type": udt}]})
    schema = Schema.from_json(text)
    assert schema.to_json() == text
    assert isinstance(schema.fields[0].type, Opaque)
    assert str(schema.fields[0].type) == "udt"
