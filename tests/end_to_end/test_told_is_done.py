"""After any action what ``changes()`` tells of a table is what the next epoch does with it."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import OperatorsError
from dagster_operators.plans.verdict import Level, Verdict
from tests.engines import SAIL
from tests.examples import fresh_examples

pytestmark = pytest.mark.usefixtures("sail")

EXAMPLES: Final = int(os.environ.get("DAGSTER_OPERATORS_CHANGES", "3"))
BATCHES = [[("ab"[n % 2], n // 2, n)] for n in range(6)]
KINDS: Mapping[str, Callable[[Any], Any]] = {
    "some": lambda rows: rows.filter("n >= 0", name="chosen"),
    "totals": lambda rows: rows.key_by("k").aggregate(rows="count(*)", name="counted"),
    "unique": lambda rows: rows.key_by("v").deduplicate(name="once").select("v"),
    "largest": lambda rows: rows.key_by("k").top(1, by="n DESC", name="best"),
}
"""Tables, each behind an operator of another kind."""

COLUMNS = {"some": ("k", "v", "n"), "totals": ("k", "rows"), "unique": ("v",), "largest": ("k", "n")}
OPERATORS = {"totals": "counted", "unique": "once", "largest": "best"}
TAKING_OUT = ("take out", "drop", "drop with state")
ACTIONS = ("nothing", "drop", "drop with state", "take out", "rollback", "reset", "rebuild", "compact")


def rows_of(begin: int, end: int) -> list[tuple[str, int, int]]:
    return [row for batch in BATCHES[begin:end] for row in batch]


def content_of(table: str, begin: int, end: int) -> Counter[Any]:
    """The rows of a table that has read some batches."""
    rows = rows_of(begin, end)
    if table == "totals":
        return Counter(list(Counter(k for k, _, _ in rows).items()))
    if table == "largest":
        return Counter(list({k: n for k, _, n in rows}.items()))
    return Counter({(v,) for _, v, _ in rows} if table == "unique" else rows)


def content_with_kept_state(table: str, begin: int, end: int) -> Counter[Any]:
    """The rows of a new table behind an operator that goes on with its state of the first two batches."""
    if table == "totals":
        before, since = (Counter(k for k, _, _ in rows_of(*batches)) for batches in ((0, 2), (begin, end)))
        return Counter([(k, before[k] + rows) for k, rows in since.items()])
    return content_of(table, begin, end) - content_of(table, 0, 2)


def content_with_kept_rows(table: str, begin: int, end: int) -> Counter[Any]:
    """The rows of a table to which rows are added, with those of the first batches, behind an operator that begins anew."""
    return content_of(table, 0, min(begin, 2)) + content_of(table, begin, end)


def program(root: str, batches: int, tables: Mapping[str, bool]) -> do.Pipeline:
    """A pipeline with some tables, and whether each is filled where it is new."""
    made = do.Pipeline("told", root=root, engine=SAIL, parallelism=1)
    rows = made.source("rows", do.MemorySource(BATCHES[:batches], schema="k string, v long, n long"))
    rows.to_table("raw")
    for table, backfill in tables.items():
        KINDS[table](rows).to_table(table, backfill=backfill)
    return made


def act(action: str, root: str, tables: Mapping[str, bool], gone: str) -> None:
    """Do something with a pipeline that has run two epochs."""
    made = program(root, 2, tables)
    if action in TAKING_OUT:
        made = program(root, 3, {name: told for name, told in tables.items() if name != gone})
        made.run_until_caught_up()
        if action != "take out":
            made.drop(gone)
        if action == "drop with state" and gone in ("totals", "unique"):  # that of the other one is its table
            made.drop(OPERATORS[gone])
    elif action == "rollback":
        made.rollback(to=1)
    elif action == "reset":
        made.reset("rows", 0, tables="restart")
    elif action == "rebuild":
        made.rebuild()
    elif action == "compact":
        made.compact("raw")


def settle(made: do.Pipeline, data: st.DataObject) -> dict[str, str] | None:
    """Answer what is asked, after the epoch was refused as it was told; the answers by subject, None where none is left."""
    answers: dict[str, str] = {}
    while asked := [one for one in made.changes() if one.level is Level.DECISION]:
        with pytest.raises(OperatorsError):
            made.run_epoch()
        first = next((one for one in asked if one.choices), None)
        if first is None:
            return None
        answers[first.subject] = data.draw(st.sampled_from(sorted(first.choices)))
        made.decide(first.subject, answers[first.subject])
    return answers


def goes_on(table: str, told: Mapping[str, Verdict], answers: Mapping[str, str]) -> bool:
    """Whether a table is new while its operator was asked about its state, and keeps it."""
    operator = f"operator {OPERATORS.get(table, '')}"
    asked = told.get(operator)
    return f"table {table}" in told and answers.get(operator) == "keep" and asked is not None and not asked.fillable


def keeps_rows(table: str, answers: Mapping[str, str]) -> bool:
    """Whether a table goes on with its rows, while its operator begins without state."""
    answered = answers.get(f"table {table}"), answers.get(f"operator {OPERATORS.get(table, '')}")
    return answered == ("keep", "restart")


def begins(table: str, told: Mapping[str, Verdict], answers: Mapping[str, str], *, stands: int) -> int | None:
    """The first batch that is to be in a table; None where that is left open by a decision to go on with what there is."""
    subjects = [f"table {table}", f"operator {OPERATORS.get(table, '')}"]
    given_up = [answers[one] for one in subjects if one in answers]
    new = told.get(f"table {table}")
    if new is not None and new.fillable:
        return 0 if new.level is Level.HARMLESS else stands
    if given_up or new is not None:
        return stands if "restart" in given_up and table != "some" else None
    return 0


@pytest.mark.timeout(120 + 20 * EXAMPLES)
@fresh_examples(EXAMPLES)
@given(st.data())
def test_what_is_told_is_what_the_next_epoch_does(data: st.DataObject) -> None:
    before = {name: False for name in sorted(KINDS) if data.draw(st.booleans(), label=name)}
    gone = data.draw(st.sampled_from(sorted(before) or ["none"]))
    action = data.draw(
        st.sampled_from(ACTIONS if before else [one for one in ACTIONS if "drop" not in one and one != "take out"])
    )
    after = {name: data.draw(st.booleans()) for name in sorted(KINDS) if name in before or data.draw(st.booleans())}
    with tempfile.TemporaryDirectory() as place:
        root = str(Path(place) / "root")
        program(root, 2, before).run_until_caught_up()
        act(action, root, before, gone)
        stands = {"rollback": 1, "reset": 0}.get(action, 3 if action in TAKING_OUT else 2)
        made = program(root, 5, after)
        told = {one.subject: one for one in made.changes()}
        answers = settle(made, data)
        if answers is None:
            return
        made.run_until_caught_up()
        assert [one for one in made.changes() if one.level is Level.DECISION] == []
        for table in after:
            first = begins(table, told, answers, stands=stands)
            if first is not None:
                found = made.read(table).select(*COLUMNS[table]).collect()
                content = content_with_kept_state if goes_on(table, told, answers) else content_of
                content = content_with_kept_rows if keeps_rows(table, answers) else content
                assert Counter(map(tuple, found)) == content(table, first, 5), (table, told.get(f"table {table}"))


@pytest.mark.parametrize("answer", ["keep", "restart"])
def test_a_table_that_is_new_while_its_operator_has_state(tmp_path: Path, answer: str) -> None:
    before = {"totals": False}
    program(str(tmp_path), 2, before).run_until_caught_up()
    act("drop", str(tmp_path), before, "totals")
    made = program(str(tmp_path), 5, before)
    told = {one.subject: one for one in made.changes()}
    made.decide("operator counted", answer)
    made.run_until_caught_up()
    assert goes_on("totals", told, {"operator counted": answer}) == (answer == "keep")
    content = content_with_kept_state if answer == "keep" else content_of
    assert Counter(map(tuple, made.read("totals").select("k", "rows").collect())) == content("totals", 3, 5)


def test_a_table_that_keeps_its_rows_while_its_operator_begins_anew(tmp_path: Path) -> None:
    before = {"unique": False}
    program(str(tmp_path), 2, before).run_until_caught_up()
    act("take out", str(tmp_path), before, "unique")
    made = program(str(tmp_path), 5, before)
    answers = {"operator once": "restart", "table unique": "keep"}
    for subject, answer in answers.items():
        made.decide(subject, answer)
    made.run_until_caught_up()
    assert keeps_rows("unique", answers)
    found = Counter(map(tuple, made.read("unique").select("v").collect()))
    assert found == content_with_kept_rows("unique", 3, 5) == Counter([(0,), (1,), (2,)])
