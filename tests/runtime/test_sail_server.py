"""Sail in a process of its own: replaced between epochs, and nobody notices but the machine."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dagster_operators as do
from dagster_operators.errors import EngineError
from dagster_operators.runtime import engine as engine_module
from dagster_operators.runtime import sail_server
from dagster_operators.runtime.engine import Spark
from dagster_operators.runtime.sail_server import GROWTH, GROWTH_VARIABLE, OwnProcess

pytestmark = pytest.mark.sail

ENGINE = Spark(remote="sail", config={GROWTH: "0.001"})
EPOCHS = 4


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server is warm at once, and looked at with each epoch, so that nearly each begins with another one."""
    monkeypatch.setattr(sail_server, "_WARM", 1)
    monkeypatch.setattr(sail_server, "_EVERY", 1)
    monkeypatch.setitem(sys.modules, "psutil", None)  # the package does not bring it
    yield
    engine_module._sessions.pop(ENGINE._key, None)
    gc.collect()


def pipeline(folder: Path) -> do.Pipeline:
    @do.udf("long", name="twice_as_many")
    def twice(values: pa.Array) -> pa.Array:
        return pc.multiply(values, 2)

    made = do.Pipeline("p", root=str(folder), engine=ENGINE)
    rows = made.source(
        "rows", do.MemorySource([[("a", 10 * epoch)] for epoch in range(1, EPOCHS + 1)], schema="k string, v long")
    )
    rows.with_columns(v="twice_as_many(v)").key_by("k").aggregate(s="sum(v)", n="count(*)").to_table("t")
    return made


def server() -> OwnProcess:
    found = engine_module._sail_servers[ENGINE._key]
    assert isinstance(found, OwnProcess)
    return found


INTERRUPTED = """
import os, signal, sys, threading
from dagster_operators.runtime.engine import Spark
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored where the tests run in a shell's background
threading.Thread(target=lambda: sys.stdin.read() or os._exit(3), daemon=True).start()  # a server that is gone is waited for
session = Spark(remote="sail").session()
for _ in range(2):
    try:
        signal.raise_signal(signal.SIGINT)
        signal.pause()
    except KeyboardInterrupt:
        print(session.sql("SELECT 1").collect()[0][0], flush=True)
"""


def test_an_interrupt_is_told_to_the_process_and_does_not_end_its_server() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={name: value for name, value in os.environ.items() if name != GROWTH_VARIABLE},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    with process:
        timer = threading.Timer(60, process.stdin.close)
        timer.start()
        try:
            assert process.stdout.read() == "1\n1\n"
            assert process.wait() == 0
        finally:
            timer.cancel()
            process.kill()


@pytest.mark.usefixtures("soon")
def test_epochs_go_on_with_another_server_and_what_was_read_stays(tmp_path: Path) -> None:
    made = pipeline(tmp_path)
    made.run_epoch()
    first, read = server(), made.read("t")
    assert server() is first
    while server() is first:
        assert not made.run_epoch().empty
    assert read.collect() == [("a", 20, 1)]
    assert not first.ended
    del read
    made.run_until_caught_up()
    assert made.read("t").collect() == [("a", 20 * sum(range(1, EPOCHS + 1)), EPOCHS)]
    gc.collect()
    assert first.ended
    with pytest.raises(ProcessLookupError):
        os.kill(first._process.pid, 0)


def test_a_thread_that_made_the_session_neither_keeps_the_process_nor_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.connect.session import SparkSession

    monkeypatch.setattr(SparkSession, "_default_session", None)  # other tests have sessions, too
    monkeypatch.setattr(SparkSession, "_active_session", threading.local())
    monkeypatch.setattr(sail_server.Growth, "is_too_much", lambda *_: True)
    engine_module._sessions.pop(ENGINE._key, None)
    with ThreadPoolExecutor(1) as another:
        assert another.submit(lambda: ENGINE.session().range(3).count()).result() == 3
        first = server()
        with ENGINE.in_use(begins=True):
            assert ENGINE.session().range(3).count() == 3
        gc.collect()
        assert first.ended
        assert another.submit(SparkSession.active).result() is SparkSession.active() is ENGINE.session()
        assert another.submit(lambda: SparkSession.active().range(3).count()).result() == 3
    engine_module._sessions.pop(ENGINE._key)


def test_one_that_was_killed_is_replaced_with_the_next_epoch(tmp_path: Path) -> None:
    made = pipeline(tmp_path)
    made.run_epoch()
    first = server()
    psutil.Process(first._process.pid).kill()
    first._process.wait()
    made.run_epoch()
    assert server() is not first
    assert made.read("t").collect() == [("a", 60, 2)]
    engine_module._sessions.pop(ENGINE._key)


def killed() -> OwnProcess:
    found = server()
    psutil.Process(found._process.pid).kill()
    found._process.wait()
    return found


def test_one_that_was_killed_is_replaced_with_a_read(tmp_path: Path) -> None:
    made = pipeline(tmp_path)
    made.run_epoch()
    first = killed()
    assert made.read("t").collect() == [("a", 20, 1)]
    second = server()
    assert second is not first
    killed()
    assert ENGINE.session().range(3).count() == 3
    assert server() is not second
    made.run_epoch()
    assert made.read("t").collect() == [("a", 60, 2)]
    engine_module._sessions.pop(ENGINE._key)


