"""Pipelines drawn at random with every kind of state, and a change drawn at random: the next epochs are right, or refused.

Right is what the changed program computes of all rows that ever came, in a root of its own. Changes that by their nature apply
only from here on, such as another filter, are not drawn: ``test_changed_pipelines.py`` has them.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import ChangedPipelineError
from dagster_operators.graph.changes import ADDS, CHANGE
from dagster_operators.plans.verdict import Level
from tests.end_to_end.landing import put
from tests.engines import SAIL
from tests.examples import fresh_examples

pytestmark = pytest.mark.usefixtures("sail")

SCHEMA = "k string, v long, at timestamp"
EPOCHS = 2


@dataclass(frozen=True)
class Part:
    """An operator with state, between a filter and a table.

    Attributes:
        kind: Which one.
        filter: Which rows it gets.
        name: What the user named it, if anything.
        table: Where its rows go.
        renamed_from: As in the program.
        table_was: What its table is said to have been called.
        wide: Whether its setting, a window for most, is the larger one.
        source: Which of two sources it reads.
        written: Whether its line ends in a table.
    """

    kind: str
    filter: int
    name: str | None
    table: str
    renamed_from: str | None = None
    wide: bool = False
    source: int = 0
    written: bool = True
    table_was: str | None = None


def named(part: Part) -> dict[str, Any]:
    return {"name": part.name, "renamed_from": part.renamed_from}


def hours(part: Part) -> str:
    return "4 hours" if part.wide else "2 hours"


KINDS: Mapping[str, Callable[[Any, Part], Any]] = {
    "aggregate": lambda s, p: s.key_by("k").aggregate(n="count(*)", s="max(v)" if p.wide else "sum(v)", **named(p)),
    "windows": lambda s, p: s.key_by("k").window(do.Tumbling(hours(p))).aggregate(n="count(*)", **named(p)),
    "sessions": lambda s, p: s.key_by("k").window(do.Session(hours(p))).aggregate(n="count(*)", **named(p)),
    "first": lambda s, p: s.key_by("k").deduplicate(within=hours(p), **named(p)),
    "last": lambda s, p: s.key_by("k").deduplicate(keep="last", **named(p)),
    "top": lambda s, p: s.key_by("k").top(3 if p.wide else 2, by="v DESC", **named(p)),
    "top_of_windows": lambda s, p: s.key_by("k").window(do.Tumbling(hours(p))).top(1, by="v DESC", **named(p)),
    "join": lambda s, p: s.key_by("k").window(do.Tumbling(hours(p))).join(other(s).window(do.Tumbling(hours(p))), **named(p)),
    "interval_join": lambda s, p: s.key_by("k").interval_join(other(s), lower="0 s", upper=hours(p), **named(p)),
    "arrow": lambda s, p: s.key_by("k").apply(Counting(), **named(p)),
    "hopping": lambda s, p: s.key_by("k").window(do.Sliding("4 hours", hours(p))).aggregate(n="count(*)", **named(p)),
    "offset": lambda s, p: (
        s.key_by("k").window(do.Tumbling("4 hours", offset="1 hour" if p.wide else "0 s")).aggregate(n="count(*)", **named(p))
    ),
    "semi_join": lambda s, p: (
        s.key_by("k").window(do.Tumbling(hours(p))).join(other(s).window(do.Tumbling(hours(p))), how="semi", **named(p))
    ),
    "of_windows": lambda s, p: (
        s.key_by("k").window(do.Tumbling(hours(p))).aggregate(n="count(*)").key_by("k").aggregate(most="max(n)", **named(p))
    ),
    "of_changes": lambda s, p: (
        s.to_changes("k", order_by="at").key_by("v % 3 AS g").aggregate(s="max(v)" if p.wide else "sum(v)", **named(p))
    ),
    "of_some_totals": lambda s, p: (
        s.key_by("k").aggregate(n="count(*)").filter("n > 2" if p.wide else "n > 1").aggregate(m="sum(n)", **named(p))
    ),
    "of_totals": lambda s, p: s.key_by("k").aggregate(n="count(*)").key_by("n").aggregate(m="count(*)", **named(p)),
    "current": lambda s, p: s.to_changes("k", order_by="v" if p.wide else "at", **named(p)).latest("k"),
    "log": lambda s, p: s.key_by("k").aggregate(s="max(v)" if p.wide else "sum(v)", **named(p)).to_changes(),
    "over": lambda s, p: s.key_by("k").over("v, at", place="rank()" if p.wide else "row_number()", so_far="sum(v)", **named(p)),
    "join_of_all": lambda s, p: s.join(all_others(s), on="k", how="full" if p.wide else "left", **named(p)),
    "join_of_totals": lambda s, p: s.join(
        totals(s), on={"k": "key"}, columns=["v", "n"], how="left" if p.wide else "inner", **named(p)
    ),
    "frontier": lambda s, p: s.unary_frontier(
        do.frontier.Exchange("k"), p.name or f"counting_{p.table}", counting, schema="k string, rows long", state=COUNTED
    ),
    "loop": lambda s, p: s.key_by("k").aggregate(n="count(*)", s="max(v)" if p.wide else "sum(v)", **named(p)),
}

COUNTED = {"rows": do.frontier.StashState(), "counts": do.KeyedState("k string, n long", key="k")}


def counting(capability: Any, info: Any) -> Callable[..., None]:
    """How many rows of a key have come, when their time is complete."""
    del capability
    stash, counts = info.state["rows"], info.state["counts"]

    def logic(input: Any, output: Any) -> None:  # noqa: A002 - as frontier operators call it
        for time, batches in input.by_time():
            stash.add(time, batches)
        for time, rows in stash.complete(input.frontier):
            came = rows.group_by("k").aggregate([("v", "count")])
            total = pc.add(came["v_count"], pc.fill_null(counts.get(came.select(["k"]))["n"], 0))
            counts.put(pa.table({"k": came["k"], "n": total}))
            output.session(time).give_batch(pa.table({"k": came["k"], "rows": total}))

    return logic


def halved(pipeline: do.Pipeline, stream: Any, part: Part) -> Any:
    """Each row with what it is when it is made smaller until nothing new comes: what the part "loop" gets."""
    loop = pipeline.loop(f"loop_{part.table}")
    again = loop.variable(f"again_{part.table}", "k string, v long")
    fresh = loop.enter(stream.select("k", "v")).union(again).key_by("k", "v").deduplicate()
    loop.feed(again, fresh.filter("v > 0").select("k", "v DIV 3 AS v"))
    return loop.leave(fresh)


def totals(stream: Any) -> Any:
    return stream.key_by("k").aggregate(n="count(*)").rename(k="key")


def all_others(stream: Any) -> Any:
    return stream.filter("v % 2 = 0").select("k", "v AS w")


class Counting(do.ArrowOperator):
    """Keyed state, a list and one value for all: how many rows of its key and how many in all came before a row's batch."""

    state = {
        "seen": do.KeyedState("k string, n long", key="k"),
        "log": do.ListState("k string, v long", key="k"),
    }

    def output_schema(self, inputs: Any) -> str:
        return "k string, v long, rows long"

    def process_batch(self, batch: pa.Table, ctx: Any, out: Any) -> None:
        counts = pa.table({"k": batch["k"]}).group_by("k").aggregate([("k", "count")])
        before = pc.fill_null(ctx.state["seen"].get(counts.select(["k"]))["n"], 0)
        total = pc.add(counts["k_count"], before)
        ctx.state["seen"].put(pa.table({"k": counts["k"], "n": total}))
        ctx.state["log"].append(pa.table({"k": batch["k"], "v": batch["v"]}))
        out.collect(pa.table({"k": counts["k"], "v": before, "rows": total}))


