"""The types under ``output_types``: Arrow's names, those of dora, or Spark's, as the Spark type that a table holds."""

from __future__ import annotations

import re
from typing import Final

from dagster_operators.errors import OperatorsError, PipelineError
from dagster_operators.types.schema import Schema

_ARROW: Final = {
    "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint",
    "uint8": "smallint", "uint16": "int", "uint32": "bigint", "uint64": "decimal(20,0)",
    "float16": "float", "float32": "float", "float64": "double", "bool": "boolean", "boolean": "boolean",
    "utf8": "string", "large_utf8": "string", "string": "string", "bytes": "smallint", "binary": "binary",
}  # fmt: skip
_DORA: Final = "std/core/v1/"
_NAMED: Final = re.compile(r"[\w.-]+(/[\w.-]+)+(\[[^\[\]]+\])?")
"""A type by its name in dora: a package, the type, and perhaps parameters."""


def value_type(text: str) -> str | None:
    """The Spark type of the values in a message; None for a type that dora knows by its name alone.

    dora does not look whether messages are what the name of such a type says: the first message is what the others have to be.

    Raises:
        PipelineError: There is no such type.

    >>> value_type("Int64"), value_type("std/core/v1/UInt8"), value_type("struct<x: float, y: float>")
    ('bigint', 'smallint', 'struct<x:float,y:float>')
    >>> value_type("std/media/v1/Image") is None
    True
    """
    name = text.removeprefix(_DORA).lower()
    if name in _ARROW:
        return _ARROW[name]
    if _NAMED.fullmatch(text) and not text.startswith(_DORA):
        return None
    try:
        (found,) = Schema.from_ddl(f"value {text}").fields
    except (OperatorsError, ValueError):
        raise PipelineError(
            f"{text!r} is no type of values", remedy="write a type of Arrow or Spark: int64, float, string, struct<x: double>"
        ) from None
    return str(found.type)
