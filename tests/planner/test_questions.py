"""How often an engine is asked while a pipeline is planned: each question is a call to a server, and each process plans anew."""

from __future__ import annotations

from collections import Counter

import dagster_operators as do
from tests.engines import SAIL


def test_nothing_is_asked_that_the_engine_has_said_already(sail, tmp_path, monkeypatch):
    from pyspark.sql.connect.client import SparkConnectClient

    asked = Counter()
    ask = SparkConnectClient._analyze

    def counted(client, method, **given):
        asked[method] += 1
        return ask(client, method, **given)

    # What a process asks once, whatever it runs first, does not count.
    pipeline(tmp_path / "first", "k string, v int, w float").run_epoch()
    second = pipeline(tmp_path / "second", "k string, v long, w double")
    monkeypatch.setattr(SparkConnectClient, "_analyze", counted)
    second.run_epoch()
    # 12 here. It was twice that when the columns of every stream were asked for, and of each for its expressions.
    assert asked["schema"] <= 13


def pipeline(root, schema):
    made = do.Pipeline("sums", root=root, engine=SAIL)
    rows = made.source("rows", do.MemorySource([[{"k": "a", "v": 1, "w": 0.5}]], schema=schema))
    rows.filter("v >= 0").filter("w < 1").select("k", "v + 1 AS v").to_table("sums")
    return made
