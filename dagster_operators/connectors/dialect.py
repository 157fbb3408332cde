"""What engines do differently with the paths of files.

Apache Spark sets corrupt records aside, knows a row's file, and takes paths for globs. Sail, a Spark Connect server in Rust, does
neither of the first two, and takes paths for percent-encoded URLs; a path it does not find gives no rows and no error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from dagster_operators.errors import BadInputError
from dagster_operators.operators.engine_kind import reads_like_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def reader_paths(session: SparkSession, uris: Sequence[str]) -> list[str]:
    """URIs of files, taken literally, as the session's readers take them.

    Raises:
        BadInputError: Spark takes a name for a scheme.
    """
    if not reads_like_spark(session):
        return [percent_encoded(uri) for uri in uris]
    for uri in uris:
        if uri.startswith("file:") and ":" in uri.rpartition("/")[2]:
            raise BadInputError(
                "Spark reads no file with a colon in its name", file=re.sub("^file:/+", "/", uri),
                remedy="give it another name, or run on Sail",
            )  # fmt: skip
    return [glob_escaped(uri) for uri in uris]


def writer_path(session: SparkSession, uri: str) -> str:
    """The URI of a folder, taken literally, as the session's writers take it: Sail decodes and expands it, Spark does not."""
    return uri if reads_like_spark(session) else percent_encoded(uri)


def glob_escaped(uri: str) -> str:
    r"""A URI with backslashes before what Hadoop's file systems would take for a glob.

    >>> print(glob_escaped("file:///in/a[1].csv"))
    file:///in/a\[1\].csv
    """
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", uri)


def percent_encoded(uri: str) -> str:
    """A URI with its path encoded.

    >>> percent_encoded("file:///in/a[1] b.csv")
    'file:///in/a%5B1%5D%20b.csv'
    """
    scheme, separator, path = uri.partition("://")
    return scheme + separator + quote(path, safe="/@:")
