"""Entries of a Delta log that are valid JSON and no entries: a flipped bit leaves a type that does not exist, or a path less.

The form of each action is compared with Delta's transaction log protocol. What has the right form, and deltalake refuses all the
same, is found by having it read a copy of the log, one version after another: no store's hiccup looks like damage then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import OperatorsError, StorageError
from dagster_operators.storage.causes import of_damage
from dagster_operators.storage.delta_log import checkpoint_path, entry_path
from dagster_operators.storage.log_entries import content_of
from dagster_operators.storage.log_trial import is_panic, is_readable
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root

_FIELDS: Final[Mapping[str, Mapping[str, type]]] = {
    "add": {"path": str, "partitionValues": dict, "size": int, "modificationTime": int, "dataChange": bool},
    "remove": {"path": str, "dataChange": bool},
    "cdc": {"path": str, "partitionValues": dict, "size": int, "dataChange": bool},
    "metaData": {"id": str, "format": dict, "schemaString": str, "partitionColumns": list},
    "protocol": {"minReaderVersion": int, "minWriterVersion": int},
    "txn": {"appId": str, "version": int},
    "domainMetadata": {"domain": str, "configuration": str, "removed": bool},
    "checkpointMetadata": {"version": int},
    "sidecar": {"path": str, "sizeInBytes": int},
    "commitInfo": {},
}
"""The kinds of actions, with the fields that each has to have."""


def is_entry(actions: Sequence[Any]) -> bool:
    """Whether parsed lines are the actions of an entry.

    >>> is_entry([{"commitInfo": {}}, {"txn": {"appId": "p", "version": 3}}])
    True
    >>> is_entry([]), is_entry([{"tyn": {"appId": "p", "version": 3}}]), is_entry([{"txn": {"appId": "p"}}])
    (False, False, False)
    """
    return bool(actions) and all(map(_is_action, actions))


def _is_action(action: Any) -> bool:
    if not isinstance(action, dict) or len(action) != 1:
        return False
    ((kind, told),) = action.items()
    if kind not in _FIELDS or not isinstance(told, dict):
        return False
    if any(not isinstance(told.get(name), form) for name, form in _FIELDS[kind].items()):
        return False
    return _has_schema(told["schemaString"]) if kind == "metaData" else _has_statistics(told)


def _has_schema(text: str) -> bool:
    try:
        Schema.from_json(text)
    except (ValueError, KeyError, TypeError, AttributeError, OperatorsError):
        return False
    return True


def _has_statistics(told: Mapping[str, Any]) -> bool:
    """Whether statistics, where there are some, can be read."""
    try:
        return isinstance(json.loads(told.get("stats") or "{}"), dict)
    except (ValueError, TypeError):
        return False


def first_refused(root: Root, dataset: str, versions: Sequence[int], checkpoints: Sequence[int]) -> int | None:
    """The first version that deltalake cannot read, of a log whose entries have the right form; None if it can read all.

    Raises:
        StorageError: An entry or checkpoint cannot be asked for.
    """
    last = max([*versions, *checkpoints], default=-1)
    lowest = min(versions, default=last)
    before = [version for version in checkpoints if version + 1 >= lowest or version == last]
    base = None if lowest == 0 or not before else min(before)
    start = -1 if base is None else base
    summed = None if base is None else (base, content_of(root, f"{dataset}/{checkpoint_path(base)}") or b"")
    entries = {v: content_of(root, f"{dataset}/{entry_path(v)}") or b"" for v in versions if v > start}
    if last < 0 or is_readable(entries, summed):
        return None
    refused = (version for version in entries if not is_readable({v: entries[v] for v in entries if v <= version}, summed))
    return next(refused, start)


@contextmanager
def refusals(dataset: str, uri: str) -> Iterator[None]:
    """Turn what else native code raises for a damaged log into a StorageError, behind which damage is sought.

    >>> with refusals("tables/t", "lake"):
    ...     raise ValueError("year 0 is out of range")
    Traceback (most recent call last):
    dagster_operators.errors.StorageError: the log cannot be read: year 0 is out of range [table 'tables/t']. To do: ...
    """
    try:
        yield
    except (OperatorsError, OSError):
        raise
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise StorageError(f"the log cannot be read: {error}", table=dataset, remedy=of_damage(uri)) from None
    except BaseException as error:
        if not is_panic(error):
            raise
        raise StorageError(f"the log cannot be read: {error}", table=dataset, remedy=of_damage(uri)) from None
