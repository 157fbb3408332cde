"""What is in files, as digests: taken of the files that an attempt wrote, and looked up in the ledger for whoever reads them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dagster_operators.storage.object_marks import abouts_of, is_mark_of, mark_of
from dagster_operators.storage.presence import changed_at, digests_of
from dagster_operators.transactions.manifest import Change, FileEntry, Manifest
from dagster_operators.transactions.records import Decision

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root
    from dagster_operators.transactions.ledger import DeltaLedger


def with_digests(root: Root, manifest: Manifest) -> Manifest:
    """The manifest with the digests of the files that its attempt wrote to a local root, where they are in memory still.

    A file that was there before keeps what is known of it. On an object store nothing is read again: files have its marks.
    """
    if not root.is_local:
        return _with_marks(root, manifest)
    new = [
        f"{change.dataset}/{file.path}"
        for change in manifest.changes
        for file in (*change.adds, *change.feed)
        if not (file.digest or file.changed_at)
    ]
    if not new:
        return manifest
    with root.guard(new[0], "a file that was written cannot be read back"):
        times = {path: changed_at(root, path) for path in new}  # before the content: what comes later is a change
        digests = digests_of(root, new)

    def known(change: Change, files: Collection[FileEntry]) -> tuple[FileEntry, ...]:
        paths = [f"{change.dataset}/{file.path}" for file in files]
        return tuple(
            replace(file, digest=digests[path], changed_at=times[path]) if path in digests else file
            for path, file in zip(paths, files, strict=True)
        )

    changes = (replace(one, adds=known(one, one.adds), feed=known(one, one.feed)) for one in manifest.changes)
    return replace(manifest, changes=tuple(changes))


def _with_marks(root: Root, manifest: Manifest) -> Manifest:
    """The manifest with the marks of objects that have none, or have that of the object that they were copied from."""
    paths = [
        path for change in manifest.changes for file in (*change.adds, *change.feed)
        if not is_mark_of(path := f"{change.dataset}/{file.path}", file.digest)
    ]  # fmt: skip
    with root.guard(paths[0] if paths else "", "a file that was written cannot be looked up"):
        there = abouts_of(root, paths)

    def known(change: Change, files: Collection[FileEntry]) -> Iterator[FileEntry]:
        for file in files:
            path = f"{change.dataset}/{file.path}"
            about = there.get(path)
            yield replace(file, digest=mark_of(path, about)) if about else file

    changes = (replace(one, adds=tuple(known(one, one.adds)), feed=tuple(known(one, one.feed))) for one in manifest.changes)
    return replace(manifest, changes=tuple(changes))


class LedgerDigests:
    """The digests of all files that epochs added, by their paths below the root; the ledger is read when they are asked for.

    Args:
        ledger: The pipeline's ledger.
    """

    def __init__(self, ledger: DeltaLedger) -> None:
        self._ledger = ledger
        self._of = ledger.replacements
        self._seen = 0
        self._known: dict[str, str] = {}
        self._turn = threading.Lock()

    def __call__(self, paths: Collection[str]) -> Mapping[str, str]:
        """Those of some files, as far as they are known."""
        with self._turn:  # who came while another one reads would miss what that one has yet to see
            if any(path not in self._known for path in paths):
                self._catch_up()
            return {path: self._known[path] for path in paths if path in self._known}

    def _catch_up(self) -> None:
        if self._of != self._ledger.replacements:
            self._of, self._seen, self._known = self._ledger.replacements, 0, {}
        for entry in self._ledger.scan({Decision.kind}, self._seen):
            self._seen = entry.seq
            for manifest in entry.record.manifests if isinstance(entry.record, Decision) else ():
                for change in manifest.changes:
                    added = ((f"{change.dataset}/{file.path}", file.digest) for file in (*change.adds, *change.feed))
                    self._known.update((path, digest) for path, digest in added if digest)
