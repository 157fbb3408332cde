"""CSV and JSON as people have it, and what is read of it: the same on both engines, but for what is marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CORRUPT = "corrupt"
NULL = "null"


@dataclass(frozen=True)
class Texts:
    """Files that are read alike.

    Attributes:
        kind: CSV or JSON.
        schema: The columns, as DDL.
        cases: What each file has, below the header, and what is read of it: a row's values with a bar between them, rows with a
            line between them, and what is corrupt as such.
        sail: Of some, what Sail reads.
        options: Of the reader.
        header: The first line of CSV.
        encoding: In which the files are written.
    """

    kind: str
    schema: str
    cases: Mapping[str, str]
    sail: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    header: str = ""
    encoding: str = "utf-8"

    def file(self, text: str) -> bytes:
        """A file of one case."""
        return (f"{self.header}\n{text}" if self.header else text).encode(self.encoding, "surrogateescape")


def _column(kind: str, schema: str, values: Mapping[str, str], sail: Mapping[str, str] | None = None) -> Texts:
    """Values of one column; of CSV with a second one, so that no line is blank."""
    if kind == "csv":
        lines = {f"1,{text}\n": told if told == CORRUPT else f"1|{told}" for text, told in values.items()}
        others = {f"1,{text}\n": told if told == CORRUPT else f"1|{told}" for text, told in (sail or {}).items()}
        return Texts("csv", f"i int, v {schema}", lines, others, header="i,v")
    lines = {f'{{"v": {text}}}\n': told for text, told in values.items()}
    return Texts("json", f"v {schema}", lines, {f'{{"v": {text}}}\n': told for text, told in (sail or {}).items()})


_TIMES = {
    "2024-01-02 03:04:05": "2024-01-02 03:04:05", "2024-01-02T03:04:05": "2024-01-02 03:04:05",
    "2024-01-02T03:04:05Z": "2024-01-02 03:04:05", "2024-01-02T03:04:05+02:00": "2024-01-02 01:04:05",
    "2024-01-02": "2024-01-02 00:00:00", "2024-01-02 03:04": "2024-01-02 03:04:00",
    "2024-01-02 03:04:05.123456789": "2024-01-02 03:04:05.123456", "2024-1-2 3:4:5": "2024-01-02 03:04:05",
    "2024-01-02 03:04:05 Europe/Berlin": "2024-01-02 02:04:05", "2024": "2024-01-01 00:00:00", "2024-01": "2024-01-01 00:00:00",
    "0001-01-01 00:00:00": "0001-01-01 00:00:00", "9999-12-31 23:59:59": "9999-12-31 23:59:59",
    "1582-10-10 00:00:00": "1582-10-10 00:00:00", "03:04:05": CORRUPT, "T03:04:05": CORRUPT, "03:04": CORRUPT, "T03": CORRUPT,
    "1704164645": CORRUPT, "2024-02-30 00:00:00": CORRUPT, "2024-01-02 25:00:00": CORRUPT, "Jan 2 2024": CORRUPT,
    "02.01.2024": CORRUPT,
}  # fmt: skip
_UNZONED = {
    "2024-01-02 03:04:05": "2024-01-02 03:04:05", "2024-01-02T03:04:05.5": "2024-01-02 03:04:05.5",
    "2024-01-02": "2024-01-02 00:00:00",
    "2024-01-02T03:04:05Z": CORRUPT, "2024-01-02T03:04:05+02:00": CORRUPT, "2024-01-02 03:04:05 UTC": CORRUPT,
    "03:04:05": CORRUPT,
}  # fmt: skip
_DATES = {
    "2024-01-02": "2024-01-02", "2024-1-2": "2024-01-02", "2024": "2024-01-01", "2024-01": "2024-01-01", "01/02/2024": CORRUPT,
    "2024-02-30": CORRUPT, "20240102": CORRUPT, "03:04:05": CORRUPT, "1582-10-10": "1582-10-10",
}  # fmt: skip
_ROWS = "id long, v double, s string"


def _quoted(values: Mapping[str, str]) -> dict[str, str]:
    return {f'"{text}"': told for text, told in values.items()}


GROUPS: tuple[Texts, ...] = (
    _column("csv", "timestamp", _TIMES),
    _column("csv", "timestamp_ntz", _UNZONED),
    _column("csv", "date", _DATES),
    _column("csv", "boolean", {
        "true": "true", "TRUE": "true", "False": "false", "T": CORRUPT, "1": CORRUPT, "yes": CORRUPT, "": NULL, " true": CORRUPT,
    }),
    _column("csv", "long", {
        "7": "7", "+5": "5", "-0": "0", "007": "7", "9223372036854775807": "9223372036854775807", "9223372036854775808": CORRUPT,
        " 1": CORRUPT, "1 ": CORRUPT, "2.0": CORRUPT, "1e3": CORRUPT, "1_000": CORRUPT, '"1,000"': CORRUPT, "\uff11": CORRUPT,
        '"12"': "12", "many": CORRUPT, '""': NULL,
    }),
    _column("csv", "int", {"2147483647": "2147483647", "2147483648": CORRUPT, "1.5": CORRUPT}),
    _column("csv", "double", {
        "2.5": "2.5", " 2.5": "2.5", "NaN": "nan", "-NaN": "nan", "Infinity": "inf", "-Infinity": "-inf", "Inf": "inf",
        "-Inf": "-inf",
        "nan": CORRUPT, "NAN": CORRUPT, "inf": CORRUPT, "INF": CORRUPT, "+Inf": CORRUPT, "1e3": "1000", "1E+3": "1000", "+5": "5",
        ".5": "0.5", "5.": "5", "1d": "1", "1.5F": "1.5", "1e": CORRUPT, "0x1F": CORRUPT, '"1,5"': CORRUPT, "1e400": "inf",
        "0x1p3": "8",
    }, {"0x1p3": CORRUPT}),
    _column("csv", "decimal(8,2)", {
        "1.235": "1.24", "1.2": "1.20", "-1.005": "-1.01", ".5": "0.50", "5.": "5.00", "+1": "1.00", "1e2": "100.00",
        "1E-1": "0.10",
        "12345678.90": CORRUPT, "999999999999": CORRUPT, '"1,5"': CORRUPT, '"1,000.50"': CORRUPT, " 1.5": CORRUPT, "1d": CORRUPT,
        "NaN": CORRUPT, "": NULL,
    }),
    _column("json", "timestamp", _quoted({text: told for text, told in _TIMES.items() if told != CORRUPT}) | {
        "1704164645": "2024-01-02 03:04:05", "null": NULL, '"x"': CORRUPT, '""': CORRUPT,
    }),
    _column("json", "timestamp", _quoted({"03:04:05": CORRUPT, "T03:04:05": CORRUPT, "2024-01-02": "2024-01-02 00:00:00"}) | {
        '"\\u0030\\u0033:04"': CORRUPT,
    }),
    _column("json", "timestamp_ntz", _quoted(_UNZONED)),
    _column("json", "date", _quoted(_DATES) | {"19000": CORRUPT}),
    _column("json", "int", {
        "3": "3", "-3": "-3", '"3"': CORRUPT, "1.0": CORRUPT, "1.5": CORRUPT, "1e2": CORRUPT, "2147483648": CORRUPT,
        "true": CORRUPT,
        "null": NULL, "007": CORRUPT, "+1": CORRUPT, "[1]": CORRUPT, "{}": CORRUPT,
    }),
    _column("json", "double", {
        "1.5": "1.5", "1": "1", "1e2": "100", '"NaN"': "nan", "NaN": "nan", '"Infinity"': "inf", '"-INF"': "-inf",
        '"1.5"': CORRUPT,
        '"inf"': CORRUPT, "9007199254740993": "9.007199254741e+15", "true": CORRUPT,
    }),
    _column("json", "decimal(8,2)", {
        "1.235": "1.24", "1e2": "100.00", '"1.5"': "1.50", '"1e2"': "100.00", '" 1.5 "': CORRUPT, '"x"': CORRUPT,
        "12345678.9": CORRUPT,
        "true": CORRUPT, '"NaN"': CORRUPT,
    }),
    _column("json", "decimal(8,2)", {'"1,5"': CORRUPT, '"1,000.5"': CORRUPT, "1.5": "1.50", '"1\\u002c5"': CORRUPT}),
    _column("json", "boolean", {"true": "true", "false": "false", '"true"': CORRUPT, "1": CORRUPT}),
    _column("json", "string", {
        '"x"': "x", "1.50": "1.50", "1e5": "1e5", "true": "true", '{"a" :  [1, 2]}': '{"a" :  [1, 2]}', "[1,  2]": "[1,  2]",
        '"\\u00e4\\n"': "\u00e4\n", '"a}b"': "a}b", '"1,5 at 03:04:05"': "1,5 at 03:04:05",
    }),
    _column("json", "struct<t:timestamp,d:decimal(8,2)>", {
        '{"t": "2024-01-02 03:04:05", "d": 1.5}': "{2024-01-02 03:04:05, 1.50}", '{"t": "x"}': CORRUPT, "5": CORRUPT,
        "null": NULL,
    }),
    _column("json", "struct<t:timestamp,d:decimal(8,2)>", {'{"t": "03:04:05"}': CORRUPT, '{"d": "1,5"}': CORRUPT}),
    Texts("csv", _ROWS, {
        "1,2.5,x\n": "1|2.5|x", "1,2.5,x": "1|2.5|x", "1,1,x\r\n2,2,y\r\n": "1|1|x\n2|2|y", "1,1,x\r2,2,y\r": "1|1|x\n2|2|y",
        "\n1,1,x\n\n\n2,2,y\n\n": "1|1|x\n2|2|y", "": "", "1,,\n": "1|null|null", '1,,""\n': "1|null|null",
        "1,,NULL\n": "1|null|NULL",
        '1,1,"a ""q"" b"\n': '1|1|a "q" b', '1,1,a"b\n': '1|1|a"b', '1,1,"a,b"\n': "1|1|a,b", "1,1,C:\\dir\\\n": "1|1|C:\\dir\\",
        "1,1,a\\,b\n": CORRUPT, "1,1\n": CORRUPT, "1\n": CORRUPT, "1,1,x,y\n": CORRUPT, "1,1, x \n": "1|1| x ",
        "1,1,\u00e4\U0001f600\n": "1|1|\u00e4\U0001f600", "1,1,a\x00b\n": "1|1|a\x00b", "12345678901234567890,1,x\n": CORRUPT,
        '1,1,"a\nb"\n2,2,c\n': "1|1|a\n2|2|c\ncorrupt", '1,1,"open\n2,2,c\n': "1|1|open\n2|2|c", '1,1,"a\\"b"\n': '1|1|"a\\"b"',
        "\x00\x00\x00\n1,1,x\n": "1|1|x", "  \n1,1,x\n": "1|1|x",
    }, {
        '1,1,"a\nb"\n2,2,c\n': "1|1|a\nb\n2|2|c", '1,1,"open\n2,2,c\n': "2|2|c\ncorrupt", '1,1,"a\\"b"\n': CORRUPT,
        "\x00\x00\x00\n1,1,x\n": "1|1|x\ncorrupt", "  \n1,1,x\n": "1|1|x\ncorrupt",
    }, header="id,v,s"),
    Texts("csv", _ROWS, {"1,2.5,x\n": "1|2.5|x"}, header="ID,V,S"),
    Texts("csv", _ROWS, {"x,1,9,2.5\n": "1|2.5|x"}, header="s,ID,more,v"),
    Texts("csv", _ROWS, {"1,2.5,x\n": "1|2.5|x", "1,1,\u00fc\n": "1|1|\u00fc"}, header="\ufeffid,v,s"),
    Texts("csv", "id long, s string", {"1;x\n": "1|x", "1;a,b\n": "1|a,b", "1;-\n": "1|null", "1;\n": "1|null"},
          {"1;\n": "1|"}, options={"sep": ";", "nullValue": "-"}, header="id;s"),
    Texts("csv", _ROWS, {"1,1,x\n2,2,y\n": "1|1|x\n2|2|y"}, options={"header": "false"}),
    Texts("csv", _ROWS, {"1,1,x\n#1,1,x\n2,2,y\n": "1|1|x\n2|2|y"}, options={"comment": "#"}, header="id,v,s"),
    Texts("csv", _ROWS, {'1,1,"a\\"b"\n': '1|1|a"b'}, options={"escape": "\\"}, header="id,v,s"),
    Texts("csv", _ROWS, {"1,1,\u00e4\n2,2,b\n": "1|1|\u00e4\n2|2|b"}, options={"encoding": "ISO-8859-1"}, header="id,v,s",
          encoding="iso-8859-1"),
    Texts("csv", _ROWS, {"1,1,\u00e4\n2,2,b\n3,3,c": "1|1|\u00e4\n2|2|b\n3|3|c", "1,1,x\nno,1,x\n": "1|1|x\ncorrupt"},
          options={"encoding": "UTF-16"}, header="id,v,s", encoding="utf-16"),
    Texts("csv", _ROWS, {"1,1,\u00e4\n2,2,b\n": "1|1|\u00e4\n2|2|b"}, options={"encoding": "UTF-16LE"}, header="id,v,s",
          encoding="utf-16-le"),
    Texts("csv", _ROWS, {"1,1,\u00e4\n": "1|1|\u00e4"}, options={"encoding": "UTF-16BE"}, header="\ufeffid,v,s",
    encoding="utf-16-be"),
    Texts("csv", _ROWS, {"1,1,\u00e4\n": "1|1|\u00e4"}, options={"encoding": "UTF-32"}, header="id,v,s", encoding="utf-32"),
    Texts("json", _ROWS, {
        '{"id":1,"v":2.5,"s":"x"}\n': "1|2.5|x", '{"id":1,"id":2}': "2|null|null", "{}\n": "null|null|null",
        '{"new":{"a":[1]},"id":1}': "1|null|null",
        '\n{"id":1}\n\n   \n{"id":2}\r\n': "1|null|null\n2|null|null", '{"ID":1,"id":2}\n': "2|null|null",
        '\ufeff{"id":1}\n': "1|null|null",
        ' {"id" : 1 } \n': "1|null|null", "": "", '{"id":1\n': CORRUPT, "null\n": CORRUPT, '"x"\n': CORRUPT, "5\n": CORRUPT,
        "{id:1}\n": CORRUPT,
        '{"id":1,}\n': CORRUPT, '{\n"id": 1}\n': "corrupt\ncorrupt", '/*x*/{"id":1}\n': CORRUPT,
        '{"s":{"q":NaN},"id":1}\n': '1|null|{"q":NaN}', "{'id':1}\n": "1|null|null",
    }, {"{'id':1}\n": CORRUPT}),
    Texts("json", _ROWS, {
        '{"id":3} trailing\n{"id":4}\n': "4|null|null\ncorrupt", '{"id":4}{"id":5}\n': CORRUPT, '{"id":4},{"id":5}\n': CORRUPT,
        '[{"id":1},{"id":2}]\n': CORRUPT, "[]\n": CORRUPT, '{"id":1}}\n': CORRUPT, '{"id":1}]\n': CORRUPT,
        '{"id":1},0]\n': CORRUPT,
        '{"s":{"a":1}} x\n': CORRUPT, '{"s":{"a":{}},"id":1}\n': '1|null|{"a":{}}', '{"s":"} {","id":1}\n': "1|null|} {",
    }),
    Texts("json", "id long, s string", {'{"id":1,"s":"\u00e4"}\n{"id":2,"s":"b"}\n': "1|\u00e4\n2|b"},
          options={"encoding": "ISO-8859-1"}, encoding="iso-8859-1"),
)  # fmt: skip
