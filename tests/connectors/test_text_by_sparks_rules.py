"""CSV and JSON lines are read alike on Spark and on Sail: what is a record, and which values a type takes."""

from __future__ import annotations

from pathlib import Path

import pytest

import dagster_operators as do
from dagster_operators.connectors.file_source import FileSource
from dagster_operators.connectors.rejects import split_rejects
from dagster_operators.errors import BadInputError, PipelineError
from dagster_operators.runtime.stages.whole_reads import reads_text
from tests.engines import ENGINES


@pytest.fixture(params=["spark", "sail"])
def session(request):
    return request.getfixturevalue(request.param)


def read(session, folder: Path, text: str, schema: str, kind: str, **options):
    """The rows as text, and the rejected records."""
    (folder / f"a.{kind}").write_bytes(text.encode())
    source = FileSource(folder, schema=schema, corrupt="reject", options=options or None)
    items = source.choose(None, lambda: iter(())).slice.items
    good, bad = split_rejects(source.read(session, items, source.infer_schema(session), corrupt="reject"))
    columns = [f"CAST(`{name}` AS STRING)" for name in good.columns]
    return [tuple(row) for row in good.selectExpr(*columns).collect()], [row["record"] for row in bad.collect()]


CSV = {
    "doubled quotes": ('1,"a ""b"" c"\n', [("1", 'a "b" c')], []),
    "a separator and a backslash in quotes": ('1,"a,b"\n2,"c:\\"\n', [("1", "a,b"), ("2", "c:\\")], []),
    "line ends of Windows, and nothing": ('1,x\r\n2,\r\n3,""\r\n', [("1", "x"), ("2", None), ("3", None)], []),
    "whole numbers": ("+2,x\n3.0,y\nmany,z\n", [("2", "x")], ["3.0,y", "many,z"]),
    "too many, too few, none": ("1,x,y\n2\n\n3,z\n", [("3", "z")], ["1,x,y", "2"]),
}  # fmt: skip
JSON = {
    "no text for a number": ("id long", '{"id": "5"}\n{"id": 5}\n', [("5",)], ['{"id": "5"}']),
    "no fraction for a whole number": ("id long", '{"id": 2.7}\n{"id": 2}\n', [("2",)], ['{"id": 2.7}']),
    "a number that is too large": ("id int", '{"id": 99999999999}\n{"id": 1}\n', [("1",)], ['{"id": 99999999999}']),
    "no number for a date": ("d date", '{"d": 19000}\n{"d": "2024-01-02"}\n', [("2024-01-02",)], ['{"d": 19000}']),
    "seconds for a time": ("t timestamp", '{"t": 1700000000}\n', [("2023-11-14 22:13:20",)], []),
    "no number for a truth value": ("b boolean", '{"b": 1}\n{"b": true}\n', [("true",)], ['{"b": 1}']),
    "no text for a truth value": ("b boolean", '{"b": "true"}\n', [], ['{"b": "true"}']),
    "decimals are rounded": ("v decimal(8,2)", '{"v": 1.235}\n', [("1.24",)], []),
    "decimals with exponents": ("v decimal(20,6)", '{"v": 0.0000000}\n{"v": 1.5e3}\n', [("0.000000",), ("1500.000000",)], []),
    "not a number": ("v double", '{"v": "1.5"}\n{"v": "NaN"}\n', [("NaN",)], ['{"v": "1.5"}']),
    "an object as a text": ("s string", '{"s" : {"x": [1, 2]}, "t":"a,b"}\n', [('{"x": [1, 2]}',)], []),
    "a number as a text": ("s string, t string", '{"t": 1.50, "s":1e5 }\n{"s": true}\n', [("1e5", "1.50"), ("true", None)], []),
    "keys by their case": ("id long, k string", '{"ID": 1, "k": "a"}\n{"id": 2, "K": "b"}\n{"id": 3, "K": "b", "k": "c"}\n',
                           [(None, "a"), ("2", None), ("3", "c")], []),
    "the last of a key": ("id long", '{"id": 1, "id": 2}\n', [("2",)], []),
    "within": ("s struct<d: decimal(8,2), n: array<long>, m: map<string, double>>",
               '{"s": {"d": 0.25, "n": [1, 2], "m": {"a": 1.5}}}\n{"s": null}\n',
               [("{0.25, [1, 2], {a -> 1.5}}",), (None,)], []),
}  # fmt: skip


@pytest.mark.parametrize("case", CSV)
def test_csv(session, tmp_path, case):
    text, good, bad = CSV[case]
    assert read(session, tmp_path, "id,s\n" + text, "id int, s string", "csv") == (good, bad)


@pytest.mark.parametrize("case", JSON)
def test_json(session, tmp_path, case):
    schema, text, good, bad = JSON[case]
    assert read(session, tmp_path, text, schema, "json") == (good, bad)


def test_a_stray_quote_costs_its_own_line(sail, tmp_path):
    lines = [f"{number},x" for number in range(500)]
    text = "\n".join(["id,s", *lines, '1000,"lost', *lines]) + "\n"
    good, bad = read(sail, tmp_path, text, "id int, s string", "csv")
    assert (len(good), bad) == (1000, ['1000,"lost'])


