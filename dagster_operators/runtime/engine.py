"""Where stages run: embedded Spark (the default), a Spark cluster, a Spark Connect server, or embedded Sail.

Every engine is used through the API that Spark Connect has too, so the same operators run on all of them. A process has one
session for each engine, started when it is first needed and shared by all stages of all runs in it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from dagster_operators.connectors.secret_settings import redacted
from dagster_operators.errors import EngineError, EngineStoppedError, JavaMissingError, OperatorsError, PipelineError
from dagster_operators.functions.install import install
from dagster_operators.operators import one_task
from dagster_operators.runtime import java_start, spark_process
from dagster_operators.runtime.other_users import check_alone
from dagster_operators.runtime.sail_server import Growth, InProcess, OwnProcess, end, forget, growth_of
from dagster_operators.runtime.spark_packages import merged, not_started, packages
from dagster_operators.storage.access import SHORTEST_SECRET, is_secret, shown_setting
from dagster_operators.storage.uri import masked, secrets_within

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINE_VARIABLE = "DAGSTER_OPERATORS_ENGINE"
"""Environment variable that names the default engine: ``spark``, ``sail``, a master or an ``sc://`` address."""

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    **one_task.SETTINGS,
}
# For each call that builds a column PySpark would note the line that made it: on Spark in four calls of Java, which took longer
# than all else that is done for a column. The lines are those of this package; errors quote expressions as they were given. It is
# no setting of a session, so a server of Spark Connect keeps its own.
_NO_CALL_SITES = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
_EMBEDDED = {
    **_NO_CALL_SITES,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Without its page nobody looks at what queries were; by default it remembers a thousand, which is hundreds of epochs.
    **dict.fromkeys(("spark.ui.retainedJobs", "spark.ui.retainedStages", "spark.sql.ui.retainedExecutions"), "100"),
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    # What the queries of an epoch are compiled to is kept for the next one; of Spark's hundred places a dozen tables need more.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # What files a query found, Spark would keep up to 250 MB of, for the same relation alone: no epoch asks for those of another.
    "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
    "spark.log.level": "ERROR",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
}
_PRIVATE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.authenticate": "true"}
"""Spark in one process asks nothing of other machines, and answers nobody else on this one."""

_LOCAL = re.compile(r"local(\[\s*(\*|\d+)\s*(,\s*\d+\s*)?\])?")
"""Masters that are this process, and make a secret of their own."""

_JAVA = 17
_IDLE = 60.0
"""Seconds after which a server is asked whether it has a session still: Sail ends one that it hears nothing of for 15 minutes,
and Spark Connect does after an hour."""

_log = logging.getLogger(__name__)
_CONNECT_SWITCH = "SPARK_CONNECT_MODE_ENABLED"
_sessions: dict[str, SparkSession] = {}
_sail_servers: dict[str, InProcess | OwnProcess] = {}
_growths: dict[str, Growth] = {}
_in_use: Counter[str] = Counter()
_last_used: dict[str, float] = {}
_lock = threading.RLock()


class Engine(Protocol):
    """What a pipeline is given: any object with a session, those of this package and the user's own."""

    def session(self) -> SparkSession:
        """The process's session, started if need be; the same one each time."""


class PreparedEngine(Engine, Protocol):
    """What stages run on: its sessions are ready for pipelines."""

    @property
    def name(self) -> str:
        """The kind of engine for people and for what differs between engines: ``spark``, ``connect`` or ``sail``."""


