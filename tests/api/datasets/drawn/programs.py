"""Programs of data sets, drawn at random, that are small and shrink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from tests.api.datasets.drawn import functions
from tests.api.datasets.drawn import steps as made_of
from tests.api.datasets.drawn.rounds import DeltaRounds, Rounds
from tests.api.datasets.drawn.steps import Key, Rows, Step, TooLargeError, computed
from tests.api.datasets.drawn.values import COLUMNS, KINDS, rows_of

HINTS: Mapping[str, Sequence[str]] = {
    "join": (
        "BROADCAST_HASH_FIRST",
        "BROADCAST_HASH_SECOND",
        "REPARTITION_HASH_FIRST",
        "REPARTITION_HASH_SECOND",
        "REPARTITION_SORT_MERGE",
    ),
    "left": ("BROADCAST_HASH_SECOND", "REPARTITION_HASH_FIRST", "REPARTITION_HASH_SECOND", "REPARTITION_SORT_MERGE"),
    "right": ("BROADCAST_HASH_FIRST", "REPARTITION_HASH_FIRST", "REPARTITION_HASH_SECOND", "REPARTITION_SORT_MERGE"),
    "full": ("REPARTITION_HASH_FIRST", "REPARTITION_HASH_SECOND", "REPARTITION_SORT_MERGE"),
}


@dataclass(frozen=True)
class Program:
    """A program of two sources.

    Attributes:
        kind: The type of the fourth column.
        steps: Data sets 2, 3 and so on; 0 and 1 are the sources.
        ends: The data sets that are asked for.
    """

    kind: str
    steps: tuple[Step, ...]
    ends: tuple[int, ...]

    @property
    def schema(self) -> str:
        return f"a long, b string, c double, d {self.kind}"

    def rows(self, sources: Sequence[Rows]) -> list[Rows] | None:
        """The rows of each end; None where there are too many."""
        known = list(sources)
        try:
            for step in self.steps:
                known.append(computed(step, known))
        except TooLargeError:
            return None
        return [known[end] for end in self.ends]

    def data_sets(self, sources: Sequence[Any]) -> list[Any]:
        """The data set of each end."""
        known = list(sources)
        for step in self.steps:
            known.append(step.data_set(self.schema, *(known[number] for number in step.inputs)))
        return [known[end] for end in self.ends]


def keys(draw: st.DrawFn, *, most: int = 2, ways: Sequence[str] = ("names", "positions", "function")) -> Key:
    columns = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=most, unique=True))
    return Key(tuple(columns), draw(st.sampled_from(ways)))


def key_pairs(draw: st.DrawFn) -> tuple[Key, Key]:
    """Keys of the same types: of the same columns, in other ways of writing."""
    first = keys(draw)
    alone = len(first.columns) == 1  # a function gives a key of one field
    ways = ("names", "positions", "function") if alone else (first.way,) if first.way == "function" else ("names", "positions")
    return first, Key(first.columns, draw(st.sampled_from(ways)))


def mapped(draw: st.DrawFn, on: tuple[int, ...], *, in_round: bool) -> Step:
    parallelism = None if in_round else draw(st.sampled_from([None, None, 1, 3]))
    return made_of.Mapped(on, draw(st.sampled_from(sorted(functions.MAPS))), draw(st.booleans()), parallelism)


def moved(draw: st.DrawFn, on: tuple[int, ...], *, in_round: bool) -> Step:
    ways = ["hash", "sort", "parts"] if in_round else ["rebalance", "hash", "range", "custom", "sort", "parts"]
    way = draw(st.sampled_from(ways))
    return made_of.Moved(on, way, keys(draw, most=1 if way in ("custom", "sort") else 2))


def distinct(draw: st.DrawFn, on: tuple[int, ...], *, in_round: bool) -> Step:
    del in_round
    whole = Key(COLUMNS[:3], draw(st.sampled_from(("names", "positions", "function"))))
    return made_of.Distinct(on, draw(st.sampled_from([None, whole])))


def reduced(draw: st.DrawFn, on: tuple[int, ...], *, in_round: bool) -> Step:
    key = None if not in_round and draw(st.integers(0, 3)) == 0 else keys(draw)
    changed = {"a", "b"} & set(key.columns if key else ())  # a function that is combined must leave the key alone
    function = "larger" if changed else draw(st.sampled_from(["larger", "adds"]))
    return made_of.Reduced(on, key, function, draw(st.sampled_from(["OPTIMIZER_CHOOSES", "SORT", "HASH", "NONE"])))


def grouped(draw: st.DrawFn, on: tuple[int, ...], *, in_round: bool) -> Step:
    del in_round
    return made_of.GroupReduced(on, keys(draw), draw(st.sampled_from(["numbered", "counted", "combined", "parts"])))


def aggregated(draw: st.DrawFn, on: tuple[int, ...], *, in_round: bool) -> Step:
    key = None if not in_round and draw(st.integers(0, 3)) == 0 else keys(draw, ways=("names", "positions"))
    kind = st.sampled_from(["sum", "min", "max"])
    return made_of.Aggregated(on, key, (draw(kind), draw(kind)))


def chosen(draw: st.DrawFn, on: tuple[int, ...], *, in_round: bool) -> Step:
    del in_round
    return made_of.Chosen(on, keys(draw), draw(st.sampled_from(["min_by", "max_by", "first"])), draw(st.integers(1, 3)))


def plain(draw: st.DrawFn, on: tuple[int, ...], *, in_round: bool) -> Step:
    del in_round
    kept = made_of.Kept(on, draw(st.sampled_from(sorted(functions.KEEPS))))
    return draw(
        st.sampled_from([kept, made_of.Emitted(on, draw(st.sampled_from(sorted(functions.SEVERAL)))), made_of.Turned(on)])
    )


def numbers(draw: st.DrawFn, on: tuple[int, ...], *, in_round: bool) -> Step:
    if in_round:
        return plain(draw, on, in_round=in_round)
    return draw(st.sampled_from([made_of.Limited(on, draw(st.integers(1, 4))), made_of.Indexed(on)]))


ONE_INPUT = (mapped, plain, plain, moved, distinct, reduced, grouped, aggregated, chosen, numbers)


def one_input(draw: st.DrawFn, source: int, *, in_round: bool = False) -> Step:
    """A step of a data set."""
    return draw(st.sampled_from(ONE_INPUT))(draw, (source,), in_round=in_round)


def two_inputs(draw: st.DrawFn, first: int, second: int) -> Step:
    """A step of two data sets, which may be one."""
    kind = draw(st.sampled_from(["join", "join", "left", "right", "full", "co group", "cross", "union", "union", "broadcast"]))
    on = (first, second)
    if kind in HINTS:
        hint = draw(st.sampled_from(["OPTIMIZER_CHOOSES", *HINTS[kind]]))
        way = draw(st.sampled_from(["function", "several", *(("projected", "pairs") if kind == "join" else ())]))
        return made_of.Joined(on, *key_pairs(draw), kind, way, hint)
    if kind == "co group":
        return made_of.CoGrouped(on, *key_pairs(draw))
    if kind == "cross":
        return made_of.Crossed(on, draw(st.sampled_from(["", "tiny", "huge"])))
    return made_of.United(on) if kind == "union" else made_of.WithBroadcast(on)


def rounds(draw: st.DrawFn, first: int, second: int) -> Step:
    """An iteration."""
    if draw(st.booleans()):
        return DeltaRounds((first, second), draw(st.integers(1, 3)), draw(st.sampled_from(["bump", "tag", "modulo"])))
    body = [
        two_inputs(draw, number, 1) if number > 0 and draw(st.integers(0, 2)) == 0 else one_input(draw, number, in_round=True)
        for number in [0, *range(2, 2 + draw(st.integers(0, 2)))]
    ]
    criterion = draw(st.sampled_from([None, "small", "texts"]))
    return Rounds((first, second), tuple(body), draw(st.integers(1, 3)), criterion)


@st.composite
def programs(draw: st.DrawFn, *, most: int = 6) -> Program:
    """A program."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    steps: list[Step] = []
    for number in range(2, 2 + draw(st.integers(1, most))):
        before = st.integers(0, number - 1)
        shape = draw(st.sampled_from(["one"] * 5 + ["two"] * 4 + ["rounds"]))
        if shape == "one":
            steps.append(one_input(draw, draw(before)))
        else:
            steps.append((two_inputs if shape == "two" else rounds)(draw, draw(before), draw(before)))
    read = {number for step in steps for number in step.inputs}
    ends = [number for number in range(2, 2 + len(steps)) if number not in read]
    return Program(kind, tuple(steps), tuple(ends))


@dataclass(frozen=True)
class Case:
    """A program with the rows of its sources, and how it is run.

    Attributes:
        program: The program.
        rows: The rows of each source.
        expected: The rows of each end.
        parts: The parallelism.
        size: The bytes and the rows that the optimizer is to think there are.
        spread: Whether the rows begin in several parts.
    """

    program: Program
    rows: tuple[Rows, ...]
    expected: tuple[Rows, ...]
    parts: int
    size: tuple[int | None, int | None]
    spread: bool


@st.composite
def cases(draw: st.DrawFn, *, most: int = 6) -> Case:
    """A program that is not too large, with its rows."""
    program = draw(programs(most=most))
    nulls = draw(st.booleans())
    rows = tuple(draw(rows_of(program.kind, nulls=nulls)) for _ in range(2))
    expected = program.rows(rows)
    assume(expected is not None)
    size = draw(st.sampled_from([(None, None), (8_000, 100), (80_000_000_000, 1_000_000_000)]))
    return Case(program, rows, tuple(expected or ()), draw(st.sampled_from([1, 2, 4])), size, draw(st.booleans()))
