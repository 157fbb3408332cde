"""One storage setting has one reading: for the root and for sources, for Arrow and for deltalake."""

from __future__ import annotations

import os
import pickle

import pytest
from deltalake import DeltaTable
from pyarrow import fs

from dagster_operators import DeltaSource, FileSource, MemorySource, Pipeline
from dagster_operators.errors import MissingInputError
from dagster_operators.storage import shipped_access
from dagster_operators.storage.access import Access
from dagster_operators.storage.location import FileLocation
from dagster_operators.storage.root import Root
from dagster_operators.storage.shipped_access import variable_of
from tests.storage.recording_server import recording_server

KEYS = {"AWS_ACCESS_KEY_ID": "AKEY", "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_REGION": "eu-central-1"}
STORE = {**KEYS, "AWS_ENDPOINT_URL": "http://localhost:9000", "AWS_ALLOW_HTTP": "true"}
SERVER = {"endpoint_override": "localhost:9000", "scheme": "http"}
ARROW = {"access_key": "AKEY", "secret_key": "hidden", "region": "eu-central-1"}


@pytest.fixture(autouse=True)
def _nothing_in_the_environment(monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (KEYS, ARROW),
        (STORE, {**ARROW, "endpoint_override": "localhost:9000", "scheme": "http"}),
        ({"endpoint": "https://minio:9000/s3/"}, {"endpoint_override": "minio:9000/s3", "scheme": "https"}),
        ({"endpoint": "minio:9000", "allow_http": "TRUE"}, {"endpoint_override": "minio:9000", "scheme": "http"}),
        ({"endpoint": "minio:9000"}, {"endpoint_override": "minio:9000", "scheme": "https"}),
        ({"allow_http": "true"}, {}),
        ({"default_region": "a", "region": "b"}, {"region": "b"}),
        ({"aws_default_region": "a"}, {"region": "a"}),
        ({"AWS_SKIP_SIGNATURE": "true"}, {"anonymous": True}),
        ({"virtual_hosted_style_request": "true"}, {"force_virtual_addressing": True}),
        ({"skip_signature": "false", "timeout": "30s"}, {}),
    ],
)
def test_what_arrow_is_told(options, arguments):
    assert Access.of(options).for_arrow() == arguments
    assert Access.of(options).for_deltalake() == options


