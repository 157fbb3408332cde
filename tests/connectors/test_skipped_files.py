"""Files that have none of the rows wanted are not read: by Parquet footers, and by the log of a Delta table."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dagster_operators.connectors import delta_files, parquet_format
from dagster_operators.connectors.delta_bounds import may_have_any
from dagster_operators.connectors.delta_source import DeltaSource
from dagster_operators.connectors.file_source import FileSource
from dagster_operators.errors import BadInputError, MissingInputError
from dagster_operators.graph.conditions import may_hold

pytestmark = pytest.mark.sail


@pytest.fixture
def read(monkeypatch):
    """The names of the files that engines are given, in the order of reading."""
    names = []

    def watched(reader, place):
        def call(*given, **more):
            names.extend(sorted(getattr(file, "file", file).path.rpartition("/")[2] for file in given[place]))
            return reader(*given, **more)

        return call

    monkeypatch.setattr(parquet_format, "read", watched(parquet_format.read, 2))
    monkeypatch.setattr(delta_files, "read_files", watched(delta_files.read_files, 2))
    return names


def columns(*values):
    known = [(v, f"k{v}", date(2024, 1, v), v / 2, {"v": v}) if v else (None,) * 5 for v in values]
    kinds = {"v": pa.int64(), "k": pa.string(), "d": pa.date32(), "x": pa.float64(), "s": pa.struct([("v", pa.int64())])}
    return pa.table({name: pa.array([row[at] for row in known], kind) for at, (name, kind) in enumerate(kinds.items())})


def values(frame):
    return sorted(row.v for row in frame.collect())


def slice_of(source):
    return source.choose(None, lambda: iter(())).slice.items


CASES = [
    (["v > 4"], ["2"]),
    (["v > 1 AND v < 3"], ["1"]),
    (["k = 'k2' OR k = 'k6'"], ["1", "2"]),
    (["v > 7", "d < DATE '2024-01-02'"], ["1"]),
    (["v IS NULL"], ["3"]),
    (["v IS NOT NULL"], ["1", "2"]),
    (["x > 9 OR x IS NULL"], ["1", "2", "3"]),
    (["s.v > 9"], ["1", "2", "3"]),
    (["v > 9"], []),
]


@pytest.mark.parametrize(("conditions", "expected"), CASES)
def test_parquet_files_are_left_out_by_their_footers(tmp_path, sail, read, conditions, expected):
    for name, rows in (("1", (1, 2, 3)), ("2", (5, 6)), ("3", (None,))):
        pq.write_table(columns(*rows), tmp_path / f"{name}.parquet", row_group_size=2)
    source = FileSource(tmp_path)
    items = slice_of(source)
    frame = source.read_some(sail, items, source.infer_schema(sail), conditions)
    assert read == [f"{name}.parquet" for name in expected]
    everything = source.read(sail, items, source.infer_schema(sail))
    wanted = " OR ".join(f"({condition})" for condition in conditions)
    assert frame.schema == everything.schema
    assert values(frame.filter(wanted).filter("v IS NOT NULL")) == values(everything.filter(wanted).filter("v IS NOT NULL"))


@pytest.mark.parametrize("name", ["a.csv", "a.json"])
def test_text_is_read_whole(tmp_path, sail, name):
    (tmp_path / name).write_text("v\n1\n" if name.endswith("csv") else '{"v": 1}\n')
    source = FileSource(tmp_path / name, schema="v long")
    assert not source.skips_files
    assert values(source.read_some(sail, slice_of(source), source.infer_schema(sail), ["v > 5"])) == [1]


def test_a_file_that_is_left_out_is_looked_over_all_the_same(tmp_path, sail):
    pq.write_table(columns(1), tmp_path / "1.parquet")
    source = FileSource(tmp_path)
    schema = source.infer_schema(sail)
    pq.write_table(columns(2).drop(["x"]), tmp_path / "2.parquet")
    with pytest.raises(BadInputError, match="a column of the schema is not in the file"):
        source.read_some(sail, slice_of(source), schema, ["v > 5"])


@pytest.mark.parametrize(("conditions", "expected"), CASES)
@pytest.mark.parametrize("by_version", [True, False])
def test_delta_files_are_left_out_by_their_statistics(tmp_path, sail, read, conditions, expected, by_version):  # noqa: PLR0917
    for rows in ((1, 2, 3), (5, 6), (None,)):
        write_deltalake(tmp_path / "t", columns(*rows), mode="append")
    source = DeltaSource(tmp_path / "t", starting_version=0) if by_version else DeltaSource(tmp_path / "t")
    items = slice_of(source)
    source.read_some(sail, items, source.infer_schema(sail), conditions).collect()
    assert len(read) == len(expected)


@pytest.mark.parametrize("by_version", [True, False])
@pytest.mark.parametrize(
    ("condition", "count"),
    [("k = 'a'", 1), ("k IS NULL", 1), ("k IS NOT NULL", 2), ("n = 2", 1), ("n > 1 AND v > 1", 1), ("w > 3", 3)],
)
def test_partitions_are_left_out(tmp_path, sail, read, by_version, condition, count):  # noqa: PLR0917
    rows = pa.table({"k": ["a", "b", None], "n": [1, 2, 3], "v": [1, 2, 1], "w": [1.5, 2.5, 3.5]})
    write_deltalake(tmp_path / "t", rows, partition_by=["k", "n"])
    source = DeltaSource(tmp_path / "t", starting_version=0) if by_version else DeltaSource(tmp_path / "t")
    items = slice_of(source)
    found = values(source.read_some(sail, items, source.infer_schema(sail), [condition]).filter(condition))
    assert len(read) == count
    assert found == values(source.read(sail, items, source.infer_schema(sail)).filter(condition))


def test_a_vacuumed_file_is_missed_also_if_it_would_be_left_out(tmp_path, sail):
    write_deltalake(tmp_path / "t", columns(1))
    write_deltalake(tmp_path / "t", columns(9), mode="append")
    source = DeltaSource(tmp_path / "t", starting_version=0)
    items, schema = slice_of(source), source.infer_schema(sail)
    for file in (tmp_path / "t").glob("*.parquet"):
        if pq.read_table(file, partitioning=None).column("v").to_pylist() == [1]:
            file.unlink()
    with pytest.raises(MissingInputError, match="has been removed"):
        source.read_some(sail, items, schema, ["v > 5"])


def test_the_change_feed_is_read_whole(tmp_path, sail):
    write_deltalake(tmp_path / "t", columns(1), configuration={"delta.enableChangeDataFeed": "true"})
    source = DeltaSource(tmp_path / "t", changes=True)
    assert not source.skips_files
    assert values(source.read_some(sail, slice_of(source), source.infer_schema(sail), ["v > 5"])) == [1]


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="'\\\x00"), max_size=70)


@settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(TEXTS, min_size=1, max_size=3), wanted=st.sampled_from(["=", "<=", ">="]))
def test_long_texts_which_statistics_cut_are_found(tmp_path_factory, rows, wanted):
    """What is written is found again by each of its values, in the footers and in the log of a Delta table."""
    folder = tmp_path_factory.mktemp("texts")
    write_deltalake(folder / "t", pa.table({"k": rows}))
    source = DeltaSource(folder / "t", starting_version=0)
    for file in source._files(slice_of(source)):
        fields = list(source._log.schema())
        for text in rows:
            assert may_have_any(file, fields, [f"k {wanted} '{text}'"])
    assert may_hold("k = 'x'", lambda _: None)
