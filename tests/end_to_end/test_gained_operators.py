"""An epoch that a run left unfinished is taken up by a program that has gained operators with state since."""

from __future__ import annotations

from pathlib import Path

import pytest

import dagster_operators as do
from dagster_operators.transactions.failpoints import watch
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")


class DiedError(BaseException):
    """A run ends here."""


def pipeline(root: Path, batches: int, *, gained: bool) -> do.Pipeline:
    made = do.Pipeline("gaining", root=str(root), engine=SAIL)
    rows = made.source("rows", do.MemorySource([[("a", 1)], [("b", 2)]][:batches], schema="k string, v long"))
    rows.to_table("rows")
    if gained:
        rows.key_by("k").aggregate(n="count(*)", name="counted").to_table("counts")
    return made


@pytest.mark.parametrize("place", ["after:append_begin", "before:append_decision"])
def test_an_unfinished_epoch_goes_on_with_the_state_that_is_new(tmp_path: Path, place: str) -> None:
    pipeline(tmp_path, 1, gained=False).run_epoch()

    def die(reached: str) -> None:
        if reached == place:
            raise DiedError

    with watch(die), pytest.raises(DiedError):
        pipeline(tmp_path, 2, gained=False).run_epoch()
    pipeline(tmp_path, 2, gained=True).decide("operator counted", "keep")
    result = pipeline(tmp_path, 2, gained=True).run_epoch()
    assert (result.epoch, result.rows) == (2, {"rows": 1, "counts": 1})
    assert pipeline(tmp_path, 2, gained=True).to_arrow("counts").to_pylist() == [{"k": "b", "n": 1}]
