"""The steps of drawn programs: each says how it is written with data sets, and which rows it has by a plain computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any, ClassVar

from tests.api.datasets.drawn import functions
from tests.api.datasets.drawn.values import COLUMNS, Row, canonical, total

Rows = list[Row]
MOST_ROWS = 150
OUTER = {"join": (False, False), "left": (True, False), "right": (False, True), "full": (True, True)}


@dataclass(frozen=True)
class Step:
    """A data set, made of others.

    Attributes:
        inputs: The numbers of the data sets that it reads.
    """

    inputs: tuple[int, ...]
    in_rounds: ClassVar[bool] = True

    def rows(self, *given: Rows) -> Rows:
        raise NotImplementedError

    def data_set(self, schema: str, *given: Any) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Key:
    """A key, in one of the ways in which it is written: names, positions, or a function."""

    columns: tuple[str, ...]
    way: str = "names"

    @property
    def places(self) -> list[int]:
        return [COLUMNS.index(column) for column in self.columns]

    @property
    def written(self) -> list[Any]:
        if self.way == "function":
            return [functions.KeyFunction(self.columns)]
        return list(self.columns) if self.way == "names" else list(self.places)

    def of(self, row: Row) -> Any:
        return tuple(canonical(row[place]) for place in self.places)

    def groups(self, rows: Rows) -> dict[Any, Rows]:
        found: dict[Any, Rows] = {}
        for row in rows:
            found.setdefault(self.of(row), []).append(row)
        return found


@dataclass(frozen=True)
class Mapped(Step):
    function: str
    forwards: bool = False
    parallelism: int | None = None

    def rows(self, *given: Rows) -> Rows:
        return [tuple(functions.MAPS[self.function][0](row)) for row in given[0]]

    def data_set(self, schema: str, *given: Any) -> Any:
        function, forwarded = functions.MAPS[self.function]
        result = given[0].map(function, schema=schema).name(self.function)
        if self.forwards:
            result.with_forwarded_fields(*forwarded.split(";"))
        return result if self.parallelism is None else result.set_parallelism(self.parallelism)


@dataclass(frozen=True)
class Emitted(Step):
    function: str

    def rows(self, *given: Rows) -> Rows:
        return [tuple(result) for row in given[0] for result in functions.SEVERAL[self.function](row) or ()]

    def data_set(self, schema: str, *given: Any) -> Any:
        return given[0].flat_map(functions.SEVERAL[self.function], schema=schema)


@dataclass(frozen=True)
class Kept(Step):
    function: str

    def rows(self, *given: Rows) -> Rows:
        return list(filter(functions.KEEPS[self.function], given[0]))

    def data_set(self, schema: str, *given: Any) -> Any:
        return given[0].filter(functions.KEEPS[self.function])


@dataclass(frozen=True)
class Turned(Step):
    """Fields in another order, and back."""

    def rows(self, *given: Rows) -> Rows:
        return given[0]

    def data_set(self, schema: str, *given: Any) -> Any:
        return given[0].project("d", 2, "a", "b").project("a", "b", 1, "d")


@dataclass(frozen=True)
class Moved(Step):
    """Rows that go to other parts, or are sorted there."""

    way: str
    key: Key

    def rows(self, *given: Rows) -> Rows:
        return given[0]

    def data_set(self, schema: str, *given: Any) -> Any:
        (source,), key = given, self.key.written
        calls: dict[str, Callable[[], Any]] = {
            "rebalance": source.rebalance,
            "hash": lambda: source.partition_by_hash(*key),
            "range": lambda: source.partition_by_range(*key, orders=["descending"] * len(key)),
            "custom": lambda: source.partition_custom(functions.last_part, key[0]),
            "sort": lambda: source.sort_partition(key[0], "descending"),
            "parts": lambda: source.map_partition(lambda rows: rows, schema=schema).with_forwarded_fields("*"),
        }
        return calls[self.way]()


@dataclass(frozen=True)
class Distinct(Step):
    """Each row once, but for the last column, which may be null; or a row of each key."""

    key: Key | None = None

    def rows(self, *given: Rows) -> Rows:
        return [(*rows[0][:3], None) for rows in Key(COLUMNS[:3]).groups(given[0]).values()]

    def data_set(self, schema: str, *given: Any) -> Any:
        source = given[0].project("a", "b", "c").distinct() if self.key is None else given[0].distinct(*self.key.written)
        return source.map(functions.without_last, schema=schema)


@dataclass(frozen=True)
class Reduced(Step):
    """Groups, or all rows without a key, that become a row each."""

    key: Key | None
    function: str = "larger"
    hint: str = "OPTIMIZER_CHOOSES"

    def rows(self, *given: Rows) -> Rows:
        groups = self.key.groups(given[0]) if self.key else {(): given[0]} if given[0] else {}
        return [reduce(getattr(functions, self.function), rows) for rows in groups.values()]

    def data_set(self, schema: str, *given: Any) -> Any:
        function = getattr(functions, self.function)
        return given[0].group_by(*self.key.written).reduce(function, self.hint) if self.key else given[0].reduce(function)


@dataclass(frozen=True)
class GroupReduced(Step):
    """Groups that become rows: sorted, combined, or in parts before."""

    key: Key
    way: str

    def rows(self, *given: Rows) -> Rows:
        groups = self.key.groups(given[0]).values()
        if self.way == "numbered":
            return [row for rows in groups for row in functions.numbered(sorted(rows, key=lambda row: total(row[:3])))]
        function = functions.counted if self.way == "counted" else functions.folded
        return [row for rows in groups for row in function(rows)]

    def data_set(self, schema: str, *given: Any) -> Any:
        groups = given[0].group_by(*self.key.written)
        if self.way == "counted":
            return groups.reduce_group(functions.counted, schema=schema)
        if self.way == "combined":
            return groups.reduce_group(functions.folded, schema=schema, combine=functions.folded)
        if self.way == "parts":
            return groups.combine_group(functions.folded, schema=schema).group_by(*self.key.written).reduce(functions.larger)
        if self.key.way == "function":
            return groups.sort_group(functions.KeyFunction(COLUMNS[:3])).reduce_group(functions.numbered, schema=schema)
        for column in COLUMNS[:3]:
            groups = groups.sort_group(column)
        return groups.reduce_group(functions.numbered, schema=schema)


@dataclass(frozen=True)
class Aggregated(Step):
    """Aggregates of the first three fields; the last one, which is that of any row, is left out."""

    key: Key | None
    kinds: tuple[str, str]

    def _free(self) -> list[int]:
        return [place for place in (0, 2) if self.key is None or place not in self.key.places]

    def rows(self, *given: Rows) -> Rows:
        groups = self.key.groups(given[0]).values() if self.key else [given[0]] if given[0] else []
        result = []
        for rows in groups:
            made: list[Any] = [*rows[0][:3], None]
            if self.key is None or 1 not in self.key.places:
                made[1] = min(row[1] for row in rows)
            for kind, place in zip(self.kinds, self._free(), strict=False):
                values = [row[place] for row in rows]
                made[place] = sum(values) if kind == "sum" else {"min": min, "max": max}[kind](values, key=total)
            result.append(tuple(made))
        return result

    def data_set(self, schema: str, *given: Any) -> Any:
        parts = [(kind, place) for kind, place in zip(self.kinds, self._free(), strict=False)]
        if self.key is None or 1 not in self.key.places:
            parts.append(("min", 1))
        source = given[0] if self.key is None else given[0].group_by(*self.key.written)
        if self.key is None:
            (kind, place), *others = parts
            result = source.aggregate(kind, place)
            for kind, place in others:
                result = result.and_aggregate(kind, place)
        else:
            result = source.aggregates(parts)
        return result.map(functions.without_last, schema=schema)


@dataclass(frozen=True)
class Chosen(Step):
    """The smallest or largest row of each group by the first three fields, or so many first ones of a sorted group."""

    key: Key
    way: str
    count: int = 1

    def rows(self, *given: Rows) -> Rows:
        found = []
        for rows in self.key.groups(given[0]).values():
            ordered = sorted((row[:3] for row in rows), key=total, reverse=self.way == "max_by")
            found += [(*row, None) for row in ordered[: self.count if self.way == "first" else 1]]
        return found

    def data_set(self, schema: str, *given: Any) -> Any:
        groups = given[0].group_by(*self.key.written)
        if self.way != "first":
            result = getattr(groups, self.way)("a", 1, "f2")
        elif self.key.way == "function":
            result = groups.sort_group(functions.KeyFunction(COLUMNS[:3])).first(self.count)
        else:
            result = groups.sort_group("a").sort_group("b").sort_group("c").first(self.count)
        return result.map(functions.without_last, schema=schema).with_forwarded_fields("a", "b", "c")


@dataclass(frozen=True)
class Limited(Step):
    """So many rows, whichever: their number."""

    count: int
    in_rounds: ClassVar[bool] = False

    def rows(self, *given: Rows) -> Rows:
        return [(number, "", 0.0, None) for number in [min(self.count, len(given[0]))] if number]

    def data_set(self, schema: str, *given: Any) -> Any:
        return given[0].first(self.count).reduce_group(lambda rows: [(len(list(rows)), "", 0.0, None)], schema=schema)


@dataclass(frozen=True)
class Indexed(Step):
    """The numbers of the rows."""

    in_rounds: ClassVar[bool] = False

    def rows(self, *given: Rows) -> Rows:
        return [(number, "", 0.0, None) for number in range(len(given[0]))]

    def data_set(self, schema: str, *given: Any) -> Any:
        return given[0].zip_with_index().map(lambda pair: (pair[0], "", 0.0, None), schema=schema)


@dataclass(frozen=True)
class WithBroadcast(Step):
    def rows(self, *given: Rows) -> Rows:
        return [(row[0] + len(given[1]), *row[1:]) for row in given[0]]

    def data_set(self, schema: str, *given: Any) -> Any:
        return given[0].map(functions.Counting(), schema=schema).with_broadcast_set(given[1], "others")


@dataclass(frozen=True)
class United(Step):
    def rows(self, *given: Rows) -> Rows:
        return [*given[0], *given[1]]

    def data_set(self, schema: str, *given: Any) -> Any:
        return given[0].union(given[1])


@dataclass(frozen=True)
class Joined(Step):
    first: Key
    second: Key
    kind: str = "join"
    way: str = "function"
    hint: str = "OPTIMIZER_CHOOSES"

    def _pairs(self, firsts: Rows, seconds: Rows) -> list[tuple[Row | None, Row | None]]:
        groups, others, keeps = self.first.groups(firsts), self.second.groups(seconds), OUTER[self.kind]
        pairs: list[tuple[Row | None, Row | None]] = [
            pair for key, rows in groups.items() for pair in product(rows, others.get(key, []))
        ]
        pairs += [(row, None) for key, rows in groups.items() for row in rows if keeps[0] and key not in others]
        return pairs + [(None, row) for key, rows in others.items() for row in rows if keeps[1] and key not in groups]

    def rows(self, *given: Rows) -> Rows:
        pairs = self._pairs(*given)
        if self.way == "projected":
            return [(first[0], second[1], second[2], first[3]) for first, second in pairs if first and second]
        if self.way == "several":
            return [row for pair in pairs for row in functions.joined_twice(*pair)]
        return [functions.joined(*pair) for pair in pairs]

    def data_set(self, schema: str, *given: Any) -> Any:
        call = given[0].join if self.kind == "join" else getattr(given[0], f"{self.kind}_outer_join")
        join = call(given[1], self.hint).where(*self.first.written).equal_to(*self.second.written)
        if self.way == "projected":
            return join.project_first("a").project_second("b", 2).project_first(3).data_set()
        if self.way == "pairs":
            return join.pairs().map(lambda pair: functions.joined(*pair), schema=schema)
        if self.way == "several":
            return join.with_function(functions.joined_twice, schema=schema, several=True)
        return join.with_function(functions.joined, schema=schema)


@dataclass(frozen=True)
class CoGrouped(Step):
    first: Key
    second: Key

    def rows(self, *given: Rows) -> Rows:
        groups, others = self.first.groups(given[0]), self.second.groups(given[1])
        return [
            row for key in {**groups, **others}
            for row in functions.co_grouped(sorted(groups.get(key, []), key=lambda row: row[0]), others.get(key, []))
        ]  # fmt: skip

    def data_set(self, schema: str, *given: Any) -> Any:
        groups = given[0].co_group(given[1]).where(*self.first.written).equal_to(*self.second.written)
        if "function" not in (self.first.way, self.second.way):
            groups = groups.sort_first_group("a")
            return groups.with_function(functions.co_grouped, schema=schema)
        return groups.with_function(
            lambda rows, others: functions.co_grouped(sorted(rows, key=lambda row: row[0]), others), schema=schema
        )


@dataclass(frozen=True)
class Crossed(Step):
    size: str = ""

    def rows(self, *given: Rows) -> Rows:
        return [functions.joined(*pair) for pair in product(*given)]

    def data_set(self, schema: str, *given: Any) -> Any:
        call = getattr(given[0], f"cross_with_{self.size}" if self.size else "cross")
        return call(given[1]).with_function(functions.joined, schema=schema)


class TooLargeError(Exception):
    """A program has too many rows, or numbers that are too large for their column."""


def computed(step: Step, known: Sequence[Rows], most: int = MOST_ROWS) -> Rows:
    """The rows of a step.

    Raises:
        TooLargeError: There are too many.
    """
    rows = step.rows(*(known[number] for number in step.inputs))
    if len(rows) > most or any(abs(row[0]) >= 2**62 or len(row[1]) > 100 for row in rows):
        raise TooLargeError
    return rows