def other(stream: Any) -> Any:
    return stream.filter("v % 2 = 0").rename(v="w", at="t").key_by("k")


@dataclass(frozen=True)
class Program:
    """A program: its source and its parts in the order of their lines."""

    parts: tuple[Part, ...]
    source: str = "rows"
    renamed_from: str | None = None

    def pipeline(self, root: Path, folder: Path, *, finished: bool) -> do.Pipeline:
        made = do.Pipeline("drawn", root=str(root), engine=SAIL, parallelism=2)
        often = {"event_time": "at", "lateness": "30 days", "finished": finished}
        first = do.FileSource(f"{folder}/*.csv", schema=SCHEMA)
        sources = [made.source(self.source, first, renamed_from=self.renamed_from, **often)]
        sources[0].filter("v < 0").to_table("none")  # an epoch needs a table
        if any(part.source for part in self.parts):
            sources.append(made.source("more", do.FileSource(f"{folder}/more/*.csv", schema=SCHEMA), **often))
        for part in self.parts:
            given = sources[part.source].filter(f"v % {part.filter + 2} = 0")
            rows = KINDS[part.kind](halved(made, given, part) if part.kind == "loop" else given, part)
            if part.written:
                rows.to_table(part.table, renamed_from=part.table_was)
        return made


kinds, table = st.sampled_from(sorted(KINDS)), st.just("")
parts = st.builds(Part, kinds, st.integers(0, 1), st.none(), table, wide=st.just(value=False), source=st.integers(0, 1))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    chosen = draw(st.lists(parts, min_size=1, max_size=3))
    names = [draw(st.sampled_from((None, f"op{number}"))) for number in range(len(chosen))]
    return Program(tuple(replace(p, name=name, table=f"t{n}") for n, (p, name) in enumerate(zip(chosen, names, strict=True))))


