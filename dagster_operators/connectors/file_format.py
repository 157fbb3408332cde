"""The format of files, which their names tell when nobody says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from dagster_operators.errors import BadInputError
from dagster_operators.storage.location import FileLocation, SourceFile

Format = Literal["csv", "json", "parquet", "debezium-json"]

SUFFIXES: Final[dict[str, Format]] = {
    "csv": "csv",
    "tsv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "parquet": "parquet",
}
_COMPRESSIONS: Final = (".gz", ".bz2", ".zst", ".lz4", ".snappy")


def format_named(path: str) -> Format | None:
    """The format that a file's name tells.

    >>> format_named("in/Flights.CSV.gz"), format_named("in/flights.txt")
    ('csv', None)
    """
    name = path.lower()
    for compression in _COMPRESSIONS:
        name = name.removesuffix(compression)
    return SUFFIXES.get(name.rpartition(".")[2])


def suffix_of(path: str) -> str:
    """What a file's name ends in, with a compression's before it; nothing if it ends in none.

    >>> suffix_of("in/2024.1/Flights.CSV.gz"), suffix_of("in/flights.x.txt"), suffix_of("in.d/flights"), suffix_of("a.b c")
    ('CSV.gz', 'txt', '', '')
    """
    compressions = "|".join(map(re.escape, _COMPRESSIONS))
    found = re.search(rf"\.(\w+(?:{compressions})?)$", path.rpartition("/")[2], re.IGNORECASE)
    return found[1] if found else ""


def is_plain(path: str) -> bool:
    """Whether a file is known to be read as it is, and not decompressed, which its name tells.

    >>> is_plain("in/Flights.CSV"), is_plain("in/flights.csv.gz"), is_plain("in/flights.deflate")
    (True, False, False)
    """
    return path.lower().rpartition(".")[2] in SUFFIXES


def common_format(location: FileLocation, files: Sequence[SourceFile]) -> Format:
    """The one format of files.

    Raises:
        BadInputError: Their suffixes tell no format or different ones.
    """
    formats: set[Format] = set()
    for file in files:
        kind = format_named(file.path)
        if kind is None or (formats and kind not in formats):
            problem = "the file's suffix tells no format" if kind is None else f"a {kind} file is among files of another format"
            raise BadInputError(problem, file=location.full_path(file), remedy="give a format=, or a path like folder/*.csv")
        formats.add(kind)
    return next(iter(formats))
