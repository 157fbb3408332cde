"""Which files a FileSource takes, without an engine."""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators.connectors.file_source import FileSource
from dagster_operators.errors import BadInputError, LedgerError, MissingInputError, PipelineError
from dagster_operators.storage.location import FileLocation, SourceFile

SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"v","type":"string","nullable":true,"metadata":{}}]}'
)


class Ledger:
    """What the ledger keeps of one source: the slices that were committed."""

    def __init__(self):
        self.slices = []

    @property
    def position(self):
        return self.slices[-1].end if self.slices else None

    def consumed(self):
        return (piece.items for piece in self.slices)

    def take(self, source):
        """The names of the next slice, which is committed; None without one."""
        choice = source.choose(self.position, self.consumed)
        if choice is None:
            return None
        assert choice.slice.start == self.position
        self.slices.append(choice.slice)
        return [path for path, _, _ in choice.slice.items]


def put(folder, name, modified=None, text="id,v\n1,a\n"):
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if modified is not None:
        os.utime(path, (modified, modified))
    return path


def names(source):
    choice = source.choose(None, lambda: iter(()))
    return choice and [path.rsplit("/", 1)[-1] for path, _, _ in choice.slice.items]


def test_files_are_taken_by_time_and_then_name(tmp_path):
    for name, modified in [("c.csv", 1), ("b.csv", 2), ("a.csv", 2)]:
        put(tmp_path, name, modified)
    assert names(FileSource(tmp_path)) == ["c.csv", "a.csv", "b.csv"]


def test_what_is_being_written_is_left_alone(tmp_path):
    for name in [
        "a.csv",
        ".a.csv",
        "_b.csv",
        "c.csv.tmp",
        "d.part",
        "e.csv.crc",
        "_temporary/f.csv",
        ".hidden/g.csv",
        "sub/h.csv",
    ]:
        put(tmp_path, name, 1)
    assert names(FileSource(tmp_path)) == ["a.csv", "h.csv"]
    assert names(FileSource(f"{tmp_path}/*.csv")) == ["a.csv"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.csv", ["a.csv", "b.csv"]),
        ("**/*.csv", ["a.csv", "b.csv", "c.csv"]),
        ("[ab].csv", ["a.csv", "b.csv"]),
        ("[!a].csv", ["b.csv"]),
        ("?.{csv,json}", ["a.csv", "b.csv", "d.json"]),
        ("s*/*.csv", ["c.csv"]),
        ("none*.csv", None),
    ],
)
def test_globs(tmp_path, pattern, found):
    for name in ["a.csv", "b.csv", "sub/c.csv", "d.json"]:
        put(tmp_path, name, 1)
    assert names(FileSource(f"{tmp_path}/{pattern}", format="csv")) == found


def test_relative_paths_and_file_uris(tmp_path, monkeypatch):
    put(tmp_path, "in/a.csv")
    monkeypatch.chdir(tmp_path)
    for path in ["in", "in/", "./in/*.csv", "in/a.csv", f"file://{tmp_path}/in", Path("in")]:
        assert names(FileSource(path)) == ["a.csv"]


def test_a_folder_whose_name_looks_like_a_glob(tmp_path):
    put(tmp_path, "in[1]/a.csv")
    assert names(FileSource(tmp_path / "in[1]")) == ["a.csv"]


def test_limits_take_whole_files(tmp_path):
    for number in range(5):
        put(tmp_path, f"{number}.csv", number, text="id,v\n" + "1,a\n" * 10)
    first = put(tmp_path, "0.csv", 0, text="id,v\n" + "1,a\n" * 10)
    assert names(FileSource(tmp_path, max_files=2)) == ["0.csv", "1.csv"]
    assert names(FileSource(tmp_path, max_bytes=first.stat().st_size * 2 + 1)) == ["0.csv", "1.csv"]
    assert names(FileSource(tmp_path, max_bytes=1)) == ["0.csv"]
    assert names(FileSource(tmp_path, max_rows=11)) == ["0.csv", "1.csv"]
    assert names(FileSource(tmp_path, max_rows=10)) == ["0.csv"]
    choice = FileSource(tmp_path, max_files=4).choose(None, lambda: iter(()))
    assert choice.more
    assert not FileSource(tmp_path, max_files=5).choose(None, lambda: iter(())).more