def changed(program: Program, number: int, **more: Any) -> Program:
    kept = list(program.parts)
    kept[number] = replace(kept[number], **more)
    return replace(program, parts=tuple(kept))


@st.composite
def changes(draw: st.DrawFn, program: Program) -> tuple[str, list[Program]]:
    """A change, as the programs of the epochs after it."""
    number = draw(st.integers(0, len(program.parts) - 1))
    part, rest = program.parts[number], (*program.parts[:number], *program.parts[number + 1 :])
    new = replace(draw(parts), table="fresh", name=draw(st.sampled_from((None, "fresh"))))
    paused = draw(st.integers(1, 2))
    rename = {"name": "other"} if part.name is None else {"name": "other", "renamed_from": part.name}
    found = {
        "nothing": [program],
        "lines in another order": [replace(program, parts=tuple(draw(st.permutations(program.parts))))],
        "a new part in front": [replace(program, parts=(new, *program.parts))],
        "named or renamed, and said so": [changed(program, number, **rename)],
        "renamed": [changed(program, number, name="other")],
        "name taken away": [changed(program, number, name=None)],
        "another setting": [changed(program, number, wide=True)],
        "another kind": [changed(program, number, kind=draw(st.sampled_from(sorted(KINDS))))],
        "another table": [changed(program, number, table="elsewhere")],
        "its table renamed, and said so": [changed(program, number, table="moved", table_was=part.table)],
        "tables in turn renamed, and said so": [turned(program)],
        "taken out and put back": [replace(program, parts=rest or (new,))] * paused + [program],
        "its table taken out and put back": [changed(program, number, written=False)] * paused + [program],
        "a source taken out with all behind it, and put back": [
            replace(program, parts=tuple(one for one in program.parts if not one.source))
        ]
        * paused
        + [program],
        "source renamed": [replace(program, source="landed")],
        "source renamed, and said so": [replace(program, source="landed", renamed_from="rows")],
        "names swapped": [swapped(program, number)],
    }
    which = draw(st.sampled_from(sorted(found)))
    return which, found[which]


def turned(program: Program) -> Program:
    """Each part's table has the name of the next one's, and that of the last one a new name."""
    names = [part.table for part in program.parts]
    moved = zip(program.parts, [*names[1:], "moved"], strict=True)
    return replace(program, parts=tuple(replace(part, table=table, table_was=part.table) for part, table in moved))


def swapped(program: Program, number: int) -> Program:
    """Two parts that swap their names, or their tables if neither has one."""
    following = (number + 1) % len(program.parts)
    a, b = program.parts[number], program.parts[following]
    if a.name or b.name:
        return changed(changed(program, number, name=b.name), following, name=a.name)
    return changed(changed(program, number, table=b.table), following, table=a.table)


FROM_HERE_ON = {"another table", "a new part in front"}
"""After these the new table has the rows from here on, and the old one is as it was."""


def arrive(folder: Path, epoch: int, chance: random.Random) -> None:
    lines = [
        f"{chance.choice('abc')},{chance.randrange(60)},2024-01-01T{(epoch * 4 + chance.randrange(6)) % 24:02d}:{number:02d}:00Z"
        for number in range(6)
    ]
    for place in (folder, folder / "more"):
        place.mkdir(exist_ok=True)
        put(place / f"{epoch:03d}.csv", "\n".join(("k,v,at", *lines)) + "\n", epoch)


def tables_of(pipeline: do.Pipeline, names: set[str]) -> dict[str, Counter[tuple[Any, ...]]]:
    """The rows of tables; of an operator of one's own the last of each key, since what it puts out depends on the cut."""
    found = {}
    for name in sorted(names):
        rows = pipeline.read(name).toArrow().to_pylist()
        if rows and "rows" in rows[0]:
            rows = [{"k": key, "rows": max(row["rows"] for row in rows if row["k"] == key)} for key in {row["k"] for row in rows}]
        found[name] = Counter()
        for row in rows:  # of a log of changes what is there
            came = row.pop(CHANGE, "insert") in ADDS
            found[name][tuple(row.values())] += 1 if came else -1
        assert min(found[name].values(), default=0) >= 0
        found[name] = +found[name]
    return found


