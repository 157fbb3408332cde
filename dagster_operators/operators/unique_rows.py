"""Whether rows that were grouped have one row for each key, so that nothing has to bring them together again."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

from dagster_operators.types.schema import Schema

_FLOATING: Final = re.compile(r"\b(float|double)\b")


def groups_once(keys: Collection[str], schema_json: str) -> bool:
    """Whether one grouping by these keys finds all rows of a key on every engine.

    Sail may take 0.0 and -0.0, or two NaN, for two keys, above all within arrays and structs. What is grouped again behind files
    is found to be one there.

    Args:
        keys: The key columns.
        schema_json: The columns of the grouped rows.

    >>> schema = Schema.from_ddl("k string, x double, xs array<float>").to_json()
    >>> [groups_once(keys, schema) for keys in (["k"], ["K", "x"], ["xs"], [])]
    [True, False, False, True]
    """
    return _groups_once(frozenset(map(str.lower, keys)), schema_json)


@lru_cache(maxsize=256)
def _groups_once(keys: frozenset[str], schema_json: str) -> bool:
    kinds = {name.lower(): str(kind) for name, kind in Schema.from_json(schema_json).types.items()}
    return not any(_FLOATING.search(kinds.get(key, "double")) for key in keys)
