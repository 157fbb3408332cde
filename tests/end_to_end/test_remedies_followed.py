"""Each class of errors is raised for real, and each call and command of its remedy is followed word for word to its end.

The end is a pipeline whose tables are right, or a remedy that names no call: then a human has to bring something back, or to
correct a program or an input, as ``test_remedies_of_programs.py`` does. A class that needs more says which test does it.
"""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from dagster_operators import FileSource, MemorySource, Pipeline, errors
from dagster_operators.errors import OperatorsError
from dagster_operators.runtime.commands import as_commands
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.owner import Owner
from tests.end_to_end.test_remedies_of_programs import SCENARIOS as PROGRAMS
from tests.following import copied, error_of, follow, rows_of, ways_of

pytestmark = pytest.mark.usefixtures("sail")

TESTS = Path(__file__).parents[1]
GAP = re.compile(r"\.\.\.|…|<\w+>")
ROWS = [[("a", n), ("b", 2 * n)] for n in range(3)]


def pipeline_of(root: Path, *, name: str = "p", total: str = "sum(v)", rows: object = None) -> Pipeline:
    made = Pipeline(name, root=str(root), engine="sail")
    stream = made.source("rows", rows or MemorySource(ROWS, schema="k string, v long"))  # type: ignore[arg-type]
    stream.to_table("raw")
    stream.key_by("k").aggregate(n=total, c="count(DISTINCT v)", name="per_key").to_table("totals")
    return made


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with two epochs, of which a third one has yet to come."""
    root = tmp_path_factory.mktemp("base") / "root"
    for _ in range(2):
        pipeline_of(root).run_epoch()
    return root


@pytest.fixture(scope="module")
def wanted(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    root = copied(base, tmp_path_factory.mktemp("wanted"))
    pipeline_of(root).run_until_caught_up()
    return contents(root)


def contents(root: Path) -> dict[str, list[str]]:
    return rows_of(pipeline_of(root), ("raw", "totals"))


def run(root: Path) -> None:
    pipeline_of(root).run_until_caught_up()


def no_folder(root: Path) -> None:
    shutil.rmtree(root / "tables/raw")
    run(root)


def no_state(root: Path) -> None:
    shutil.rmtree(root / "state/per_key.partials")
    run(root)


def lost_file(root: Path) -> None:
    for path in (root / "tables/raw").glob("e1-*/*.parquet"):
        path.unlink()
    pipeline_of(root).to_arrow("raw")


def cleaned(root: Path) -> None:
    pipeline_of(root).clean("0 seconds", keep_epochs=1)


def lost_file_of_a_cleaned_epoch(root: Path) -> None:
    cleaned(root)
    lost_file(root)


def no_folder_of_cleaned_epochs(root: Path) -> None:
    cleaned(root)
    no_folder(root)


def lost_file_of_a_state(root: Path) -> None:
    for path in (root / "state/per_key.partials").glob("e1-*/**/*.parquet"):
        path.unlink()
    run(root)


def cut_file(root: Path) -> None:
    path = min((root / "tables/raw").glob("e1-*/*.parquet"))
    path.write_bytes(path.read_bytes()[:-9])
    pipeline_of(root).to_arrow("raw")


def flipped_entry(root: Path) -> None:
    path = root / "tables/raw/_delta_log/00000000000000000000.json"
    path.write_text(path.read_text().replace('\\"type\\":\\"long\\"', '\\"type\\":\\"lonf\\"'))
    run(root)


def flipped_ledger(root: Path) -> None:
    path = max((root / "ledger/_delta_log").glob("*.json"))
    path.write_text('{"add":{"pati":"r"}}')
    run(root)


def flipped_ledger_of_cleaned_epochs(root: Path) -> None:
    cleaned(root)
    flipped_ledger(root)


def foreign(root: Path) -> None:
    write_deltalake(str(root / "tables/raw"), pa.table({"k": ["z"], "v": [9]}), mode="append")
    run(root)


def another_name(root: Path) -> None:
    pipeline_of(root, name="another").run_epoch()


def unknown_epoch(root: Path) -> None:
    pipeline_of(root).to_arrow("raw", epoch=7)


def changed(root: Path) -> None:
    pipeline_of(root, total="max(v)").run_epoch()


def busy(root: Path) -> None:
    with Coordinator("p", str(root), lease_seconds=60) as other:
        other.open(Owner.of_process("another"))
        other.view()
        run(root)


def no_input(root: Path) -> None:
    pipeline_of(
        root.parent / "new", rows=FileSource(str(root / "nowhere/*.csv"), format="csv", schema="k string, v long")
    ).run_epoch()


def bad_input(root: Path) -> None:
    (root.parent / "in").mkdir()
    (root.parent / "in/1.csv").write_text("k,v\na,x\n")
    pipeline_of(root.parent / "new", rows=FileSource(str(root.parent / "in"), schema="k string, v long")).run_epoch()


def no_column(root: Path) -> None:
    made = Pipeline("p", root=str(root), engine="sail")
    made.source("rows", MemorySource(ROWS, schema="k string, v long")).filter("w > 0").to_table("raw")
    made.run_epoch()


def no_table(root: Path) -> None:
    pipeline_of(root).to_arrow("missing")


def failed_check(root: Path) -> None:
    made = Pipeline("p", root=str(root.parent / "new"), engine="sail")
    made.source("rows", MemorySource(ROWS, schema="k string, v long")).to_table("raw", checks={"large": "v > 99"})
    made.run_epoch()


def storage(root: Path) -> None:
    shutil.rmtree(root / "manifests", ignore_errors=True)
    (root / "manifests").write_text("no folder")
    run(root)


SCENARIOS: Mapping[str, tuple[Callable[[Path], object], ...]] = {
    "RestoredTableError": (no_folder, no_state, no_folder_of_cleaned_epochs),
    "LostFileError": (lost_file, lost_file_of_a_cleaned_epoch, lost_file_of_a_state, cut_file),
    "DamagedTableError": (flipped_entry,),
    "DamagedLedgerError": (flipped_ledger, flipped_ledger_of_cleaned_epochs),
    "ForeignWriteError": (foreign,),
    "LedgerError": (another_name,),
    "UnknownEpochError": (unknown_epoch,),
    "UndecidedChangeError": (changed,),
    "PipelineBusyError": (busy,),
    "MissingInputError": (no_input,),
    "BadInputError": (bad_input,),
    "SchemaError": (no_column,),
    "PipelineError": (no_table,),
    "CheckFailedError": (failed_check,),
    "StorageError": (storage,),
}

BY_HAND = (
    another_name, unknown_epoch, changed, busy, no_input, bad_input, no_column, no_table, failed_check, storage,
)  # fmt: skip
"""What a human settles in the program, the input or the storage, by what the text says; all others name calls."""

ELSEWHERE: Mapping[str, str] = {
    "EndedInputError":
        "end_to_end/test_renamed_tables.py:test_who_reads_the_table_is_told_its_new_name_or_that_its_rows_are_others",
    "EngineError": "runtime/test_spark_process.py:test_the_next_question_starts_it_anew",
    "EngineStoppedError": "runtime/test_spark_process.py:test_the_next_question_starts_it_anew",
    "BrokenAnswerError": "runtime/test_whole_answers.py:test_an_epoch_that_was_told_less_is_not_committed",
    "StageFailedError": "runtime/stages/test_reach.py:test_an_engine_that_writes_elsewhere_fails_the_epoch",
    "LedgerVersionError": "end_to_end/test_refused_roots.py:test_a_ledger_of_a_newer_version",
    "SourceError": "api/events/test_senders.py:test_a_script_that_fails_keeps_nothing_of_its_turn",
    "SinkUnavailableError":
        "connectors/test_postgres_crash.py:test_a_server_that_is_away_when_a_run_begins_holds_nothing_up",
    "NotPreparedError": "connectors/test_postgres_sink.py:test_a_lost_transaction_is_told_from_a_committed_one",
}  # fmt: skip
"""Classes whose errors need a service, process or engine of their own, and the test that raises each and does what it says."""


@pytest.mark.parametrize("scenario", [one for each in SCENARIOS.values() for one in each], ids=lambda one: one.__name__)
def test_each_way_leads_to_the_end(
    base: Path, tmp_path: Path, wanted: dict[str, list[str]], scenario: Callable[[Path], object]
) -> None:
    root = copied(base, tmp_path)
    error = error_of(lambda: scenario(root))
    assert error is not None
    assert type(error).__name__ == next(name for name, each in SCENARIOS.items() if scenario in each)
    assert error.remedy, error
    assert not GAP.search(error.remedy), error
    ways = ways_of(error)
    assert ways or scenario in BY_HAND, error
    for number, todo in enumerate(ways):
        copy = copied(root, tmp_path / str(number))
        follow(todo.replace(str(root), str(copy)), partial(pipeline_of, copy))
        if "theirs" not in todo and scenario is not changed:
            assert contents(copy) == wanted, todo
    assert not GAP.search(as_commands(error.remedy, str(root)))


def test_each_class_has_a_scenario() -> None:
    classes = {name for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, OperatorsError)}
    named = [*SCENARIOS, *ELSEWHERE, *(one.kind.__name__ for one in PROGRAMS)]
    assert sorted(named) == sorted(classes - {"OperatorsError"}), "each in one place"
    for name, place in ELSEWHERE.items():
        path, _, test = place.partition(":")
        text = (TESTS / path).read_text()
        assert re.search(rf"\b{name}\b", text), f"{path} raises no {name}"
        assert f"def {test}(" in text, place
