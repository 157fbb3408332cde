"""A table that is filled with the rows of before leaves the tables beside it as they are, or is refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError, UndecidedChangeError
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")

ROWS = [[("a", number, f"2026-01-01 00:0{number}:00")] for number in range(4)]


def program(root: Path, *, more: bool = False, backfill: bool = True, least: int = 0, count: int = 4) -> do.Pipeline:
    made = do.Pipeline("beside", root=str(root), engine=SAIL)
    read = made.source("rows", do.MemorySource(ROWS[:count], schema="k string, v long, at timestamp"))
    totals = read.filter(f"v >= {least}", name="some").key_by("k").aggregate(n="count(*)", least="min(v)", name="per_key")
    totals.to_table("totals")
    if more:
        totals.filter("n > 0", name="many").to_table("more", backfill=backfill)
    return made


def content(made: do.Pipeline, table: str) -> Counter[Any]:
    return Counter(map(tuple, made.read(table).collect()))


def reset(made: do.Pipeline) -> None:
    made.reset("rows", 2, tables="restart")
    made.run_until_caught_up()


def rebuilt_since(made: do.Pipeline) -> None:
    made.rebuild("totals", since=3)


def twice(made: do.Pipeline) -> None:
    made.reset("rows", 2, tables="keep")
    made.run_until_caught_up()


@pytest.mark.parametrize(
    ("began", "told", "remade"),
    [
        (reset, "epoch 5 put a source elsewhere", ("a", 2, 2)),
        (rebuilt_since, "epoch 5 computed it anew from epoch 3 on", ("a", 2, 2)),
        (twice, "epoch 5 put a source elsewhere", ("a", 2, 2)),
    ],
    ids=["reset", "since", "twice"],
)
def test_a_neighbour_that_began_later(
    tmp_path: Path, began: Callable[[do.Pipeline], None], told: str, remade: tuple[Any, ...]
) -> None:
    first = program(tmp_path)
    first.run_until_caught_up()
    began(first)
    before = content(first, "totals")
    made = program(tmp_path, more=True)
    with pytest.raises(PipelineError, match=told) as caught:
        made.run_epoch()
    assert content(first, "totals") == before
    assert not (tmp_path / "rebuild").exists()
    (remedy,) = re.findall(r"pipeline\.(rebuild\(.*?\));", caught.value.remedy)
    eval(f"made.{remedy}", {"made": made})  # noqa: S307 - what the message says
    assert content(made, "totals") == content(made, "more") == Counter([remade])
    assert made.run_epoch().empty


def test_it_may_be_left_out(tmp_path: Path) -> None:
    first = program(tmp_path, count=3)
    first.run_until_caught_up()
    rebuilt_since(first)
    made = program(tmp_path, more=True, backfill=False)
    with pytest.raises(UndecidedChangeError, match=r"to_table\(\.\.\., backfill=True\)"):
        made.run_epoch()
    (told,) = program(tmp_path, more=True).changes()
    assert str(told) == f"table more: {told.problem} (harmless)"
    assert "computed over what the epochs have read" in told.problem
    made.decide("table more", "keep")
    made.run_until_caught_up()
    assert content(made, "totals") == content(made, "more") == Counter([("a", 2, 2)])


def test_a_neighbour_that_was_computed_otherwise(tmp_path: Path) -> None:
    program(tmp_path, count=3).run_until_caught_up()
    made = program(tmp_path, least=1)
    made.run_until_caught_up()
    before = content(made, "totals")
    more = program(tmp_path, least=1, more=True)
    with pytest.raises(PipelineError, match="epoch 3 did not have it, or computed it otherwise"):
        more.run_epoch()
    assert content(made, "totals") == before
    made.rebuild()
    more.run_epoch()
    assert content(more, "totals") == content(more, "more") == Counter([("a", 3, 1)])


def test_what_was_rolled_back_plays_no_part(tmp_path: Path) -> None:
    first = program(tmp_path)
    first.run_until_caught_up()
    rebuilt_since(first)
    first.rollback(3)
    made = program(tmp_path, more=True)
    made.run_until_caught_up()
    assert content(made, "totals") == content(made, "more") == Counter([("a", 4, 0)])


def both(root: Path, *, with_more: bool = True, beside: bool = False, renamed: bool = False) -> do.Pipeline:
    made = do.Pipeline("both", root=str(root), engine=SAIL)
    some = made.source("some", do.MemorySource([[("a", 1)]], schema="k string, v long"))
    if with_more or beside:
        more = made.source("more", do.MemorySource([[("a", 10)], [("a", 20)]], schema="k string, v long"))
    if beside:
        more.to_table("beside")
    rows = some.union(more, name="all") if with_more else some
    sums = rows.key_by("k").aggregate(total="sum(v)", name="per_key")
    sums.to_table("sums", renamed_from="totals") if renamed else sums.to_table("totals")
    return made


def test_a_source_that_was_left_out_is_asked_about_where_the_table_has_another_name(tmp_path: Path) -> None:
    both(tmp_path).run_until_caught_up()
    both(tmp_path, with_more=False).rebuild("totals")
    both(tmp_path, with_more=False, renamed=True).run_until_caught_up()
    with pytest.raises(UndecidedChangeError, match="it leads to sums again, computed anew without it"):
        both(tmp_path, renamed=True).run_epoch()


@pytest.mark.parametrize("beside", [False, True], ids=["gone", "beside"])
def test_a_source_that_was_left_out_is_put_back(tmp_path: Path, *, beside: bool) -> None:
    both(tmp_path, beside=beside).run_until_caught_up()
    both(tmp_path, with_more=False, beside=beside).rebuild("totals")
    assert content(both(tmp_path), "totals") == Counter([("a", 1)])
    made = both(tmp_path, beside=beside)
    with pytest.raises(UndecidedChangeError, match="computed anew without it") as caught:
        made.run_epoch()
    remedy, *_ = re.findall(r"pipeline\.(rebuild\('totals'\))", str(caught.value))
    eval(f"made.{remedy}", {"made": made})  # noqa: S307 - what the message says
    assert content(made, "totals") == Counter([("a", 31)])
    assert made.run_epoch().empty


def test_a_source_that_was_left_out_stays_so_if_it_is_decided(tmp_path: Path) -> None:
    both(tmp_path).run_until_caught_up()
    both(tmp_path, with_more=False).rebuild()
    made = both(tmp_path)
    made.decide("source more", "keep")
    made.run_until_caught_up()
    assert content(made, "totals") == Counter([("a", 1)])


def test_a_source_that_is_put_back_with_its_rows_in_the_table(tmp_path: Path) -> None:
    both(tmp_path).run_until_caught_up()
    both(tmp_path, with_more=False).run_epoch()
    both(tmp_path).run_until_caught_up()
    assert content(both(tmp_path), "totals") == Counter([("a", 31)])
