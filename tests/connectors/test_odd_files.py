"""Files as people have them: of another encoding, without a row, below a link that leads in a circle, below the home folder."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.connectors import spark_lines
from dagster_operators.connectors.text_format import TextFormat
from dagster_operators.errors import BadInputError, PipelineError
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.types.schema import Schema
from tests.engines import ENGINES

BOTH = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("sail", "spark")]


def rows_of(folder: Path, source: do.FileSource, engine: str) -> list[tuple[object, ...]]:
    pipeline = do.Pipeline("p", root=str(folder / "root"), engine=ENGINES[engine])
    pipeline.source("rows", source).to_table("t")
    pipeline.run_until_caught_up()
    return sorted(tuple(row) for row in pipeline.read("t").collect())


@pytest.mark.parametrize("engine", BOTH)
def test_a_file_of_another_encoding_is_refused_until_that_is_said(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "in" / "a.csv"
    path.parent.mkdir()
    path.write_bytes("id,v\n1,\u00e4\n".encode("ISO-8859-1"))
    source = do.FileSource(str(path.parent), schema="id int, v string")
    with pytest.raises(BadInputError, match=r"no text of the encoding utf-8 .*options=\{'encoding': 'ISO-8859-1'\}") as raised:
        rows_of(tmp_path, source, engine)
    assert raised.value.file == str(path)
    said = do.FileSource(str(path.parent), schema="id int, v string", options={"encoding": "ISO-8859-1"})
    assert rows_of(tmp_path / "again", said, engine) == [(1, "\u00e4")]


@pytest.mark.parametrize("engine", BOTH)
def test_json_of_another_encoding_is_refused_until_that_is_said(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "in" / "a.json"
    path.parent.mkdir()
    path.write_bytes('{"id":1,"v":"\u00e4"}\n'.encode("ISO-8859-1"))
    source = do.FileSource(str(path.parent), schema="id int, v string")
    with pytest.raises(
        BadInputError, match=r"(?i)no (text of the encoding )?utf-8.*options=\{'encoding': 'ISO-8859-1'\}"
    ) as raised:
        rows_of(tmp_path, source, engine)
    assert raised.value.file == str(path)
    said = do.FileSource(str(path.parent), schema="id int, v string", options={"encoding": "ISO-8859-1"})
    assert rows_of(tmp_path / "again", said, engine) == [(1, "\u00e4")]


@pytest.mark.parametrize("engine", BOTH)
def test_a_line_of_json_with_more_than_an_object_fails_the_epoch(engine: str, tmp_path: Path) -> None:
    """Spark's own reader loses what is behind the object."""
    path = tmp_path / "in" / "a.json"
    path.parent.mkdir()
    path.write_text('{"id":1}\n{"id":2} trailing\n')
    with pytest.raises(BadInputError, match="a record cannot be parsed") as raised:
        rows_of(tmp_path, do.FileSource(str(path.parent), schema="id int"), engine)
    assert (raised.value.file, raised.value.record) == (str(path), '{"id":2} trailing')
    path.write_text('{"id":1}\n{"id":2}\n')
    assert rows_of(tmp_path, do.FileSource(str(path.parent), schema="id int"), engine) == [(1,), (2,)]


