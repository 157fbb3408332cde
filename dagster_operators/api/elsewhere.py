"""Where a method is that somebody looks for on the wrong kind of stream, or by the name that Spark and pandas have for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_OTHER_NAMES: Final[Mapping[str, str]] = {
    "agg": "key_by(...).aggregate(n='count(*)')",
    "alias": "select(...) or rename(...)",
    "assign": "with_columns(name='expression')",
    "cache": "to_table(...): its rows are kept",
    "coalesce": "filter(...) and the like: the engine divides the rows",
    "collect": "to_table(...), then pipeline.read(table) behind an epoch",
    "count": "key_by(...).aggregate(n='count(*)')",
    "distinct": "key_by(...).deduplicate()",
    "dropDuplicates": "key_by(...).deduplicate()",
    "drop_duplicates": "key_by(...).deduplicate()",
    "foreach": "to_sink(...)",
    "foreachBatch": "to_sink(...)",
    "groupBy": "key_by(...)",
    "group_by": "key_by(...)",
    "groupby": "key_by(...)",
    "limit": "key_by(...).top(n, by=...)",
    "map": "with_columns(...), transform(...) or apply(...)",
    "mapInArrow": "apply(...) with an ArrowOperator",
    "merge": "join(other, on=...), or lookup(...) for a table",
    "orderBy": "key_by(...).top(n, by=...): tables have no order",
    "show": "to_table(...), then pipeline.read(table).show() behind an epoch",
    "sort": "key_by(...).top(n, by=...): tables have no order",
    "toPandas": "to_table(...), then pipeline.read(table).toPandas() behind an epoch",
    "unionAll": "union(...)",
    "unionByName": "union(...)",
    "where": "filter(...)",
    "withColumn": "with_columns(name='expression')",
    "withColumnRenamed": "rename(old='new')",
    "withColumns": "with_columns(name='expression')",
    "withWatermark": "source with event_time= and lateness=",
    "write": "to_table(...)",
    "writeStream": "to_table(...)",
}
_KEYED: Final = frozenset({"aggregate", "deduplicate", "interval_join", "over", "pivot", "top"})
_SPARKS: Final = {"where": "filter", "withColumn": "with_columns", "withColumns": "with_columns", "withColumnRenamed": "rename"}
_ON_STREAMS: Final = frozenset(
    {"drop", "filter", "lookup", "rename", "select", "to_sink", "to_table", "transform", "union", "unnest", "with_columns"}
)


def elsewhere(receiver: str, name: str) -> str:
    """What to write instead of a method that a stream of this kind has not; empty if that is not known.

    >>> elsewhere("stream", "groupBy")
    'write key_by(...)'
    >>> elsewhere("keyed_stream", "filter")
    'write it before key_by(...), or behind what groups by the keys, such as aggregate(...)'
    """
    here = _SPARKS.get(name, name)
    what = "it" if here == name else f"{here}(...)"
    if receiver == "windowed_stream" and here in _ON_STREAMS:
        return f"write {what} before window(...), or behind what computes the windows, such as aggregate(...)"
    if receiver == "keyed_stream" and here in _ON_STREAMS:
        return f"write {what} before key_by(...), or behind what groups by the keys, such as aggregate(...)"
    if receiver == "windowed_stream" and name == "over":
        return "write key_by(...).over(...), with frame='range 10 minutes preceding' for the rows of a while"
    if name == "join":
        return "write join(other, on=...) before key_by(...), or key_by(...).window(...).join(...), or lookup(...) for a table"
    if name in _KEYED:
        return f"write key_by(...).{name}(...)"
    return f"write {_OTHER_NAMES[name]}" if name in _OTHER_NAMES else ""