def test_max_rows_counts_parquet_and_compressed_text(tmp_path):
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "b.parquet")
    assert names(FileSource(tmp_path, max_rows=3)) in (["a.parquet"], ["b.parquet", "a.parquet"])
    (tmp_path / "z").mkdir()
    (tmp_path / "z" / "a.json.gz").write_bytes(gzip.compress(b'{"id":1}\n{"id":2}'))
    assert FileSource(tmp_path / "z", max_rows=1)._count_rows(FileLocation(str(tmp_path / "z")).find()[0]) == 2


def test_a_file_that_arrives_late_with_an_old_time_is_read(tmp_path):
    ledger, source = Ledger(), FileSource(tmp_path)
    put(tmp_path, "b.csv", 100)
    assert ledger.take(source) == [f"{tmp_path.name}/b.csv"]
    put(tmp_path, "a.csv", 1)
    assert ledger.take(source) == [f"{tmp_path.name}/a.csv"]
    assert ledger.take(source) is None


@pytest.mark.parametrize("same_process", [True, False])
def test_a_consumed_file_that_changes_is_an_error(tmp_path, same_process):
    ledger, source = Ledger(), FileSource(tmp_path)
    path = put(tmp_path, "a.csv", 1)
    ledger.take(source)
    path.write_text("id,v\n1,a\n2,b\n")
    with pytest.raises(BadInputError, match="changed after") as raised:
        ledger.take(source if same_process else FileSource(tmp_path))
    assert raised.value.file == str(path)


def test_a_consumed_file_may_be_archived(tmp_path):
    ledger, source = Ledger(), FileSource(tmp_path)
    path = put(tmp_path, "a.csv", 1)
    ledger.take(source)
    path.unlink()
    put(tmp_path, "b.csv", 2)
    assert ledger.take(source) == [f"{tmp_path.name}/b.csv"]


def test_a_ledger_of_other_slices_is_refused(tmp_path):
    put(tmp_path, "a.csv", 1)
    with pytest.raises(LedgerError, match="do not add up"):
        FileSource(tmp_path).choose({"files": 1, "digest": "0" * 64}, lambda: iter([[["b.csv", 1, 1]]]))


def test_a_slice_that_was_not_committed_is_chosen_again(tmp_path):
    source = FileSource(tmp_path, max_files=1)
    put(tmp_path, "a.csv", 1)
    put(tmp_path, "b.csv", 2)
    first = source.choose(None, lambda: iter(()))
    assert source.choose(None, lambda: iter(())) == first
    second = source.choose(first.slice.end, lambda: iter([first.slice.items]))
    assert source.choose(None, lambda: iter(())) == first
    assert source.choose(second.slice.end, lambda: iter([first.slice.items, second.slice.items])) is None


