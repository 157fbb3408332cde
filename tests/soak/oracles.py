"""The rows that parts have to end with, in plain Python, of all rows that arrived."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from tests.end_to_end.drawn_parts import Part

Row = tuple[str, int]
Rows = Counter[tuple[Any, ...]]
LOOKED_UP: Final = {"a": 1, "c": 3}
"""The table that rows are looked up in: a key has none."""


def expected(part: Part, landing: Path) -> Rows | None:
    """The rows of a part's table; None where nobody has written down how they follow."""
    oracle = ORACLES.get(part.kind)
    return Counter(oracle([row for row in arrived(landing) if row[1] % (part.filter + 2) == 0], part)) if oracle else None


def arrived(landing: Path) -> list[Row]:
    rows: list[Row] = []
    for file in sorted((landing / "rows").glob("*.csv")):
        with file.open() as lines:
            rows += [(line["k"], int(line["v"])) for line in csv.DictReader(lines)]
    return rows


def per_key(rows: Iterable[Row], of: Callable[[list[int]], Any]) -> list[tuple[str, Any]]:
    groups = groupby(sorted(rows), key=lambda row: row[0])
    return [(key, of([v for _, v in group])) for key, group in groups]


def components(rows: Iterable[Row]) -> dict[int, int]:
    """The smallest number that a way of pairs of a key and a number leads to, of each."""
    least: dict[int, int] = {}
    pairs = [(ord(k), v) for k, v in rows]
    for x, y in pairs:
        least[x], least[y] = x, y
    while True:
        better = {end: min(least[x], least[y]) for x, y in pairs for end in (x, y) if min(least[x], least[y]) < least[end]}
        if not better:
            return least
        least |= better


def joined(rows: list[Row], part: Part) -> list[tuple[Any, ...]]:
    left, right = [row for row in rows if row[1] < 30], Counter(row for row in rows if row[1] % 4 == 0)
    pairs: list[tuple[Any, ...]] = [(k, v, v if (k, v) in right else None) for k, v in left for _ in range(right[k, v] or 1)]
    alone = [(k, None, v) for k, v in right.elements() if (k, v) not in set(left)]
    return pairs + alone * part.wide


def doubled(v: int, times: int, plus: int) -> int:
    for _ in range(times):
        v = v * 2 % 61 + plus
    return v


def some(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row[1] > 3]


def figures(rows: list[Row], part: Part) -> list[tuple[Any, ...]]:
    found = per_key(rows, lambda vs: (len(vs), max(vs) if part.wide else sum(vs)))
    return [(k, *of_key) for k, of_key in found]


def halved(rows: list[Row], part: Part) -> list[tuple[Any, ...]]:
    found, left = set(rows), list(rows)
    while left:
        k, v = left.pop()
        if v > 0 and (k, v // 3) not in found:
            found.add((k, v // 3))
            left.append((k, v // 3))
    return figures(sorted(found), part)


def looked_up(rows: list[Row], part: Part) -> list[tuple[Any, ...]]:
    found = per_key(rows, lambda vs: (len(vs), max(vs) if part.wide else sum(vs)))
    return [(LOOKED_UP.get(k), *of_key) for k, of_key in found]


ORACLES: Mapping[str, Callable[[list[Row], Part], Iterable[tuple[Any, ...]]]] = {
    "aggregate": figures,
    "loop": halved,
    "bag": lambda rows, part: [(k, w) for k, v in rows for w in (v, v * 2) if not part.wide or w % 3 > 0],
    "upserted": lambda rows, part: {(k, v % 7) for k, v in rows},
    "whole": lambda rows, part: per_key(rows, max if part.wide else sum),
    "whole_upserted": lambda rows, part: per_key(rows, max if part.wide else sum),
    "arrow_groups": lambda rows, part: per_key(rows, sum),
    "components": lambda rows, part: components(rows).items(),
    "kept": lambda rows, part: components(rows).items(),
    "joined": joined,
    "arrow_bag": lambda rows, part: [(k, 2 * v + 1, -2 * v - 1) for k, v in rows if not part.wide or 2 * v + 1 > 20],
    "sql_bag": lambda rows, part: [
        (k, 2 * v, "many" if v > 30 else "few") for k, v in rows if (v % 3 > 0 if part.wide else v > 9)
    ],
    "iterated_bag": lambda rows, part: [(k, doubled(v, 3, int(part.wide))) for k, v in rows],
    "counted": lambda rows, part: [(len(rows),)],
    "noted": lambda rows, part: rows,
    "all_sum": lambda rows, part: per_key(some(rows), max if part.wide else sum),
    "all_reduce": lambda rows, part: per_key(some(rows), max if part.wide else sum),
    "all_least": lambda rows, part: per_key(some(rows), min if part.wide else max),
    "all_first": lambda rows, part: [
        (k, 1) for k, count in per_key(some(rows), len) for _ in range(min(count, 3 if part.wide else 2))
    ],
    "all_distinct": lambda rows, part: {(k, v % 7) for k, v in some(rows)},
    "all_count": lambda rows, part: [(len(some(rows)),)],
    "all_groups": lambda rows, part: [(k, *ends) for k, ends in per_key(some(rows), lambda vs: (min(vs), max(vs)))],
    "looked_up": looked_up,
    "sent": lambda rows, part: [(n,) for n in range(4)],
    "log": lambda rows, part: per_key(rows, max if part.wide else sum),
    "unnested": lambda rows, part: [(k, w) for k, v in rows for w in (v, 2)],
    "distinct": lambda rows, part: {(k, v % 7) for k, v in rows},
    "union": lambda rows, part: per_key([*rows, *(row for row in rows if row[1] > 9)], len),
    "widened": lambda rows, part: rows,
}
"""What each family comes to."""
