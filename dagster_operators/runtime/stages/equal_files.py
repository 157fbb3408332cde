"""Files of a replaced table that were there before with the same content: they stay, and their readers notice no change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dagster_operators.storage.presence import digests_of, lost_files
from dagster_operators.transactions.lost import written_files

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root
    from dagster_operators.transactions.manifest import FileEntry


def equal_files(root: Root, dataset: str, before: Sequence[FileEntry], new: Sequence[FileEntry]) -> dict[str, FileEntry]:
    """The files of before that have the content of new files, by the paths of these; each at most once.

    Digests are compared, and taken only of new files that have the size of an old one. There are none on an object store.

    Args:
        root: The storage root.
        dataset: The table.
        before: Its files as of the previous epoch.
        new: The files that were staged.
    """
    if not root.is_local:
        return {}
    sizes = {(file.size, file.partition) for file in new}
    alike = [file for file in before if (file.size, file.partition) in sizes and file.is_ours]
    known = root.known_digests([f"{dataset}/{file.path}" for file in alike]) if alike else {}
    left: dict[tuple[str, int, tuple[tuple[str, str | None], ...]], list[FileEntry]] = defaultdict(list)
    lost = lost_files(root, written_files(dataset, alike))
    for file in alike:
        path = f"{dataset}/{file.path}"
        if path in known and path not in lost:
            left[known[path], file.size, file.partition].append(file)
    old_sizes = {(size, partition) for _, size, partition in left}
    read = [file for file in new if (file.size, file.partition) in old_sizes]
    found: dict[str, FileEntry] = {}
    digests = digests_of(root, [f"{dataset}/{file.path}" for file in read]) if read else {}
    for file in read:
        if same := left[digests[f"{dataset}/{file.path}"], file.size, file.partition]:
            found[file.path] = same.pop()
    return found
