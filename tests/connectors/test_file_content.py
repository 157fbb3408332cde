"""Files that are no text are told by what they begin with, before any of it is a row."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from pathlib import Path
from typing import Any

import hypothesis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.connectors.file_content import kind_of
from dagster_operators.errors import BadInputError
from tests.engines import SAIL

TEXT = b"v\nx\ny\n"
LATIN1 = {"encoding": "ISO-8859-1"}


def zipped() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("a.csv", TEXT)
    return made.getvalue()


def parquet() -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.table({"v": ["x", "y"]}), made)
    return made.getvalue()


KINDS = {
    "compressed by gzip": gzip.compress(TEXT),
    "compressed by bzip2": bz2.compress(TEXT),
    "compressed by zstd": pa.Codec("zstd").compress(TEXT, asbytes=True),
    "compressed by xz": lzma.compress(TEXT),
    "a ZIP archive, or a workbook": zipped(),
    "a Parquet file": parquet(),
    "text in UTF-16": TEXT.decode().encode("utf-16"),
    "text in UTF-16LE": TEXT.decode().encode("utf-16-le"),
    "text in UTF-16BE": TEXT.decode().encode("utf-16-be"),
    "text in UTF-32": TEXT.decode().encode("utf-32"),
}
FORMATS: dict[str, dict[str, Any]] = {
    "headers.csv": {},
    "none.csv": {"options": {"header": False}},
    "latin.csv": {"options": {**LATIN1, "header": False}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_text_is_refused_in_every_layout_and_encoding_of_csv(kind: str, tmp_path: Path) -> None:
    for name, settings in FORMATS.items():
        source = do.FileSource(str(tmp_path), schema="v string", **settings)
        path = tmp_path / name
        path.write_bytes(KINDS[kind])
        choice = source.choose(None, lambda: iter(()))
        assert choice is not None
        schema = '{"type": "struct", "fields": [{"name": "v", "type": "string", "nullable": true, "metadata": {}}]}'
        with pytest.raises(BadInputError, match=rf"it is {kind}\)") as refused:
            source.verify(choice.slice.items, schema)
        assert refused.value.file.endswith(name)
        assert "ISO-8859-1" not in refused.value.remedy
        path.unlink()


@hypothesis.settings(max_examples=50, database=None, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=600), st.sampled_from(["utf-8", "utf-8-sig"]))
def test_text_is_text(text: str, encoding: str) -> None:
    assert kind_of(text.encode(encoding)) is None or ord(min(text)) < ord(" ")


@pytest.mark.parametrize(
    "text", [b"", b"\0", b"PAR1,PAR2\n", b"PAR1\n", b"ORC\n", b"PK,v\n", b"BZh9\n", b"Obj\n", b"\xff\xfe,v\n", b"a\0b\0"]
)
def test_text_that_looks_like_something_else(text: bytes) -> None:
    assert (kind_of(text) is None) == (text != b"a\0b\0")


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
def test_the_remedies_work(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, kind in (
        ("a.csv.gz", "compressed by gzip"),
        ("b.csv.bz2", "compressed by bzip2"),
        ("c.csv.zst", "compressed by zstd"),
    ):
        (tmp_path / "in" / name).write_bytes(KINDS[kind])
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
    pipeline.source("packed", do.FileSource(f"{tmp_path}/in", schema="v string")).to_table("packed")
    for number, encoding in enumerate(("UTF-16", "UTF-16LE", "UTF-16BE")):
        folder = tmp_path / f"wide{number}"
        folder.mkdir()
        (folder / "a.csv").write_bytes(KINDS[f"text in {encoding}"])
        source = do.FileSource(str(folder), schema="v string", options={"encoding": encoding})
        pipeline.source(f"wide{number}", source).to_table(f"wide{number}_rows")
    pipeline.run_epoch()
    assert sorted(pipeline.to_arrow("packed")["v"].to_pylist()) == ["x", "x", "x", "y", "y", "y"]
    for number in range(3):
        assert sorted(pipeline.to_arrow(f"wide{number}_rows")["v"].to_pylist()) == ["x", "y"]


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize(("kind", "settings"), [
    ("compressed by gzip", {}),
    ("text in UTF-16", {"format": "debezium-json", "key": "v"}),
])  # fmt: skip
def test_json_that_is_no_text_fails_with_what_it_is(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_bytes(KINDS[kind])
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
    pipeline.source("rows", do.FileSource(f"{tmp_path}/in", schema="v string", **settings)).to_table("t")
    with pytest.raises(BadInputError, match=f"it is {kind}"):
        pipeline.run_epoch()
