"""What an operator says about the state it keeps: the kind of table, its columns, its key, and when rows expire.

Declarations are plain data. They load neither Arrow nor Spark, travel to the workers with the operator, and are what an
operator's code finds as ``ctx.state["name"]`` turned into a handle on the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dagster_operators.arguments import checked_constructor
from dagster_operators.errors import SchemaError
from dagster_operators.time.watermark import format_duration, parse_duration
from dagster_operators.types.arrow_schema import arrow_type
from dagster_operators.types.data_type import DataType, Field, Plain
from dagster_operators.types.ddl import render_ddl
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

HASH: Final = "_hash"
"""The stored column with the hash of the key, by which files are sorted."""

DELETED: Final = "_deleted"
"""The stored column that is true where a row says that what was there before is gone."""

ORDINAL: Final = "_ordinal"
"""The stored column of a :class:`ListState` that gives the order of appending."""

_LONG: Final = Plain("bigint")

Migration = Callable[[Any, int], Any]
"""A function ``(table, from_version) -> table`` that brings rows of an older version into the shape of the declared one."""


class StateTable:
    """What the kinds of state have in common.

    Attributes:
        fields: The declared columns.
        key: The key's columns.
        retention: How far behind the watermark a row's time may fall before the row is gone, in microseconds; None for ever.
        time: The column of the rows' event time.
        version: The version of the rows' meaning; it is written into file names.
        migrate: Brings rows of older versions into the declared shape.
        placed_by: The columns whose hash says which subtask has a row, where several tables of an operator have different ones;
            none of them: all are in the first one's. By default what the operator's input is distributed by.
        by_name: Whether new nullable columns may be anywhere, as where its columns follow those of an input.
    """

    kind: ClassVar[str] = ""
    _needs_key: ClassVar[bool] = True
    placed_by: tuple[str, ...] | None = None
    by_name: bool = False

    def __init__(
        self,
        schema: str | pa.Schema,
        key: str | Sequence[str],
        *,
        retention: str | timedelta | int | None = None,
        time: str | None = None,
        version: int = 1,
        migrate: Migration | None = None,
    ) -> None:
        self.fields: tuple[Field, ...] = Schema.of(schema).fields
        self.key: tuple[str, ...] = (key,) if isinstance(key, str) else tuple(key)
        self.time = time
        self.version = version
        self.migrate = migrate
        self.retention = self._duration(retention)
        self._check()

    def _duration(self, retention: str | timedelta | int | None) -> int | None:
        if retention is None:
            return None
        try:
            micros = parse_duration(retention)
        except ValueError as error:
            raise SchemaError(f"a state's retention is wrong: {error}", remedy="write for example '2 hours'") from error
        if micros < 0:
            raise SchemaError("a state's retention is negative", remedy="give a duration of 0 or more")
        return micros

    def _check(self) -> None:
        columns = {field.name: field for field in self.fields}
        for name in columns:
            if name.lower() in (HASH, DELETED, ORDINAL):
                raise SchemaError(
                    f"a state's column cannot be called {name!r}", column=name, remedy="rename it; the store uses the name"
                )
        for name in (*self.key, *((self.time,) if self.time else ())):
            if name not in columns:
                raise SchemaError(
                    f"the state's schema has no column {name!r}", column=name, remedy=f"use one of: {', '.join(columns)}"
                )
        if self._needs_key and not self.key:
            raise SchemaError(f"a {type(self).__name__} needs a key", remedy="name one column or several")
        if len(set(self.key)) < len(self.key):
            raise SchemaError("the state's key names a column twice", remedy="name each column of the key once")
        if (self.retention is None) != (self.time is None):
            missing, given = ("retention", "time") if self.retention is None else ("time", "retention")
            raise SchemaError(f"the state has a {given} but no {missing}", remedy="give both, so that rows expire, or neither")
        if self.time and not (columns[self.time].type.is_timestamp or columns[self.time].type == _LONG):
            raise SchemaError(
                f"the state's time has the type {columns[self.time].type}", column=self.time,
                remedy="make it a timestamp, a timestamp_ntz, or a bigint of microseconds since 1970",
            )  # fmt: skip
        if self.version < 1:
            raise SchemaError(
                "a state's version is a whole number from 1", remedy="raise it by one when the rows change their meaning"
            )

    def check_types(self) -> None:
        """Refuse types that cannot be stored or be a key; loads Arrow, so it is done when a pipeline is planned.

        Raises:
            SchemaError: With the column.

        >>> KeyedState("k string, total long", key="k").check_types()
        """
        for field in self.fields:
            arrow_type(field.type)
            if field.name in self.key:
                check_key_type(field.type, field.name)

    @cached_property
    def schema(self) -> pa.Schema:
        """The rows that an operator puts and gets, as Arrow."""
        return Schema(self.fields).to_arrow()

    @cached_property
    def stored_fields(self) -> tuple[Field, ...]:
        """The columns of the state's files and of its Delta table.

        >>> [field.name for field in ListState("k string, v long", "k").stored_fields]
        ['_hash', '_deleted', '_ordinal', 'k', 'v']
        """
        ordinal = (Field(ORDINAL, _LONG),) if self.kind == "list" else ()
        declared = (replace(field, nullable=True) for field in self.fields)
        return (Field(HASH, _LONG), Field(DELETED, Plain("boolean")), *ordinal, *declared)

    @cached_property
    def stored_schema(self) -> pa.Schema:
        """``stored_fields`` as Arrow."""
        return Schema(self.stored_fields).to_arrow()

    @cached_property
    def ddl(self) -> str:
        """The declared columns as Spark DDL.

        >>> KeyedState("`a b` long NOT NULL, c dec(5,2)", "a b").ddl
        '`a b` bigint NOT NULL, `c` decimal(5,2)'
        """
        return render_ddl(self.fields, everything=False)

    @cached_property
    def stored_ddl(self) -> str:
        """``stored_fields`` as Spark DDL."""
        return render_ddl(self.stored_fields, everything=False)

    def config(self) -> dict[str, Any]:
        """The declaration as JSON values: what explain shows and an operator's fingerprint covers.

        >>> KeyedState("k string, t timestamp", "k", retention="1 day", time="t").config()
        {'kind': 'keyed', 'schema': '`k` string, `t` timestamp', 'key': ['k'], 'time': 't', 'retention': '1 day', 'version': 1}
        """
        retention = None if self.retention is None else format_duration(self.retention)
        return {
            "kind": self.kind, "schema": self.ddl, "key": list(self.key), "time": self.time, "retention": retention,
            "version": self.version,
        }  # fmt: skip

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.config().items() if name != "kind" and value)
        return f"{type(self).__name__}({settings})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateTable) and self.config() == other.config() and self.migrate == other.migrate

    def __hash__(self) -> int:
        return hash((self.kind, self.fields, self.key, self.version))


@checked_constructor
class KeyedState(StateTable):
    """One row per key: put replaces it, delete removes it.

    With a retention, a row whose time is more than that behind the watermark is gone; a row whose time is null stays.

    Args:
        schema: The columns, as Spark DDL or an Arrow schema.
        key: The column, or columns, that a row is found by. A stream's rows find their state when the key begins with, or
            contains, what the stream is keyed by.
        retention: For example ``"7 days"``; with ``time`` only.
        time: The column that the retention looks at.
        version: Raise it together with ``migrate`` when the columns change otherwise than by a nullable column at the end.
        migrate: ``(table, from_version) -> table`` for rows that an older version stored; it gets and returns Arrow tables, row
            for row, and may not change the key.

    Raises:
        SchemaError: The schema or the key does not fit, with the column.

    >>> KeyedState("k string, total long", key="k")
    KeyedState(schema='`k` string, `total` bigint', key=['k'], version=1)
    """

    kind = "keyed"


@checked_constructor
class TimeState(StateTable):
    """Rows by event time: appended, read by ranges of time, and gone once the watermark has passed them by the retention.

    Args:
        schema: The columns, as Spark DDL or an Arrow schema.
        time: The column of the rows' event time; it cannot be null.
        key: Columns that a range can be narrowed to; rows keep to the subtask of their key when the parallelism changes.
        retention: How long a row is kept after the watermark has passed it.
        version: As of :class:`KeyedState`.
        migrate: As of :class:`KeyedState`.

    >>> TimeState("k string, t timestamp", time="t", retention="10 minutes")
    TimeState(schema='`k` string, `t` timestamp', time='t', retention='10 minutes', version=1)
    """

    kind = "time"
    _needs_key = False

    def __init__(
        self,
        schema: str | pa.Schema,
        time: str,
        *,
        key: str | Sequence[str] = (),
        retention: str | timedelta | int = "0 seconds",
        version: int = 1,
        migrate: Migration | None = None,
    ) -> None:
        super().__init__(schema, key, retention=retention, time=time, version=version, migrate=migrate)


@checked_constructor
class GlobalState(StateTable):
    """A small table that every subtask sees whole: as it was after the previous epoch, with the subtask's own writes over it.

    When two subtasks write one key in the same epoch, the write of the lowest subtask stays, whoever was faster.

    Args:
        schema: The columns, as Spark DDL or an Arrow schema.
        key: The column, or columns, that a row is found by.
        retention: As of :class:`KeyedState`, like the others.

    >>> GlobalState("rule string, threshold double", key="rule")
    GlobalState(schema='`rule` string, `threshold` double', key=['rule'], version=1)
    """

    kind = "global"


@checked_constructor
class ListState(StateTable):
    """A list of rows per key, in the order of appending.

    Args:
        schema: The columns, as Spark DDL or an Arrow schema.
        key: The column, or columns, that a list is found by.
        retention: As of :class:`KeyedState`, like the others; it takes single rows out of the lists.

    >>> ListState("k string, v long", key="k")
    ListState(schema='`k` string, `v` bigint', key=['k'], version=1)
    """

    kind = "list"


def check_key_type(kind: DataType, column: str) -> None:
    """Refuse types that keys cannot have: those whose hash or equality is not settled.

    Args:
        kind: The Spark type.
        column: The column, for the error.

    Raises:
        SchemaError: The type is an array, map or struct, or a decimal of more than 18 digits.
    """
    if not kind.is_key:
        raise SchemaError(
            f"a key cannot have the type {kind}",
            column=column,
            remedy="use numbers, strings, binary, dates, timestamps or short decimals (18 digits); cast others to a string",
        )
