"""CSV and JSON are read alike on both engines, but for what is marked, and told on the page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dagster_operators.connectors.text_format import TextFormat
from dagster_operators.errors import BadInputError, PipelineError
from dagster_operators.storage.location import FileLocation
from dagster_operators.types.schema import Schema
from tests.conformance.comparison import PAGE
from tests.conformance.page import of_texts
from tests.conformance.text_cases import GROUPS
from tests.conformance.text_files import expected, read_texts, write_texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = Schema.from_ddl("id long, v double, s string")
REFUSED = {
    "nothing": (b"", {}, "it has no header"),
    "another separator": (b"id;v;s\n1;1;x\n", {}, "a column of the schema is not in the file's header, which has id;v;s"),
    "a column less": (b"id,s\n1,x\n", {}, "a column of the schema is not in the file's header, which has id, s"),
    "a column twice": (b"id,v,V,s\n1,1,2,x\n", {}, "the header names a column twice"),
    "names with blanks": (b"id, v, s\n1,1,x\n", {}, "a column of the schema is not in the file's header"),
    "a comment": (b"# c\nid,v,s\n1,1,x\n", {}, "a column of the schema is not in the file's header, which has # c"),
    "UTF-16 that is not said": ("id,v,s\n".encode("utf-16"), {}, "no text of the encoding utf-8 .*options="),
    "UTF-16 without its order": ("id,v,s\n".encode("utf-16-be"), {"encoding": "UTF-16"}, "no text of .*'encoding': 'UTF-16LE'"),
    "the same, without a header": (
        "1,1,x\n".encode("utf-16-be"), {"encoding": "UTF-16", "header": "false"}, "no text of .*'encoding': 'UTF-16LE'",
    ),
    "ISO-8859-1 that is not said": ("id,v,s,\u00e4\n".encode("iso-8859-1"), {}, "no text of the encoding utf-8 .*'ISO-8859-1'"),
    "bytes": (bytes(range(256)), {}, "no text of the encoding utf-8"),
}  # fmt: skip
"""What is refused on both engines before one of them reads."""


def test_there_are_cases_enough() -> None:
    told, sail = expected("spark"), expected("sail")
    assert len(told) + len(REFUSED) >= 250
    assert sum(told[case] != sail[case] for case in told) < 15
    for group in GROUPS:
        assert group.sail.keys() <= group.cases.keys()


def test_sail_reads_what_the_cases_say(sail: SparkSession, tmp_path: Path) -> None:
    write_texts(tmp_path)
    assert read_texts(sail, tmp_path) == expected("sail")


@pytest.mark.slow
@pytest.mark.timeout(900)  # one query, of some forty readers, which Spark takes long to plan
def test_spark_reads_what_the_cases_say(spark: SparkSession, tmp_path: Path) -> None:
    write_texts(tmp_path)
    assert read_texts(spark, tmp_path) == expected("spark")


def test_the_page_tells_the_differences() -> None:
    assert of_texts(expected("spark"), expected("sail")) in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_before_an_engine_reads(case: str, tmp_path: Path) -> None:
    content, options, told = REFUSED[case]
    (tmp_path / "a.csv").write_bytes(content)
    location = FileLocation(str(tmp_path))
    with pytest.raises(BadInputError, match=told) as raised:
        TextFormat("csv", tuple(options.items())).verify(location, location.find()[0], SCHEMA.types)
    assert raised.value.file == str(tmp_path / "a.csv")


def test_an_encoding_that_there_is_not(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"id,v,s\n")
    location = FileLocation(str(tmp_path))
    with pytest.raises(PipelineError, match="there is no encoding 'utf-9'"):
        TextFormat("csv", (("encoding", "UTF-9"),)).verify(location, location.find()[0], SCHEMA.types)