@settings(max_examples=60, deadline=None)
@given(
    arrivals=st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 50), st.integers(1, 60)), max_size=5), max_size=5),
    max_files=st.none() | st.integers(1, 3),
    max_bytes=st.none() | st.integers(1, 100),
    restarts=st.booleans(),
)
def test_any_order_of_arrival_reads_each_file_once(arrivals, max_files, max_bytes, restarts):
    with tempfile.TemporaryDirectory() as folder:
        ledger, arrived, taken = Ledger(), set(), []
        source = FileSource(folder, max_files=max_files, max_bytes=max_bytes, format="csv")
        for arrival in [*arrivals, []]:
            for name, modified, size in arrival:
                if name not in arrived:
                    put(folder, f"{name}.csv", modified, "x" * size)
                    arrived.add(name)
            if restarts:
                source = FileSource(folder, max_files=max_files, max_bytes=max_bytes, format="csv")
            taken.extend(ledger.take(source) or [])
            waiting = source.backlog(ledger.position, ledger.consumed)
            unread = [file for file in Path(folder).iterdir() if f"{Path(folder).name}/{file.name}" not in taken]
            assert waiting == {"files": len(unread), "bytes": sum(file.stat().st_size for file in unread)}
        while files := ledger.take(source):
            taken.extend(files)
        assert sorted(taken) == sorted(f"{Path(folder).name}/{name}.csv" for name in arrived)
        assert ledger.position is None or ledger.position["files"] == len(arrived)


def test_a_missing_folder(tmp_path):
    for path in [tmp_path / "none", tmp_path / "none" / "*.csv"]:
        with pytest.raises(MissingInputError, match="does not exist") as raised:
            FileSource(path).choose(None, lambda: iter(()))
        assert raised.value.file == str(tmp_path / "none")


def test_an_unreadable_folder(tmp_path, monkeypatch):
    class Locked:
        def get_file_info(self, _):
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(FileLocation, "_filesystem", lambda _: (Locked(), ""))
    with pytest.raises(MissingInputError, match="may not be read") as raised:
        FileSource(tmp_path).choose(None, lambda: iter(()))
    assert raised.value.file == str(tmp_path)


def test_an_unreadable_file(tmp_path, monkeypatch):
    put(tmp_path, "a.csv")
    source = FileSource(tmp_path)
    items = source.choose(None, lambda: iter(())).slice.items
    opened = FileLocation._filesystem

    class Locked:
        def __init__(self, real):
            self.get_file_info = real.get_file_info

        def open_input_stream(self, _):
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(FileLocation, "_filesystem", lambda self: (Locked(opened(self)[0]), ""))
    with pytest.raises(MissingInputError, match="may not be read") as raised:
        source.verify(items, SCHEMA)
    assert raised.value.file == str(tmp_path / "a.csv")


def verify(source):
    source.verify(source.choose(None, lambda: iter(())).slice.items, SCHEMA)


def test_a_file_that_vanishes_or_changes_before_it_is_read(tmp_path):
    source = FileSource(tmp_path)
    path = put(tmp_path, "a.csv", 1)
    items = source.choose(None, lambda: iter(())).slice.items
    path.write_text("id,v\n9,a\n")
    with pytest.raises(BadInputError, match="changed after") as raised:
        source.verify(items, SCHEMA)
    assert raised.value.file == str(path)
    path.unlink()
    with pytest.raises(MissingInputError, match="vanished") as raised:
        source.verify(items, SCHEMA)
    assert raised.value.file == str(path)


@pytest.mark.parametrize(
    ("text", "problem", "column"),
    [
        ("id\n1\n", "not in the file's header", "v"),
        ("id,w\n1,a\n", "not in the file's header", "v"),
        ("id,v,v\n1,a,b\n", "names a column twice", "v"),
        ("", "has no header", None),
    ],
)
def test_headers_that_do_not_fit(tmp_path, text, problem, column):
    path = put(tmp_path, "a.csv", text=text)
    with pytest.raises(BadInputError, match=problem) as raised:
        verify(FileSource(tmp_path))
    assert raised.value.file == str(path)
    assert raised.value.where.get("column") == column


def test_headers_that_fit(tmp_path):
    put(tmp_path, "a.csv", text='\ufeff"v",ID,more\na,1,x\n')
    put(tmp_path, "b.csv", text="id,v\n")
    verify(FileSource(tmp_path))
    put(tmp_path, "c.txt", text="# made by x\n\nid;v\n1;a\n")
    verify(FileSource(tmp_path / "*.txt", format="csv", options={"sep": ";", "comment": "#"}))


