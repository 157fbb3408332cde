"""A pipeline whose root, source and lookup lie on an S3 server: the same rows as on a local root, also behind a crash."""

from __future__ import annotations

import json
import os
import re
from unittest.mock import MagicMock

import pytest
from pyarrow import fs

from dagster_operators import FileSource, MemorySource, Pipeline
from dagster_operators.errors import EngineError, PipelineError
from dagster_operators.runtime.spark_packages import s3a_package
from dagster_operators.runtime.store_access import tell_engine
from dagster_operators.storage.access import Access
from dagster_operators.storage.root import Root
from dagster_operators.transactions.failpoints import watch
from tests.engines import SAIL


class Died(BaseException):
    """A run that ends where it is."""


def build(root, feed, options=None, engine=SAIL):
    pipeline = Pipeline("shop", root=root, engine=engine, storage_options=options)
    names = FileSource(f"{feed}/names", format="csv", schema="k string, name string")
    orders = pipeline.source("orders", FileSource(f"{feed}/orders", format="csv", schema="k string, v long"))
    kept = orders.filter("v > 0", name="kept").lookup(names, on="k", name="named")
    kept.to_table("kept")
    kept.key_by("k").aggregate(total="sum(v)", name="totals").to_table("totals")
    return pipeline


def arrive(folders, epoch):
    for folder in folders:
        if epoch == 1:
            folder.write("names/names.csv", b"k,name\na,Ann\nb,Bob\n")
        folder.write(f"orders/{epoch}.csv", f"k,v\na,{epoch}\nb,{-epoch}\nb,7\n".encode())


def rows(pipeline):
    return [sorted(map(tuple, pipeline.read(table).collect())) for table in ("kept", "totals")]


@pytest.mark.usefixtures("sail")
def test_the_same_rows_as_on_a_local_root_also_behind_a_crash(s3, tmp_path):
    bucket, options = s3.bucket(), s3.options()
    local, remote = tmp_path / "feed", Root(f"{bucket}/feed", options)
    feeds = [Root(str(local)), remote]
    twin, pipeline = build(str(tmp_path / "root"), str(local)), build(f"{bucket}/shop", f"{bucket}/feed", options)
    for epoch in (1, 2):
        arrive(feeds, epoch)
        twin.run_epoch()
        pipeline.run_epoch()
        assert rows(pipeline) == rows(twin)
    arrive(feeds, 3)
    twin.run_epoch()

    def die(name):
        if name == "after:append_decision":
            raise Died

    with watch(die), pytest.raises(Died):
        pipeline.run_epoch()
    again = build(f"{bucket}/shop", f"{bucket}/feed", options)
    again.run_epoch()
    assert [complete.epoch for complete in again.epochs.coordinator.history()] == [1, 2, 3]
    assert rows(again) == rows(twin)
    assert "hidden-from-all" not in stored(Root(f"{bucket}/shop", options))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("sail")
