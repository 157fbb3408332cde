"""A schema: columns with names and Spark types, whatever they are written in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dagster_operators.errors import SchemaError, located
from dagster_operators.types.data_type import Array, DataType, Field, Map, Plain, Struct
from dagster_operators.types.ddl import parse_ddl, render_ddl
from dagster_operators.types.spark_json import parse_json, render_json

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Schema:
    """Columns in order.

    Attributes:
        fields: The columns.

    >>> schema = Schema.from_ddl("k string NOT NULL, v array<long>")
    >>> schema.names, schema.to_arrow().field("v").type
    (('k', 'v'), ListType(list<element: int64>))
    """

    fields: tuple[Field, ...]

    @classmethod
    def of(cls, given: str | pa.Schema) -> Schema:
        """What somebody declares, as DDL or an Arrow schema. What is within nested values may always be null.

        Raises:
            SchemaError: The text is no schema, Spark has no such type, or two columns have one name.
        """
        import pyarrow as pa

        if not isinstance(given, str | pa.Schema):
            raise SchemaError(f"{given!r} is no schema", remedy="write it as Spark does: 'k string, v long'")
        found = cls.from_ddl(given) if isinstance(given, str) else cls.from_arrow(given)
        return Schema(tuple(replace(field, type=_declared(field.type)) for field in found.fields))

    @classmethod
    def from_ddl(cls, ddl: str) -> Schema:
        """The schema that a text declares.

        Raises:
            SchemaError: The text is no schema, or two columns have one name; says where.
        """
        return cls(parse_ddl(ddl))

    @classmethod
    def from_json(cls, schema_json: str) -> Schema:
        """A Spark ``StructType`` in JSON."""
        return cls(parse_json(schema_json))

    @classmethod
    def from_arrow(cls, schema: pa.Schema) -> Schema:
        """An Arrow schema in the types that Spark has for it.

        Raises:
            SchemaError: Spark has no such type, or two columns have one name.
        """
        from dagster_operators.types.arrow_schema import spark_field

        names: set[str] = set()
        for field in schema:
            if field.name.lower() in names:
                raise SchemaError(
                    f"the schema declares {field.name!r} twice", column=field.name, remedy="give one of them another name"
                )
            names.add(field.name.lower())
        return cls(tuple(map(spark_field, schema)))

    def to_ddl(self, *, everything: bool = True) -> str:
        """As DDL; that an array or map has no nulls cannot be said there.

        Args:
            everything: Also comments, and what is said of nested fields.
        """
        return render_ddl(self.fields, everything=everything)

    def to_json(self) -> str:
        """As a Spark ``StructType`` in JSON."""
        return render_json(self.fields)

    def to_arrow(self) -> pa.Schema:
        """As Arrow, in the types that Spark sends and takes.

        Raises:
            SchemaError: A type has no counterpart; the error names the column.
        """
        import pyarrow as pa

        from dagster_operators.types.arrow_schema import arrow_field

        fields = []
        for field in self.fields:
            with located(column=field.name):
                fields.append(arrow_field(field))
        return pa.schema(fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(field.name for field in self.fields)

    @property
    def types(self) -> Mapping[str, DataType]:
        """The type of each column."""
        return {field.name: field.type for field in self.fields}

    def find(self, name: str) -> Field | None:
        """The column of that name, as Spark compares names: without regard to case."""
        return next((field for field in self.fields if field.name.lower() == name.lower()), None)

    def without(self, names: Iterable[str]) -> Schema:
        """The other columns."""
        gone = set(names)
        return Schema(tuple(field for field in self.fields if field.name not in gone))

    def with_nulls(self) -> Schema:
        """The same with nulls allowed everywhere.

        What an engine thinks may be null changes with the engine and the plan; what is stored must not.

        >>> Schema.from_ddl("k string NOT NULL").with_nulls().to_ddl()
        '`k` string'
        """
        return Schema(tuple(map(_with_nulls, self.fields)))

    def with_texts(self) -> Schema:
        """The same with ``string`` in place of ``char(n)`` and ``varchar(n)``, which Spark takes in tables of its catalog alone.

        >>> Schema.from_ddl("k varchar(3), s struct<a: char(2)>").with_texts().to_ddl()
        '`k` string, `s` struct<a:string>'
        """
        return Schema(tuple(replace(field, type=_texts_within(field.type)) for field in self.fields))


def _with_nulls(field: Field) -> Field:
    return replace(field, type=_nulls_within(field.type), nullable=True)


def _nulls_within(kind: DataType) -> DataType:
    match kind:
        case Array():
            return Array(_nulls_within(kind.element))
        case Map():
            return Map(_nulls_within(kind.key), _nulls_within(kind.value))
        case Struct():
            return Struct(tuple(map(_with_nulls, kind.fields)))
        case _:
            return kind


def _declared(kind: DataType) -> DataType:
    """A type without what is said of the fields in it."""
    match kind:
        case Array():
            return Array(_declared(kind.element))
        case Map():
            return Map(_declared(kind.key), _declared(kind.value))
        case Struct():
            return Struct(tuple(Field(field.name, _declared(field.type)) for field in kind.fields))
        case _:
            return kind


def with_comments(schema_json: str, said: Mapping[str, str]) -> str:
    """A schema in JSON in which columns have these comments; unchanged without any.

    >>> Schema.from_json(with_comments(Schema.from_ddl("k string, v long").to_json(), {"V": "a count"})).to_ddl()
    "`k` string, `v` bigint COMMENT 'a count'"
    """
    if not said:
        return schema_json
    told = {name.lower(): text for name, text in said.items()}
    fields = Schema.from_json(schema_json)
    return Schema(
        tuple(
            replace(field, metadata={**field.metadata, "comment": told[field.name.lower()]})
            if field.name.lower() in told
            else field
            for field in fields
        )
    ).to_json()


def comments_of(schema_json: str) -> dict[str, str]:
    """The comments of columns, by name.

    >>> comments_of(Schema.from_ddl("k string, v long COMMENT 'a count'").to_json())
    {'v': 'a count'}
    """
    return {field.name: field.comment for field in Schema.from_json(schema_json) if field.comment}


def _texts_within(kind: DataType) -> DataType:
    match kind:
        case Array():
            return replace(kind, element=_texts_within(kind.element))
        case Map():
            return replace(kind, key=_texts_within(kind.key), value=_texts_within(kind.value))
        case Struct():
            return Struct(tuple(replace(field, type=_texts_within(field.type)) for field in kind.fields))
        case Plain() if kind.most_characters is not None:
            return Plain("string")
    return kind
