"""Other users of the machine, who reach what listens on its loopback: Sail's server runs functions for whoever asks it to."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from dagster_operators.errors import EngineError

PRIVATE: Final = "dagster_operators.sail_private"
"""A setting of an engine: ``true`` refuses Sail where others can reach its server, ``false`` says that it is known."""

_PEOPLE: Final = range(1000, 60_000)
"""Numbers that Linux gives to people; others are of the system and its services."""

_PROCESSES: Final = Path("/proc")
_NAMESPACE: Final = "run it where nobody else is: in a container, or a machine, of its own"

_log = logging.getLogger(__name__)


def check_alone(config: Mapping[str, str]) -> None:
    """Warn once, or refuse, where other users of the machine can reach Sail's server.

    Args:
        config: The engine's settings.

    Raises:
        EngineError: There are others, and the setting asks for a private server; or it is none of its values.

    >>> check_alone({PRIVATE: "false"})
    """
    wanted = config.get(PRIVATE, "").lower()
    if wanted not in {"", "true", "false"}:
        raise EngineError(f"{PRIVATE} is {wanted!r}", remedy="write 'true' or 'false'")
    if wanted == "false":
        return
    others = _others(os.getuid())
    if others and wanted:
        raise EngineError(
            f"Sail's server could be reached by other users of this machine ({_told(others)})",
            remedy=f"{_NAMESPACE}; or use embedded Spark, which lets in nobody else",
        )
    if others:
        _warn(_told(others))


@functools.cache
def _warn(others: str) -> None:
    _log.warning(
        "Sail's server listens on loopback without a password: other users of this machine (%s) can run functions with your "
        "rights and read your environment. %s; or use embedded Spark, or set %s to 'false' where all of them may.",
        others, _NAMESPACE.capitalize(), PRIVATE,
    )  # fmt: skip


def _told(others: frozenset[str]) -> str:
    names = sorted(others)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")  # noqa: PLR2004 - enough to know


@functools.cache
def _others(own: int) -> frozenset[str]:
    """Other people of the machine: those who have a process now. Images of containers name users who never have."""
    return frozenset(_name(owner) for owner in set(_owners()) if owner in _PEOPLE and owner != own)


def _owners() -> Iterator[int]:
    """The users of the machine's processes."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(_PROCESSES):
            if entry.name.isdigit():
                with contextlib.suppress(OSError):  # it ended meanwhile
                    yield entry.stat().st_uid


def _name(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
