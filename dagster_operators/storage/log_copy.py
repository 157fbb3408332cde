"""A table's log on an object store, read in three rounds of requests, for deltalake to be opened on a local folder with it.

deltalake asks a store for each entry twice, and for the parts of a checkpoint four times over, most of it one after the other:
twenty requests in turn. Whatever is not as this package writes logs, or is not whole, is left to it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import StorageError
from dagster_operators.storage.causes import of_damage
from dagster_operators.storage.delta_log import CHECKPOINT, HINT, LOG, entry_path
from dagster_operators.storage.digests import digest_of, hinted_digest, is_altered
from dagster_operators.storage.log_checkpoint import hinted_file, write_log
from dagster_operators.storage.side_by_side import at_once

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from dagster_operators.storage.root import Root

_AT_ONCE: Final = 32

LARGEST_COPY: Final = 4 << 20
"""Bytes. Of larger checkpoints deltalake reads only the parts that it needs."""

_MOST_ENTRIES: Final = 60
"""So many of a log are copied behind its checkpoint; a log of ours has one for each twenty."""


@dataclass(frozen=True)
class LogCopy:
    """What a version of a table is made of.

    Attributes:
        version: The version.
        stamp: That of its entry as it was listed, before the entry was read; zeros when only a checkpoint tells of the version.
        entries: The entries up to it, from the one behind the checkpoint on.
        checkpoint: The version and the content of the checkpoint, if there is one.
    """

    version: int
    stamp: tuple[int, int]
    entries: Mapping[int, bytes]
    checkpoint: tuple[int, bytes] | None

    @contextmanager
    def opened(self) -> Iterator[DeltaTable]:
        """The table as deltalake reads it, as long as this is open."""
        from deltalake import DeltaTable

        with tempfile.TemporaryDirectory(prefix="dagster_operators-") as folder:
            write_log(folder, self.entries, self.checkpoint)
            yield DeltaTable(folder)

    def brought_to(self, root: Root, dataset: str, version: int) -> LogCopy | None:
        """The same with the entries up to a later version; None if they are not all there, or too many."""
        if version - self.version + len(self.entries) > _MOST_ENTRIES:
            return None
        wanted = [f"{dataset}/{entry_path(number)}" for number in range(self.version + 1, version + 1)]
        read = _read(root, wanted) if wanted else {}
        if not all(read.values()):
            return None
        if any(is_altered(content or b"") for content in read.values()):
            raise StorageError("an entry of the log was changed", table=dataset, remedy=of_damage(root.uri))
        more = dict(zip(range(self.version + 1, version + 1), filter(None, read.values()), strict=True))
        return replace(self, version=version, stamp=(0, 0), entries={**self.entries, **more})


def copied(root: Root, dataset: str) -> LogCopy | bool:
    """The log of a table as it is now.

    Returns:
        The log; else whether there may be one all the same: of another kind, damaged, or changed while it was read.

    Raises:
        StorageError: An entry is not as it was written.
    """
    hint = root.read(f"{dataset}/{LOG}/{HINT}")
    start = None if hint is None else hinted_file(hint)
    if hint is not None and start is None:
        return True
    listed = root.stamps_behind(f"{dataset}/{LOG}", "" if start is None else f"{start:020d}")
    if not listed and start is None:
        return False
    checkpoints = [name for name in listed if ".checkpoint." in name]
    base = -1 if start is None else start
    if checkpoints != ([f"{base:020d}{CHECKPOINT}"] if base >= 0 else []):
        return True
    versions = sorted(
        int(name[:-5]) for name in listed if name.endswith(".json") and name[:-5].isdigit() and int(name[:-5]) > base
    )
    last = max(versions, default=base)
    names = {version: entry_path(version).removeprefix(f"{LOG}/") for version in versions}
    size = sum(listed[name][1] for name in (*names.values(), *checkpoints))
    if versions != [*range(base + 1, last + 1)] or len(versions) > _MOST_ENTRIES or size > LARGEST_COPY or last < 0:
        return True
    read = _read(root, [f"{dataset}/{LOG}/{name}" for name in (*checkpoints, *names.values())])
    contents = [content for content in read.values() if content]
    if len(contents) < len(read) or (checkpoints and hinted_digest(hint or b"") not in ("", digest_of(contents[0]))):
        return True
    if any(map(is_altered, contents[len(checkpoints) :])):
        raise StorageError("an entry of the log was changed", table=dataset, remedy=of_damage(root.uri))
    entries = dict(zip(versions, contents[len(checkpoints) :], strict=True))
    stamp = listed.get(entry_path(last).removeprefix(f"{LOG}/"), (0, 0))
    copy = LogCopy(last, stamp, entries, (base, contents[0]) if checkpoints else None)
    return copy if _can_be_read(copy) else True


def _read(root: Root, paths: list[str]) -> dict[str, bytes | None]:
    return dict(zip(paths, at_once(root.read, paths, _AT_ONCE), strict=True))


def _can_be_read(copy: LogCopy) -> bool:
    """Whether deltalake makes of it what it is: it reads a log only when it is asked for its files."""
    import pyarrow as pa
    from deltalake.exceptions import DeltaError

    try:
        if copy.checkpoint and _goes_on_elsewhere(copy.checkpoint[1]):
            return False
        with copy.opened() as table:
            table.get_add_actions()
            return table.version() == copy.version
    except (DeltaError, OSError, pa.ArrowInvalid):  # those of the place itself are told, which a local folder would not be
        return False


def _goes_on_elsewhere(checkpoint: bytes) -> bool:
    """Whether a checkpoint names further files that belong to it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(checkpoint))
    if "sidecar" not in file.schema_arrow.names:
        return False
    named = file.read(columns=["sidecar"])["sidecar"]
    return bool(named.null_count < len(named))
