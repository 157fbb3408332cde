"""Three epochs on Spark with root, source and lookup on an S3 server, beside the same on local folders; in a process of its own.

The Spark that the other tests share is started without S3A. Printed is what each epoch left, as a line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dagster_operators import SparkEngine
from dagster_operators.storage.root import Root
from tests.end_to_end.test_object_store import arrive, build, rows
from tests.storage.s3_server import S3Server


def engine_with_s3a() -> SparkEngine:
    """Embedded Spark, which starts with S3A when a pipeline on S3 is the first that asks for it."""
    return SparkEngine(
        master="local[2]",
        config={
            "spark.sql.shuffle.partitions": "2", "spark.log.level": "OFF", "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
        },
    )  # fmt: skip


def main(endpoint: str, bucket: str, folder: str) -> None:
    """Run both pipelines, the one on S3 first, for it is the one that starts Spark."""
    engine = engine_with_s3a()
    options = S3Server(int(endpoint.rpartition(":")[2])).options()
    local = Path(folder)
    feeds = [Root(f"{bucket}/feed", options), Root(str(local / "feed"))]
    remote = build(f"{bucket}/shop", f"{bucket}/feed", options, engine)
    twin = build(str(local / "shop"), str(local / "feed"), None, engine)
    for epoch in (1, 2, 3):
        arrive(feeds, epoch)
        remote.run_epoch()
        twin.run_epoch()
        sys.stdout.write(json.dumps([rows(remote), rows(twin)]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
