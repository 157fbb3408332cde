"""What embedded Spark is started with besides its own jars: Delta's, those that its settings ask for, and S3A for data on S3.

S3A is Hadoop's file system for S3. It has to be of the Hadoop that Spark brings, and it needs Amazon's library, which it
asks for as one jar of 686 MB with all of Amazon's services; where that version is known, the few modules that it uses are taken.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from dagster_operators.errors import EngineError
from dagster_operators.storage.uri import S3, split_uri

PACKAGES: Final = "spark.jars.packages"
_EXCLUDES: Final = "spark.jars.excludes"
_EXTENSIONS: Final = "spark.sql.extensions"
_DELTA: Final = "io.delta.sql.DeltaSparkSessionExtension"

_S3A: Final = "hadoop-aws"
_BUNDLE: Final = "software.amazon.awssdk:bundle"
_MODULES: Final = ("s3", "s3-transfer-manager", "sts")
_SDK: Final = {"3.5.0": "2.35.4"}
"""The version of Amazon's library that a Hadoop was built with."""

_JARS: Final = ("spark.jars", PACKAGES, "spark.driver.extraClassPath")
"""Settings that may bring S3A already."""

_MIRROR: Final = (
    "let this machine reach Maven Central, or name a mirror in SparkEngine(config={'spark.jars.repositories': 'https://...'})"
)

_needed = threading.Event()


def need_for(uris: Iterable[str]) -> None:
    """Have a Spark that is not started yet come with S3A if one of the URIs is on S3."""
    if any(split_uri(uri)[0] in S3 for uri in uris):
        _needed.set()


def merged(config: Mapping[str, str]) -> dict[str, str]:
    """Settings that are lists, with what Delta and S3A need added to what they say.

    >>> merged({"spark.sql.extensions": "org.a.Rules"})
    {'spark.sql.extensions': 'io.delta.sql.DeltaSparkSessionExtension,org.a.Rules'}
    """
    found = {_EXTENSIONS: ",".join(dict.fromkeys([_DELTA, *_names(config, _EXTENSIONS)]))}
    if _modules(config):
        found[_EXCLUDES] = ",".join(dict.fromkeys([*_names(config, _EXCLUDES), _BUNDLE]))
    return found


def packages(config: Mapping[str, str]) -> list[str]:
    """The packages besides Delta's, as ``group:name:version``.

    >>> packages({"spark.jars.packages": "org.a:b:1, org.c:d:2"})
    ['org.a:b:1', 'org.c:d:2']
    """
    asked = _names(config, PACKAGES)
    names = {name.rpartition(":")[0] for name in asked}
    added = [s3a_package(), *_modules(config)] if _adds_s3a(config) else []
    return asked + [name for name in added if name.rpartition(":")[0] not in names]


def s3a_package() -> str:
    """The package with S3A for the Hadoop that Spark brings; empty if it brings none.

    >>> s3a_package().startswith("org.apache.hadoop:hadoop-aws:")
    True
    """
    version = _hadoop()
    return version and f"org.apache.hadoop:{_S3A}:{version}"


def _adds_s3a(config: Mapping[str, str]) -> bool:
    there = any(_S3A in config.get(name, "") for name in _JARS) or any(_jars().glob(f"{_S3A}-*.jar"))
    return _needed.is_set() and bool(_hadoop()) and not there


def _modules(config: Mapping[str, str]) -> list[str]:
    """The modules of Amazon's library instead of its bundle, unless that was asked for or their version is not known."""
    version = _SDK.get(_hadoop())
    if not version or not _adds_s3a(config) or _BUNDLE in config.get(PACKAGES, ""):
        return []
    return [f"software.amazon.awssdk:{name}:{version}" for name in _MODULES]


def _hadoop() -> str:
    """The version of the Hadoop that Spark brings; empty if it is made to use the machine's own."""
    return next((jar.stem.removeprefix("hadoop-client-api-") for jar in _jars().glob("hadoop-client-api-*.jar")), "")


def _jars() -> Path:
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"


def _names(config: Mapping[str, str], setting: str) -> list[str]:
    return [name.strip() for name in config.get(setting, "").split(",") if name.strip()]


def not_started(reason: str, log: str) -> EngineError:
    """Why Spark's Java process did not start, by what it wrote.

    >>> not_started("it exited", "RuntimeException: [unresolved dependency: org.a#b;1: not found]").problem
    "Spark's packages org.a:b:1 cannot be downloaded"
    """
    lost = re.findall(r"unresolved dependency: ([^\s#;]+)#([^\s#;]+);([^\s:]+): not found", log)
    failed = re.findall(r"download failed: ([^\s#;]+)#([^\s#;]+);([^\s!]+)!", log)
    if found := dict.fromkeys(":".join(name) for name in [*lost, *failed]):
        return EngineError(f"Spark's packages {', '.join(found)} cannot be downloaded", remedy=_MIRROR)
    last = [line for line in log.strip().splitlines() if not line.startswith("\tat ")][-5:]
    remedy = "correct what the message says; a half-filled ~/.m2 folder makes the search for Spark's packages fail: move it away"
    return EngineError(f"Spark did not start: {reason} ({' | '.join(last)})", remedy=remedy)
