"""Errors that tests meet are kept, and what is wrong with their remedies is said once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_operators import Pipeline
from dagster_operators.errors import BadInputError, OperatorsError, QueryError, call_of, located
from tests import met_errors


@pytest.fixture(autouse=True)
def _as_of_the_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What this module makes counts as made by the package."""
    monkeypatch.setattr(met_errors, "PACKAGE", "")
    yield
    met_errors.wrong_in_met()


def met(error: OperatorsError) -> list[str]:
    with pytest.raises(OperatorsError), located(file="a.csv"):
        raise error
    return met_errors.wrong_in_met()


def test_an_error_without_a_remedy_is_seen_once() -> None:
    (wrong,) = met(BadInputError("a file is odd"))
    assert wrong == "BadInputError: a file is odd [file 'a.csv']: it does not say what to do"
    assert met_errors.wrong_in_met() == []


def test_a_call_that_there_is_not_is_seen() -> None:
    wrong = met(BadInputError("a file is odd", remedy=call_of("mend_it", "a.csv")))
    assert any("the call pipeline.mend_it('a.csv'): there is no such method" in one for one in wrong)


def test_what_can_be_done_is_let_through() -> None:
    assert not met(BadInputError("a file is odd", remedy=f"{call_of('reset', 'rows', 0, tables='restart')} reads it anew"))


def test_errors_of_several_are_looked_at_each() -> None:
    several = (BadInputError("one", remedy="correct it"), BadInputError("another"))
    (wrong,) = met(QueryError("the queries have errors", errors=several))
    assert wrong.startswith("BadInputError: another")


def test_what_a_test_makes_itself_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(met_errors, "PACKAGE", "/nowhere")
    assert not met(BadInputError("a sink of a test is full"))


def test_what_the_package_raises_is_kept(tmp_path: Path) -> None:
    with pytest.raises(OperatorsError) as caught:
        Pipeline("p", root=str(tmp_path)).to_arrow("t")
    assert caught.value in met_errors._met
    assert not met_errors.wrong_in_met()
