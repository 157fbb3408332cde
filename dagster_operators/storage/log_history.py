"""Who wrote the versions of a table, what, and when, as its log knows: for whoever has to settle it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from dagster_operators.errors import StorageError
from dagster_operators.storage.delta_log import LOG, entry_path
from dagster_operators.time.watermark import format_timestamp

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root

_MOST: Final = 3


def tell_versions(root: Root, dataset: str, after: int) -> str:
    """The versions of a table behind one, or the last that there is when there are none behind it.

    Args:
        root: The storage root.
        dataset: The table's folder.
        after: The last version that is known.
    """
    versions = _versions(root, dataset)
    behind = [version for version in versions if version > after]
    if not behind:
        return f"its last is {_told(root, dataset, versions[-1])}" if versions else ""
    told = ", ".join(_told(root, dataset, version) for version in behind[:_MOST])
    return told + (f" and {len(behind) - _MOST} more" if len(behind) > _MOST else "")


def added_since(root: Root, dataset: str, after: int) -> set[str]:
    """The files that versions of a table behind one made active, by their paths in it.

    Raises:
        StorageError: An entry of its log cannot be read, so that nobody knows.
    """
    found: set[str] = set()
    for version in _versions(root, dataset):
        if version > after:
            try:
                actions = [json.loads(line) for line in (root.read(f"{dataset}/{entry_path(version)}") or b"").splitlines()]
            except ValueError:
                raise StorageError(
                    f"entry {version} of a table's log cannot be read", table=dataset,
                    remedy="run an epoch, which says how the table is settled, then clean again",
                ) from None  # fmt: skip
            found |= {unquote(action["add"]["path"]) for action in actions if "add" in action}
    return found


def writers_of(root: Root, dataset: str, version: int) -> set[str]:
    """The applications that a version's log entry names as those whose transaction it is."""
    lines = (root.read(f"{dataset}/{entry_path(version)}") or b"").splitlines()
    return {action["txn"]["appId"] for action in map(json.loads, lines) if "txn" in action}


def marked_files(root: Root, dataset: str) -> set[str]:
    """The active files of a table of which rows are marked as deleted (deletion vectors), as far as its log's entries tell."""
    marked: set[str] = set()
    for version in _versions(root, dataset):
        text = root.read(f"{dataset}/{entry_path(version)}") or b""
        if marked or b"deletionVector" in text:
            actions = [json.loads(line) for line in text.splitlines()]
            marked -= {unquote(action["remove"]["path"]) for action in actions if "remove" in action}
            adds = [action["add"] for action in actions if "add" in action]
            marked |= {unquote(add["path"]) for add in adds if add.get("deletionVector")}
    return marked


def _versions(root: Root, dataset: str) -> list[int]:
    return sorted(int(name[:20]) for name in root.children(f"{dataset}/{LOG}") if _is_entry(name))


def _told(root: Root, dataset: str, version: int) -> str:
    lines = (root.read(f"{dataset}/{entry_path(version)}") or b"").splitlines()
    try:
        actions = [json.loads(line) for line in lines]
    except ValueError:
        return f"version {version}, whose log entry is damaged"
    info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    if not actions:
        return f"version {version}, whose log entry is empty"
    epoch = info.get("dagster_operators.epoch")
    ours = f" of epoch {epoch}" if epoch else ""
    who = info.get("engineInfo") or info.get("clientVersion") or "an unknown writer"
    moment = f" at {format_timestamp(int(info['timestamp']) * 1000)}" if "timestamp" in info else ""
    return f"version {version} is {info.get('operation', 'a commit')}{ours} by {who}{moment}"


def _is_entry(name: str) -> bool:
    """Whether a file in a log's folder is an entry.

    >>> _is_entry("00000000000000000007.json"), _is_entry("00000000000000000007.checkpoint.parquet")
    (True, False)
    """
    return name.endswith(".json") and name[:-5].isdigit()
