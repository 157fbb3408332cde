"""The entries and checkpoints of a table's Delta log as they are in their files, whoever wrote them."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from dagster_operators.errors import StorageError
from dagster_operators.storage.altered import is_altered_checkpoint
from dagster_operators.storage.delta_log import CHECKPOINT, HINT, LOG, checkpoint_path, entry_path, version_of_hint
from dagster_operators.storage.log_trial import is_readable

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root


def versions_of(root: Root, dataset: str) -> list[int]:
    """The versions whose entries there are, in order."""
    return sorted(int(name[:-5]) for name in root.children(f"{dataset}/{LOG}") if name.endswith(".json") and name[:-5].isdigit())


def checkpoints_of(root: Root, dataset: str) -> tuple[list[int], list[str]]:
    """The versions that have a checkpoint, in order, and the names of those that are damaged; of each all is looked at.

    Raises:
        StorageError: One cannot be asked for, which says nothing of what is in it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    whole, broken = list[int](), list[str]()
    hinted = hinted_checkpoint(root, dataset) if is_altered_checkpoint(root, dataset) else None
    altered = "" if hinted is None else checkpoint_path(hinted).removeprefix(f"{LOG}/")
    for name in root.children(f"{dataset}/{LOG}"):
        if name.endswith(CHECKPOINT):
            path = f"{dataset}/{LOG}/{name}"
            content = content_of(root, path)
            if content is None and not root.exists(path):
                continue  # it was cleaned meanwhile
            try:
                pq.read_table(pa.BufferReader(content or b""))
                readable = is_readable({}, (int(name[:20]), content or b"")) and name != altered
            except (pa.ArrowException, OSError, ValueError):  # Arrow tells of damage by each
                readable = False
            if readable:
                whole.append(int(name[:20]))
            else:
                broken.append(name)
    return sorted(whole), broken


def content_of(root: Root, path: str) -> bytes | None:
    """A file's content; None where there is none, or a disk has lost it.

    Raises:
        StorageError: It may not be read, or an object store does not give it: that says nothing of what is in it.
    """
    try:
        return root.read(path)
    except StorageError:
        if root.is_local and os.access(root.path(path), os.R_OK):
            return None
        raise


def has_checkpoint(root: Root, dataset: str, version: int) -> bool:
    """Whether there is a checkpoint of a version, which readers of it begin with."""
    return root.exists(f"{dataset}/{checkpoint_path(version)}")


def hinted_checkpoint(root: Root, dataset: str) -> int | None:
    """The version of the checkpoint that readers are told to begin with; None when that cannot be read, which does no harm."""
    return version_of_hint(root.read(f"{dataset}/{LOG}/{HINT}") or b"")


def read_actions(root: Root, path: str) -> list[dict[str, Any]]:
    """The actions of an entry; none if its file is empty or missing.

    Raises:
        ValueError: It is cut short, or no entry.
        StorageError: It cannot be asked for.
    """
    return [json.loads(line) for line in (content_of(root, path) or b"").splitlines() if line.strip()]


def empty_versions(root: Root, dataset: str) -> list[int]:
    """The versions of a table from the first one on that have no file yet: their entries only say what the table is."""
    paths = ((version, f"{dataset}/{entry_path(version)}") for version in versions_of(root, dataset))
    empty = takewhile(lambda one: not any(True for _ in actions_of(root, one[1], ("add", "remove"))), paths)
    return [version for version, _ in empty]


def never_added(root: Root, dataset: str) -> bool:
    """Whether no version of a table, none of which was cleaned out of its log, ever had a file."""
    versions = empty_versions(root, dataset)
    return versions == [*range(len(versions))] and versions == versions_of(root, dataset)


def actions_of(root: Root, path: str, kinds: Collection[str]) -> Iterator[dict[str, Any]]:
    """The actions of some kinds in an entry, as far as it can be read. Other lines, which may be many, are not parsed."""
    marks = [f'"{kind}"'.encode() for kind in kinds]
    for line in (root.read(path) or b"").splitlines():
        if any(mark in line for mark in marks):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict) and not found.keys().isdisjoint(kinds):
                yield found


def summed_adds(root: Root, dataset: str, version: int) -> list[dict[str, Any]]:
    """What a checkpoint has of each file that is active at its version."""
    import pyarrow.parquet as pq

    path = root.path(dataset, checkpoint_path(version))
    return [add for add in pq.read_table(path, columns=["add"], filesystem=root.files)["add"].to_pylist() if add]


def path_of(action: dict[str, Any]) -> str:
    """The file that an add or remove is about, by its path in the table.

    >>> path_of({"path": "day=a%20b/part-0.parquet"})
    'day=a b/part-0.parquet'
    """
    return unquote(action["path"])
