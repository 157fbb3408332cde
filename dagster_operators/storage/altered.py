"""Entries and checkpoints of a log that are not as they were written, by the digests that they carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dagster_operators.storage.delta_log import HINT, LOG, checkpoint_path, entry_path, version_of_hint
from dagster_operators.storage.digests import digest_of, hinted_digest, is_altered

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root

_LOOKED_AT: Final = 40
"""So many entries behind the last checkpoint, which comes every twenty versions, there are at most."""

LARGEST_CHECKPOINT: Final = 4 << 20
"""Bytes. Whether a larger checkpoint is as it was written is asked only where damage is looked for."""


def altered_entry(root: Root, dataset: str, version: int, *, above: int = -1) -> bool:
    """Whether one of the entries that make up a version, as far as no checkpoint sums them up, is empty or altered.

    On a local root only: an object store shows no file before it is whole, and what is read of it is looked at as it is read.

    Args:
        root: The storage root.
        dataset: The table's folder in it.
        version: The version.
        above: A version whose entries were looked at as they were read.
    """
    if not root.is_local:
        return False
    for number in range(version, max(version - _LOOKED_AT, above), -1):
        if number < version and root.exists(f"{dataset}/{checkpoint_path(number)}"):
            return False
        content = root.read(f"{dataset}/{entry_path(number)}")
        if content is not None and (not content or is_altered(content)):
            return True
    return False


def is_altered_checkpoint(root: Root, dataset: str, *, at_most: int | None = None) -> bool:
    """Whether the checkpoint that a hint names is not what the hint says it was."""
    hint = root.read(f"{dataset}/{LOG}/{HINT}") or b""
    version, digest = version_of_hint(hint), hinted_digest(hint)
    path = f"{dataset}/{checkpoint_path(version or 0)}"
    if version is None or not digest or (at_most is not None and root.stamp(path)[1] > at_most):
        return False
    content = root.read(path)
    return content is not None and digest_of(content) != digest
