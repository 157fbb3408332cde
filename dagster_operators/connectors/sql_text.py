"""Texts and types as they stand in a Spark SQL expression."""

from __future__ import annotations

from typing import Any

from dagster_operators.operators.physical import quoted


def literal(text: str) -> str:
    r"""A text.

    >>> literal("it's")
    "'it\\'s'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def shown_type(kind: Any) -> str:
    """A Spark type, given as JSON, for people.

    >>> shown_type("long"), shown_type({"type": "array", "elementType": "long", "containsNull": True})
    ('long', 'array')
    """
    return kind if isinstance(kind, str) else str(kind["type"])


def ddl_type(kind: Any) -> str:
    """A Spark type, given as JSON, as DDL.

    >>> ddl_type({"type": "array", "elementType": {"type": "struct", "fields": [{"name": "x", "type": "long"}]}})
    'array<struct<`x`: long>>'
    """
    if isinstance(kind, str):
        return kind
    if kind["type"] == "array":
        return f"array<{ddl_type(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{ddl_type(kind['keyType'])}, {ddl_type(kind['valueType'])}>"
    return "struct<" + ", ".join(f"{quoted(field['name'])}: {ddl_type(field['type'])}" for field in kind["fields"]) + ">"
