"""The options with which the Java process of embedded Spark starts: quickly where the process ends after a run.

A Dagster run and a command are processes of their own. Half of their processor time goes into Java's second compiler and
into loading Spark's classes, for code that hardly runs before the process ends. So such a process leaves the second compiler
out, unless the last epoch was large or is not known. Each process maps Spark's classes from an archive, if there is one
(`class_archive`). Options in Spark's settings come later on Java's command line, and win. Where the user gives Java options,
a short start of Java tries whether it takes all of them together: agents, for one, allow no archive to be written.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path, PurePath
from typing import Final

from dagster_operators.errors import EngineError
from dagster_operators.runtime import class_archive

LIFETIME_VARIABLE: Final = "DAGSTER_OPERATORS_PROCESS"
"""Environment variable: ``brief`` for processes that end after a run, ``lasting`` for others; by default the command says."""

SMALL: Final = 256 << 20
"""Bytes of files that an epoch may read for the first compiler alone: ten million rows of three columns were not slower."""

_FIRST_COMPILER: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m")
"""With the first compiler alone Java keeps 48 MB of code by default, and interprets what does not fit."""

_RUNS_ONCE: Final = frozenset(
    {("api", "execute_run"), ("api", "resume_run"), ("api", "execute_step"), ("job", "execute"), ("asset", "materialize")}
)
"""Commands of Dagster whose process ends with the run."""

_OPTIONS: Final = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")

_log = logging.getLogger(__name__)
_expected: list[int] = []


class Lifetime(Enum):
    """How long a process is to be there."""

    BRIEF = "brief"
    LASTING = "lasting"


def expect(size: int) -> None:
    """Note how many bytes an epoch is to read, for a Java process that is not started yet.

    Args:
        size: Bytes of files, as the last epoch read.
    """
    _expected.append(size)


def lifetime(arguments: Sequence[str], environment: Mapping[str, str]) -> Lifetime:
    """How long a process is to be there, by its variable or by its command line.

    Args:
        arguments: The command line, as ``sys.argv``.
        environment: The process's environment.

    Raises:
        EngineError: The variable has another value.

    >>> lifetime(["/bin/dagster", "api", "execute_run", "..."], {})
    <Lifetime.BRIEF: 'brief'>
    >>> lifetime(["/site-packages/dagster/__main__.py", "api", "grpc"], {})
    <Lifetime.LASTING: 'lasting'>
    """
    if chosen := environment.get(LIFETIME_VARIABLE):
        try:
            return Lifetime(chosen)
        except ValueError:
            raise EngineError(
                f"{LIFETIME_VARIABLE} is {chosen!r}", remedy=f"set {LIFETIME_VARIABLE} to brief or lasting, or unset it"
            ) from None
    program = PurePath(arguments[0]) if arguments else PurePath()
    name = program.parent.name if program.name == "__main__.py" else program.stem
    once = name == "dagster" and tuple(arguments[1:3]) in _RUNS_ONCE
    return Lifetime.BRIEF if once else Lifetime.LASTING


def is_brief() -> bool:
    """Whether this process ends after a run."""
    return lifetime(sys.argv, os.environ) is Lifetime.BRIEF


def options(settings: Mapping[str, str], java: str) -> tuple[str, ...]:
    """The options for a Java process that starts now.

    Args:
        settings: Spark's settings, which may have options of Java's, too.
        java: The program.
    """
    brief, small = is_brief(), bool(_expected) and max(_expected) <= SMALL
    compilers = _FIRST_COMPILER if brief and small else ()
    user_options = _of_the_user(settings)
    if user_options is None:
        return ()
    for chosen in ((*compilers, *class_archive.options(java, settings, make=brief)), compilers):
        if chosen and class_archive.starts(java, [*chosen, *user_options]):
            return tuple(chosen)
    _log.debug("Java starts without options of this package")
    return ()


def _of_the_user(settings: Mapping[str, str]) -> list[str] | None:
    """The options in Spark's settings; None if they cannot be told apart. Java takes those in the environment by itself."""
    texts = [os.environ.get("SPARK_SUBMIT_OPTS", ""), *(settings.get(name, "") for name in _OPTIONS)]
    folder = os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME", ""), "conf")
    setting = rf"^\s*(?:{'|'.join(map(re.escape, _OPTIONS))})[\s=]+(.*)$"
    with contextlib.suppress(OSError):
        texts += re.findall(setting, Path(folder, "spark-defaults.conf").read_text(), re.MULTILINE)
    try:
        return [option for text in texts for option in shlex.split(text)]
    except ValueError:
        return None