@pytest.mark.parametrize(
    ("columns", "problem", "column"),
    [
        ({"id": [1]}, "not in the file", "v"),
        ({"id": ["x"], "v": ["a"]}, "string in the file and long", "id"),
        ({"id": [1.5], "v": ["a"]}, "double in the file and long", "id"),
        ({"id": [1], "v": [1]}, "int64 in the file and string", "v"),
    ],
)
def test_parquet_columns_that_do_not_fit(tmp_path, columns, problem, column):
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(BadInputError, match=problem) as raised:
        verify(FileSource(tmp_path))
    assert (raised.value.file, raised.value.column) == (str(tmp_path / "a.parquet"), column)


def test_parquet_columns_that_fit(tmp_path):
    pq.write_table(
        pa.table({"v": pa.array(["a"]).dictionary_encode(), "id": pa.array([1], pa.int16()), "x": [1]}), tmp_path / "a.parquet"
    )
    verify(FileSource(tmp_path))


@pytest.mark.parametrize("keep", [0, 3, 50, -1])
def test_a_truncated_parquet_file(tmp_path, keep):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1], "v": ["a"]}), path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(BadInputError, match="truncated or unreadable") as raised:
        verify(FileSource(tmp_path))
    assert raised.value.file == str(path)


def test_a_gzip_file_truncated_in_its_header(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"id,v\n1,a\n")[:12])
    with pytest.raises(BadInputError, match="truncated or unreadable") as raised:
        verify(FileSource(tmp_path))
    assert raised.value.file == str(path)


def test_the_format_is_told_by_suffixes(tmp_path):
    put(tmp_path, "a.csv")
    other = put(tmp_path, "b.txt")
    with pytest.raises(BadInputError, match="tells no format") as raised:
        names(FileSource(tmp_path))
    assert raised.value.file == str(other)
    other.rename(tmp_path / "b.json")
    with pytest.raises(BadInputError, match="another format"):
        names(FileSource(tmp_path))


def test_settings_that_are_refused():
    with pytest.raises(PipelineError, match="max_files"):
        FileSource("a", max_files=0)
    with pytest.raises(PipelineError, match="xml"):
        FileSource("a", format="xml")
    with pytest.raises(PipelineError, match="corrupt"):
        FileSource("a", corrupt="ignore")
    with pytest.raises(PipelineError, match="'mode'"):
        FileSource("a", options={"mode": "DROPMALFORMED"})


def test_settings_shown_have_no_secrets():
    source = FileSource("s3://bucket/in", storage_options={"AWS_SECRET_ACCESS_KEY": "hidden"})
    assert source.config()["path"] == source.uri == "s3://bucket/in"
    assert "hidden" not in repr(source) + str(source.config())
    with pytest.raises(PipelineError, match="password"):
        FileSource("s3://me:hidden@bucket/in")


def test_limits_and_schema_do_not_make_another_source():
    assert FileSource("a").fingerprint() == FileSource("a", max_files=1, schema="id long").fingerprint()
    assert FileSource("a").fingerprint() != FileSource("b").fingerprint()


def test_files_travel_through_json():
    file = SourceFile(5, "a.csv", 3)
    assert SourceFile.from_json(file.to_json()) == file


def test_slices_are_joined_by_looking_at_each_once(tmp_path, monkeypatch):
    """A rebuild joins those of hundreds of epochs, one after another."""
    source, read = FileSource(str(tmp_path), schema="id long"), SourceFile.from_json
    seen = []
    monkeypatch.setattr(SourceFile, "from_json", lambda item: seen.append(item[0]) or read(item))
    items = []
    for day in range(50):
        items = source.together(items, [[f"{day:02d}.csv", 1, day]])
    assert [path for path, _, _ in items] == [f"{day:02d}.csv" for day in range(50)]
    assert len(seen) < 2 * len(items)
    assert source.together(items, [["51.parquet", 1, 51]]) is None
