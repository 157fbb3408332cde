"""Who wrote the versions of a table, what, and when, as its log knows: for whoever has to settle it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import DamagedTableError, StorageError
from dagster_operators.storage.delta_log import entry_path
from dagster_operators.storage.log_entries import checkpoints_of, path_of, read_actions, summed_adds, versions_of
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
    versions = versions_of(root, dataset)
    behind = [version for version in versions if version > after]
    if not behind:
        return f"its last: {tell_version(root, dataset, versions[-1])}" if versions else ""
    told = ", ".join(tell_version(root, dataset, version) for version in behind[:_MOST])
    return told + (f" and {len(behind) - _MOST} more" if len(behind) > _MOST else "")


def added_since(root: Root, dataset: str, after: int) -> set[str]:
    """The files that versions of a table behind one made active, by their paths in it.

    Raises:
        DamagedTableError: An entry of its log cannot be read, so that nobody knows.
    """
    behind = [version for version in versions_of(root, dataset) if version > after]
    return {path_of(action["add"]) for version in behind for action in _actions(root, dataset, version) if "add" in action}


def marked_files(root: Root, dataset: str) -> set[str]:
    """The active files of a table of which rows are marked as deleted (deletion vectors).

    Raises:
        DamagedTableError: An entry of its log cannot be read, so that nobody knows.
    """
    checkpoints, _ = checkpoints_of(root, dataset)
    start = max(checkpoints, default=-1)
    summed = summed_adds(root, dataset, start) if start >= 0 else []
    marked = {path_of(add) for add in summed if add.get("deletionVector")}
    for version in versions_of(root, dataset):
        actions = _actions(root, dataset, version) if version > start else []
        marked -= {path_of(action["remove"]) for action in actions if "remove" in action}
        adds = [action["add"] for action in actions if "add" in action]
        marked |= {path_of(add) for add in adds if add.get("deletionVector")}
    return marked


def _actions(root: Root, dataset: str, version: int) -> list[dict[str, Any]]:
    try:
        return read_actions(root, f"{dataset}/{entry_path(version)}")
    except ValueError:
        name = dataset.removeprefix("tables/")
        raise DamagedTableError(
            f"entry {version} of a table's log cannot be read", table=dataset,
            remedy=f'put its folder back from a backup; or pipeline.repair("{name}", keep="ours") puts the content of the last '
            "epoch back",
        ) from None  # fmt: skip


def tell_version(root: Root, dataset: str, version: int) -> str:
    """What a version of a table is, by whom and when."""
    try:
        actions = _actions(root, dataset, version)
    except (DamagedTableError, StorageError):
        return f"version {version}, whose log entry is damaged"
    info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    if not actions:
        return f"version {version}, whose log entry is empty"
    epoch = info.get("dagster_operators.epoch")
    ours = f" of epoch {epoch}" if epoch else ""
    who = info.get("engineInfo") or info.get("clientVersion") or "an unknown writer"
    moment = f" at {format_timestamp(int(info['timestamp']) * 1000)}" if "timestamp" in info else ""
    return f"version {version} is {info.get('operation', 'a commit')}{ours} by {who}{moment}"
