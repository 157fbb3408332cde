"""Real processes on an S3 server are killed in the middle of epochs, while the server is slow, busy and loses answers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_operators import FileSource, Pipeline, StoredPipeline
from tests.crash.killed import REPOSITORY, run_and_kill
from tests.end_to_end.spark_on_s3 import engine_with_s3a
from tests.engines import SAIL
from tests.storage.s3_server import S3Server
from tests.storage.s3proxy import s3proxy

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(1800)]

EPOCHS = 3


def build(root: str, feed: str, port: int = 0, engine: str = "sail") -> Pipeline:
    """A table, and a sum by key with state; on the server of a port, or on local files."""
    options = S3Server(port).options() if port else None
    pipeline = Pipeline("shop", root=root, engine=SAIL if engine == "sail" else engine_with_s3a(), storage_options=options)
    source = FileSource(f"{feed}/*.csv", format="csv", schema="k string, v long", max_files=1)
    kept = pipeline.source("orders", source).filter("v > 0", name="kept")
    kept.to_table("kept")
    kept.key_by("k").aggregate(total="sum(v)", name="totals").to_table("totals")
    return pipeline


def rows(root: str, options: dict[str, str] | None = None) -> list[list[str]]:
    """What both tables hold, without an engine."""
    stored = StoredPipeline(root, options)
    return [sorted(map(repr, stored.to_arrow(table).to_pylist())) for table in ("kept", "totals")]


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    (tmp_path / "feed").mkdir()
    for epoch in range(1, EPOCHS + 1):
        (tmp_path / "feed" / f"{epoch}.csv").write_text(f"k,v\na,{epoch}\nb,{-epoch}\nb,7\n")
    return tmp_path / "feed"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server of other people's, which checks signatures and conditions in its own way."""
    with s3proxy(tmp_path_factory.mktemp("s3proxy")) as server:
        yield server


@pytest.mark.sail
@pytest.mark.parametrize(
    "places",
    [
        ("after:append_begin", "stage:half_files", "before:append_prepared"),
        ("before:append_decision", "after:append_decision", "after:commit_table:1"),
        ("before:commit_table:2", "before:append_complete", "after:append_complete"),
    ],
    ids=" ".join,
)
def test_the_rows_of_a_run_that_nobody_kills(places: tuple[str, ...], s3: S3Server, feed: Path, tmp_path: Path) -> None:
    """Each run dies in what the one before it left, and during each the answer to one put that took effect is lost."""
    _killed(places, s3, feed, tmp_path)


@pytest.mark.sail
def test_nor_on_s3proxy(other: S3Server, feed: Path, tmp_path: Path) -> None:
    _killed(("after:append_begin", "after:commit_table:1", "before:append_complete"), other, feed, tmp_path)


def _killed(places: tuple[str, ...], s3: S3Server, feed: Path, tmp_path: Path) -> None:
    build(str(tmp_path / "root"), str(feed)).run_until_caught_up()
    root, port = f"{s3.bucket()}/shop", int(s3.endpoint.rpartition(":")[2])
    call = f"build({root!r}, {str(feed)!r}, {port}).run_until_caught_up(wait_seconds=60)"
    for after, place in enumerate(places):
        s3.behave(delay=0.005, throttle=3, lose="^PUT .*[.]json$", after=after)
        run_and_kill("tests.crash.test_on_s3", [call], [place], tmp_path)
    s3.behave(delay=0.005, throttle=3, lose="^PUT .*[.]parquet$")
    pipeline = build(root, str(feed), port)
    pipeline.run_until_caught_up(wait_seconds=60)
    assert rows(root, s3.options()) == rows(str(tmp_path / "root"))
    assert [complete.epoch for complete in pipeline.epochs.coordinator.history()] == list(range(1, EPOCHS + 1))


@pytest.mark.spark
def test_the_same_on_spark_and_s3proxy(other: S3Server, sail: object, feed: Path, tmp_path: Path) -> None:
    """Every process starts a Spark of its own, with S3A, hence few kills; the rows are those of Sail on local files."""
    assert sail is not None
    build(str(tmp_path / "root"), str(feed)).run_until_caught_up()
    root, port = f"{other.bucket()}/shop", int(other.endpoint.rpartition(":")[2])
    call = f"build({root!r}, {str(feed)!r}, {port}, 'spark').run_until_caught_up(wait_seconds=90)"
    ends = (
        ("stage:half_files", "^PUT .*[.]json$", 0),
        ("before:append_decision", "^PUT .*[.]parquet$", 2),
        ("after:commit_table:1", "^PUT .*/tables/.*[.]json$", 0),
    )
    for place, lost, after in ends:
        other.behave(delay=0.005, throttle=3, lose=lost, after=after)
        run_and_kill("tests.crash.test_on_s3", [call], [place], tmp_path, seconds=600)
    other.behave(delay=0.005, throttle=3, lose="^PUT .*[.]parquet$", after=1)
    code = f"import tests.crash.test_on_s3 as module; module.{call}"
    environment = {**os.environ, "DAGSTER_OPERATORS_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    other.behave()
    assert rows(root, other.options()) == rows(str(tmp_path / "root"))
    history = StoredPipeline(root, other.options()).history()
    assert [complete.epoch for complete in history] == list(range(1, EPOCHS + 1))
