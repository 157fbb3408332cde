"""The same expressions on both engines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "engines_compared.md"
REFUSED = "error"

ROW = {
    "i": "CAST(7 AS int)", "n": "CAST(-7 AS int)", "z": "CAST(0 AS int)", "u": "CAST(NULL AS int)",
    "big": "CAST(2147483647 AS int)", "l": "9223372036854775807L",
    "d": "2.5D", "e": "-2.5D", "nan": "CAST('NaN' AS double)", "c": "CAST(1.25 AS decimal(10,2))",
    "s": "'Äb,c'", "b": "true", "t": "TIMESTAMP '2024-03-31 01:30:00.123456'", "da": "DATE '2024-02-29'",
    "tn": "TIMESTAMP_NTZ '2024-03-31 02:30:00.123456'", "told": "TIMESTAMP '1890-06-15 12:34:56.000789'",
    "h": "TIMESTAMP '2026-01-01 00:00:01.5'", "hn": "TIMESTAMP_NTZ '2026-01-01 00:00:01.5'",
    "dold": "DATE '1582-10-04'", "w": "CAST('12345678901234567.0123456789' AS decimal(38,10))",
    "xs": "array(3, 1, CAST(NULL AS int), 2)", "m": "map('a', 1, 'b', CAST(NULL AS int))", "st": "named_struct('a', 1, 'b', 'x')",
    "js": "'{\"a\": {\"b\": [1, 2]}, \"n\": 1.50, \"c\": \"x\"}'",
}  # fmt: skip
_AT_ONCE = 40


def expressions() -> list[tuple[str, bool]]:
    """Each expression, and whether it may be refused."""
    lines = Path(__file__).with_name("expressions.txt").read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if line and not line.startswith("#")]
    return [(line.removeprefix("! "), line.startswith("! ")) for line in found]


def one_row(session: SparkSession, folder: Path) -> DataFrame:
    """The row, from a file, so that no engine computes with constants."""
    path = str(folder / "row")
    session.sql("SELECT " + ", ".join(f"{value} AS {name}" for name, value in ROW.items())).write.mode("overwrite").parquet(path)
    return session.read.parquet(path)


def answers(row: DataFrame, wanted: Sequence[tuple[str, bool]]) -> dict[str, str]:
    """What each expression gives; many are asked for at once, those that may be refused one by one."""
    found: dict[str, str] = {}
    many = [expression for expression, alone in wanted if not alone]
    for start in range(0, len(many), _AT_ONCE):
        found.update(_ask(row, many[start : start + _AT_ONCE]))
    for expression, alone in wanted:
        if alone:
            found.update(_ask(row, (expression,)))
    return found


def _ask(row: DataFrame, batch: Sequence[str]) -> Iterator[tuple[str, str]]:
    try:
        values = row.selectExpr(*(f"{expression} AS c{number}" for number, expression in enumerate(batch))).collect()[0]
    except Exception:  # noqa: BLE001 - of any kind
        if len(batch) == 1:
            yield batch[0], REFUSED
            return
        half = len(batch) // 2
        yield from _ask(row, batch[:half])
        yield from _ask(row, batch[half:])
        return
    yield from zip(batch, map(shown, values), strict=True)


def shown(value: Any) -> str:
    """A value as text: numbers with a point as far as engines can agree, what cannot be printed as Python writes it."""
    if isinstance(value, float):
        return f"{value:.14g}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{shown(key)}: {shown(item)}" for key, item in sorted(value.items())) + "}"
    if isinstance(value, bytearray | bytes):
        return repr(bytes(value))
    if isinstance(value, tuple):
        return "(" + ", ".join(map(shown, value)) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    text = str(value)
    return text if text.isprintable() else repr(text)
