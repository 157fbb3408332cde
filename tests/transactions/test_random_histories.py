"""Random histories of transitions, repairs, foreign commits, cleaning and folding, with deaths and lost answers anywhere."""

from __future__ import annotations

import os
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.transactions import rollback
from tests.examples import fresh_examples
from tests.in_memory import folder_in_memory
from tests.transactions.histories import KINDS, History, Step

HISTORIES: Final = int(os.environ.get("DAGSTER_OPERATORS_HISTORIES", "6"))
"""How many are tried; ``make soak`` tries many more. The seed of one that fails is printed, and a smaller one looked for."""

steps = st.builds(Step, st.sampled_from(KINDS), st.floats(0, 1, exclude_max=True), st.just(0) | st.integers(-40, 40))

settled = st.lists(st.sampled_from(["ours", "theirs"]), min_size=1, max_size=3).map(
    lambda kept: [step for keep in kept for step in (Step("foreign"), Step(keep))]
)
"""What others write, settled each time before the next epoch: steps alone hardly ever come in this order."""


@fresh_examples(HISTORIES)
@given(st.lists(steps.map(lambda step: [step]) | settled, min_size=2, max_size=6))
def test_any_history(done: list[list[Step]]) -> None:
    with folder_in_memory() as place:
        History(place / "root").run([Step("epoch"), *(step for some in done for step in some)])


def test_what_was_accepted_is_ours_when_the_table_is_put_back() -> None:
    with folder_in_memory() as place:
        History(place / "root").run([Step("epoch"), *(Step(kind) for kind in ("foreign", "theirs", "foreign", "ours"))])


def test_a_rollback_deletes_what_an_epoch_left_that_died_when_it_was_complete() -> None:
    with folder_in_memory() as place:
        History(place / "root").run([Step("epoch"), Step("epoch"), Step("epoch", fault=27), Step("rollback")])


def test_a_rollback_that_leaves_the_tables_as_they_are_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollback, "_changes", lambda *_: ())
    with folder_in_memory() as place, pytest.raises(AssertionError, match="instead of"):
        History(place / "root").run([Step("epoch"), Step("epoch"), Step("rollback")])