def test_the_environment_first_and_options_over_it(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:9000")
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of other credentials")
    both = {"endpoint_override": "localhost:9000", "scheme": "http"}
    assert Access().for_arrow() == {"region": "us-west-2", **both}
    assert Access.of(KEYS).for_arrow() == {**ARROW, **both}
    assert Access.of({"endpoint": "https://minio", "region": "x"}).for_arrow() == {
        "region": "x", "endpoint_override": "minio", "scheme": "https",
    }  # fmt: skip


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_the_root_and_what_lies_beside_it_are_opened_alike(scheme):
    root = Root(f"{scheme}://lake/flights", STORE)
    expected = fs.S3FileSystem(**ARROW, endpoint_override="localhost:9000", scheme="http", allow_delayed_open=True)
    assert root.files == expected
    assert root.path("ledger") == "lake/flights/ledger"
    assert root.join("ledger") == f"{scheme}://lake/flights/ledger"  # the engine knows the scheme that it was given
    for source in [FileSource("s3://lake/in"), FileSource("s3a://elsewhere/in/*.csv")]:
        assert source.below(root)._location._filesystem() == (expected, source.uri.split("/")[2])
    assert DeltaSource("s3a://lake/weather").below(root).storage_options == STORE


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (FileSource("s3://lake/in", storage_options={"region": "own"}), STORE),
        (FileSource("s3://lake/in", storage_options={}), STORE),
        (FileSource("s3://elsewhere/in"), KEYS),  # on Amazon's S3 a bucket may be anybody's, in any region
        (FileSource("gs://lake/in"), STORE),
        (FileSource("lake/in"), STORE),
        (FileSource("s3://lake/in"), {}),  # and the root has the environment's
        (MemorySource([]), STORE),
    ],
)
def test_a_source_keeps_its_own_access(source, options, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert source.below(Root("s3://lake/flights", options)) is source


def test_a_source_beside_a_local_root_keeps_its_own_access(tmp_path):
    source = FileSource("s3://lake/in")
    assert source.below(Root(str(tmp_path), STORE)) is source


def test_a_pipeline_gives_its_sources_and_lookup_tables_its_access():
    pipeline = Pipeline("flights", root="s3://lake/flights", storage_options=STORE)
    weather = FileSource("s3a://lake/weather", format="csv", schema="k string, w long")
    rows = pipeline.source("rows", FileSource("s3://lake/in", format="csv", schema="k string, v long", max_files=2))
    rows.lookup(weather, on="k", name="weather").to_table("out")
    planning = pipeline.epochs.planning
    for name in ("rows", "weather"):
        assert planning.connector(name).storage_options == STORE
        assert planning.connector(name) is planning.connector(name)  # it remembers the files it has seen
    assert planning.connector("rows").max_files == 2
    assert pipeline.dataflow.nodes["rows"].operator.connector.storage_options is None  # what was declared stays as it is


def test_secrets_are_not_shown():
    access = Access.of(STORE)
    location = FileLocation("s3://lake/in", access)
    assert "hidden" not in f"{access!r} {location!r} {DeltaSource('s3://lake/t', storage_options=STORE)!r}"
    assert "hidden" not in str(location._missing("s3://lake/in", OSError("the key hidden is unknown")))


def test_keys_are_in_no_pickle():
    root = Root("s3://lake/flights", STORE)
    for thing, same in ((root.access, root.access), (root.shipped, root.files), (FileLocation("s3://lake/in", root.access),) * 2):
        told = pickle.dumps(thing)
        assert b"hidden" not in told
        assert b"AKEY" not in told
        assert pickle.loads(told) == same  # noqa: S301 - ours


def test_a_root_is_opened_anew_where_it_is_unpickled():
    root = Root("s3://lake/flights", STORE)
    assert root._objects is not None
    told = pickle.dumps(root)
    assert b"hidden" not in told
    assert b"AKEY" not in told
    again = pickle.loads(told)  # noqa: S301 - ours
    assert (again.uri, again.access, again.durable, again.files) == (root.uri, root.access, root.durable, root.files)


def test_only_secrets_are_taken_out():
    long = "wJalrXUtnFEMI/K7MDENG"
    access = Access.of({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "minio", "token": "+secret", "session_token": long})
    assert access.redact("a table at minio:9000 cannot be read") == "a table at minio:9000 cannot be read"
    assert access.redact(f"(+secret)\\n{long}\\n") == "(***)\\n***\\n"
    assert Access.of({"password": "station"}).redact("stations of station 'station'") == "stations of *** '***'"
    settings = Access.of({"aws_sse_bucket_key_enabled": "true-ish", "region": "eu"})
    assert not settings.has_keys
    assert settings.redact("it is true-ish that the region is eu") == "it is true-ish that the region is eu"


def test_another_process_has_the_keys_of_what_it_was_told_or_of_its_environment(monkeypatch):
    access = Access.of(STORE)
    told, variable = pickle.dumps(access), variable_of(access)
    monkeypatch.setattr(shipped_access, "_names", {})
    assert pickle.loads(told).for_arrow() == {"region": "eu-central-1", **SERVER}  # noqa: S301 - ours
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    assert pickle.loads(told) == access  # noqa: S301 - ours
    assert variable_of(Access.of({"region": "eu-central-1"})) == {}


def test_arrow_and_deltalake_reach_the_same_store(tmp_path, monkeypatch):
    with recording_server(tmp_path) as server:
        options = {**KEYS, "AWS_ENDPOINT_URL": server.endpoint, "AWS_ALLOW_HTTP": "true", "max_retries": "0"}
        assert reached(server, options) == {"/AKEY/eu-central-1"}
        for name, value in options.items():
            monkeypatch.setenv(name, value)
        assert reached(server, {"max_retries": "0"}) == {"/AKEY/eu-central-1"}
        with pytest.raises(MissingInputError, match=r"the Delta table cannot be read|there is no Delta table"):
            DeltaSource("s3a://lake/weather", storage_options={"max_retries": "0"}).choose(None, lambda: iter(()))
        assert server.requests()


def reached(server, options):
    """The access key and region that requests of both libraries came with."""
    root = Root("s3a://lake/flights", options)
    assert not root.exists("ledger")
    of_arrow = server.requests()
    with pytest.raises(OSError, match="404"):
        DeltaTable.is_deltatable(root.join("ledger"), root.access.for_deltalake())
    of_deltalake = server.requests()
    assert of_arrow
    assert of_deltalake
    scopes = [line.partition("Credential=")[2].split("/") for line in of_arrow + of_deltalake]
    return {f"/{scope[0]}/{scope[2]}" for scope in scopes}
