"""The names of columns in a schema's DDL."""

from __future__ import annotations

from dagster_operators.types.schema import Schema


def names_in(schema: str | None) -> list[str] | None:
    """The names of columns in a schema's DDL; None without one.

    >>> names_in("k string, v decimal(10, 2)"), names_in(None)
    (['k', 'v'], None)
    """
    return None if schema is None else list(Schema.from_ddl(schema).types)
