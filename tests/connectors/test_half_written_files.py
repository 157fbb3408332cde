"""Files without a byte or cut short, of every format: what is whole is read, else the error names the file and a way on."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dagster_operators.connectors.file_source import FileSource
from dagster_operators.errors import BadInputError, OperatorsError

ROWS: Final = [{"k": f"a{number}", "v": number} for number in range(200)]


def csv_text() -> bytes:
    return ("k,v\n" + "".join(f"{row['k']},{row['v']}\n" for row in ROWS)).encode()


def json_text() -> bytes:
    return "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def events() -> bytes:
    return "".join(json.dumps({"op": "c", "before": None, "after": row}) + "\n" for row in ROWS).encode()


def parquet() -> bytes:
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(ROWS), buffer)
    return bytes(buffer.getvalue().to_pybytes())


FORMATS: Mapping[str, tuple[Callable[[], bytes], dict[str, Any]]] = {
    "csv": (csv_text, {}),
    "json": (json_text, {}),
    "debezium-json": (events, {"key": "k"}),
    "parquet": (parquet, {}),
}
CUT: Mapping[str, tuple[str, Callable[[bytes], bytes], Mapping[str, int | None]]] = {
    "no byte": ("", lambda _: b"", {"json": 0, "debezium-json": 0}),
    "the first bytes": ("", lambda whole: whole[:3], {"csv": 0}),  # the header
    "in a record": ("", lambda whole: whole[: max(whole.rfind(b"a150") + 2, len(whole) // 2)], {}),
    "without the last line's end": ("", lambda whole: whole[:-1], {"csv": 200, "json": 200, "debezium-json": 200}),
    "compressed, no byte": (".gz", lambda _: b"", {"json": 0, "debezium-json": 0}),
    "compressed, of nothing": (".gz", lambda _: gzip.compress(b""), {"json": 0, "debezium-json": 0}),
    "compressed, half": (".gz", lambda whole: gzip.compress(whole)[: len(gzip.compress(whole)) // 2], {}),
    "compressed, without the last byte": (".gz", lambda whole: gzip.compress(whole)[:-1], {}),
}
"""By what is left of a file: how it is named, what that is, and how many rows of it are read; elsewhere it is refused."""


@pytest.fixture(params=["spark", "sail"])
def session(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def read(session: Any, source: FileSource) -> int:
    """How many rows there are; the error is the one that an epoch raises."""
    schema = source.infer_schema(session)
    choice = source.choose(None, lambda: iter(()))
    assert choice is not None
    items = choice.slice.items
    try:
        return len(source.read(session, items, schema).collect())
    except OperatorsError:
        raise
    except Exception as error:
        raise source.explain_failure(session, error, items, schema) or error from error


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_whole_is_read_and_what_is_not_is_told(session: Any, tmp_path: Path, kind: Any) -> None:
    made, settings = FORMATS[kind]
    for number, (cut, (suffix, left, rows)) in enumerate(CUT.items()):
        if kind == "parquet" and suffix:
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        file = folder / f"2.{kind}{suffix}"
        file.write_bytes(left(made()))
        source = FileSource(folder, format=kind, schema="k string, v long", **settings)
        if kind in rows:
            assert read(session, source) == rows[kind], cut
            continue
        with pytest.raises(BadInputError) as told:
            read(session, source)
        assert (cut, told.value.file) == (cut, str(file))
        assert told.value.remedy, cut
        file.unlink()  # as each of the remedies says
        (folder / f"1.{kind}").write_bytes(made())
        assert read(session, FileSource(folder, format=kind, schema="k string, v long", **settings)) == len(ROWS)


def test_a_file_without_a_byte_may_be_one_without_a_header(sail: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"")
    with pytest.raises(BadInputError, match="no header") as told:
        read(sail, FileSource(tmp_path, schema="k string"))
    assert "options={'header': False}" in told.value.remedy
    assert read(sail, FileSource(tmp_path, schema="k string", options={"header": False})) == 0


@pytest.mark.parametrize("text", ["", '{"K": "x", "k": "y"}\n', '{"K": "x"}\n{"k": "y"}\n'], ids=["empty", "in a line", "in two"])
def test_a_schema_that_no_table_can_have_is_not_inferred(sail: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    with pytest.raises(BadInputError, match=r"they are empty|have K and k, which differ in case alone") as told:
        FileSource(tmp_path).infer_schema(sail)
    assert "give the source a schema=" in told.value.remedy
    assert read(sail, FileSource(tmp_path, schema="k string")) == len(text.splitlines())
