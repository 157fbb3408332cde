"""The path of a storage root: all libraries that write there take it alike, or it is refused before anything is written."""

from __future__ import annotations

import re

from dagster_operators.errors import PipelineError, StorageError
from dagster_operators.storage.uri import ambiguous_sign, split_uri, without_user


def below_root(path: str) -> str:
    """A path below the root, as it is.

    Raises:
        StorageError: It leads out of the root: a name in a ledger, plan or log is forged, or damaged.

    >>> below_root("tables/clean/day=..1")
    'tables/clean/day=..1'
    """
    if path.startswith("/") or "\0" in path or (".." in path and ".." in path.split("/")):
        raise StorageError(
            "a name that was read from the storage root leads out of it", file=path.replace("\0", "\\0"),
            remedy="somebody wrote it there, or it is damaged: put the root back from a backup, and trust no root of others",
        )  # fmt: skip
    return path


def check_root_path(uri: str) -> None:
    """Refuse a path that names no folder, or another one to another library.

    Args:
        uri: A local path, or the URI of an object store.

    Raises:
        PipelineError: It is such a path.

    >>> check_root_path("data/{tenant} 50%")
    >>> try:
    ...     check_root_path("data/a%20b")
    ... except PipelineError as error:
    ...     print(error.problem)
    the path of the storage root, or of the folder that it links to, has %20 in it
    """
    scheme, authority, _ = split_uri(uri)
    place = without_user(uri).encode(errors="backslashreplace").decode()
    if not uri or (scheme == "file" and authority) or re.match("file:/(?!//)", uri):
        raise PipelineError(
            "a file URI begins with file:/// and an absolute path" if uri else "the storage root's path is empty",
            file=place or None, remedy="name the folder: Pipeline with root='data/shop'",
        )  # fmt: skip
    if "_delta_log" in re.split(r"[/\\]", uri):
        raise PipelineError(
            "the path of the storage root has a folder _delta_log, which is the name of the logs of Delta tables", file=place,
            remedy="give that folder another name: libraries that read Delta tables would take the root's files for a log",
        )  # fmt: skip
    if sign := ambiguous_sign(uri):
        raise PipelineError(
            f"the path of the storage root, or of the folder that it links to, has {sign} in it",
            file=place,
            remedy="give that folder another name: libraries differ about backslashes, a % before two hexadecimal digits, "
            "control characters and bytes that are no UTF-8, on an object store about ? and #, too",
        )
