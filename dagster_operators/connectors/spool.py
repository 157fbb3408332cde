"""The folder of a source's own below the storage root: rows that it took from elsewhere, as long as an epoch may read them."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root

_SCRAP_SECONDS: Final = 86_400.0


def tidy(root: Root, folder: str, read: Collection[str]) -> None:
    """Delete what the last complete epoch read, and scraps of a day ago.

    Of what else lies there this run may not know: another one may have taken over, and its epoch read it.

    Args:
        root: The storage root.
        folder: The source's folder below it.
        read: The names of the files that the last complete epoch read.
    """
    old = time.time() - _SCRAP_SECONDS
    for name in root.children(folder):
        path = f"{folder}/{name}"
        if name in read or (root.modified(path) or old) < old:
            root.delete_file(path)
