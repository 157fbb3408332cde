"""Whole folders of tables, states and rejects are lost behind a clean: the calls that errors name lead to the right rows."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dagster_operators import FileSource, Pipeline
from dagster_operators.errors import ForeignWriteError, LedgerError, LostFileError, OperatorsError
from dagster_operators.transactions.failpoints import watch

pytestmark = pytest.mark.usefixtures("sail")

LOST = (
    ("tables/totals",),
    ("state/per_key.partials", "tables/raw"),
    ("tables/raw", "tables/totals"),
    ("tables/rows_rejects",),
)


class Died(Exception):  # noqa: N818 - a run, not an error
    """The end of a run."""


def pipeline_of(folder: Path, root: Path) -> Pipeline:
    made = Pipeline("p", root=str(root), engine="sail")
    rows = made.source("rows", FileSource(f"{folder}/in/*.csv", schema="k string, v long", max_files=1, corrupt="reject"))
    rows.to_table("raw")
    rows.key_by("k").aggregate(n="sum(v)", c="count(DISTINCT v)", name="per_key").to_table("totals")
    return made


def arrive(folder: Path, number: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / f"{number}.csv").write_text(f"k,v\na,{number}\nb,{number * 2}\nc,bad{number}\n")


def copied(cleaned: Path, place: Path) -> Path:
    return Path(shutil.copytree(cleaned / "root", place / "root", copy_function=shutil.copy2))


def rows_of(pipeline: Pipeline) -> dict[str, list[str]]:
    columns = {"raw": ["k", "v"], "totals": ["k", "n", "c"], "rows_rejects": ["record"]}
    return {table: sorted(map(str, pipeline.to_arrow(table).select(names).to_pylist())) for table, names in columns.items()}


def error_of(call: Callable[[], object]) -> OperatorsError | None:
    try:
        call()
    except OperatorsError as error:
        return error
    return None


def follow(folder: Path, root: Path) -> list[str]:
    """The calls that led to a pipeline that runs: the last one that each error names."""
    made: list[str] = []
    todo = "pipeline.run_until_caught_up()"
    while True:
        pipeline = pipeline_of(folder, root)
        error = error_of(lambda: eval(todo, {"pipeline": pipeline}))  # noqa: B023, S307 - what an error says to call
        made.append(todo)
        calls = re.findall(r"pipeline\.[a-z_]+\([^()]*\)", error.remedy) if error else []
        if not calls and todo == "pipeline.run_until_caught_up()":
            return made
        assert len(made) < 6, f"{made}: {error}"
        todo = calls[-1] if calls else "pipeline.run_until_caught_up()"


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cleaned")
    for number in (1, 2, 3):
        arrive(folder, number)
    for _ in range(2):
        pipeline_of(folder, folder / "root").run_epoch()
    pipeline_of(folder, folder / "root").clean("0 seconds", keep_epochs=1)
    return folder


@pytest.fixture(scope="module")
def wanted(cleaned: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the tables hold when nothing is lost, behind the third epoch."""
    root = copied(cleaned, tmp_path_factory.mktemp("whole"))
    pipeline_of(cleaned, root).run_until_caught_up()
    return rows_of(pipeline_of(cleaned, root))


@pytest.mark.parametrize("lost", LOST, ids=",".join)
def test_a_rebuild_settles_them(cleaned: Path, tmp_path: Path, lost: tuple[str, ...], wanted: dict[str, list[str]]) -> None:
    root = copied(cleaned, tmp_path)
    for dataset in lost:
        shutil.rmtree(root / dataset)
    assert any(call.startswith("pipeline.rebuild(") for call in follow(cleaned, root))
    assert rows_of(pipeline_of(cleaned, root)) == wanted
    assert pipeline_of(cleaned, root).repair_all(keep="ours") == []


def test_of_an_epoch_that_is_decided(cleaned: Path, tmp_path: Path, wanted: dict[str, list[str]]) -> None:
    root = copied(cleaned, tmp_path)

    def die(name: str) -> None:
        if name == "after:append_decision":
            raise Died

    with watch(die), pytest.raises(Died):
        pipeline_of(cleaned, root).run_epoch()
    for folder in (root / "tables/totals").glob("e3-*"):
        shutil.rmtree(folder)
    assert isinstance(error_of(pipeline_of(cleaned, root).run_epoch), LostFileError)
    assert any("rebuild" in call for call in follow(cleaned, root))
    assert rows_of(pipeline_of(cleaned, root)) == wanted


def test_another_table_in_its_place_is_moved_away_first(cleaned: Path, tmp_path: Path) -> None:
    root = copied(cleaned, tmp_path)
    log = root / "tables/raw/_delta_log/00000000000000000000.json"
    log.write_text(log.read_text().replace("dagster_operators.", "somebody_elses."))
    pipeline = pipeline_of(cleaned, root)
    assert isinstance(error_of(pipeline.run_epoch), ForeignWriteError)
    error = error_of(lambda: pipeline_of(cleaned, root).repair("raw", keep="ours"))
    assert isinstance(error, LedgerError)
    assert error.remedy.startswith("move that one away")
