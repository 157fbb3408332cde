"""A root on Azure (Azurite) and on Google Cloud Storage (its protocol in front of moto): what one on S3 has, on Sail."""

from __future__ import annotations

import os
import pickle

import pytest

from dagster_operators import FileSource, Pipeline
from dagster_operators.errors import BadInputError, PipelineBusyError, StorageError
from dagster_operators.storage.access import Access
from dagster_operators.storage.object_store import ObjectStore
from dagster_operators.storage.root import Root
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.owner import Owner
from tests.end_to_end.test_object_store import Died, arrive, build, rows, stored
from tests.engines import SAIL
from tests.storage.azurite import azurite
from tests.storage.gcs_server import gcs_server
from tests.transactions.flow import Flow, check_result, leftovers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STARTS = ("AZURE_", "GOOGLE_")
VARIABLES = {
    "account_name": "AZURE_STORAGE_ACCOUNT_NAME", "account_key": "AZURE_STORAGE_ACCOUNT_KEY", "endpoint": "AZURE_ENDPOINT",
    "service_account_key": "GOOGLE_SERVICE_ACCOUNT_KEY",
}  # fmt: skip


@pytest.fixture(scope="module", params=["azure", "google"])
def running(request, tmp_path_factory):
    with azurite(tmp_path_factory.mktemp("azurite")) if request.param == "azure" else gcs_server() as server:
        yield server


@pytest.fixture
def server(running):
    """The server; what Sail is told by the environment is gone afterwards."""
    before = {name: value for name, value in os.environ.items() if name.startswith(STARTS)}
    yield running
    for name in [name for name in os.environ if name.startswith(STARTS)]:
        del os.environ[name]
    os.environ.update(before)


def secret(server):
    return server.options().get("account_key") or "hidden-from-all"


def test_the_first_one_creates_it(server):
    store = ObjectStore(server.bucket(), Access.of(server.options()))
    made = store.create("log/1", b"ours")
    assert store.create("log/1", b"theirs") is None
    assert (store.get("log/1"), store.about("log/1").mark) == (b"ours", made.mark)
    assert store.create("log/1", b"ours") == store.about("log/1"), "its own content, as behind a lost answer"
    store.put("log/1", b"also")
    assert store.about("log/1").mark != made.mark


def test_a_source_knows_its_files_by_what_the_store_says_of_them(server):
    root = Root(f"{server.bucket()}/lake", server.options())
    source = FileSource(f"{root.uri}/in", format="csv", schema="v long", storage_options=server.options())
    for name in ("a b.csv", "b.csv"):
        root.write(f"in/{name}", b"v\n41\n")
    items = source.with_content(source.choose(None, lambda: iter(())).slice.items)
    assert all(digest.startswith("etag:") for _, _, _, digest, _ in items)
    source.verify_again(items, "")
    root.write("in/b.csv", b"v\n42\n")
    with pytest.raises(BadInputError, match=r"written anew .*in/b\.csv"):
        source.verify_again(items, "")
    assert [path.rpartition("/")[2] for path in source.other_content(items)] == ["b.csv"]


def test_files_are_what_they_are_on_a_local_root(server, tmp_path):
    from pyarrow import fs

    roots = [Root(str(tmp_path), None), Root(f"{server.bucket()}/deep/shop", server.options())]
    found = []
    for root in roots:
        for name in ("a/1", "a/b/2 %20=ü", "c/3"):
            root.write(name, b"0123456789")
        root.delete_file("a/none")
        with root.files.open_output_stream(root.path("a/big")) as stream:
            for _ in range(12):
                stream.write(b"x" * 1_000_000)
        with root.files.open_input_file(root.path("a/1")) as file:
            parts = (file.size(), file.read_at(3, 2), file.seek(4), file.read())
        with root.files.open_input_stream(root.path("a/big")) as stream:
            length = len(stream.read())
        listed = root.files.get_file_info(fs.FileSelector(root.path("a"), recursive=True))
        names = sorted((info.path.removeprefix(root.path("")), info.type, info.size) for info in listed)
        flat = sorted(info.base_name for info in root.files.get_file_info(fs.FileSelector(root.path("a"))))
        missing = root.files.get_file_info(root.path("none")).type
        with pytest.raises(FileNotFoundError):
            root.files.open_input_file(root.path("none"))
        with pytest.raises(FileNotFoundError):
            root.files.get_file_info(fs.FileSelector(root.path("none")))
        root.delete_folder("a")
        found.append((parts, length, names, flat, missing, root.children(""), root.sizes("c")))
    assert found[0] == found[1]