@dataclass(frozen=True, repr=False)
class Spark:
    """An engine by its address.

    Attributes:
        master: A Spark master for a classic session; ``local[*]`` when neither this nor ``remote`` is given.
        remote: ``sc://host:port`` for a Spark Connect server, or ``sail`` for embedded Sail.
        config: Further Spark settings.
    """

    master: str | None = None
    remote: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    prepares_sessions: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.master and self.remote:
            raise EngineError("an engine has a master or a remote address, not both", remedy="leave one of them out")
        if self.remote and self.remote != "sail" and not self.remote.startswith("sc://"):
            raise EngineError(f"{masked(self.remote)!r} is no remote engine", remedy="write sc://host:port, or sail")

    def __repr__(self) -> str:
        """Without secrets.

        >>> Spark(remote="sc://host:443/;token=hidden", config={"spark.hadoop.fs.s3a.secret.key": "hidden"})
        Spark(master=None, remote='sc://host:443/;token=***', config={'spark.hadoop.fs.s3a.secret.key': '***'})
        """
        master, remote = (value and masked(value) for value in (self.master, self.remote))
        config = {name: shown_setting(name, value) for name, value in self.config.items()}
        return f"Spark({master=}, {remote=}, {config=})"

    @property
    def name(self) -> str:
        """``spark``, ``connect`` or ``sail``."""
        if self.remote == "sail":
            return "sail"
        return "connect" if self.remote else "spark"

    def session(self) -> SparkSession:
        """The process's session on this engine, started on first use.

        Raises:
            JavaMissingError: Embedded Spark needs Java 17 or newer and there is none.
            EngineError: The engine cannot be reached or started.
        """
        key = self._key
        with _lock:
            self._replace_server(key)
            if why := self._end_if_stopped(key):
                _log.warning("Spark stopped by itself and is started again: %s", why)
            session = _sessions.get(key)
            if session is None or spark_process.was_stopped(session):
                try:
                    session = self._start()
                except OperatorsError:
                    raise
                except Exception as error:
                    address, told = masked(self.remote or self.master or "local Spark"), self._redacted(_reason(error))
                    problem = EngineError(
                        f"the engine {address} did not start: {told}",
                        remedy="correct what it says of the machine or the settings; a half-filled ~/.m2 folder, which makes the "
                        "search for Spark's jars fail, is moved away",
                    )
                    if self._redacted(str(error)) != str(error):
                        raise problem from None  # tracebacks show a cause with what it quotes
                    raise problem from error
                _sessions[key] = session
            _last_used[key] = time.monotonic()
            select_api(connect=self.remote is not None)
            install(session)
            return session

    @contextlib.contextmanager
    def in_use(self, *, begins: bool = False) -> Iterator[None]:
        """While a step of an epoch, or a read, is at work with the session: until then it stays the same one.

        Where Sail has a process of its own, an epoch begins with another one if that has grown too much, and each step does if
        it is gone. What holds on to the session before, such as a DataFrame, keeps its process until it is forgotten itself.
        A session that its server has ended, as nothing was asked of it for a while, is followed by another one.

        Args:
            begins: Whether it is the beginning of an epoch.

        Raises:
            EngineStoppedError: What was asked failed since Spark stopped by itself, or its process ended.
        """
        key = self._key
        with _lock:
            self._replace_server(key, begins=begins)
            _in_use[key] += 1
        try:
            yield
        except Exception as error:
            if why := self._end_if_stopped(key):
                raise EngineStoppedError(
                    f"Spark stopped while it was at work: {why}",
                    remedy="run again: the epoch is taken up with a Spark that is started anew; if it stops again, give it more "
                    "memory: SparkEngine(config={'spark.driver.memory': '4g'})",
                ) from error
            raise
        finally:
            with _lock:
                _in_use[key] -= 1
                _last_used[key] = time.monotonic()

    def _redacted(self, text: str) -> str:
        secrets = [value for name, value in self.config.items() if is_secret(name) and len(value) >= SHORTEST_SECRET]
        values = (self.remote or "", self.master or "", *self.config.values())
        return masked(redacted(text, (*secrets, *(secret for value in values for secret in secrets_within(value)))))

    @property
    def _key(self) -> str:
        return repr((self.master, self.remote, sorted(self.config.items())))

    def _replace_server(self, key: str, *, begins: bool = False) -> None:
        """Let the next session have a new server if that of this one is gone, or an epoch begins and it has grown too much."""
        if _in_use[key]:
            return
        self._end_if_idle(key)
        if key not in _growths:
            return
        server, growth = _sail_servers[key], _growths[key]
        if begins and growth.should_collect_garbage():
            gc.collect()  # the session before is in reference cycles, and its process is there as long as it is
        if isinstance(server, OwnProcess) and (server.ended or (begins and growth.is_too_much(lambda: server.megabytes))):
            old = _sessions.pop(key, None)
            del _sail_servers[key], _growths[key]
            forget(old)

    def _end_if_idle(self, key: str) -> None:
        """Forget the session if its server has ended it."""
        session = _sessions.get(key)
        if session is None or self.remote is None or time.monotonic() - _last_used.get(key, 0.0) < _IDLE:
            return
        from pyspark.errors import PySparkException

        try:
            session.conf.get("spark.sql.session.timeZone")
        except PySparkException:
            del _sessions[key]
            if _growths.pop(key, None):
                del _sail_servers[key]
            end(session)

    def _end_if_stopped(self, key: str) -> str:
        """Forget the session if Spark stopped by itself; why it did, empty if it did not."""
        with _lock:
            session = _sessions.get(key)
            if session is None or not spark_process.stopped_by_itself(session):
                return ""
            del _sessions[key]
            return spark_process.end(session)

    def settings(self) -> dict[str, str]:
        """What a session of this engine is started with, or is told; beside them go the packages of Delta and S3A.

        >>> Spark(master="yarn", config={"spark.executor.instances": "4"}).settings()["spark.executor.instances"]
        '4'
        """
        if self.remote:
            return {**_SETTINGS, **(_NO_CALL_SITES if self.remote == "sail" else {}), **self.config}
        catalog = {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
        private = _PRIVATE if _LOCAL.fullmatch(self.master or "local") else {}
        return {**catalog, **_EMBEDDED, **private, **_SETTINGS, **self.config, **merged(self.config)}

    def _start(self) -> SparkSession:
        select_api(connect=self.remote is not None)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if self.remote == "sail":
            return self._configured(self._sail_session())
        from pyspark.sql import SparkSession

        if self.remote:
            return self._configured(SparkSession.builder.remote(self.remote).create())
        java = check_java()
        from delta import configure_spark_with_delta_pip

        builder: SparkSession.Builder = SparkSession.builder.appName("dagster_operators").master(self.master or "local[*]")
        for name, value in self.settings().items():
            builder = builder.config(name, value)
        with spark_process.logged() as log:
            try:
                builder = configure_spark_with_delta_pip(builder, packages(self.config))
                local = _LOCAL.fullmatch(self.master or "local")
                spark_process.launch(builder, java_start.options(self.settings(), java) if local else ())
                return builder.getOrCreate()
            except Exception as error:
                raise not_started(_reason(error), log.read_text(errors="replace")) from error

    def _sail_session(self) -> SparkSession:
        check_alone(self.config)
        growth, known = growth_of(self.config), _sail_servers.get(self._key)
        server = OwnProcess(os.environ) if growth else known if isinstance(known, InProcess) else InProcess()
        session = server.session()
        _sail_servers[self._key] = server
        if growth:
            _growths[self._key] = Growth(growth)
        return session

    def _configured(self, session: SparkSession) -> SparkSession:
        for name, value in self.settings().items():
            session.conf.set(name, value)
        return session


def select_api(*, connect: bool) -> None:
    """Make ``pyspark.sql.functions`` build what a session understands: PySpark has one switch for the whole process."""
    if connect:
        os.environ[_CONNECT_SWITCH] = "1"
    else:
        os.environ.pop(_CONNECT_SWITCH, None)


@functools.cache
def check_java() -> str:
    """The program of a Java runtime of version 17 or newer.

    Raises:
        JavaMissingError: There is none.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    remedy = "install Java 17 or newer (Debian: openjdk-17-jre-headless), or set DAGSTER_OPERATORS_ENGINE=sail, which needs none"
    if not java or not Path(java).exists():
        raise JavaMissingError("Apache Spark needs Java 17 or newer, and no java was found", remedy=remedy)
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603 - the java just found
    version = told.split('"')[1] if '"' in told else ""
    major = version.split(".")[1] if version.startswith("1.") else version.split(".")[0]
    if not major.isdigit() or int(major) < _JAVA:
        raise JavaMissingError(
            f"Apache Spark needs Java 17 or newer, and {java} is version {version or 'unknown'}", remedy=remedy
        )
    return java


def default_engine() -> Spark:
    """The engine that ``DAGSTER_OPERATORS_ENGINE`` names, else embedded Spark.

    >>> default_engine().name in ("spark", "sail", "connect")
    True
    """
    return engine_named(os.environ.get(ENGINE_VARIABLE, "spark"))


def engine_named(wanted: str) -> Spark:
    """The engine of a text: ``spark``, ``sail``, an ``sc://`` address, or a Spark master.

    >>> engine_named("sail").name, engine_named("local[2]").master
    ('sail', 'local[2]')
    """
    if wanted == "spark":
        return Spark()
    if wanted == "sail" or wanted.startswith("sc://"):
        return Spark(remote=wanted)
    return Spark(master=wanted)


def engine_given(given: Engine | str | None, **where: str) -> Engine | None:
    """The engine that an argument is or names, as the environment variable does.

    >>> engine_given("sail").name, engine_given(None)
    ('sail', None)

    Raises:
        PipelineError: It is no engine, and no text names one so.
    """
    if isinstance(given, str) and re.fullmatch(r"spark|sail|yarn|local(\[.+\])?|\w+://.+", given):
        return engine_named(given)
    if given is None or (hasattr(given, "session") and not isinstance(given, str)):
        return given
    raise PipelineError(
        f"{masked(repr(given))} is no engine", **where,
        remedy="give SparkEngine(...), or 'spark', 'sail', 'sc://host:port' or a master such as 'local[4]'",
    )  # fmt: skip


def _reason(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().split("\n", 1)[0]