def test_functions_print_as_much_as_they_like_and_none_of_it_is_lost(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a pipe holds, which stops who writes there until someone reads.

    Modules are found where this process finds them: in the current folder only if that is among these.
    """
    (tmp_path / "queue.py").write_text("raise RuntimeError('another module of that name')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    from pyspark.sql.connect.functions import udf
    from pyspark.sql.types import LongType

    engine_module.select_api(connect=True)

    @udf(LongType(), useArrow=False)  # a text would be parsed by a session, which need not be there yet
    def loud(number: int) -> int:
        print("row", number, "." * 100)  # noqa: T201 - what is tested
        print("error", number, "." * 100, file=sys.stderr)  # noqa: T201
        if number == 1999:
            print("what is left of a line", end="")  # noqa: T201
        return number

    running = OwnProcess(os.environ)
    late = threading.Timer(60, running.stop)
    late.daemon = True
    late.start()
    assert running.session().range(0, 2000, 1, 1).select(loud("id")).collect() == [(number,) for number in range(2000)]
    late.cancel()
    running.stop()
    out, err = capfd.readouterr()
    assert len(out) > 2**17
    assert [line.split()[1] for line in out.splitlines() if line.startswith("row ")] == [str(row) for row in range(2000)]
    assert [line.split()[1] for line in err.splitlines() if line.startswith("error ")] == [str(row) for row in range(2000)]
    assert out.endswith("what is left of a line")
    assert running._process.returncode == 0


def test_within_an_epoch_it_stays_the_same() -> None:
    ENGINE.session()
    first = server()
    with ENGINE.in_use(), ENGINE.in_use(begins=True):
        killed()
        ENGINE.session()
        with ENGINE.in_use(begins=True):
            assert server() is first
    with ENGINE.in_use(begins=True):
        assert ENGINE._key not in engine_module._sail_servers


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("raise SystemExit", "ended before it served"),
        ("import time; time.sleep(60)", "did not serve within 0.5 seconds"),
    ],
)
def test_one_that_does_not_serve_is_told_and_ended(program: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sail_server, "_PROGRAM", program)
    monkeypatch.setattr(sail_server, "_STARTING", 0.5 if "sleep" in program else 60.0)
    monkeypatch.setattr(sail_server, "_PATIENCE", 0.1)
    before = set(psutil.Process().children())
    with pytest.raises(EngineError, match=told) as refused:
        OwnProcess(os.environ)
    assert set(psutil.Process().children()) <= before
    assert f"without {GROWTH} and {GROWTH_VARIABLE} Sail runs in this process" in refused.value.remedy
    assert Spark(remote="sail").session().range(3).count() == 3


@pytest.mark.parametrize("processes", ["/proc", "/no/such/folder"])
def test_what_a_process_holds(processes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Linux tells it, and as other systems do."""
    if not (Path(processes).exists() or shutil.which("ps")):
        pytest.skip("there is no ps")
    monkeypatch.setattr(sail_server, "_PROCESSES", Path(processes))
    assert sail_server._held_by(os.getpid()) == pytest.approx(psutil.Process().memory_info().rss, rel=0.1)
    gone = psutil.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert sail_server._held_by(gone.pid) == 0


def test_where_nobody_tells_what_it_holds_it_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sail_server, "_PROCESSES", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    before = set(psutil.Process().children())
    with pytest.raises(EngineError, match="ps does not run") as refused:
        OwnProcess(os.environ)
    assert set(psutil.Process().children()) <= before
    assert f"without {GROWTH} and {GROWTH_VARIABLE} Sail runs in this process" in refused.value.remedy
    assert Spark(remote="sail").session().range(3).count() == 3


def test_what_it_holds_is_asked_only_when_it_is_looked_at() -> None:
    asked: list[int] = []
    growth = sail_server.Growth(10)
    for epoch in range(1, 121):
        growth.is_too_much(lambda epoch=epoch: float(asked.append(epoch) or 1))  # type: ignore[misc, func-returns-value]
    assert asked == [100, 105, 110, 115, 120]


@pytest.mark.parametrize("told", ["much", "-1", "inf"])
def test_a_growth_that_is_no_number(told: str) -> None:
    with pytest.raises(EngineError, match="no number of megabytes") as refused:
        Spark(remote="sail", config={GROWTH: told}).session()
    assert f"{{'{GROWTH}': '64'}}" in refused.value.remedy


IDLE = """
import sys, time
import dagster_operators as do
from dagster_operators.runtime import engine
from dagster_operators.runtime.engine import Spark

engine._IDLE = 0.5
ours = Spark(remote="sail", config={config})
pipeline = do.Pipeline("p", root=sys.argv[1], engine=ours)
pipeline.source("rows", do.MemorySource([[(1,)], [(2,)], [(3,)]], schema="v long")).to_table("t")
sessions = set()
for _ in range(2):
    pipeline.run_epoch()
    sessions.add(ours.session().session_id)
    time.sleep(2.5)
rows = [row.v for row in pipeline.read("t").collect()]
sessions.add(ours.session().session_id)
pipeline.run_epoch()
sessions.add(ours.session().session_id)
print(sorted(rows), len(sessions), len(engine._sail_servers))
"""


@pytest.mark.parametrize(
    "config",
    [pytest.param({}, id="in this process"), pytest.param({GROWTH: "100"}, marks=pytest.mark.slow, id="in its own")],
)
def test_a_session_that_sail_ended_as_nothing_was_asked_of_it_is_followed_by_another(
    tmp_path: Path, config: dict[str, str]
) -> None:
    """A process that runs an epoch an hour, say: each but the first failed, as Sail had no such session any more."""
    program = IDLE.replace("{config}", repr(config))
    environment = {**os.environ, "SAIL_SPARK__SESSION_TIMEOUT_SECS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.split("\n")[-2:] == ["[1, 2] 3 1", ""], done.stderr