@pytest.mark.parametrize(("text", "told"), [
    ('{"ID":1}\n{"ID":2}\n', "columns id, v, so that its rows are null; they have ID. Names are found in their own case"),
    ('{"value":1}\n', "they have value$"),
    ('{"id":1,"value":"a"}\n{"id":2}\n', "has v, null in all rows then; the schema leaves out value$"),
    ('{"id":1,"V":"a"}\n', "leaves out V. Names are found in their own case only$"),
])  # fmt: skip
def test_columns_that_no_object_has_are_told_with_the_names_that_they_have(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    source = do.FileSource(str(tmp_path), schema="id int, v string")
    choice = source.choose(None, lambda: iter(()))
    assert choice is not None
    with pytest.warns(RuntimeWarning, match=told):
        source.verify(choice.slice.items, Schema.from_ddl("id int, v string").to_json())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", ["", "{}\n", '{"ID":1}\n{"id":2,"v":"a"}\n', "no JSON\n", '{"id":1}'])
def test_of_objects_with_all_columns_or_no_others_nothing_is_said(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    source = do.FileSource(str(tmp_path), schema="id int, v string")
    choice = source.choose(None, lambda: iter(()))
    assert choice is not None
    source.verify(choice.slice.items, Schema.from_ddl("id int, v string").to_json())


@pytest.mark.filterwarnings("error")
def test_an_encoding_that_only_java_knows_is_not_looked_into(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"ID":1}\n')
    source = do.FileSource(str(tmp_path), schema="id int", options={"encoding": "x-windows-949"})
    choice = source.choose(None, lambda: iter(()))
    assert choice is not None
    source.verify(choice.slice.items, Schema.from_ddl("id int").to_json())


def test_names_are_looked_at_until_they_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file that is looked into is opened, at the begin of an epoch."""
    opened: list[str] = []
    plainly = FileLocation.opened

    def opening(location: FileLocation, file: SourceFile, **settings: bool) -> object:
        opened.append(Path(file.path).name)
        return plainly(location, file, **settings)

    monkeypatch.setattr(FileLocation, "opened", opening)
    source = do.FileSource(str(tmp_path), schema="id int")
    warned = []
    for name, text in {"a": '{"ID":1}\n', "b": "{}\n", "c": '{"id":1}\n', "d": '{"id":2}\n'}.items():
        (tmp_path / f"{name}.json").write_text(text)
        file = FileLocation(str(tmp_path)).find()[-1]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            source.verify([file.to_json()], Schema.from_ddl("id int").to_json())
        warned += [name for _ in told]
    assert (opened, warned) == (["a.json", "b.json", "c.json"], ["a"])


def test_lines_are_looked_through_once_for_all_stages_that_read_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Spark it is a job that reads the files."""
    looked: list[object] = []

    def look(session: object, *slice_of: object) -> bool:
        looked.append(slice_of)
        if len(looked) == 1:
            raise RuntimeError("the engine stopped")
        return len(looked) == 2

    monkeypatch.setattr(spark_lines, "_look_through", look)
    location, json_lines = FileLocation(str(tmp_path)), TextFormat("json")
    one, again, other = (Schema.from_ddl(told).to_json() for told in ("id int", "id int", "id date"))
    files = [SourceFile(1, "a.json", 9), SourceFile(1, "b.json", 9)]
    session: Any = None
    with pytest.raises(RuntimeError, match="stopped"):
        spark_lines.has_odd_lines(session, location, json_lines, files, one)
    assert spark_lines.has_odd_lines(session, location, json_lines, files, one)
    assert spark_lines.has_odd_lines(session, FileLocation(str(tmp_path)), TextFormat("json"), [*files], again)
    assert len(looked) == 2
    assert not spark_lines.has_odd_lines(session, location, json_lines, files, other)
    assert not spark_lines.has_odd_lines(session, location, TextFormat("json", (("locale", "de"),)), files, one)
    assert not spark_lines.has_odd_lines(session, location, json_lines, files[:1], one)
    assert not spark_lines.has_odd_lines(session, location, json_lines, [files[0], SourceFile(2, "b.json", 9)], one)
    assert len(looked) == 6


@pytest.mark.spark
def test_a_colon_in_a_name_is_told_on_spark(tmp_path: Path) -> None:
    path = tmp_path / "in" / "a:b.csv"
    path.parent.mkdir()
    path.write_text("id\n1\n")
    with pytest.raises(BadInputError, match=r"no file with a colon in its name .*give it another name") as raised:
        rows_of(tmp_path, do.FileSource(str(path.parent), schema="id int"), "spark")
    assert raised.value.file == str(path)
    path.rename(path.with_name("a-b.csv"))
    assert rows_of(tmp_path, do.FileSource(str(path.parent), schema="id int"), "spark") == [(1,)]


@pytest.mark.spark
def test_json_in_utf_16_is_refused_on_spark_when_planned(tmp_path: Path) -> None:
    source = do.FileSource(str(tmp_path), format="json", schema="id int", options={"encoding": "UTF-16"})
    with pytest.raises(PipelineError, match=r"Spark reads no JSON lines in UTF-16 .*write the files in UTF-8"):
        source.infer_schema(ENGINES["spark"].session())


@pytest.mark.parametrize("engine", BOTH)
def test_columns_that_have_no_value_yet_are_inferred_as_text(engine: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("a,b\n")
    assert rows_of(tmp_path, do.FileSource(str(tmp_path / "in")), engine) == []


@pytest.mark.parametrize("engine", BOTH)
def test_what_has_no_value_in_json_is_inferred_as_text_and_what_has_no_field_left_out(engine: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    first = {"k": "a", "list": [], "lists": [[]], "s": {"y": None, "z": [], "e": {}}, "rows": [{"y": []}], "e": {}, "es": [{}]}
    (tmp_path / "in" / "a.json").write_text(json.dumps(first) + "\n")
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=ENGINES[engine])
    pipeline.source("rows", do.FileSource(str(tmp_path / "in"))).to_table("t")
    pipeline.run_until_caught_up()
    # A row was lost with what has no fields, and what came later in a list was read as null.
    second = {"k": "b", "list": ["q"], "lists": [["r"]], "s": {"y": "s", "z": ["t"]}, "rows": [{"y": ["u"]}]}
    (tmp_path / "in" / "b.json").write_text(json.dumps(second) + "\n")
    pipeline.run_until_caught_up()
    table = pipeline.to_arrow("t").sort_by("k")
    told = {"k": "a", "list": [], "lists": [[]], "s": {"y": None, "z": []}, "rows": [{"y": []}]}
    assert table.to_pylist() == [told, second]


def test_a_link_back_to_a_folder_above_is_refused_and_one_to_another_folder_is_followed(tmp_path: Path) -> None:
    inside, other = tmp_path / "in", tmp_path / "other"
    for folder in (inside / "below", other):
        folder.mkdir(parents=True)
        (folder / "a.csv").write_text("a\n1\n")
    (inside / "other").symlink_to(other)
    (tmp_path / "link").symlink_to(inside)
    for path in (inside, tmp_path / "link"):
        assert [file.path for file in FileLocation(str(path)).find()] == [f"{path.name}/below/a.csv", f"{path.name}/other/a.csv"]
    circle = inside / "below" / "again"
    circle.symlink_to(inside)
    for path in (inside, tmp_path / "link"):
        with pytest.raises(BadInputError, match=r"leads back to a folder that it is in .*To do: remove the link"):
            FileLocation(str(path)).find()
    circle.unlink()
    assert len(FileLocation(str(inside)).find()) == 2


@pytest.mark.timeout(20)  # the second of them was followed for ever
@pytest.mark.parametrize("links", [{"a/l": "b", "b/l": "a"}, {"a/l": "a", "a/m": "a"}, {"b/l": "c", "c/l": "a", "a/l": "b"}])
def test_links_that_lead_back_to_each_other_are_refused(links: dict[str, str], tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "x.csv").write_text("a\n1\n")
    for link, to in links.items():
        (tmp_path / "in" / link).symlink_to(f"../{to}")
    with pytest.raises(BadInputError, match=r"leads back to a folder that it is in .*To do: remove the link, or narrow"):
        FileLocation(str(tmp_path / "in")).find()
    assert [file.path for file in FileLocation(str(tmp_path / "in" / "a" / "*.csv")).find()] == ["x.csv"]
    for link in links:
        (tmp_path / "in" / link).unlink()
    (tmp_path / "in" / "a" / "l").symlink_to("../b")
    assert len(FileLocation(str(tmp_path / "in")).find()) == 4


def test_a_path_may_begin_with_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("a\n1\n")
    for path in ("~/in", "~/in/*.csv", "~/in/a.csv"):
        found = FileLocation(path)
        assert len(found.find()) == 1
        assert found.base()[0].startswith(str(tmp_path))


@pytest.mark.parametrize(("name", "text"), [("a.json", '{"v":1}\n'), ("a.csv", "v,x\n1,\n")])
def test_a_column_of_no_type_is_refused_with_its_name(name: str, text: str, tmp_path: Path) -> None:
    """The engine's own error named none."""
    (tmp_path / name).write_text(text)
    source = do.FileSource(str(tmp_path), schema="v int, x void")
    choice = source.choose(None, lambda: iter(()))
    assert choice is not None
    with pytest.raises(BadInputError, match="is void, which has no values in text") as caught:
        source.verify(choice.slice.items, Schema.from_ddl("v int, x void").to_json())
    assert caught.value.column == "x"
