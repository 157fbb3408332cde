"""Marks of objects below a storage root, in place of digests: nothing is read through on an object store.

A mark is of the ETag, or of the version, and of the path that the object had: a copy has another ETag on some stores, so that the
mark of one path says nothing of another one. Nor does another mark say that the content is another one: a bucket that was copied
has new ETags where objects were written in parts, or encrypted. So readers refuse nothing by it; who looks for damage tells.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dagster_operators.storage.object_store import ETAG, QUESTIONS, ObjectAbout
from dagster_operators.storage.side_by_side import at_once

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root


def mark_of(path: str, about: ObjectAbout) -> str:
    """The mark of an object; empty where the store gives neither ETag nor version.

    >>> from dagster_operators.storage.object_store import UNMARKED
    >>> mark_of("tables/t/a", ObjectAbout(5, 1.0, 7)), mark_of("tables/t/a", ObjectAbout(5, 1.0, UNMARKED))
    ('etag:00000000000007:eca34b95', '')
    """
    return f"{about.digest}:{_of_path(path)}" if about.digest else ""


def is_mark_of(path: str, mark: str) -> bool:
    """Whether a digest is a mark of the object that has a path, and not of one that it was copied from.

    >>> mark = mark_of("tables/t/a", ObjectAbout(5, 1.0, 7))
    >>> is_mark_of("tables/t/a", mark), is_mark_of("tables/t/b", mark), is_mark_of("tables/t/a", "e3b0c442")
    (True, False, False)
    """
    return mark.startswith(ETAG) and mark.endswith(_of_path(path))


def written_anew(root: Root, marks: Mapping[str, str]) -> list[str]:
    """Those of some objects that are there and have other marks than they had, where these are their own."""
    known = {path: mark for path, mark in marks.items() if is_mark_of(path, mark)}
    there = abouts_of(root, list(known))
    return [path for path, mark in known.items() if (about := there[path]) and mark_of(path, about) not in ("", mark)]


def abouts_of(root: Root, paths: Sequence[str]) -> dict[str, ObjectAbout | None]:
    """What a store says of files; it is asked for whole folders with several of them."""
    folders = Counter(map(_folder, paths))
    several = {folder for folder, count in folders.items() if count > 1}
    single = [path for path in paths if _folder(path) not in several]

    def asked(place: str) -> Mapping[str, ObjectAbout | None]:
        return root.abouts(place) if place in several else {place: root.about(place)}

    found: dict[str, ObjectAbout | None] = {}
    for there in at_once(asked, [*single, *several], QUESTIONS):
        found.update(there)
    return {path: found.get(path) for path in paths}


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _of_path(path: str) -> str:
    return f"{zlib.crc32(path.encode()):08x}"
