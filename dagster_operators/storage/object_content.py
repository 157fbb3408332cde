"""What is in the objects that sources read, as far as the store tells: by ETags, as nothing is read through for a digest there.

A strong ETag, or a version, is another one whenever the content is. Some stores give a new one for the same content, too: so
another ETag says that an object was written anew, and not with certainty that its rows are others.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dagster_operators.errors import BadInputError, MissingInputError, OperatorsError
from dagster_operators.storage.access import Access
from dagster_operators.storage.location import FileLocation, SourceFile, changed_file, vanished
from dagster_operators.storage.object_store import ETAG, QUESTIONS, ObjectAbout, ObjectStore
from dagster_operators.storage.side_by_side import at_once
from dagster_operators.storage.uri import OBJECT_STORES, S3, split_uri


def is_marked(file: SourceFile) -> bool:
    """Whether a file was known by its ETag when it was taken up.

    >>> is_marked(SourceFile(5, "a.csv", 3, "etag:00000000000001")), is_marked(SourceFile(5, "a.csv", 3, "0a", 7))
    (True, False)
    """
    return file.digest.startswith(ETAG)


def with_marks(location: FileLocation, files: Sequence[SourceFile]) -> list[SourceFile]:
    """Files with the store's marks of their content; without, where there are none or the store cannot be asked."""
    try:
        about = _about(location, files)
    except (OperatorsError, OSError):  # without the package obstore; whoever reads them says what else is wrong
        return list(files)
    return [
        replace(file, digest=found.digest) if found and found.size == file.size and found.digest else file
        for file, found in zip(files, about, strict=True)
    ]


def require_marks(location: FileLocation, files: Sequence[SourceFile]) -> None:
    """Make sure that marked files are still what they were: their times say less, and are not asked for.

    Raises:
        MissingInputError: One has vanished or may not be read.
        BadInputError: One was written anew.
    """
    if not files:
        return
    try:
        about = _about(location, files)
    except OSError as error:
        raise MissingInputError(
            f"input files cannot be looked at ({location.access.redact(str(error))})", file=location.path,
            remedy="see that they can, and run again",
        ) from None  # fmt: skip
    for file, found in zip(files, about, strict=True):
        path = location.full_path(file)
        if found is None:
            raise vanished(path)
        if found.size != file.size:
            raise changed_file(path, file, replace(file, size=found.size))
        if found.digest != file.digest:
            raise BadInputError(
                "an input file was written anew after it was taken up, with as many bytes; reading it could give other rows",
                file=path,
                remedy='put new rows into a new file; to read what is there now, into tables that begin anew: '
                'pipeline.reset(source, 0, tables="restart")',
            )  # fmt: skip


def written_anew(location: FileLocation, files: Sequence[SourceFile]) -> list[str]:
    """The full paths of those of some marked files that are there, with other marks."""
    marked = [file for file in files if is_marked(file)]
    pairs = zip(marked, _about(location, marked), strict=True)
    return [location.full_path(file) for file, found in pairs if found and found.digest != file.digest]


def _about(location: FileLocation, files: Sequence[SourceFile]) -> Sequence[ObjectAbout | None]:
    """What the store says of each file; None of those that are not there, and of all where it has no marks."""
    scheme, authority, _ = split_uri(location.path)
    if not files or scheme not in OBJECT_STORES or (scheme in S3 and "@" in authority):
        return [None] * len(files)
    store = _store(f"{scheme}://{authority}", location.access)
    keys = [split_uri(uri)[2].strip("/") for uri in location.file_uris(files)]
    if len(keys) > QUESTIONS and (folder := _common_folder(keys)):
        listed: Mapping[str, ObjectAbout] = store.below(folder)
        return [listed.get(key) for key in keys]
    return list(at_once(store.about, keys, QUESTIONS))


def _common_folder(keys: Sequence[str]) -> str:
    """The deepest folder that all objects are below.

    >>> _common_folder(["in/a/1.csv", "in/b/2.csv"]), _common_folder(["1.csv", "in/2.csv"])
    ('in', '')
    """
    first, last = min(keys).split("/")[:-1], max(keys).split("/")[:-1]
    pairs = enumerate(zip(first, last, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(first), len(last)))
    return "/".join(first[:same])


@functools.lru_cache(maxsize=64)
def _store(uri: str, access: Access) -> ObjectStore:
    return ObjectStore(uri, access)
