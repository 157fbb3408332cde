"""What a schema is that is inferred from text, whichever engine infers it: of columns without a value, and of times."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dagster_operators.types.data_type import Array, DataType, Field, Map, Plain, Struct
from dagster_operators.types.schema import Schema

_TEXT: Final = Plain("string")


def as_spark_infers(schema_json: str, *, zoned: bool = False) -> str:
    """A schema with text where no value says the type, and without what has no fields: Sail leaves both as they are.

    Args:
        schema_json: What an engine inferred.
        zoned: Times are moments: Sail infers that they have no zone, also where the text says one.

    >>> from dagster_operators.types.data_type import Array, Field, Plain, Struct
    >>> found = Schema((Field("k", Plain("void")), Field("v", Array(Plain("void"))), Field("none", Struct(()))))
    >>> Schema.from_json(as_spark_infers(found.to_json())).to_ddl()
    '`k` string, `v` array<string>'
    >>> Schema.from_json(as_spark_infers(Schema.from_ddl("t timestamp_ntz").to_json(), zoned=True)).to_ddl()
    '`t` timestamp'
    """
    fields = _fields(Schema.from_json(schema_json).fields)
    moments = (replace(field, type=Plain("timestamp")) if field.type == Plain("timestamp_ntz") else field for field in fields)
    return Schema(tuple(moments) if zoned else fields).to_json()


def _fields(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(replace(field, type=kind) for field in fields if (kind := _type(field.type)) is not None)


def _type(kind: DataType) -> DataType | None:
    """The type; None if there is nothing in it."""
    match kind:
        case Plain("void"):
            return _TEXT
        case Array():
            element = _type(kind.element)
            return None if element is None else replace(kind, element=element)
        case Map():
            key, value = _type(kind.key), _type(kind.value)
            return None if key is None or value is None else replace(kind, key=key, value=value)
        case Struct():
            fields = _fields(kind.fields)
            return Struct(fields) if fields else None
        case _:
            return kind
