"""The folder of a machine where this user's processes keep what they can make again: copies of state files, shared libraries."""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
from pathlib import Path
from typing import Final

from dagster_operators.errors import EngineError

CACHE_VARIABLE: Final = "DAGSTER_OPERATORS_CACHE"
"""Environment variable that names the folder; by default it is one of the user's in the system's folder for temporary files."""


def cache_folder() -> Path | None:
    """Where it is; None when the variable is set and empty: nothing that could be done without is kept then.

    >>> cache_folder() == Path(os.environ[CACHE_VARIABLE]) if os.environ.get(CACHE_VARIABLE) else True
    True
    """
    told = os.environ.get(CACHE_VARIABLE)
    if told is None:
        return _default_folder()
    return Path(told) if told else None


def state_copies(pipeline: str) -> str | None:
    """Where workers keep local copies of a pipeline's state files, apart from those of other pipelines."""
    folder = cache_folder()
    if folder is None or pipeline in {"", ".", ".."} or "/" in pipeline:  # of a ledger that somebody else wrote
        return None
    return str(folder / "state" / pipeline)


def library_folder() -> Path:
    """Where this process keeps shared libraries, which it cannot do without: a folder that only this user may write.

    Raises:
        EngineError: It belongs to someone else, or others may write to it.
    """
    folder = cache_folder() or _default_folder()
    make_private(folder)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise EngineError(
            "the folder for libraries can be written by others", file=str(folder),
            remedy=f"name a folder that is yours alone with {CACHE_VARIABLE}",
        )  # fmt: skip
    return folder


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone: others must not put anything there."""
    for missing in [*(parent for parent in reversed(folder.parents) if not parent.exists()), folder]:
        missing.mkdir(mode=0o700, exist_ok=True)


def is_private(folder: Path) -> bool:
    """Whether only this user can have put anything into a folder.

    It and the folders above are this user's alone, up to one of the system, as the one for temporary files is.
    """
    try:
        for place in (folder, *folder.parents):
            about = place.lstat()
            is_folder = stat.S_ISDIR(about.st_mode)
            shared = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if shared or not is_folder or about.st_uid != os.geteuid():
                keeps_owners = not (shared and is_folder) or bool(
                    about.st_mode & stat.S_ISVTX
                )  # else others rename what is in it
                return place != folder and keeps_owners and about.st_uid in {0, os.geteuid()}
    except OSError:
        return False
    return True


def _default_folder() -> Path:
    """Of the user that this process runs as, whatever the environment calls them."""
    uid = os.getuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:  # as in a container that runs under any number
        user = str(uid)
    return Path(tempfile.gettempdir(), f"dagster_operators-{user}")
