"""Schemas as the JSON of Spark's ``StructType``, which is also Delta's, read and written without Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dagster_operators.types.data_type import WORDS_IN_JSON, Array, DataType, Decimal, Field, Map, Opaque, Plain, Struct

_WORDS = {word: name for name, word in WORDS_IN_JSON.items()}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")


def parse_json(schema_json: str) -> tuple[Field, ...]:
    """The columns of a ``StructType`` in JSON.

    >>> [(field.name, str(field.type)) for field in parse_json('{"type":"struct","fields":[{"name":"k","type":"long"}]}')]
    [('k', 'bigint')]
    """
    return tuple(map(_field, json.loads(schema_json)["fields"]))


def render_json(fields: Sequence[Field]) -> str:
    """Columns as a ``StructType`` in JSON; what stands for a column has its keys in the order that Spark gives them.

    >>> render_json([Field("k", Plain("bigint"))])
    '{"type": "struct", "fields": [{"metadata": {}, "name": "k", "nullable": true, "type": "long"}]}'
    """
    return json.dumps({"type": "struct", "fields": [_field_json(field) for field in fields]})


def _field(found: Mapping[str, Any]) -> Field:
    return Field(found["name"], _type(found["type"]), found.get("nullable", True), found.get("metadata") or {})


def _type(found: Any) -> DataType:
    if isinstance(found, str):
        decimal = _DECIMAL.fullmatch(found)
        return Decimal(int(decimal[1]), int(decimal[2])) if decimal else Plain(_WORDS.get(found, found))
    match found["type"]:
        case "array":
            return Array(_type(found["elementType"]), found.get("containsNull", True))
        case "map":
            return Map(_type(found["keyType"]), _type(found["valueType"]), found.get("valueContainsNull", True))
        case "struct":
            return Struct(tuple(map(_field, found["fields"])))
        case other:
            return Opaque(other, json.dumps(found))


def _field_json(field: Field) -> dict[str, Any]:
    return {"metadata": dict(field.metadata), "name": field.name, "nullable": field.nullable, "type": _type_json(field.type)}


def _type_json(kind: DataType) -> Any:
    match kind:
        case Array():
            return {"containsNull": kind.nullable, "elementType": _type_json(kind.element), "type": "array"}
        case Map():
            inner = {"keyType": _type_json(kind.key), "type": "map", "valueContainsNull": kind.nullable}
            return {**inner, "valueType": _type_json(kind.value)}
        case Struct():
            return {"fields": [_field_json(field) for field in kind.fields], "type": "struct"}
        case Opaque():
            return json.loads(kind.json)
        case _:
            return kind.spelt_as_json
