"""An object is created once, also when its answer is lost or the store is busy; the root of a pipeline is used as a folder is."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dagster_operators.errors import PipelineError, StorageError
from dagster_operators.storage import parquet_stats
from dagster_operators.storage.access import Access
from dagster_operators.storage.object_store import ObjectStore
from dagster_operators.storage.parquet_writer import write_table
from dagster_operators.storage.presence import lost_files
from dagster_operators.storage.root import Root


@pytest.fixture
def store(s3):
    return ObjectStore(s3.bucket(), Access.of(s3.options()))


@pytest.fixture
def root(s3):
    return Root(f"{s3.bucket()}/shop", s3.options())


def test_the_first_one_creates_it(store, s3):
    made = store.create("log/1", b"ours")
    assert store.create("log/1", b"theirs") is None
    assert (store.get("log/1"), store.about("log/1").mark) == (b"ours", made.mark)
    store.put("log/1", b"also")
    assert store.about("log/1").mark != made.mark
    assert len(s3.requests()) == 1 + 2 + 2 + 1 + 1


def test_a_lost_answer_is_no_lost_write(store, s3):
    s3.behave(lose="PUT .*/log/1")
    made = store.create("log/1", b"ours")
    assert s3.requests()[0].endswith("log/1 200")
    assert made == store.about("log/1")


def test_nor_is_it_taken_for_somebody_elses(store, s3):
    store.create("log/1", b"theirs")
    s3.behave(lose="PUT .*/log/1")
    assert store.create("log/1", b"ours") is None
    assert store.get("log/1") == b"theirs"


def test_a_busy_store_is_asked_again(store, s3):
    s3.behave(throttle=3)
    assert store.create("log/1", b"ours")
    assert [line[-3:] for line in s3.requests()] == ["503", "503", "503", "200"]


def test_a_root_is_used_as_a_folder_is(root, s3):
    assert (root.read("a/b"), root.exists("a/b"), root.children("a"), root.stamp("a/b")) == (None, False, [], (0, 0))
    root.write("a/b", b"1")
    root.link("a/b", "a/c/d")
    assert root.create("a/b", b"2") is None
    assert root.children("a") == ["b", "c"]
    s3.requests()
    assert root.written("a") == {"b": root.modified("a/b")}
    assert root.written("none") == {}
    assert len(s3.requests()) == (0 if root.is_local else 3)
    root.move("a", "x")
    assert (root.children("a"), root.children("x"), root.read("x/c/d")) == ([], ["b", "c"], b"1")
    root.delete_folder("x/c")
    root.delete_file("x/b")
    root.delete_file("x/b")
    assert root.children("") == []


@pytest.mark.parametrize(
    ("uri", "options", "unknown"),
    [
        ("gs://lake/shop", {"GOOGLE_SKIP_SIGNATURE": "true", "google_allow_http": "true"}, {"aws_region": "not its own"}),
        ("gcs://lake/shop", {"bearer_token": "t", "timeout": "9s"}, {"google_account": "a misprint"}),
        ("abfss://lake@acc.dfs.core.windows.net/shop", {"azure_skip_signature": "true"}, {"region": "eu", "unheard_of": "1"}),
        ("az://lake/shop", {"azure_storage_account_name": "acc", "timeout": "9s"}, {"service_account": "/keys.json"}),
        (
            "az://lake/shop",
            {"account_name": "acc", "azure_allow_http": "true", "AZURE_ENDPOINT": "http://a"},
            {"endpoint_of": "a"},
        ),
        ("az://lake/shop", {"account_name": "acc", "account_key": "QUJD", "max_retries": "3"}, {"account": "acc"}),
        (
            "s3a://lake/shop",
            {"AWS_S3_ALLOW_UNSAFE_RENAME": "true", "max_retries": "3", "default_region": "eu"},
            {"the_region": "eu"},
        ),
    ],
)
def test_an_option_that_is_none_of_the_store_is_refused_by_its_name(uri, options, unknown):
    for make in (ObjectStore, lambda uri, access: access.open(uri), lambda uri, access: Root(uri, dict(access.options))):
        with pytest.raises(PipelineError, match=", ".join(unknown)) as raised:
            make(uri, Access.of({**options, **unknown}))
        assert "not its own" not in str(raised.value)
        assert make(uri, Access.of(options)), "without them, which is the remedy"


def test_of_azure_the_account_decides_whose_options_they_are():
    access, home = Access.of({"account_name": "acc", "account_key": "QUJD"}), "az://lake/shop"
    assert [access.reaches(home, f"{uri}/in") for uri in ("az://sea", "abfss://sea@acc.dfs.core.windows.net")] == [True, True]
    assert not access.reaches(home, "abfss://sea@other.dfs.core.windows.net/in")
    assert not Access().reaches(home, "az://sea/in")
    assert not access.reaches(home, "gs://lake/in")


def test_a_scheme_without_a_file_system_is_refused():
    with pytest.raises(StorageError, match="no file system for ftp://") as raised:
        Root("ftp://server/shop")
    assert "s3://" in raised.value.remedy


def test_one_request_for_each(root, s3):
    root.write("owners/g1", b"working")
    root.write("owners/g1", b"idle")
    root.read("owners/g1")
    root.modified("owners/g1")
    root.children("owners")
    assert [line.split()[0] for line in s3.requests()] == ["PUT", "PUT", "GET", "HEAD", "GET"]


def test_two_entries_and_a_folder_are_one_request(root, s3):
    root.write("log/00.json", b"0")
    root.write("log/01.json", b"one")
    root.write("log/deep/02.json", b"")
    s3.requests()
    first, second = root.stamps("log", ["01.json", "02.json"])
    assert (first, second) == (root.stamp("log/01.json"), (0, 0))
    assert root.sizes("log") == {"log/00.json": 1, "log/01.json": 3, "log/deep/02.json": 0}
    assert len(s3.requests()) == 1 + 1 + 1


def test_lost_files_of_a_folder(root, s3):
    for name in ("a/1", "a/2", "b/1"):
        root.write(name, b"whole")
    s3.requests()
    wanted = dict.fromkeys(("a/1", "a/2", "a/3", "b/1", "c/1"), 5)
    assert lost_files(root, {**wanted, "a/2": 4}) == {
        "a/2": "has 5 bytes instead of 4", "a/3": "is missing", "c/1": "is missing",
    }  # fmt: skip
    assert len(s3.requests()) == 3


@pytest.mark.parametrize("first", [64, 64 * 1024])
def test_a_footer(root, s3, monkeypatch, first):
    monkeypatch.setattr(parquet_stats, "_FOOTER", first)
    size = write_table(root.files, root.path("a.parquet"), pa.table({"n": [1, 2], "s": ["x", None]}))
    s3.requests()
    footer = parquet_stats.read_footer(root, "a.parquet", size)
    assert footer == pq.read_metadata(root.path("a.parquet"), filesystem=root.files)
    assert len([line for line in s3.requests() if line.startswith("GET")]) > 0
    assert footer.num_rows == 2


def test_errors_name_the_place_and_no_key(s3):
    root = Root("s3://nowhere-at-all/shop", s3.options())
    with pytest.raises(StorageError, match="s3://nowhere-at-all/shop/owners/g1") as caught:
        root.write("owners/g1", b"working")
    assert "hidden-from-all" not in str(caught.value)


def test_what_stands_for_a_folder_goes_with_it(root):
    root.files.create_dir(root.path("x/e1/deep"))  # as Spark and Arrow do
    root.write("x/e1/deep/f", b"1")
    assert (root.children("x"), root.children("")) == (["e1"], ["x"])
    root.delete_folder("x/e1")
    assert root.children("x") == []
