"""Entries of a Delta log that are empty, cut short or missing, as a power cut may leave them; and getting them out of the way.

Readers take an empty entry for a commit that did nothing, and refuse the whole table for the others.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.storage.delta_log import HINT, LOG, entry_path
from dagster_operators.storage.digests import is_altered
from dagster_operators.storage.log_entries import (
    checkpoints_of,
    hinted_checkpoint,
    path_of,
    read_actions,
    summed_adds,
    versions_of,
)
from dagster_operators.storage.log_sense import first_refused, is_entry

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root

ASIDE: Final = f"{LOG}/_damaged"
"""The folder, in the table's, for what is moved out of the way; nobody reads it as part of the log."""


def damage(root: Root, dataset: str) -> str:
    """What is wrong with a table's log; empty when it seems whole.

    Raises:
        StorageError: The log cannot be asked for: that is no damage, and nothing to be moved out of the way.

    >>> import tempfile
    >>> from dagster_operators.storage.root import Root
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     root = Root(folder)
    ...     root.write("t/_delta_log/00000000000000000000.json", b'{"commitInfo": {}}')
    ...     root.write("t/_delta_log/00000000000000000002.json", b'{"add')
    ...     damage(root, "t"), damage(root, "u")
    ('entry 1 of its log is missing', '')
    """
    checkpoints, broken = checkpoints_of(root, dataset)
    if broken:
        return f"the checkpoint {broken[0]} of its log cannot be read"
    versions = versions_of(root, dataset)
    first = _first_damaged(root, dataset, versions, checkpoints)
    if _names_none(root, dataset, checkpoints):
        return f"the checkpoint of version {hinted_checkpoint(root, dataset)} of its log is missing"
    if first is None:
        return ""
    if first not in versions:
        return f"entry {first} of its log is missing"
    whole = bool(_actions(root, f"{dataset}/{entry_path(first)}"))
    return f"entry {first} of its log is {'no entry: something in it was changed' if whole else 'empty or cut short'}"


def mend(root: Root, dataset: str) -> bool:
    """Move the first damaged entry and all behind it out of the way, so that the log ends before it.

    Returns:
        Whether something was moved, now or at an earlier try.
    """
    checkpoints, broken = checkpoints_of(root, dataset)
    versions = versions_of(root, dataset)
    first = _first_damaged(root, dataset, versions, checkpoints)
    names = root.children(f"{dataset}/{LOG}")
    gone = [name for name in names if name in broken or _is_from(name, first)]
    if gone or _names_none(root, dataset, checkpoints):
        gone += [name for name in names if name == HINT]
    for name in gone:
        _move(root, f"{dataset}/{LOG}/{name}", f"{dataset}/{ASIDE}/{name}")
    return bool(gone or root.children(f"{dataset}/{ASIDE}"))


def move_aside(root: Root, dataset: str) -> None:
    """Move a whole log out of the way, for one that begins anew."""
    for name in root.children(f"{dataset}/{LOG}"):
        if name[:20].isdigit() or name == HINT:
            _move(root, f"{dataset}/{LOG}/{name}", f"{dataset}/{ASIDE}/{name}")


def without_checkpoints(root: Root, dataset: str) -> bool:
    """Move checkpoints that cannot be read, and what names one that is not there, out of the way, if the entries tell the same.

    Returns:
        Whether something was moved.
    """
    checkpoints, broken = checkpoints_of(root, dataset)
    wrong = broken or _names_none(root, dataset, checkpoints)
    versions = versions_of(root, dataset)
    if not wrong or not versions or _first_damaged(root, dataset, versions, checkpoints) is not None:
        return False
    for name in [name for name in root.children(f"{dataset}/{LOG}") if name in broken or name == HINT]:
        _move(root, f"{dataset}/{LOG}/{name}", f"{dataset}/{ASIDE}-{uuid.uuid4().hex[:8]}/{name}")
    return True


def _names_none(root: Root, dataset: str, checkpoints: Sequence[int]) -> bool:
    """Whether readers are told to begin with a checkpoint that is not there."""
    hinted = hinted_checkpoint(root, dataset)
    return hinted is not None and hinted not in checkpoints


def _is_from(name: str, first: int | None) -> bool:
    return first is not None and name[:20].isdigit() and int(name[:20]) >= first


def settle(root: Root, dataset: str) -> None:
    """Say that what was moved out of the way is no longer needed; it stays beside the log, for whoever wants to look."""
    if root.children(f"{dataset}/{ASIDE}"):
        _move(root, f"{dataset}/{ASIDE}", f"{dataset}/{ASIDE}-{uuid.uuid4().hex[:8]}")


def named_files(root: Root, dataset: str) -> set[str]:
    """The files that the log names as active, as far as it can be read; entries out of the way count as well."""
    checkpoints, _ = checkpoints_of(root, dataset)
    entries = versions_of(root, dataset)
    summed = max(checkpoints, default=-1)
    start = summed if min(entries, default=0) > 0 or summed > max(entries, default=-1) else -1
    active = {path_of(add) for add in summed_adds(root, dataset, start)} if start >= 0 else set()
    paths = [(version, f"{dataset}/{entry_path(version)}") for version in entries]
    paths += [(int(name[:20]), f"{dataset}/{ASIDE}/{name}") for name in root.children(f"{dataset}/{ASIDE}") if ".json" in name]
    for version, path in sorted(paths):
        for action in (_actions(root, path) or []) if version > start else []:
            if _is_named(action, "add"):
                active.add(path_of(action["add"]))
            elif _is_named(action, "remove"):
                active.discard(path_of(action["remove"]))
    return active


def _first_damaged(root: Root, dataset: str, versions: Sequence[int], checkpoints: Sequence[int]) -> int | None:
    lowest = min(versions, default=0)
    if lowest > 0 and not any(checkpoint >= lowest - 1 for checkpoint in checkpoints):
        return 0
    last = max([*versions, *checkpoints], default=-1)  # the entry that a checkpoint sums up stays as long as the checkpoint
    for version in range(lowest, last + 1):
        found = _actions(root, f"{dataset}/{entry_path(version)}") if version in versions else None
        if not found or not is_entry(found) or is_altered(root.read(f"{dataset}/{entry_path(version)}") or b""):
            return version
    return first_refused(root, dataset, versions, checkpoints)


def _is_named(action: Any, kind: str) -> bool:
    """Whether a line, which may be of a damaged entry, says of a file what the kind says."""
    told = action.get(kind) if isinstance(action, dict) else None
    return isinstance(told, dict) and isinstance(told.get("path"), str)


def _actions(root: Root, path: str) -> list[dict[str, Any]] | None:
    """An entry's lines; None if it is damaged."""
    try:
        return read_actions(root, path)
    except (ValueError, RecursionError):
        return None


def _move(root: Root, path: str, target: str) -> None:
    root.move(path, target if not root.exists(target) else f"{target}.{uuid.uuid4().hex[:8]}")