@pytest.mark.usefixtures("sail")
def test_the_same_rows_as_on_a_local_root_also_behind_a_crash(server, tmp_path):
    bucket, options = server.bucket(), server.options()
    feeds = [Root(str(tmp_path / "feed"), None), Root(f"{bucket}/feed", options)]
    twin = build(str(tmp_path / "root"), str(tmp_path / "feed"))
    pipeline = build(f"{bucket}/shop", f"{bucket}/feed", options)
    for epoch, place in enumerate(["", "after:append_decision", "", "after:commit_table:1", ""], 1):
        arrive(feeds, epoch)
        twin.run_epoch()
        if place:

            def die(name, place=place):
                if name == place:
                    raise Died

            with watch(die), pytest.raises(Died):
                pipeline.run_epoch()
            pipeline = build(f"{bucket}/shop", f"{bucket}/feed", options)
        pipeline.run_epoch()
        assert rows(pipeline) == rows(twin), epoch
    assert [complete.epoch for complete in pipeline.epochs.coordinator.history()] == [1, 2, 3, 4, 5]
    root = Root(f"{bucket}/shop", options)
    shown = stored(root) + repr(pipeline) + repr(root.access) + repr(root.files) + repr(root.files.handler)
    assert secret(server) not in shown
    for thing in (root, root.access, root.shipped, root.files.handler):
        told = pickle.dumps(thing)
        assert secret(server).encode() not in told
        assert pickle.loads(told) is not None  # noqa: S301 - ours


@pytest.mark.usefixtures("sail")
def test_the_environment_is_enough(server, tmp_path, monkeypatch):
    for name, value in server.options().items():
        kind = "AZURE" if "account_name" in server.options() else "GOOGLE"
        monkeypatch.setenv(VARIABLES.get(name, f"{kind}_ALLOW_HTTP"), value)
    (tmp_path / "1.csv").write_text("v\n1\n2\n")
    pipeline = Pipeline("env", root=f"{server.bucket()}/env", engine=SAIL)
    pipeline.source("in", FileSource(str(tmp_path), format="csv", schema="v long")).to_table("kept")
    assert pipeline.run_epoch().rows == {"kept": 2}
    assert sorted(map(tuple, pipeline.read("kept").collect())) == [(1,), (2,)]


def test_two_runs_and_a_takeover(server):
    uri = f"{server.bucket()}/numbers"

    def make(**options):
        return Coordinator("numbers", uri, storage_options=server.options(), **options)

    with make() as dead:
        Flow(dead).epoch()

        def die(name):
            if name == "after:append_decision":
                raise Died

        with watch(die), pytest.raises(Died):
            Flow(dead).epoch()
    with make() as run, make() as patient:
        run.open(Owner.of_process("second"))
        with pytest.raises(PipelineBusyError):
            patient.open(Owner.of_process("third"))
        while Flow(run, last=30).epoch(Owner.of_process("second")):
            pass
        check_result(run, 30)
    fresh = make()
    check_result(fresh, 30)
    assert leftovers(fresh) == []


def test_a_wrong_key_is_an_error_without_it(server):
    if "account_key" not in server.options():
        pytest.skip("the server of Google's protocol asks for no key")
    wrong = "d3Jvbmcta2V5LW9mLW5vYm9keQ=="
    with pytest.raises(StorageError) as raised:
        Coordinator("numbers", f"{server.bucket()}/numbers", storage_options=server.options(account_key=wrong)).view()
    assert wrong not in str(raised.value)
    assert "\x1b" not in str(raised.value)
    assert "403" in str(raised.value)
