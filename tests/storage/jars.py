"""Jars of other people's servers, found as Spark finds its packages: by Ivy, which comes with it, and by their coordinates."""

from __future__ import annotations

import fcntl
import subprocess
from importlib.util import find_spec
from pathlib import Path


def retrieve(dependencies: str, folder: Path) -> None:
    """Put jars into ``lib`` below a folder.

    Args:
        dependencies: What is wanted, as Ivy's ``dependency`` elements, and what else its ``dependencies`` may hold.
        folder: Where.

    Raises:
        CalledProcessError: They cannot be had.
    """
    ivy = folder / "ivy.xml"
    ivy.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="tests" module="servers"/>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.submodule_search_locations is not None
    (jar,) = (Path(spark.submodule_search_locations[0]) / "jars").glob("ivy-*.jar")
    cache = Path.home() / ".ivy2.5.2" / "cache"
    lib = f"{folder}/lib/[artifact]-[revision].[ext]"
    more = ["-cache", str(cache), "-retrieve", lib, "-confs", "default", "-types", "jar", "bundle"]
    cache.mkdir(parents=True, exist_ok=True)
    with (cache.parent / ".tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Ivy spoils its cache when two processes fill it
        command = ["java", "-jar", str(jar), "-ivy", str(ivy), *more]
        subprocess.run(command, check=True, capture_output=True, timeout=600)