def check(program: Program, name: str, after: list[Program], seed: int, place: Path) -> str:
    chance, folder, root = random.Random(seed), place / "in", place / "root"  # noqa: S311 - no secrets
    folder.mkdir()
    for epoch in range(1, EPOCHS + 1):
        arrive(folder, epoch, chance)
        program.pipeline(root, folder, finished=False).run_epoch()
    try:
        for number, now in enumerate(after, start=EPOCHS + 1):
            arrive(folder, number, chance)
            made = now.pipeline(root, folder, finished=False)
            told_alike(made)
            as_it_said(made)
        last = after[-1].pipeline(root, folder, finished=True)
        last.run_until_caught_up()
    except ChangedPipelineError:
        return "refused"
    whole = after[-1].pipeline(place / "whole", folder, finished=True)
    whole.run_until_caught_up()
    kept = {part.table for part in after[-1].parts} & {part.table for part in program.parts}
    names = kept if name in FROM_HERE_ON else {part.table for part in after[-1].parts}
    assert tables_of(last, names) == tables_of(whole, names)
    return "right"


def as_it_said(pipeline: do.Pipeline) -> None:
    """The epoch is refused if, and only if, it was said that something has to be decided."""
    asked = [verdict for verdict in pipeline.changes() if verdict.level is Level.DECISION]
    try:
        pipeline.run_epoch()
    except ChangedPipelineError:
        assert asked
        raise
    assert not asked


def told_alike(pipeline: do.Pipeline) -> None:
    """Who compares a plan that has not run is told what the pipeline itself tells, but for where state would be."""
    here = pipeline.epochs.comparison()
    stored = do.StoredPipeline(pipeline.root).changes(pipeline.to_plan())
    if not here.elsewhere:
        assert list(map(str, stored.verdicts)) == list(map(str, here.verdicts))


CHANGES: Final = int(os.environ.get("DAGSTER_OPERATORS_CHANGES", "40"))
"""So many are tried by the slow test, other ones on each run; ``make soak`` tries many more."""

_CHECKS = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@settings(max_examples=8, deadline=None, phases=[Phase.generate], suppress_health_check=_CHECKS)  # the slow one shrinks
@given(st.data())
def test_any_change_is_right_or_refused(data: st.DataObject) -> None:
    program = data.draw(programs())
    name, after = data.draw(changes(program))
    with tempfile.TemporaryDirectory() as place:
        outcome = check(program, name, after, data.draw(st.integers(0, 1_000_000)), Path(place))
    event(f"{name}: {outcome}")


@pytest.mark.slow
@pytest.mark.timeout(600 + 15 * CHANGES)  # a change takes two seconds, and a busy machine several times as many
@fresh_examples(CHANGES)
@given(st.data())
def test_any_of_many_changes_is_right_or_refused(data: st.DataObject) -> None:
    program = data.draw(programs())
    name, after = data.draw(changes(program))
    with tempfile.TemporaryDirectory() as place:
        outcome = check(program, name, after, data.draw(st.integers(0, 1_000_000)), Path(place))
    event(f"{name}: {outcome}")


MORE = {"hopping", "offset", "semi_join", "of_windows", "log", "over", "join_of_all"}
"""Kinds whose parts are like those of others, and are drawn with them."""

DRAWN = {"of_changes", "of_totals", "of_some_totals", "current", "join_of_totals", "frontier", "loop"}
"""Kinds that are drawn alone, for what they cost."""


@pytest.mark.parametrize(
    "kind", [pytest.param(one, marks=pytest.mark.slow if one in MORE else ()) for one in sorted(KINDS.keys() - DRAWN)]
)
@pytest.mark.parametrize("named", [True, False])
def test_what_must_not_be_refused(kind: str, tmp_path: Path, *, named: bool) -> None:
    """Two parts of a kind whose lines are swapped, with and without names, and a third in front."""
    one = Part(kind, 0, "op0" if named else None, "t0")
    two = Part(kind, 1, "op1" if named else None, "t1")
    three = Part(kind, 0, None, "fresh")
    after = [Program((two, one)), Program((three, one, two))]
    assert check(Program((one, two)), "a new part in front", after, 7, tmp_path) == "right"
