"""Pipelines drawn at random with every kind of state, and a change drawn at random: the next epochs are right, or refused.

Right is what the changed program computes of all rows that ever came, in a root of its own. Changes that by their nature apply
only from here on, such as another filter, are not drawn: ``test_changed_pipelines.py`` has them.
"""

from __future__ import annotations

import os
import random
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import ChangedPipelineError
from dagster_operators.plans.verdict import Level
from tests.end_to_end.drawn_parts import KINDS, Part, halved, tables_of
from tests.end_to_end.landing import put
from tests.engines import SAIL
from tests.examples import fresh_examples

pytestmark = pytest.mark.usefixtures("sail")

SCHEMA = "k string, v long, at timestamp"
EPOCHS = 2


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
            begin_here(made)
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


def begin_here(pipeline: do.Pipeline) -> None:
    """Let the operators before a new table have the rows from here on."""
    asked = [one for one in pipeline.changes() if one.tables == ("fresh",) and "keep" in one.choices]
    for verdict in asked:
        pipeline.decide(verdict.subject, "keep")


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


CHANGES: Final = int(os.environ.get("DAGSTER_OPERATORS_CHANGES", "20"))
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
