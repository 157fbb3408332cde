"""Local paths and URIs of object stores, as text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

S3: Final = frozenset({"s3", "s3a"})
"""Schemes of Amazon S3 and what speaks its protocol: ``s3a`` is what Hadoop's file systems call the same thing."""

AZURE: Final = frozenset({"az", "abfs", "abfss", "adl"})
"""Schemes of Azure's stores. What is before the ``@`` in their URIs is a container, and no user."""

OBJECT_STORES: Final = S3 | {"gs", "gcs"} | AZURE
"""Schemes of stores that write a file only if there is none: S3, Google Cloud Storage and Azure."""

_USER_INFO = re.compile(r"(?<!\babfs)(?<!\babfss)(://)[^/@\s]+@")


def split_uri(path: str) -> tuple[str, str, str]:
    """Scheme, authority and path of a URI; the first two are empty for a local path.

    >>> split_uri("s3://bucket/a/*.csv"), split_uri("input/*.csv"), split_uri("file:///a")
    (('s3', 'bucket', '/a/*.csv'), ('', '', 'input/*.csv'), ('file', '', '/a'))
    """
    scheme, separator, rest = path.partition("://")
    if not separator:
        return "", "", path
    authority, slash, below = rest.partition("/")
    return scheme, authority, slash + below


def is_local(path: str) -> bool:
    """Whether it is a path on this machine.

    >>> is_local("data/flights"), is_local("file:///data"), is_local("s3://bucket/flights")
    (True, True, False)
    """
    return split_uri(path)[0] in {"", "file"}


def absolute(location: str) -> str:
    """A local path made absolute, with ``~`` for the home folder; a URI as it is.

    >>> absolute("s3://bucket/flights/")
    's3://bucket/flights'
    """
    if is_local(location):
        return str(Path(location.removeprefix("file://")).expanduser().absolute())
    return location.rstrip("/")


def public_uri(location: str) -> str:
    """The absolute path or URI, without user and password.

    >>> public_uri("s3://user:secret@bucket/flights/")
    's3://bucket/flights'
    >>> public_uri("abfss://container@account.dfs.core.windows.net/flights")
    'abfss://container@account.dfs.core.windows.net/flights'
    """
    if is_local(location) or split_uri(location)[0] in AZURE:
        return absolute(location)
    parts = urlsplit(location)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")


def place_of(location: str) -> str:
    """The same text for all spellings of a place, for comparing.

    >>> place_of("s3a://bucket/flights") == place_of("s3://bucket/flights/")
    True
    """
    uri = public_uri(location)
    scheme, separator, rest = uri.partition("://")
    return f"s3://{rest}" if separator and scheme in S3 else uri


def without_user(text: str) -> str:
    """A text with URIs in it, without their users and passwords.

    >>> without_user("cannot open s3://user:secret@bucket/flights")
    'cannot open s3://***@bucket/flights'
    """
    return _USER_INFO.sub(r"\1***@", text)