def test_a_stray_quote_fails_the_epoch(sail, tmp_path):
    (tmp_path / "a.csv").write_text('id,s\n1,x\n2,"lost\n3,z\n')
    source = FileSource(tmp_path, schema="id int, s string")
    items, schema = source.choose(None, lambda: iter(())).slice.items, source.infer_schema(sail)
    with pytest.raises(Exception, match="MALFORMED_RECORD") as raised:
        source.read(sail, items, schema).selectExpr("id").collect()
    told = source.explain_failure(sail, raised.value, items, schema)
    assert isinstance(told, BadInputError)
    assert (told.file, told.record) == (str(tmp_path / "a.csv"), '2,"lost')


LONG = "x" * 600


@pytest.mark.parametrize(
    ("kind", "text", "line"),
    [
        ("json", f'{{"k": "{LONG}", "v": 1}}\n{{"k": "{LONG}", "v": "no"}}\n', 2),
        ("csv", f"k,v\n{LONG},1\n{LONG},no\n", 3),
        ("csv", 'k,v\n"a\nb",1\n"a\nc",no\n', 4),
        ("csv", "k,v\na,no\nb,1\na,no\n", None),
    ],
    ids=["long_json", "long_csv", "of_two_lines", "twice"],
)
def test_the_line_of_a_record_among_others_that_begin_like_it(sail, tmp_path, kind, text, line):
    (tmp_path / f"a.{kind}").write_text(text)
    source = FileSource(tmp_path, format=kind, schema="k string, v long")
    items, schema = source.choose(None, lambda: iter(())).slice.items, source.infer_schema(sail)
    with pytest.raises(Exception, match=r"MALFORMED_RECORD|Parser error|Json error") as raised:
        source.read(sail, items, schema).collect()
    told = source.explain_failure(sail, raised.value, items, schema)
    assert isinstance(told, BadInputError)
    assert told.where.get("line") == line
    assert len(told.record) <= 500


@pytest.mark.parametrize("bad", ["7,b,many", "7,b"])
@pytest.mark.parametrize("condition", ["id = 1", "k = 'nobody'", "id = 1 AND k = 'a'", "k LIKE '%c'"])
def test_a_condition_does_not_hide_a_corrupt_record(sail, tmp_path, bad, condition):
    """An engine asks the conditions of a query in the order that it likes, and not of rows that one has left out already."""
    lines = ["id,k,n", *(f"{number},a,{number}" for number in range(500))]
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.csv").write_text("\n".join([*lines, bad, *lines[1:]]) + "\n")
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=ENGINES["sail"])
    rows = pipeline.source("rows", FileSource(tmp_path / "landing", format="csv", schema="id int, k string, n int"))
    rows.filter(condition).select("id").to_table("chosen")
    with pytest.raises(BadInputError, match="a record cannot be parsed"):
        pipeline.run_epoch()
    (tmp_path / "landing" / "a.csv").write_text("\n".join(lines) + "\n")
    assert pipeline.run_epoch().rows["chosen"] == condition.startswith("id")


