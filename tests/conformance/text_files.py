"""CSV and JSON files, each read by both engines: all of them in one query."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dagster_operators.connectors.rejects import CORRUPT_RECORD
from dagster_operators.connectors.text_format import TextFormat
from dagster_operators.connectors.text_reader import TextReader
from dagster_operators.graph.places import FILE, PLACE
from dagster_operators.storage.location import FileLocation
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema
from tests.conformance.comparison import shown
from tests.conformance.text_cases import CORRUPT, GROUPS, NULL, Texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LONGEST = 2**42
"""On Spark numbers of files are multiples of it."""
_FLOATING = ("double", "float")


def write_texts(folder: Path) -> None:
    """Write the files of all cases, each in one of its group's folder."""
    for number, group in enumerate(GROUPS):
        (folder / str(number)).mkdir()
        for place, text in enumerate(group.cases):
            (folder / str(number) / f"{place:03}.{group.kind}").write_bytes(group.file(text))


def read_texts(session: SparkSession, folder: Path) -> dict[tuple[int, str], str]:
    """What an engine reads, by the group's number and the text: as the cases tell it."""
    parts = [_read(session, folder / str(number), number, group) for number, group in enumerate(GROUPS)]
    rows: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for row in functools.reduce(lambda one, other: one.unionAll(other), parts).collect():
        rows[row["part"], row["file"] // _LONGEST if row["file"] >= _LONGEST else row["file"]].append(row)
    found = {}
    for number, group in enumerate(GROUPS):
        for place, text in enumerate(group.cases):
            told = sorted(rows[number, place], key=lambda row: (row["is_corrupt"], row["place"]))
            found[number, text] = "\n".join(_shown(group, row) for row in told)
    return found


def expected(engine: str) -> Mapping[tuple[int, str], str]:
    """What is read, by the same."""
    return {
        (number, text): group.sail.get(text, told) if engine == "sail" else told
        for number, group in enumerate(GROUPS)
        for text, told in group.cases.items()
    }


def _read(session: SparkSession, folder: Path, number: int, group: Texts) -> DataFrame:
    location = FileLocation(str(folder))
    files = sorted(location.find(), key=lambda file: file.path)
    reader = TextReader(location, TextFormat(group.kind, tuple(group.options.items())))  # type: ignore[arg-type]
    schema = Schema.from_ddl(group.schema)
    rows = reader.read(session, files, schema.to_json(), "reject", places=True)
    values = ", ".join(f"CAST({quoted(name)} AS string)" for name in schema.names)
    wanted = (f"{number} AS part", f"{FILE} AS file", f"{PLACE} AS place", f"{CORRUPT_RECORD} IS NOT NULL AS is_corrupt")
    return rows.selectExpr(*wanted, f"array({values}) AS values")


def _shown(group: Texts, row: Any) -> str:
    if row["is_corrupt"]:
        return CORRUPT
    kinds = [str(kind) for kind in Schema.from_ddl(group.schema).types.values()]
    told = [
        shown(float(value)) if value is not None and kind in _FLOATING else value
        for value, kind in zip(row["values"], kinds, strict=True)
    ]
    return "|".join(NULL if value is None else value for value in told)
