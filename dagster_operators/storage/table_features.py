"""What a Delta table asks of its readers and writers: times without a zone are a feature that its log has to name.

Else no reader opens the table. deltalake names it for a new table, unless they are within maps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.types.data_type import Array, DataType, Field, Map, Plain, Struct
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from deltalake.table import ProtocolVersions

UNZONED: Final = "timestampNtz"
"""The feature of times without a zone, as the protocol calls it."""

FEED_WRITER: Final = 4
FEATURES_WRITER: Final = 7
"""The versions of writers that know change data feeds, and that know features."""

_FEATURES_READER: Final = 3
_OF_VERSIONS: Final = ("appendOnly", "invariants")
"""What the versions before features ask of every writer."""


def has_unzoned(schema_json: str) -> bool:
    """Whether a schema has times without a zone, within others too; no schema has none.

    >>> has_unzoned(Schema.from_ddl("m map<string, timestamp_ntz>").to_json()), has_unzoned("")
    (True, False)
    """
    return "timestamp_ntz" in schema_json and any(_has(field.type) for field in Schema.from_json(schema_json))


def has_unzoned_in_maps(schema_json: str) -> bool:
    """Whether they are within maps alone.

    >>> has_unzoned_in_maps(Schema.from_ddl("m map<string, timestamp_ntz>").to_json())
    True
    >>> has_unzoned_in_maps(Schema.from_ddl("m map<string, timestamp_ntz>, t timestamp_ntz").to_json())
    False
    """
    return has_unzoned(schema_json) and not any(_has(field.type, maps=False) for field in Schema.from_json(schema_json))


def without_maps(schema_json: str) -> str:
    """A schema that has lists of entries in place of maps.

    >>> Schema.from_json(without_maps(Schema.from_ddl("m map<string, int>").to_json())).to_ddl()
    '`m` array<struct<key:string,value:int>>'
    """
    schema = Schema.from_json(schema_json)
    return Schema(tuple(replace(field, type=_entries(field.type)) for field in schema)).to_json()


def asked_of(protocol: ProtocolVersions, *, feed: bool, unzoned: bool) -> dict[str, Any]:
    """What a table asks of its readers and writers, with a change data feed, or with times without a zone.

    Args:
        protocol: What it asks until now.
        feed: Whether it gets a change data feed.
        unzoned: Whether it gets times without a zone.
    """
    reader, writer = protocol.min_reader_version, max(protocol.min_writer_version, FEED_WRITER * feed)
    if not unzoned and writer < FEATURES_WRITER:
        return {"minReaderVersion": reader, "minWriterVersion": writer}
    known = protocol.writer_features or (_OF_VERSIONS if protocol.min_writer_version < FEATURES_WRITER else ())
    has_feed = feed or protocol.min_writer_version == FEED_WRITER
    writers = {*known, *(["changeDataFeed"] if has_feed else []), *([UNZONED] if unzoned else [])}
    readers = {*(protocol.reader_features or ()), *([UNZONED] if unzoned else [])}
    reader = _FEATURES_READER if unzoned else reader
    return {
        "minReaderVersion": reader,
        "minWriterVersion": FEATURES_WRITER,
        **({"readerFeatures": sorted(readers)} if reader >= _FEATURES_READER else {}),
        "writerFeatures": sorted(writers),
    }


def _has(kind: DataType, *, maps: bool = True) -> bool:
    match kind:
        case Map(key, value):
            return maps and (_has(key) or _has(value))
        case Array(within):
            return _has(within, maps=maps)
        case Struct(fields):
            return any(_has(field.type, maps=maps) for field in fields)
    return kind == Plain("timestamp_ntz")


def _entries(kind: DataType) -> DataType:
    match kind:
        case Map(key, value):
            return Array(Struct((Field("key", _entries(key)), Field("value", _entries(value)))))
        case Array(within):
            return replace(kind, element=_entries(within))
        case Struct(fields):
            return Struct(tuple(replace(field, type=_entries(field.type)) for field in fields))
    return kind