def test_twenty_epochs_are_row_for_row_as_on_a_local_root(s3, tmp_path):
    """Every third comes after a run that died, each time at another place."""
    bucket, options = s3.bucket(), s3.options()
    local, remote = tmp_path / "feed", Root(f"{bucket}/feed", options)
    twin, places = build(str(tmp_path / "root"), str(local)), ["after:append_begin", "after:append_prepared"]
    places += ["before:append_decision", "after:commit_table:1", "before:append_complete", "after:append_decision"]
    pipeline = build(f"{bucket}/shop", f"{bucket}/feed", options)
    for epoch in range(1, 21):
        arrive([Root(str(local)), remote], epoch)
        twin.run_epoch()
        if epoch % 3 == 0:
            place = places[epoch // 3 - 1]

            def die(name, place=place):
                if name == place:
                    raise Died

            with watch(die), pytest.raises(Died):
                pipeline.run_epoch()
        if epoch % 3 == 0 or epoch % 5 == 0:
            pipeline = build(f"{bucket}/shop", f"{bucket}/feed", options)
        pipeline.run_epoch()
        assert rows(pipeline) == rows(twin), epoch
    histories = [[(complete.epoch, complete.rows) for complete in made.history()] for made in (pipeline, twin)]
    assert histories[0] == histories[1]
    assert [epoch for epoch, _ in histories[0]] == list(range(1, 21))


def two(root, feed, options=None):
    pipeline = Pipeline("two", root=root, engine=SAIL, storage_options=options)
    source = FileSource(str(feed), format="csv", schema="v long", max_files=1)
    kept = pipeline.source("orders", source).filter("v > 0", name="kept")
    kept.to_table("kept")
    kept.filter("v > 1", name="larger").to_table("larger")
    return pipeline


def requests_of(pipeline, feed, s3, epochs):
    """How many requests each of the epochs makes, behind a first one that opens what is there."""
    counts = []
    for epoch in epochs:
        (feed / f"{epoch:04}.csv").write_text(f"v\n{epoch}\n2\n")
        s3.requests()
        assert pipeline.run_epoch().epoch == epoch
        counts.append(len(s3.requests()))
    return counts[1:]


@pytest.mark.usefixtures("sail")
def test_no_epoch_of_two_tables_makes_more_than_fifty_requests(s3, tmp_path):
    """Nor those that write a checkpoint of a log (of the ledger each fourth, of the tables the twentieth) or fold records."""
    bucket = s3.bucket()
    counts = requests_of(two(f"{bucket}/two", tmp_path, s3.options()), tmp_path, s3, range(1, 23))
    assert max(counts) <= 50
    assert sum(counts) / len(counts) <= 45
    logs = Root(f"{bucket}/two", s3.options())
    written = [len([name for name in logs.children(f"{log}/_delta_log") if ".checkpoint." in name]) for log in LOGS]
    assert written[0] >= 5
    assert written[1:] == [1, 1]
    assert len([name for name in logs.children("ledger") if name.endswith(".parquet")]) > 2 + 22 * 5, "and some that were folded"


LOGS = ("ledger", "tables/kept", "tables/larger")


@pytest.mark.usefixtures("sail")
def test_nor_does_the_first_epoch_of_a_process_make_many_more(s3, tmp_path, monkeypatch):
    """As each of Dagster's runs is one: it reads the logs of the ledger and of both tables, and no object of them twice."""
    monkeypatch.setattr("dagster_operators.transactions.ledger._RECENT_SECONDS", 600.0)  # however slow the machine is
    root, counts = f"{s3.bucket()}/two", []
    requests_of(two(root, tmp_path, s3.options()), tmp_path, s3, range(1, 17))
    for epoch in range(17, 24):
        pipeline = two(root, tmp_path, s3.options())
        (tmp_path / f"{epoch:04}.csv").write_text(f"v\n{epoch}\n2\n")
        s3.requests()
        assert pipeline.run_epoch().epoch == epoch
        asked = s3.requests()
        counts.append(len(asked))
        read = [line for line in asked if line.startswith("GET") and re.search(r"/(_delta_log/0+|ledger/r)\d+[-.]", line)]
        assert len(read) == len({*read})
    assert max(counts) <= 125
    assert sum(counts) / len(counts) <= 110


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("sail")
def test_nor_does_one_at_epoch_three_hundred(s3, tmp_path):
    """The 298 before were made on this disk, and their root was copied to the store as it was."""
    few, many, bucket = tmp_path / "few", tmp_path / "many", s3.bucket()
    for feed, count in ((few, 8), (many, 298)):
        feed.mkdir()
        for epoch in range(1, count + 1):
            (feed / f"{epoch:04}.csv").write_text(f"v\n{epoch}\n2\n")
            os.utime(feed / f"{epoch:04}.csv", (1_700_000_000 + epoch, 1_700_000_000 + epoch))
        two(str(tmp_path / f"root_{count}"), feed).run_until_caught_up()
        there = Root(f"{bucket}/{count}", s3.options())
        there_path = there.path("").rstrip("/")
        fs.copy_files(
            str(tmp_path / f"root_{count}"), there_path,
            source_filesystem=fs.LocalFileSystem(), destination_filesystem=there.files,
        )  # fmt: skip
    early = requests_of(two(f"{bucket}/8", few, s3.options()), few, s3, range(9, 32))
    late = requests_of(two(f"{bucket}/298", many, s3.options()), many, s3, range(299, 322))
    for counts in (early, late):
        # Behind an opening what was there before is not known: it is read once, to fold it and for each log's first checkpoint.
        *usual, third, second, most = sorted(counts)
        assert max(usual) <= 50
        assert sum(usual) / len(usual) <= 45
        assert third + second + most <= 3 * 90
    assert abs(sorted(late)[11] - sorted(early)[11]) <= 3


def stored(root):
    """All that is kept below a root, as text."""
    found = root.files.get_file_info(fs.FileSelector(root.path("").rstrip("/"), recursive=True))
    contents = [root.files.open_input_file(info.path).read() for info in found if info.is_file]
    assert len(contents) > 20
    return "".join(content.decode("latin-1") for content in contents)


def test_sail_is_told_one_thing_only(s3):
    tell_engine(None, "sail", [("s3://lake/shop", Access.of(s3.options()))])
    assert os.environ["AWS_ENDPOINT"] == s3.endpoint
    tell_engine(None, "sail", [("s3://lake/other", Access()), ("/data", Access.of({"endpoint": "http://elsewhere"}))])
    with pytest.raises(PipelineError, match="Sail reads AWS_ENDPOINT from the environment"):
        tell_engine(None, "sail", [("s3://lake/shop", Access.of({"endpoint_url": "http://elsewhere"}))])


def test_spark_is_told_for_each_bucket():
    told = {}

    class Session:
        class conf:  # noqa: N801 - its name there
            set = staticmethod(told.__setitem__)

        class sparkContext:  # noqa: N801 - its name there
            environment = {}
            _jsc = _jvm = MagicMock()

    configured = Session.sparkContext._jsc.hadoopConfiguration.return_value.get
    configured.return_value = None
    places = [("s3://lake/shop", Access.of({"AWS_ACCESS_KEY_ID": "A"})), ("s3a://sea/in", Access.of({"access_key_id": "B"}))]
    tell_engine(Session, "spark", [*places, ("gs://pond/in", Access())])
    assert told["fs.s3a.bucket.lake.access.key"] == "A"
    assert told["fs.s3a.bucket.sea.access.key"] == "B"
    assert [json.loads(options) for options in Session.sparkContext.environment.values()] == [
        [["AWS_ACCESS_KEY_ID", "A"]], [["access_key_id", "B"]],
    ]  # fmt: skip
    assert told.pop("fs.s3.impl") == "org.apache.hadoop.fs.s3a.S3AFileSystem"
    configured.return_value = "com.amazon.ws.emr.hadoop.fs.EmrFileSystem"
    tell_engine(Session, "spark", places)
    assert "fs.s3.impl" not in told


def test_a_spark_that_was_started_without_s3a_says_how_it_is_started_with_it():
    session = MagicMock()
    hadoop = session.sparkContext._jsc.hadoopConfiguration.return_value
    hadoop.get.return_value = None
    hadoop.getClassByNameOrNull.return_value = None
    place = ("s3://lake/shop", Access())
    with pytest.raises(EngineError, match="without the file system for s3://") as raised:
        tell_engine(session, "spark", [place])
    package = raised.value.remedy.split("'spark.jars.packages': '")[1].split("'")[0]
    assert package == s3a_package()
    tell_engine(session, "connect", [place])  # what its server has cannot be seen


def test_spark_without_a_file_system_for_another_store_is_refused(spark):
    for uri in ("gs://lake/shop", "az://lake/shop"):
        with pytest.raises(EngineError, match=f"Spark runs without a file system for {uri[:5]}") as raised:
            tell_engine(spark, "spark", [(uri, Access())])
        assert "on Sail" in raised.value.remedy
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set("fs.gs.impl", "org.apache.hadoop.fs.RawLocalFileSystem")  # as a connector's settings name one
    tell_engine(spark, "spark", [("gs://lake/shop", Access())])
    settings.unset("fs.gs.impl")


def swapped(root, options, names, v="int", count=1, **was):
    """Two tables, by the names that they are given, of ``count`` epochs."""
    made = Pipeline("swapped", root=root, engine=SAIL, storage_options=options)
    rows = made.source("in", MemorySource([[{"k": "a", "v": n}] for n in range(count)], schema=f"k string, v {v}"))
    for table, stream in zip(names, (rows, rows.select("v AS w")), strict=True):
        stream.to_table(table, renamed_from=was.get(table))
    return made


@pytest.mark.usefixtures("sail")
def test_tables_are_renamed_and_get_wider_types(s3):
    root, options = f"{s3.bucket()}/swapped", s3.options()
    swapped(root, options, ("x", "y")).run_epoch()
    swapped(root, options, ("y", "z"), count=2, z="y", y="x").run_epoch()
    made = swapped(root, options, ("y", "z"), "bigint", 3)
    for table in ("y", "z"):
        made.widen(table)
    made.run_epoch()
    found = {table: sorted(map(tuple, made.read(table).collect())) for table in ("y", "z")}
    assert found == {"y": [("a", 0), ("a", 1), ("a", 2)], "z": [(0,), (1,), (2,)]}


@pytest.mark.usefixtures("sail")
def test_a_table_gets_a_column(s3):
    bucket, options = s3.bucket(), s3.options()
    root, batches = f"{bucket}/wider", [[{"k": "a"}], [{"k": "b"}]]

    def made(*columns):
        pipeline = Pipeline("wider", root=root, engine=SAIL, storage_options=options)
        rows = pipeline.source("rows", MemorySource(batches, schema="k string"))
        rows.select("k", *columns, name="chosen").to_table("t")
        return pipeline

    made().run_epoch()
    now = made("upper(k) AS big")
    assert now.run_epoch().rows == {"t": 1}
    assert sorted(map(tuple, now.read("t").collect())) == [("a", None), ("b", "B")]
    assert now.to_arrow("t", epoch=1).column_names == ["k"]
    now.rebuild("t")
    assert sorted(map(tuple, made("upper(k) AS big").read("t").collect())) == [("a", "A"), ("b", "B")]
    made("1 AS one").rebuild("t")
    assert sorted(map(tuple, made("1 AS one").read("t").collect())) == [("a", 1), ("b", 1)]
