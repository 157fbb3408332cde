"""Keys of PostgreSQL tables by what servers say of their indexes, of which old ones say less."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from dagster_operators.connectors.postgres_columns import TableColumn, match
from dagster_operators.connectors.postgres_keys import key_check
from dagster_operators.errors import SchemaError

KINDS = {
    "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "bool": pa.bool_(), "date": pa.date32(), "bytea": pa.binary(),
    "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"), "uuid": pa.string(), "numeric": pa.int64(),
    "text": pa.string(), "jsonb": pa.string(),
}  # fmt: skip


def check(base: str, *, own: bool = True) -> Any:
    """The check of a key of one column on a server before version 13, which says of no index that it compares bytes."""
    connection: Any = SimpleNamespace(execute=lambda *_: [("k", False, True, own)])
    schema = pa.schema({"k": KINDS[base]})
    matched = match(None, schema, [TableColumn("k", base, base)])
    return key_check(connection, 1, schema, matched, ["k"])


def test_an_old_server_takes_the_keys_that_a_new_one_takes() -> None:
    for base in KINDS:
        if base == "jsonb":
            continue
        found = check(base)
        assert (dict(found.given), found.kept) == ({"k": "k"} if base == "uuid" else {}, ("k",) if base == "text" else ()), base
    for base, own in (("jsonb", True), ("int4", False), ("text", False)):
        with pytest.raises(SchemaError, match="may be equal"):
            check(base, own=own)


@pytest.mark.parametrize("base", ["timestamp", "timestamptz", "date", "numeric", "int8", "float8", "bool"])
def test_text_is_no_key_of_a_type_that_writes_it_otherwise(base: str) -> None:
    with pytest.raises(SchemaError, match="does not go into"):
        match(None, pa.schema({"k": pa.string()}), [TableColumn("k", base, base)])
