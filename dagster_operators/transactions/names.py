"""The names in records and manifests, of the form that this package writes: parts of paths, and paths below a dataset.

A storage root may come from somebody else: no name that is decoded leads out of the root, or into another folder.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Final, TypeAlias

_KINDS: Final = ("tables/", "state/", "streams/")
_PART: Final = re.compile(r"(?!\.{1,2}$)[^/\\\x00-\x1f\x7f]{1,500}")
_BRACKETS: Final = 500
"""Texts with fewer brackets are never too deep."""

_ATTEMPT: Final = re.compile(r"g\d+-\w+")
_DIGEST: Final = re.compile(r"[0-9A-Za-z_-]{0,128}")


def is_part(name: str) -> bool:
    """Whether a name is one part of a path, and stays in its folder.

    >>> is_part("sums@2"), is_part(".."), is_part("a/b"), is_part("")
    (True, False, False, False)
    """
    return _PART.fullmatch(name) is not None


def is_dataset(name: str) -> bool:
    """Whether it names a table, a state or a stream.

    >>> is_dataset("tables/clean"), is_dataset("tables/../ledger"), is_dataset("ledger")
    (True, False, False)
    """
    return name.startswith(_KINDS) and is_part(name.partition("/")[2])


def is_file(path: str) -> bool:
    """Whether it is the path of a file below a dataset's folder.

    >>> is_file("e1-g1-0a/part-0.parquet"), is_file("day=1/a..b"), is_file("a/../../b"), is_file("/a")
    (True, True, False, False)
    """
    if not path or path[0] == "/" or "\0" in path or path.startswith("_delta_log/"):
        return False
    return ".." not in path or ".." not in path.split("/")


def is_digest(name: str) -> bool:
    """Whether it may be a digest, which files are called by; empty where there is none."""
    return _DIGEST.fullmatch(name) is not None


def is_attempt(name: str) -> bool:
    """Whether a name is the id of an attempt.

    >>> is_attempt("g12-0badcafe"), is_attempt("superstep.json")
    (True, False)
    """
    return _ATTEMPT.fullmatch(name) is not None


def is_flat(text: str) -> bool:
    """Whether JSON in a text can be read: thousands of brackets in one another cannot.

    >>> is_flat('{"a": [1]}'), is_flat("[" * 100_000)
    (True, False)
    """
    if text.count("[") + text.count("{") < _BRACKETS:
        return True
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


Part: TypeAlias = Annotated[str, is_part]
Dataset: TypeAlias = Annotated[str, is_dataset]
FilePath: TypeAlias = Annotated[str, is_file]
Digest: TypeAlias = Annotated[str, is_digest]
Json: TypeAlias = Annotated[str, is_flat]
