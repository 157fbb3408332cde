"""A storage root that lies in a source's folder: its own files would be read, and an error of one would say to remove it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dagster_operators.connectors.file_format import format_named, suffix_of
from dagster_operators.errors import PipelineError
from dagster_operators.storage.location import FileLocation, SourceFile

_OF_A_LEDGER = re.compile(r"(?:^|/)ledger/r\d{12}-[0-9a-f]{12}(?:-[0-9a-f]{32})?\.parquet$")


def refuse_a_root(
    location: FileLocation, new: Sequence[SourceFile], found: Sequence[SourceFile], *, kind: str | None, is_first: bool
) -> None:
    """Refuse files if some are of a pipeline's ledger.

    Args:
        location: Where the files are.
        new: The files that would be read.
        found: All that are there.
        kind: The format that the source is to have.
        is_first: Whether the source has read nothing yet; it could not go on from another path.

    Raises:
        PipelineError: Some are.
    """
    ledger = next((file for file in new if _OF_A_LEDGER.search(file.path)), None)
    if ledger is None:
        return
    closer = _closer(location, [file.path for file in found], kind) if is_first else None
    further = f", or say that those directly in the folder are meant: FileSource({closer!r})" if closer else ""
    raise PipelineError(
        "a storage root lies in the source's folder: files of a pipeline's ledger would be read",
        file=location.full_path(ledger),
        remedy=f"delete nothing; choose a root elsewhere{further}",
    )


def _closer(location: FileLocation, found: Sequence[str], kind: str | None) -> str | None:
    """A glob that means the same files without the root's: only of a folder whose own files all lie directly in it."""
    if not location.base()[1]:  # it is a glob
        return None
    below = [path.partition("/")[2] for path in found]
    roots = {path[: match.start()] for path in below if (match := _OF_A_LEDGER.search(path))}
    own = [path for path in below if not any(path.startswith(f"{root}/") for root in roots if root)]
    direct = [path for path in own if "/" not in path]
    if not roots or not direct or ("" not in roots and len(direct) < len(own)):
        return None
    meant = [path for path in direct if kind and format_named(path) == kind] or direct
    suffixes = {suffix_of(path) for path in meant}
    name = f"*.{suffixes.pop()}" if len(suffixes) == 1 and "" not in suffixes else "*"
    return f"{location.path.rstrip('/')}/{name}"