BAD = {
    "csv": ("id,k,n\n1,a,1\n", ["7,b,many", "7,b"]),
    "json": (
        '{"id": 1, "k": "a", "n": 1}\n',
        ['{"id": 7, "k": "b", "n": "many"}', '{"id": 7, "k": "b"'],
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_spark_takes_no_condition_into_its_readers(spark, tmp_path, kind):
    """There it would skip the rest of a record, and an error in it, once the condition does not hold."""
    good, bad = BAD[kind]
    for number, record in enumerate(bad):
        (tmp_path / f"{number}.{kind}").write_text(good + record + "\n")
        source = FileSource(tmp_path / f"{number}.{kind}", schema="id int, k string, n int")
        items, schema = source.choose(None, lambda: iter(())).slice.items, source.infer_schema(spark)
        for condition in ("id = 1", "k = 'a'"):
            with pytest.raises(Exception, match="MALFORMED_RECORD"):
                source.read(spark, items, schema).where(condition).select("id").collect()


@pytest.mark.parametrize("corrupt", ["fail", "reject"])
def test_a_corrupt_record_that_a_filter_leaves_out_is_told_on_spark(spark, tmp_path, corrupt):
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.csv").write_text("id,k,n\n1,a,1\n7,b,many\n")
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=ENGINES["spark"])
    source = FileSource(tmp_path / "landing", format="csv", schema="id int, k string, n int", corrupt=corrupt)
    pipeline.source("rows", source).filter("id = 1").select("id").to_table("chosen")
    if corrupt == "fail":
        with pytest.raises(BadInputError, match="a record cannot be parsed") as raised:
            pipeline.run_epoch()
        assert raised.value.record == "7,b,many"
        (tmp_path / "landing" / "a.csv").write_text("id,k,n\n1,a,1\n")
    result = pipeline.run_epoch()
    assert result.rows["chosen"] == 1
    assert sum(result.rejected_rows.values()) == (corrupt == "reject")


HIDING = {
    "no value equals null": lambda rows: rows.filter("k = NULL"),
    "never": lambda rows: rows.filter("1 = 0").aggregate(count="count(*)"),
    "of two values both": lambda rows: rows.select("k").filter("k IN ('a') AND k IN ('b')"),
    "changes": lambda rows: rows.as_changes("'insert'").filter("k = NULL").latest("k"),
}


def _told_of_a_record_that_no_query_reads(root, engine, kind, hiding):
    good, bad = BAD[kind]
    (root / "landing").mkdir()
    (root / "landing" / f"a.{kind}").write_text(good + bad[0] + "\n")
    pipeline = do.Pipeline("p", root=str(root / "root"), engine=ENGINES[engine])
    source = FileSource(root / "landing", format=kind, schema="id int, k string, n int")
    HIDING[hiding](pipeline.source("rows", source)).to_table("chosen")
    with pytest.raises(BadInputError, match="a record cannot be parsed") as raised:
        pipeline.run_epoch()
    assert raised.value.record == bad[0]
    (root / "landing" / f"a.{kind}").write_text(good)
    assert pipeline.run_epoch().rows["chosen"] == (hiding == "never")


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("hiding", HIDING)
def test_a_filter_that_no_row_can_pass_hides_no_corrupt_record(sail, tmp_path, kind, hiding):
    """The optimizer makes an empty relation of it, and the query reads nothing."""
    _told_of_a_record_that_no_query_reads(tmp_path, "sail", kind, hiding)


@pytest.mark.parametrize(("kind", "hiding"), [("csv", "no value equals null"), ("json", "never")])
def test_a_filter_that_no_row_can_pass_hides_no_corrupt_record_on_spark(spark, tmp_path, kind, hiding):
    _told_of_a_record_that_no_query_reads(tmp_path, "spark", kind, hiding)


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_only_what_a_query_leaves_out_is_read_in_one_of_its_own(engine, request, tmp_path):
    session = request.getfixturevalue(engine)
    good, _ = BAD["csv"]
    (tmp_path / "a.csv").write_text(good)
    source = FileSource(tmp_path / "a.csv", schema="id int, k string, n int")
    frame = source.read(session, source.choose(None, lambda: iter(())).slice.items, source.infer_schema(session))
    assert reads_text(frame.where("k = 'a'").select("id")) == 1
    assert reads_text(frame.where("k = NULL").select("id")) == 0
    assert reads_text(frame.union(frame.where("k = NULL"))) == 1


def test_a_line_end_in_quotes(sail, tmp_path):
    assert read(sail, tmp_path, 'id,s\n1,"x\ny"\n', "id int, s string", "csv") == ([("1", "x\ny")], [])


WITHIN = {
    "a text for a number": ("s struct<n: long>", '{"s": {"n": "5"}}'),
    "a fraction for a whole number": ("s array<long>", '{"s": [1, 2.7]}'),
    "no list": ("s struct<n: array<long>>", '{"s": {"n": 5}}'),
    "more digits than a double has": ("s struct<d: decimal(30,10)>", '{"s": {"d": 12345678901234567.0123456789}}'),
}  # fmt: skip
"""What Sail's from_json makes another value of, or null, without a word."""


@pytest.mark.parametrize("case", WITHIN)
def test_what_would_be_read_otherwise_within_a_value_is_rejected(sail, tmp_path, case):
    schema, text = WITHIN[case]
    assert read(sail, tmp_path, text + "\n", schema, "json") == ([], [text])


NO_VALUES = [
    "[" * 100_000,
    '{"s": ' + "[" * 100_000 + "]" * 100_000 + "}",
    '{"t": -100000000000}',
    '{"t": 1e99999999999999999999}',
    '{"t": "2024-01-02 00:00:00", "s": "\\ud800"}',
    '{"d": {"d": 1' + "0" * 400 + "}}",
]


def test_one_record_that_python_cannot_read_is_rejected_alone(sail, tmp_path):
    lines = ['{"s": "\\ud83d\\ude00"}', *NO_VALUES, '{"t": -1}']
    good, bad = read(sail, tmp_path, "\n".join(lines) + "\n", "s string, t timestamp, d struct<d: decimal(30,10)>", "json")
    assert good == [("\U0001f600", None, None), (None, "1969-12-31 23:59:59", None)]
    assert bad == NO_VALUES


@pytest.mark.slow
def test_hundreds_of_columns(session, tmp_path):
    names = [f"c{number}" for number in range(500)]
    text = f"{','.join(names)}\n{','.join('7' for _ in names)}\n"
    good, bad = read(session, tmp_path, text, ", ".join(f"{name} int" for name in names), "csv")
    assert ([set(row) for row in good], bad) == ([{"7"}], [])


@pytest.mark.parametrize(("kind", "option"), [("csv", "timestampFormat"), ("json", "multiLine")])
def test_what_only_spark_knows_is_refused_elsewhere(sail, tmp_path, kind, option):
    source = FileSource(tmp_path, format=kind, schema="t timestamp", options={option: "true"})
    with pytest.raises(PipelineError, match=f"'{option}' for reading {kind.upper()} is known to Spark only"):
        source.infer_schema(sail)
