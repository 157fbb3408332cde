"""Which rows lack a value that a schema declares NOT NULL, within nested values: as plain Python looks at them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dagster_operators.connectors.required_places import required_places
from dagster_operators.connectors.row_batch import batch_to_arrow
from dagster_operators.types.data_type import Array, DataType, Field, Map, Plain, Struct
from dagster_operators.types.schema import Schema


def structs(kinds: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    fields = st.lists(st.tuples(kinds, st.booleans()), min_size=1, max_size=2)
    return fields.map(lambda some: Struct(tuple(Field(f"f{at}", *one) for at, one in enumerate(some))))


KINDS = st.recursive(
    st.just(Plain("bigint")), lambda kinds: st.one_of(structs(kinds), kinds.map(Array), kinds.map(lambda k: Map(Plain("int"), k)))
).map(lambda kind: Struct((Field("f", kind, nullable=False),)))  # fmt: skip


def values(kind: DataType) -> st.SearchStrategy[Any]:
    match kind:
        case Struct():
            some: st.SearchStrategy[Any] = st.fixed_dictionaries({field.name: values(field.type) for field in kind.fields})
        case Array():
            some = st.lists(values(kind.element), max_size=2)
        case Map():
            some = st.dictionaries(st.integers(0, 2), values(kind.value), max_size=2)
        case _:
            some = st.just(1)
    return st.none() | some


def lacking(value: Any, kind: DataType, path: str) -> Iterator[str]:
    if value is None:
        return
    match kind:
        case Struct():
            for field in kind.fields:
                if value[field.name] is None and not field.nullable:
                    yield f"{path}.{field.name}"
                yield from lacking(value[field.name], field.type, f"{path}.{field.name}")
        case Array():
            for each in value:
                yield from lacking(each, kind.element, f"{path}.element")
        case Map():
            for each in value.values():
                yield from lacking(each, kind.value, f"{path}.value")


@given(st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_sql_says_what_is_missing(sail: Any, data: st.DataObject) -> None:
    kind = data.draw(KINDS)
    rows = data.draw(st.lists(values(kind), min_size=1, max_size=4))
    places = required_places([Field("v", kind)])
    assert all(place.is_nested and place.column == "v" for place in places)
    table = batch_to_arrow([(row,) for row in rows], Schema((Field("v", kind),)).with_nulls().to_json(), 0)
    nulls = sail.createDataFrame(table).selectExpr(*(f"{place.is_null} AS c{at}" for at, place in enumerate(places))).toArrow()
    for row, told in zip(rows, nulls.to_pylist(), strict=True):
        expected = set(lacking(row, kind, "v"))
        assert {place.path: told[f"c{at}"] for at, place in enumerate(places)} == {
            place.path: place.path in expected for place in places
        }
