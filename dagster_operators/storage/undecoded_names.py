"""Names of files that are not UTF-8: Arrow lists no folder that has one of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from dagster_operators.errors import BadInputError


def decoded_paths(folder: str, *, recursive: bool, is_input: Callable[[str], bool]) -> Iterator[str]:
    """The files below a folder whose names are UTF-8.

    Args:
        folder: A local folder.
        recursive: Whether files of folders in it count.
        is_input: Whether a file of that path belongs to the input.

    Raises:
        BadInputError: A file of the input has another name.
    """
    for path, folders, names in os.walk(folder, followlinks=True):
        if not recursive:
            folders.clear()
        for name in names:
            file = f"{path.rstrip('/')}/{name}"
            if _is_decoded(file):
                yield file
            elif is_input(file):
                raise BadInputError(
                    "the name of an input file is not UTF-8",
                    file=os.fsencode(file).decode(errors="backslashreplace"),
                    remedy="give the file, or the folder, a name in UTF-8 (mv), or narrow the source's path",
                )


def _is_decoded(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
