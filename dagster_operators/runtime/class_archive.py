"""An archive of Spark's classes, from which Java processes map what they would otherwise load, parse and verify.

Java writes such an archive as a process ends (class data sharing, JEP 350), and takes it only with the same Java and jars.
The first process with a Java and its jars leaves a mark, and the second one writes the archive. All later ones use it.
Where the folder does not outlive a process, as in a container, no archive is written. Java checks the sums in the archive
at each start, and goes on without it if it does not fit or is damaged.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

FOLDER_VARIABLE: Final = "DAGSTER_OPERATORS_JAVA_ARCHIVES"
"""Environment variable: the folder of archives, or ``no`` for none; by default one in the user's cache."""

_ARCHIVE, _UNFINISHED, _MARK = ".jsa", ".part", ".seen"
_FIRST_BYTES: Final = (0xF00BABA8).to_bytes(4, "little")
"""What Java writes at the beginning of such an archive, when all else of it is written."""
_WRITES: Final = "-XX:ArchiveClassesAtExit="
_QUIET: Final = "-Xlog:cds*=off"
_MOST: Final = 3
"""Archives that are kept, for several versions of Java or Spark; each has some 200 MB."""
_UNUSED: Final = 7 * 86400.0
"""Seconds without use after which an archive may go."""
_ABANDONED: Final = 3600.0
"""Seconds after which an archive that was begun is not waited for."""


def options(java: str, settings: Mapping[str, str], *, make: bool) -> tuple[str, ...]:
    """The options with which a Java process uses the archive, or writes it as it ends.

    Args:
        java: The program.
        settings: Spark's settings, of which some name jars.
        make: Whether this process may write the archive.
    """
    folder = _folder()
    if folder is None:
        return ()
    with contextlib.suppress(OSError):
        key = _key(java, settings)
        archive = folder / f"{key}{_ARCHIVE}"
        _take_finished(folder, archive)
        if archive.exists():
            os.utime(archive)
            return (_QUIET, f"-XX:SharedArchiveFile={archive}", "-XX:+VerifySharedSpaces")
        mark = folder / f"{key}{_MARK}"
        if not mark.exists():
            mark.touch(mode=0o600)
        elif make and not any(_unfinished(folder, key)):
            part = folder / f"{key}.{uuid4().hex}{_UNFINISHED}"
            part.touch(mode=0o600)  # so that no other process writes one, too; Java puts its file in this one's place
            return (_QUIET, f"{_WRITES}{part}")
    return ()


def starts(java: str, chosen: Sequence[str]) -> bool:
    """Whether Java starts with options.

    Args:
        java: The program.
        chosen: The options; what the user's environment has comes by itself.
    """
    with tempfile.TemporaryDirectory() as folder:  # an archive that Java would write goes there
        tried = [f"{_WRITES}{folder}/tried" if option.startswith(_WRITES) else option for option in chosen]
        done = subprocess.run([java, *tried, "-version"], capture_output=True, check=False)  # noqa: S603 - Java, as Spark runs it
    return done.returncode == 0


def _folder() -> Path | None:
    """The folder of archives, made if need be; none if it is not this user's alone: an archive is code."""
    chosen = os.environ.get(FOLDER_VARIABLE, "")
    if chosen == "no" or not hasattr(os, "getuid"):
        return None
    try:
        folder = Path(chosen or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dagster_operators" / "java")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = folder.lstat()
    except (OSError, RuntimeError):  # no home, or no room
        return None
    alone = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o022
    # Java splits the option at blanks as a shell does, and the path at colons.
    return folder if alone and not set(str(folder)) & set(" \t\n\"'\\:%") else None


def _key(java: str, settings: Mapping[str, str]) -> str:
    """A name for a Java with its jars."""
    import pyspark

    jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
    named = sorted((name, value) for name, value in settings.items() if name.startswith("spark.jars") or "ClassPath" in name)
    release = Path(java).resolve().parents[1] / "release"
    parts = [str(Path(java).resolve()), release.read_text() if release.exists() else "", str(jars), repr(named)]
    parts += [f"{jar.name} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in sorted(jars.iterdir())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def _unfinished(folder: Path, key: str) -> Iterator[Path]:
    """The archives that other processes are to write; what is left of those that never did is deleted."""
    for part in folder.glob(f"{key}.*{_UNFINISHED}"):
        if time.time() - part.stat().st_mtime > _ABANDONED:
            part.unlink(missing_ok=True)
        else:
            yield part


def _take_finished(folder: Path, archive: Path) -> None:
    """Take over an archive that a process has written, and delete those that were not used for longest."""
    if archive.exists():
        return
    for part in folder.glob(f"{archive.stem}.*{_UNFINISHED}"):
        with part.open("rb") as file:
            if file.read(4) != _FIRST_BYTES:
                continue
            os.fsync(file.fileno())
        part.replace(archive)
        break
    else:
        return
    archives = sorted(folder.glob(f"*{_ARCHIVE}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in archives[_MOST:]:
        if time.time() - old.stat().st_mtime > _UNUSED:  # another machine may have it mapped
            old.unlink(missing_ok=True)
