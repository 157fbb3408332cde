"""Three in the morning: what an alert says of a failed run, and whether the commands in it settle what is wrong."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from click.testing import CliRunner
from dagster_shared.serdes import serialize_value
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.cli.main import main
from dagster_operators.errors import (
    BadInputError,
    BrokenAnswerError,
    NotPreparedError,
    OperatorFailedError,
    OperatorsError,
    PipelineError,
    SchemaError,
    SinkError,
    SinkUnavailableError,
    SourceError,
    StageFailedError,
    StorageError,
    TimestampError,
)
from dagster_operators.orchestration.failures import as_failures, unexpected
from dagster_operators.orchestration.masked_errors import masked
from dagster_operators.orchestration.tries import NEWS_TAG, judge
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.owner import Owner
from tests.commands import commands_in
from tests.disk import disk_at
from tests.orchestration import demo

pytestmark = pytest.mark.usefixtures("on_sail")


def run(folder: Path, instance: dg.DagsterInstance) -> dg.JobExecutionResult:
    return dg.execute_job(demo.reconstructable(folder, "demo_epoch"), instance)


def alert(result: dg.JobExecutionResult) -> str:
    """What the event that ends the first failed step says."""
    assert not result.success
    failed = next(event for event in result.all_events if event.event_type is dg.DagsterEventType.STEP_FAILURE)
    return str(failed.step_failure_data.error.message) if failed.step_failure_data.error else ""


def command_of(text: str) -> list[str]:
    """The first command of an alert, as it stands."""
    return commands_in(text)[0]


def obey(text: str) -> None:
    """Type the first command of an alert."""
    result = CliRunner().invoke(main, command_of(text), catch_exceptions=False, input="y\n")
    assert result.exit_code == 0, result.output


def foreign_write(folder: Path) -> None:
    table = folder / "demo/tables/totals"
    write_deltalake(table, DeltaTable(table).to_pyarrow_table().slice(0, 1), mode="append")


def half_written(folder: Path) -> None:
    log = folder / "demo/tables/totals/_delta_log"
    max(log.glob("*.json")).write_bytes(b"")


def half_a_file(folder: Path) -> None:
    for file in map(Path, DeltaTable(folder / "demo/tables/totals").file_uris()):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def a_file_that_cannot_be_gone_back_behind(folder: Path) -> None:
    demo.pipeline(folder).clean(keep="0 seconds", keep_epochs=1)
    half_a_file(folder)


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (foreign_write, "ForeignWriteError"), (half_written, "DamagedTableError"), (half_a_file, "LostFileError"),
        (a_file_that_cannot_be_gone_back_behind, "LostFileError"),
    ],
    ids=["foreign", "half a log entry", "half a file", "half a file behind a clean"],
)  # fmt: skip
def test_one_command_of_the_alert_settles_it(
    folder: Path, instance: dg.DagsterInstance, damage: Callable[[Path], None], error: str
) -> None:
    assert run(folder, instance).success
    damage(folder)
    text = alert(run(folder, instance))
    assert f"{error}: " in text
    assert "To do: " in text
    obey(text)
    assert run(folder, instance).success
    run(folder, instance)
    assert sorted(demo.pipeline(folder).read("totals").collect()) == [("a", 11), ("b", 2)]


def test_a_lost_owner_is_unlocked(folder: Path, instance: dg.DagsterInstance) -> None:
    with Coordinator("demo", str(folder / "demo"), lease_seconds=3600) as lost:
        lost.open(Owner.of_process("lost"))
        text = alert(run(folder, instance))
        assert "PipelineBusyError: another run is working on the pipeline: run lost" in text
        assert f"dagster-operators status {folder / 'demo'}" in text
        obey(text.replace("dagster-operators status", "or: "))
        assert run(folder, instance).success


@pytest.mark.slow
def test_a_full_disk_is_told_and_runs_go_on_once_there_is_room(folder: Path, instance: dg.DagsterInstance) -> None:
    with disk_at(folder / "demo") as disk:
        assert run(folder, instance).success
        disk.fill()
        text = alert(run(folder, instance))
        assert "StorageError: " in text
        assert "No space left on device" in text
        assert command_of(text) == ["clean", str(folder / "demo")]
        told = CliRunner().invoke(main, ["doctor", str(folder / "demo")], catch_exceptions=False).output
        assert f"space: 0 MiB are free. To do: free some: dagster-operators clean {folder / 'demo'}  # or a larger disk" in told
        disk.free()
        assert run(folder, instance).success
        assert sorted(demo.pipeline(folder).read("totals").collect()) == [("a", 11), ("b", 2)]


def test_the_last_try_says_why_and_not_how_often(folder: Path, instance: dg.DagsterInstance) -> None:
    def fail(name: str) -> None:
        if name == "stage:files_written":
            raise StorageError("no space is left on the device", file="tables/clean")

    with watch(fail):
        text = alert(run(folder, instance))
    assert "Failure: StorageError: no space is left on the device [" in text
    assert "file 'tables/clean'" in text
    assert f"dagster-operators doctor {folder / 'demo'}" in text
    assert "max_retries" not in text


def test_an_error_of_another_kind_says_type_and_message(folder: Path, instance: dg.DagsterInstance) -> None:
    def fail(name: str) -> None:
        if name == "stage:files_written":
            raise RuntimeError("the queue is gone\nat line 17")

    with watch(fail):
        assert "the stage failed: RuntimeError: the queue is gone [pipeline 'demo', epoch 1, stage 'clean'" in alert(
            run(folder, instance)
        )


def test_before_the_last_try_other_errors_stay_what_they_are() -> None:
    with pytest.raises(KeyError), as_failures():
        raise KeyError("k")
    with pytest.raises(dg.Failure, match="the first"), as_failures(last_try=True):
        raise dg.Failure("the first")
    with pytest.raises(dg.Failure, match="ArrowInvalid: no"), as_failures(last_try=True):
        raise pa.ArrowInvalid("no")
    assert unexpected(ValueError()).description == "ValueError"


def test_a_masked_column_is_in_no_event_of_a_failure(folder: Path, instance: dg.DagsterInstance) -> None:
    (folder / "in/000.json").write_text('{"k": "good", "v": 1, "t": "2024-01-01T00:00:00Z"}\n{"k": "secret@x", "v": "4x7q2"}\n')
    os.utime(folder / "in/000.json", (1_700_000_000, 1_700_000_000))
    defs = do.build_definitions(demo.pipeline(folder), sensor=True, retry_policy=demo.FAST, masked_columns=["k"])
    result = defs.resolve_job_def("demo_epoch").execute_in_process(instance=instance, raise_on_error=False, tags={NEWS_TAG: "n"})
    text = alert(result)
    assert "BadInputError: a record cannot be parsed (what may quote rows is left out, since columns are masked) [" in text
    assert f"file '{folder}/in/000.json', column 'v', line 2]" in text
    assert "look at line 2 of the file" in text
    told = [serialize_value(entry) for entry in instance.all_logs(result.run_id)]
    assert any("line 2" in entry for entry in told)
    assert not [entry for entry in told if "secret" in entry or "4x7q2" in entry]
    assert "line 2" in judge(instance, "n", lambda _: False).reason  # the sensor's message
    with pytest.raises(BadInputError, match="secret@x"):  # as the failure says
        demo.pipeline(folder).run_epoch()


@pytest.mark.parametrize("kind", [StageFailedError, OperatorFailedError, SinkError, TimestampError, OperatorsError, ValueError])
@pytest.mark.parametrize("last_try", [False, True])
def test_an_error_of_any_kind_is_masked(kind: type[Exception], *, last_try: bool) -> None:
    where = {"table": "t", "first_rows": "secret", "row": "secret"} if issubclass(kind, OperatorsError) else {}
    with pytest.raises(dg.Failure, match=kind.__name__) as caught, as_failures(mask=True, last_try=last_try):
        raise kind("no such customer: secret", **where)
    assert "secret" not in "".join(traceback.format_exception(caught.value)) + str(caught.value.metadata)
    assert caught.value.allow_retries is (not last_try and (not where or kind("").retryable))  # type: ignore[attr-defined]
    assert "pipeline.run_epoch()" in str(caught.value.description)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([BadInputError, SinkError, StageFailedError]), st.text(st.characters(exclude_characters=" "), min_size=1))
def test_nothing_of_a_row_is_left(kind: type[OperatorsError], value: str) -> None:
    text = f"\u2603{value}\u2603"
    for problem in (f"a record cannot be parsed ({text})", text, f"on_end raised KeyError: {text}", f"the stage failed: {text}"):
        assert text not in str(masked(kind(problem, table="t", record=text, other=text)))


@pytest.mark.parametrize(
    "error",
    [
        StorageError("no space is left", file="x", stage="clean"),
        PipelineError("a sink may not be called that", sink="x"),
        BrokenAnswerError("message 3 of the engine's answer arrived damaged", stage="clean"),
        SinkUnavailableError("PostgreSQL cannot be reached: connection to server at db:5432 failed", sink="x", remedy="check it"),
        SinkUnavailableError("PostgreSQL is not available: canceling statement due to lock timeout", sink="x", sqlstate="55P03"),
        SinkUnavailableError("Kafka did not take 3 messages within 10.0 s", sink="x", topic="t"),
        SinkUnavailableError("another transaction is open in the book b, and hides what was written after it", sink="x"),
        NotPreparedError("the prepared file is gone", sink="x", path="/out/x.csv"),
        NotPreparedError("the transaction is gone, and the book does not show the epoch", sink="x", topic="t"),
    ],
    ids=str,
)
def test_an_error_that_quotes_no_row_stays_whole(error: OperatorsError) -> None:
    assert masked(error) is error


@pytest.mark.parametrize("kind", [PipelineError, SchemaError, SourceError])
@pytest.mark.parametrize("at_work", [{"stage": "clean"}, {"subtask": 0}])
def test_what_comes_up_where_rows_are_at_work_is_masked_but_for_its_place(
    kind: type[OperatorsError], at_work: dict[str, object]
) -> None:
    place = {**at_work, "node": "n", "event_operator": "op", "output": "out"}
    told = masked(kind("the function gave secret", **place, other="secret", remedy="correct it"))
    assert "secret" not in str(told)
    assert told.where == place
    assert told.remedy.startswith("correct it; the whole error is raised where the epoch is run without Dagster")


@pytest.mark.parametrize("kind", [SinkUnavailableError, NotPreparedError])
def test_what_a_sink_of_the_users_or_a_trigger_says_is_masked(kind: type[OperatorsError]) -> None:
    for problem in ("the queue is full at secret", "PostgreSQL is not available: no such customer: secret"):
        assert "secret" not in str(masked(kind(problem, sink="x")))


class Refusing(do.ArrowOperator):
    """Rejects rows for what they hold."""

    def output_schema(self, *inputs: pa.Schema) -> pa.Schema:
        return inputs[0]

    def process_batch(self, batch: pa.RecordBatch, ctx: do.OperatorContext, out: do.Collector) -> None:
        ctx.reject(batch, f"no such customer: {batch['email'][0]}")


def test_the_reason_of_rejected_rows_that_nobody_reads_is_in_no_event(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    made = do.Pipeline("p", root=str(tmp_path / "p"), engine="sail")
    rows = made.source("rows", do.MemorySource([[("secret@x",)]], schema="email string"))
    rows.apply(Refusing(), name="refusing").to_table("t")
    job = do.build_definitions(made, masked_columns=["email"], retry_policy=demo.FAST).resolve_job_def("p_epoch")
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    told = alert(result)
    assert "PipelineError: rows are to be rejected, and nobody reads them (what may quote rows is left out" in told
    assert "keep them: stream.rejects().to_table(...)" in told
    assert not [entry for entry in map(serialize_value, instance.all_logs(result.run_id)) if "secret" in entry]
