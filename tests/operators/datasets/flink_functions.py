"""The functions of the random programs, which are written in Java beside Flink. Rows are (number, number, text)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dagster_operators.operators.datasets.context import RichFunction, RuntimeContext
from dagster_operators.operators.datasets.drivers.driver import Work
from dagster_operators.optimizer.properties.ordering import Direction, Ordering

Row = tuple[int, int, str]

MAPS: dict[str, Callable[[Row], Row]] = {
    "same": lambda row: row,
    "swap": lambda row: (row[1], row[0], row[2]),
    "add_one": lambda row: (row[0], row[1] + 1, row[2]),
    "mod_five": lambda row: (row[0] % 5, row[1], row[2]),
    "tag": lambda row: (row[0], row[1], row[2] + "x"),
}
SEVERAL: dict[str, Callable[[Row], Iterable[Row]]] = {
    "twice": lambda row: [row, row],
    "odd_ones": lambda row: [row] if row[1] % 2 else [],
    "count_down": lambda row: [(row[0], number, row[2]) for number in range(row[0] % 3)],
}
KEEPS: dict[str, Callable[[Row], bool]] = {"even_key": lambda row: row[0] % 2 == 0, "small_value": lambda row: row[1] < 10}


def adds(first: Row, second: Row) -> Row:
    return min(first[0], second[0]), first[1] + second[1], min(first[2], second[2])


def larger(first: Row, second: Row) -> Row:
    return max(first[0], second[0]), max(first[1], second[1]), min(first[2], second[2])


def group(rows: Iterable[Row]) -> Iterator[Row]:
    result: Row | None = None
    for row in rows:
        result = row if result is None else adds(result, row)
    if result is not None:
        yield result


def numbered(rows: Iterable[Row]) -> Iterator[Row]:
    for place, row in enumerate(rows):
        yield row[0], row[1] * 100 + place, row[2]


def joined(first: Row | None, second: Row | None) -> Row:
    if first is None:
        assert second is not None
        return second[0], -second[1], f"-{second[2]}"
    if second is None:
        return first[0], first[1], f"{first[2]}-"
    return first[0], first[1] + second[1], first[2] + second[2]


def improves(row: Row, known: Row | None) -> Iterator[Row]:
    if known is None:
        yield row
    elif row[1] < known[1]:
        yield row[0], row[1], known[2]


def co_grouped(firsts: Iterable[Row], seconds: Iterable[Row]) -> Iterator[Row]:
    left, right = list(firsts), list(seconds)
    rows = [*left, *right]
    yield min(row[0] for row in rows), len(left) - 1000 * len(right), min("~", *(row[2] for row in rows))


class Counted(RichFunction):
    """Adds how many rows a broadcast data set has."""

    def open(self, context: RuntimeContext) -> None:
        self.count = len(context.broadcast("set"))

    def __call__(self, row: Row) -> Row:
        return row[0], row[1] + self.count, row[2]


def aggregated(how: Sequence[tuple[str, int]]) -> Callable[[Iterable[Row]], Iterator[Row]]:
    calls: Mapping[str, Callable[..., Any]] = {"SUM": sum, "MIN": min, "MAX": max}

    def aggregate(rows: Iterable[Row]) -> Iterator[Row]:
        every = list(rows)
        result: list[Any] = list(every[-1])
        for name, field in how:
            result[field] = calls[name](row[field] for row in every)
        yield tuple(result)  # type: ignore[misc]

    return aggregate


def first_of(count: int) -> Callable[[Iterable[Row]], Iterator[Row]]:
    def first(rows: Iterable[Row]) -> Iterator[Row]:
        for number, row in enumerate(rows):
            if number < count:
                yield row

    return first


def extreme(choose: Callable[..., Row]) -> Callable[[Row, Row], Row]:
    return choose


def ordering_of(step: Mapping[str, Any]) -> Ordering | None:
    """The order of rows within a group."""
    ways = {"asc": Direction.ASCENDING, "desc": Direction.DESCENDING}
    if step["op"] == "first":
        return Ordering(((0, Direction.ASCENDING), (1, ways[step["order"]]), (2, Direction.ASCENDING)))
    return Ordering(tuple((field, ways[way]) for field, way in step["sort"])) if step.get("sort") else None


def work_of(step: Mapping[str, Any]) -> Work | None:
    """What a step does."""
    op, name, keys = step["op"], step.get("fn"), tuple(step.get("keys") or ())
    plain: dict[str, Callable[[], Work]] = {
        "map": lambda: Work(MAPS[str(name)]),
        "map_broadcast": lambda: Work(Counted()),
        "flat_map": lambda: Work(SEVERAL[str(name)], several=True),
        "filter": lambda: Work(KEEPS[str(name)], condition=True),
        "project": lambda: Work(lambda row: tuple(row[field] for field in step["fields"])),
        "map_partition": lambda: Work(lambda rows: rows),
        "reduce": lambda: Work(larger if name == "larger" and keys else adds, keys=keys),
        "distinct": lambda: Work(lambda first, _: first, keys=keys),
        "min_by": lambda: Work(extreme(min), keys=keys),
        "max_by": lambda: Work(extreme(max), keys=keys),
        "reduce_group": lambda: Work(numbered if name == "numbered" else group, keys=keys, within=ordering_of(step)),
        "combine_group": lambda: Work(group, keys=keys),
        "aggregate": lambda: Work(aggregated(step["aggregates"]), keys=keys),
        "first": lambda: Work(first_of(step["n"]), keys=keys, within=ordering_of(step)),
        "co_group": lambda: Work(co_grouped, keys=keys, second_keys=tuple(step.get("keys_second") or keys)),
        "cross": lambda: Work(lambda first, second: (first[0], first[1] + second[1], first[2] + second[2])),
        "improve": lambda: Work(improves, keys=keys, second_keys=keys, several=True, keeps_first=True),
    }
    if "join" in op:
        left, right = (op.startswith((kind, "full")) for kind in ("left", "right"))
        second = tuple(step.get("keys_second") or keys)
        return Work(joined, keys=keys, second_keys=second, keeps_first=left, keeps_second=right)
    return plain[op]() if op in plain else None
