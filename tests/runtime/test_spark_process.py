"""Spark that stops by itself, or whose Java process is killed: the error says so, and the next question starts it anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dagster_operators.runtime import spark_process

SCRIPT = """
import os, signal, sys
from pathlib import Path
import pytest
import dagster_operators as do
from dagster_operators.errors import EngineError, EngineStoppedError
from tests.engines import EMBEDDED

folder = Path(sys.argv[1])


class Kill(do.ArrowOperator):
    def output_schema(self, rows):
        return rows

    def process_batch(self, batch, ctx, out):
        file = folder / "kill"
        if file.exists():
            number = int(file.read_text())
            file.unlink()
            os.kill(number, signal.SIGKILL)
        out.collect(batch)


class Own:
    def session(self):
        return self.now


def pipeline(engine):
    made = do.Pipeline("p", root=str(folder / "root"), engine=engine)
    batches = [[("a", 1)], [("a", 2)], [("b", 3)], [("a", 4)]]
    rows = made.source("rows", do.MemorySource(batches, schema="k string, v long")).apply(Kill())
    rows.key_by("k").aggregate(n="count(*)", s="sum(v)").to_table("sums")
    return made


def java():
    return EMBEDDED.session().sparkContext._jvm.java.lang.ProcessHandle.current().pid()


sums = pipeline(EMBEDDED)
assert sums.run_epoch().epoch == 1
first = java()

(folder / "kill").write_text(str(first))
with pytest.raises(EngineStoppedError, match="ended by signal 9.*run again") as caught:
    sums.run_epoch()
assert caught.value.retryable
assert caught.value.pipeline == "p"
assert sums.run_epoch().epoch == 2
assert java() != first

EMBEDDED.session().sparkContext._jsc.sc().stop()
assert sums.run_epoch().epoch == 3
assert sorted(map(tuple, sums.read("sums").collect())) == [("a", 2, 3), ("b", 1, 3)]

own = Own()
own.now = EMBEDDED.session()
sums = pipeline(own)
own.now.sparkContext._jsc.sc().stop()
with pytest.raises(EngineError, match="Spark stopped by itself.*let session"):
    sums.run_epoch()
own.now.stop()
own.now = EMBEDDED.session()
assert sums.run_epoch().epoch == 4
assert sorted(map(tuple, sums.read("sums").collect())) == [("a", 3, 7), ("b", 1, 3)]
"""


@pytest.mark.slow
@pytest.mark.spark
def test_the_next_question_starts_it_anew(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Spark stopped by itself and is started again: it logged no reason" in done.stderr


class Process(subprocess.Popen[bytes]):
    """One whose status is not known before somebody waits for it."""

    pid = 7

    def __init__(self, status: int | None) -> None:
        self._status = status

    def __del__(self) -> None:
        pass

    def poll(self) -> int | None:
        return None

    def wait(self, timeout: float | None = None) -> int:
        if self._status is None:
            raise subprocess.TimeoutExpired("java", timeout or 0.0)
        return self._status


@pytest.mark.parametrize(
    ("status", "log", "why"),
    [
        (-9, "", "its Java process was ended by signal 9"),
        (137, "", "its Java process ended with status 137"),
        (None, "", "it logged no reason"),
        (
            None,
            "26/11/23 ERROR Executor: Failed\njava.lang.OutOfMemoryError: Java heap space\n\tat a.b(OutOfMemoryError.java)\n",
            "java.lang.OutOfMemoryError: Java heap space",
        ),
        (None, "1 ERROR Executor: first\n2 ERROR Utils: last\nx", "2 ERROR Utils: last"),
    ],
)
def test_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int | None, log: str, why: str) -> None:
    file = tmp_path / "spark.log"
    file.write_text(log)
    monkeypatch.setitem(spark_process._logs, 7, file)
    monkeypatch.setattr(spark_process, "_MOMENT", 0.01)
    assert spark_process._reason(Process(status)) == why


def test_a_session_that_is_none_of_a_java_process_is_not_asked() -> None:
    assert not spark_process.stopped_by_itself(SimpleNamespace(is_stopped=False))
    assert not spark_process.stopped_by_itself(SimpleNamespace())
    assert spark_process.was_stopped(SimpleNamespace(is_stopped=True))


def test_a_session_whose_calls_have_no_answers_is_not_used_on() -> None:
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: None))
    assert spark_process.stopped_by_itself(SimpleNamespace(sparkContext=context))
