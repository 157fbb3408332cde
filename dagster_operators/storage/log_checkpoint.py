"""A checkpoint of a table's log on an object store: made in a local folder of what is known, and put there in two requests.

deltalake asks a store for each entry, and each part of the checkpoint before, four times over: about a hundred requests.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dagster_operators.storage.delta_log import HINT, LOG, checkpoint_path, entry_path, version_of_hint
from dagster_operators.storage.digests import hint_with_digest

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root

_AT_ONCE: Final = 16

_PARTED: Final = ("parts", "v2Checkpoint", "sidecarFiles")
"""What a hint has of a checkpoint that is more than one file."""


def sum_up(
    root: Root, dataset: str, version: int, entries: Mapping[int, bytes], before: tuple[int, bytes] | None = None
) -> bytes | None:
    """Write a checkpoint of a version.

    Args:
        root: The storage root.
        dataset: The table's folder below it.
        version: The last version of the log.
        entries: Entries that are known; the others are read.
        before: The version and the content of the checkpoint before, if that is known.

    Returns:
        Its content; None when what there is is not enough, or of another kind, and nothing was written.
    """
    from deltalake import DeltaTable

    if before is None:
        hint = root.read(f"{dataset}/{LOG}/{HINT}")
        before = None if hint is None else _named(root, dataset, hint)
        if hint is not None and before is None:
            return None
    first = before[0] + 1 if before else 0
    wanted = range(first, version + 1)
    missing = [number for number in wanted if number not in entries]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        read = dict(zip(missing, pool.map(lambda number: root.read(f"{dataset}/{entry_path(number)}"), missing), strict=True))
    found = {number: entries.get(number) or read.get(number) for number in wanted}
    if not all(found.values()):
        return None
    with tempfile.TemporaryDirectory(prefix="dagster_operators-") as folder:
        write_log(folder, {number: content or b"" for number, content in found.items()}, before)
        table = DeltaTable(folder)
        if table.version() != version:
            return None
        table.create_checkpoint()
        content, hint = Path(folder, checkpoint_path(version)).read_bytes(), Path(folder, LOG, HINT).read_bytes()
    root.write(f"{dataset}/{checkpoint_path(version)}", content)
    root.write(f"{dataset}/{LOG}/{HINT}", hint_with_digest(hint, content))
    return content


def write_log(folder: str, entries: Mapping[int, bytes], checkpoint: tuple[int, bytes] | None) -> None:
    """Put a log into the local folder of a table that has no files."""
    Path(folder, LOG).mkdir()
    for number, content in entries.items():
        Path(folder, entry_path(number)).write_bytes(content)
    if checkpoint:
        Path(folder, checkpoint_path(checkpoint[0])).write_bytes(checkpoint[1])
        Path(folder, LOG, HINT).write_text(json.dumps({"version": checkpoint[0], "size": -1}))


def hinted_file(hint: bytes) -> int | None:
    """The version of the checkpoint that a hint names; None when it is more than one file, or the hint cannot be read.

    >>> hinted_file(b'{"version": 20, "size": 7}'), hinted_file(b'{"version": 20, "size": 7, "parts": 2}'), hinted_file(b"{")
    (20, None, None)
    """
    version = version_of_hint(hint)
    return None if version is None or any(name in json.loads(hint) for name in _PARTED) else version


def _named(root: Root, dataset: str, text: bytes) -> tuple[int, bytes] | None:
    """The checkpoint that a hint names; None when it is more than one file, is not there, or the hint cannot be read."""
    version = hinted_file(text)
    if version is None:
        return None
    content = root.read(f"{dataset}/{checkpoint_path(version)}")
    return (version, content) if content else None
