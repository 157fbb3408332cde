"""Telling an engine how to reach the object stores that a pipeline's root and sources are on.

Sail looks in the environment of the process, so all it reads in one process is reached with the same options. Spark has settings
for each bucket in its session. Keys are told only if they were given: what a role says, engines find by themselves.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import EngineError, PipelineError
from dagster_operators.runtime.spark_packages import PACKAGES, s3a_package
from dagster_operators.storage.access import Access
from dagster_operators.storage.shipped_access import variable_of
from dagster_operators.storage.uri import OBJECT_STORES, S3, is_local, public_uri, split_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Places = Iterable[tuple[str, Access]]
"""Paths or URIs with how each is reached."""

_S3_FILES: Final = "fs.s3.impl"
_S3A: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"

_turn = threading.Lock()


def tell_engine(session: SparkSession, engine: str, places: Places) -> None:
    """Let the engine reach what lies on object stores; nothing happens for local paths.

    Args:
        session: The engine's session.
        engine: Its kind.
        places: What it reads and writes.

    Raises:
        PipelineError: It would have to be told two things at once.
    """
    for uri, access in places:
        if is_local(uri):
            continue
        if engine == "sail":
            _tell_process(uri, access)
        elif split_uri(uri)[0] in S3:
            if not (engine == "spark" and _knows_s3(session)):
                session.conf.set(_S3_FILES, _S3A)
            if engine == "spark":
                _require_files(session, uri)
            for name, value in access.for_spark(uri).items():
                session.conf.set(name, value)
        elif engine == "spark" and split_uri(uri)[0] in OBJECT_STORES:
            _require_connector(session, uri)
        if engine == "spark":
            session.sparkContext.environment.update(variable_of(access))  # which Spark gives to Python in its workers


def _knows_s3(session: SparkSession) -> bool:
    """Whether Spark's configuration names the file system of ``s3://``, as EMR's and Databricks' do."""
    return bool(_hadoop(session).get(_S3_FILES))


def _require_files(session: SparkSession, uri: str) -> None:
    """See that Spark has the file system for the URI: one that was started before it was known that one is needed may not."""
    configured = _hadoop(session)
    scheme = split_uri(uri)[0]
    name = configured.get(f"fs.{scheme}.impl") or _S3A
    if configured.getClassByNameOrNull(name) is None:
        package = s3a_package() or "org.apache.hadoop:hadoop-aws:<the version of Spark's Hadoop>"
        raise EngineError(
            f"Spark runs without the file system for {scheme}://, {name}",
            file=public_uri(uri),
            remedy="a Spark that the first pipeline on S3 starts has it; where Spark is started before, for another pipeline, "
            f"give that one's engine SparkEngine(config={{'{PACKAGES}': '{package}'}}); to a session of your own give its jars",
        )


def _require_connector(session: SparkSession, uri: str) -> None:
    """See that Spark has a file system for Azure or Google Cloud Storage, which with its settings is the user's to give."""
    from py4j.protocol import Py4JJavaError

    scheme = split_uri(uri)[0]
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - no other way
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, _hadoop(session))
    except Py4JJavaError:
        spelled = "; Hadoop knows Azure's by abfss://" if scheme in {"az", "adl"} else ""
        raise EngineError(
            f"Spark runs without a file system for {scheme}://{spelled}",
            file=public_uri(uri),
            remedy="run the pipeline on Sail, which needs none; or give SparkEngine(config=...) Hadoop's connector of that store "
            f"in {PACKAGES}, and the connector's own settings",
        ) from None


def _hadoop(session: SparkSession) -> Any:
    """Hadoop's configuration of embedded Spark."""
    return session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - no other way


def _tell_process(uri: str, access: Access) -> None:
    with _turn:
        if name := access.clash(uri):
            raise PipelineError(
                f"Sail reads {name} from the environment of the process, where it is another one than in storage_options",
                file=public_uri(uri),
                remedy="let all that one process reads with Sail have the same storage_options, or give them in the environment "
                "alone; or run the pipeline on Spark, which has settings for each bucket",
            )
        for name, value in access.for_environment(uri).items():
            os.environ.setdefault(name, value)
