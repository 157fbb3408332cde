"""Local paths and URIs of object stores, as text."""

from __future__ import annotations

import os
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


_SECRET_PARAMETER: Final = re.compile(
    r"([?&;][^=&;?\s]*(?:sig|token|secret|passw|key|credential|authorization)[^=&;\s]*=)([^&;\s'\"]+)", re.IGNORECASE
)
"""A parameter of a URL, or of an engine's address, that signs it or lets somebody in."""

_DECODED: Final = re.compile("%[0-9A-Fa-f]{2}")
"""Signs that stand for another one in a URL: deltalake replaces them in paths, too."""


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
        path = Path(location.removeprefix("file://")).expanduser().absolute()
        return str(path.resolve() if ".." in path.parts else path)  # what is above a link is above the folder that it names
    return location.rstrip("/")


def ambiguous_sign(location: str) -> str:
    """The sign in a path that libraries read in different ways, for people; empty if all take the path alike.

    deltalake resolves links, so the folder that a local path leads to counts as well.

    >>> ambiguous_sign("data/{a,b} [1]*?/50%"), ambiguous_sign("a%20b"), ambiguous_sign("s3://lake/a#b")
    ('', '%20', '#')
    """
    if not is_local(location):
        return next(iter(re.findall(r"[?#]", location)), "") or _sign_in(split_uri(location)[2])
    path = split_uri(location)[2]
    return _sign_in(path) or _sign_in(os.path.realpath(absolute(location)))


def _sign_in(path: str) -> str:
    if decoded := _DECODED.search(path):
        return decoded[0]
    odd = next((sign for sign in path if sign == "\\" or sign < " " or sign == "\x7f" or "\ud800" <= sign <= "\udfff"), "")
    return odd if odd in {"", "\\"} else ascii(odd)[1:-1]


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


def masked(text: str) -> str:
    """A text with URLs in it, without users, passwords, tokens and signatures.

    >>> masked("http://user:secret@proxy:80"), masked("sc://host:443/;token=abc;user_id=ada"), masked("https://h/?sv=1&sig=x%3D")
    ('http://***@proxy:80', 'sc://host:443/;token=***;user_id=ada', 'https://h/?sv=1&sig=***')
    """
    return _SECRET_PARAMETER.sub(r"\1***", without_user(text))


def secrets_within(text: str) -> list[str]:
    """The passwords, tokens and signatures in a text with URLs in it.

    >>> secrets_within("http://user:secret@proxy:80"), secrets_within("sc://host:443/;token=abc")
    (['secret'], ['abc'])
    """
    users = [found[0].split("://")[1][:-1].rpartition(":")[2] for found in _USER_INFO.finditer(text)]
    return users + [found[2] for found in _SECRET_PARAMETER.finditer(text)]
