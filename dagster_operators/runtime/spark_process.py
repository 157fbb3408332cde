# ruff: noqa: SLF001 - PySpark has no public way to ask whether Spark stopped by itself, or to start it again
"""Embedded Spark's Java process: what it logs, whether its Spark still works, and how a broken one is ended.

Spark stops itself when one of its own threads fails, mostly for lack of memory, and the process may be killed, by the kernel for
example. PySpark goes on with what it has then, and every further query fails.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.storage.access import holds_secret

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE: Final = 10.0
"""Seconds in which the process is to end by itself before it is killed."""
_MOMENT: Final = 2.0
"""Seconds in which it is known how a process ended that does not answer any more."""

_TELLING: Final = (
    "OutOfMemoryError",
    "StackOverflowError",
    "shutting down SparkContext",
    "stop SparkContext",
    "fatal error",
    " ERROR ",
)
"""What a line of the log has that says why Spark stopped, the most telling first."""

_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""The environment variable with options of Java's that come before those in Spark's settings."""

_logs: dict[int, Path] = {}
"""By the process's number."""


@contextlib.contextmanager
def logged() -> Iterator[Path]:
    """Start a Java process here: what it writes to standard error, the resolver's banner among it, goes to a file of its own."""
    handle, name = tempfile.mkstemp(prefix="dagster_operators-spark-", suffix=".log")
    log = Path(name)
    atexit.register(log.unlink, missing_ok=True)
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(handle, 2)
    try:
        yield log
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(handle)
        if process := _process():
            _logs.setdefault(process.pid, log)


def launch(builder: Any, options: Sequence[str] = ()) -> None:
    """Start Java, if there is none yet, for a session to be built, without its secrets.

    PySpark gives Java all settings as arguments, which every user of the machine sees. It gives them once more over its own
    connection, the secret ones with them.

    Args:
        builder: Of the session.
        options: Of Java; those that the user gives it come behind them.
    """
    from pyspark import SparkConf, SparkContext

    if SparkContext._gateway is not None:
        return
    conf = SparkConf(loadDefaults=False)
    for name, value in builder._options.items():
        if not holds_secret(name, str(value)):
            conf.set(name, str(value))
    given_options = os.environ.get(_OPTIONS)
    os.environ[_OPTIONS] = " ".join([*options, given_options or ""]).strip()
    try:
        SparkContext._ensure_initialized(conf=conf)
    finally:
        if given_options is None:
            del os.environ[_OPTIONS]
        else:
            os.environ[_OPTIONS] = given_options


def was_stopped(session: SparkSession) -> bool:
    """Whether somebody here stopped a session."""
    if hasattr(session, "is_stopped"):
        return bool(session.is_stopped)
    context = getattr(session, "sparkContext", None)
    return context is not None and context._jsc is None


def stopped_by_itself(session: SparkSession) -> bool:
    """Whether nothing can be asked of a session that nobody here stopped; of one of Spark Connect its server has to be asked."""
    from py4j.protocol import Py4JError

    context: Any = None if hasattr(session, "is_stopped") else getattr(session, "sparkContext", None)
    if context is None or context._jsc is None:
        return False
    process = _process()
    if process is not None and process.poll() is not None:
        return True
    try:
        spark = context._jsc.sc()
        # A call that was interrupted leaves its answer to the next one: such a connection is of no more use.
        return spark is None or bool(spark.isStopped())
    except (Py4JError, OSError):
        return True


def end(session: SparkSession) -> str:
    """Let PySpark forget a session whose Spark stopped by itself, and the Java process, which lacks memory or worse.

    A process that was not started here (``spark-submit`` starts Python, not the other way round) is left alone.

    Returns:
        Why it stopped, as far as is known.
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession as Classic

    process, gateway = _process(), SparkContext._gateway
    why = _reason(process)
    with contextlib.suppress(Py4JError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that it cannot be stopped cleanly
        session.stop()
    # What is left if the process did not answer; PySpark would give the same session again.
    session.sparkContext.stop()
    Classic._instantiatedSession = Classic._activeSession = None
    if process is None or gateway is None:
        return why
    with contextlib.suppress(Py4JError, OSError):
        gateway.shutdown()
    _end_process(process)
    SparkContext._gateway = SparkContext._jvm = None
    return why


def _end_process(process: subprocess.Popen[bytes]) -> None:
    if process.stdin:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _process() -> subprocess.Popen[bytes] | None:
    from pyspark import SparkContext

    found: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    return found


def _status(process: subprocess.Popen[bytes]) -> int | None:
    """How it ended, or None; its connections close a moment before that is known."""
    try:
        return process.wait(_MOMENT)
    except subprocess.TimeoutExpired:
        return None


def _reason(process: subprocess.Popen[bytes] | None) -> str:
    if process is None:
        return "its log has the reason"
    ended = _status(process)
    if ended is not None and ended < 0:
        return f"its Java process was ended by signal {-ended}"
    log = _logs.get(process.pid)
    lines = log.read_text(errors="replace").splitlines() if log and log.exists() else []
    for telling in _TELLING:
        if found := [line for line in lines if telling in line and not line.startswith("\tat ")]:
            return found[-1].strip()
    return f"its Java process ended with status {ended}" if ended is not None else "it logged no reason"
