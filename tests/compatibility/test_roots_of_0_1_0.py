"""Storage roots that version 0.1.0 wrote, kept in ``roots``: they are read, run on and settled as if it were still at work."""

from __future__ import annotations

import contextlib
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from tests.compatibility.pipelines import BATCHES, INPUTS, PIPELINES
from tests.compatibility.recorded import history_of, plan_of, states_of, tables_of
from tests.crash.soundness import check_sound
from tests.engines import ENGINES

VERSION = "0.1.0"
KEPT = Path(__file__).parent / "roots"
SAYS_MORE = {"clock"}
"""A source of the user's own: its settings are part of what it is since then, and what was told before is still known."""
EPOCHS = 2
"""So many are complete in each root."""

COMPLETE = ["windows", "keyed", "joins", "user", "lake", "mixed"]
UNDECIDED = ["keyed", "user", *(pytest.param(name, marks=pytest.mark.slow) for name in ("windows", "joins"))]
DECIDED = ["windows", "joins", "user", "mixed", pytest.param("keyed", marks=pytest.mark.slow)]


@dataclass(frozen=True)
class Whole:
    """What a pipeline gives today when it runs over all epochs in a root of its own."""

    plan: dict[str, Any]
    tables: dict[str, list[str]]
    history: list[dict[str, Any]]
    receipts: dict[str, str]


@pytest.fixture(scope="module")
def whole(sail: object, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Whole]:
    known: dict[str, Whole] = {}

    def run(name: str) -> Whole:
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            INPUTS.get(name, lambda _: None)(folder)
            with contextlib.chdir(folder):
                pipeline = PIPELINES[name](str(folder / "root"), ENGINES["sail"])
                pipeline.run_until_caught_up()
                known[name] = Whole(plan_of(folder / "root"), tables_of(pipeline), history_of(pipeline), receipts())
        return known[name]

    return run


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., do.Pipeline]:
    """Opens a pipeline on a kept root, with the folder that the root is in as the working folder."""

    def opened(name: str, end: str = "complete", engine: str = "sail") -> do.Pipeline:
        with tarfile.open(KEPT / f"{name}-{VERSION}.tar.xz") as archive:
            archive.extractall(tmp_path, filter="data")
        monkeypatch.chdir(tmp_path / end)
        return PIPELINES[name](str(tmp_path / end / "root"), ENGINES[engine])

    return opened


def said(name: str) -> dict[str, Any]:
    """What that version's plan and history said."""
    found: dict[str, Any] = json.loads((KEPT / f"{name}-{VERSION}.json").read_text(encoding="utf-8"))
    return found


def rows(unpacked: Path) -> dict[str, Any]:
    """The rows that version found in the root, and those of a run over all epochs."""
    found: dict[str, Any] = json.loads((unpacked / "rows.json").read_text(encoding="utf-8"))
    return found


def receipts() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in Path("receipts").glob("*")}


def check_run_on(pipeline: do.Pipeline, whole: Whole, *, decided: bool = False) -> None:
    """The root is run to the end of its input, and is then as one that was never left.

    Args:
        pipeline: On the root.
        whole: All that a run of this version over all epochs gives.
        decided: Whether that version had computed the next epoch, too; it told no last event time of a source with an end.
    """
    pipeline.run_until_caught_up()
    assert tables_of(pipeline) == whole.tables
    first, *rest = whole.history[EPOCHS:]
    if decided:
        first = {**first, "watermarks": {name: at for name, at in first["watermarks"].items() if not name.endswith(".last")}}
    assert history_of(pipeline)[EPOCHS:] == [first, *rest]
    assert receipts() == whole.receipts
    check_sound(Path(pipeline.root), BATCHES, pipeline.name)


def without(names: set[str], found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in names}


@pytest.mark.parametrize("name", COMPLETE)
def test_the_plan_gives_state_tables_and_sources_the_identity_that_they_had(name: str, whole: Callable[[str], Whole]) -> None:
    """Were one of them another, roots would be refused, or their content taken for something that it is not."""
    found, before = whole(name).plan, said(name)["plan"]
    assert without(SAYS_MORE, found["sources"]) == without(SAYS_MORE, before["sources"])
    assert found["sources"].keys() == before["sources"].keys()
    for dataset, declared in before["datasets"].items():
        assert found["datasets"][dataset] == declared, dataset
    assert found["datasets"].keys() == before["datasets"].keys()


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize("name", COMPLETE)
def test_what_was_committed_is_read(name: str, kept: Callable[..., do.Pipeline], tmp_path: Path) -> None:
    pipeline = kept(name)
    assert history_of(pipeline) == said(name)["history"]
    assert tables_of(pipeline, 1) == rows(tmp_path)["first"]
    assert states_of(pipeline) == rows(tmp_path)["states"]


@pytest.mark.parametrize("name", COMPLETE)
def test_a_root_is_run_on(name: str, kept: Callable[..., do.Pipeline], whole: Callable[[str], Whole], tmp_path: Path) -> None:
    check_run_on(kept(name), whole(name))
    assert whole(name).tables == rows(tmp_path)["all"]


@pytest.mark.parametrize("name", UNDECIDED)
def test_an_epoch_that_was_not_decided_is_taken_up(
    name: str, kept: Callable[..., do.Pipeline], whole: Callable[[str], Whole]
) -> None:
    pipeline = kept(name, "undecided")
    left = pipeline.epochs.coordinator.view()
    assert left.decision is None
    assert left.open_begin is not None
    assert left.open_begin.epoch == EPOCHS + 1
    check_run_on(pipeline, whole(name))
    assert pipeline.history()[EPOCHS].begin_id == left.open_begin.begin_id


def check_decided(pipeline: do.Pipeline, whole: Whole) -> None:
    left = pipeline.epochs.coordinator.view().decision
    assert left is not None
    assert left.epoch == EPOCHS + 1
    check_run_on(pipeline, whole, decided=True)
    assert pipeline.history()[EPOCHS].versions == left.expected


@pytest.mark.parametrize("name", DECIDED)
def test_a_decided_epoch_is_carried_out(name: str, kept: Callable[..., do.Pipeline], whole: Callable[[str], Whole]) -> None:
    check_decided(kept(name, "decided"), whole(name))


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_root_that_spark_wrote_is_settled_and_run_on_there(
    kept: Callable[..., do.Pipeline], whole: Callable[[str], Whole]
) -> None:
    check_decided(kept("mixed", "decided", "spark"), whole("mixed"))
