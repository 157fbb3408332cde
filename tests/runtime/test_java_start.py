"""The options with which embedded Spark's Java starts, by how long the process is to be there and how much it has to do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dagster_operators.errors import EngineError
from dagster_operators.runtime import class_archive, java_start
from dagster_operators.runtime.engine import check_java
from dagster_operators.runtime.java_start import LIFETIME_VARIABLE, SMALL, Lifetime, lifetime, options

FIRST_COMPILER = "-XX:TieredStopAtLevel=1"


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_start, "_expected", [])
    monkeypatch.setenv(class_archive.FOLDER_VARIABLE, "no")


@pytest.mark.parametrize(
    "command",
    [
        ["/venv/bin/dagster", "api", "execute_run", "..."],
        ["/venv/bin/dagster", "api", "execute_step", "..."],
        ["/site-packages/dagster/__main__.py", "job", "execute", "-j", "flights"],
        ["dagster", "asset", "materialize", "--select", "*"],
    ],
)
def test_processes_of_a_run_are_brief(command: list[str]) -> None:
    assert lifetime(command, {}) is Lifetime.BRIEF


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["dagster", "api", "grpc"],
        ["dagster", "dev"],
        ["/usr/bin/python"],
        ["jupyter", "job", "execute"],
        ["dagster-daemon", "run"],
    ],
)
def test_other_processes_last(command: list[str]) -> None:
    assert lifetime(command, {}) is Lifetime.LASTING


@pytest.mark.parametrize("kind", Lifetime)
def test_the_variable_overrides_the_command(kind: Lifetime) -> None:
    for command in (["dagster", "dev"], ["dagster", "api", "execute_run"]):
        assert lifetime(command, {LIFETIME_VARIABLE: kind.value}) is kind


def test_another_value_is_refused_and_the_remedy_works() -> None:
    with pytest.raises(EngineError) as refused:
        lifetime(["dagster", "dev"], {LIFETIME_VARIABLE: "short"})
    assert all(kind.value in refused.value.remedy for kind in Lifetime)
    assert lifetime(["dagster", "dev"], {LIFETIME_VARIABLE: "brief"}) is Lifetime.BRIEF


@pytest.mark.parametrize(
    ("kind", "sizes", "expected"),
    [
        ("brief", [SMALL], True),
        ("brief", [], False),  # how much there is, is not known
        ("brief", [SMALL + 1, 10], False),  # of two pipelines one is large
        ("lasting", [10], False),
    ],
)
def test_small_epochs_of_brief_processes_are_compiled_once(monkeypatch, kind, sizes, expected) -> None:
    monkeypatch.setenv(LIFETIME_VARIABLE, kind)
    for size in sizes:
        java_start.expect(size)
    assert (FIRST_COMPILER in options({}, "java")) is expected


@pytest.fixture
def archives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A process that is to write an archive."""
    monkeypatch.setenv(LIFETIME_VARIABLE, "brief")
    monkeypatch.setenv(class_archive.FOLDER_VARIABLE, str(tmp_path / "archives"))
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "")
    java_start.expect(1)
    options({}, check_java())
    return tmp_path / "archives"


def test_an_archive_is_written_by_the_second_process(archives: Path) -> None:
    assert any("ArchiveClassesAtExit" in option for option in options({}, check_java()))
    assert not list(archives.glob("*.jsa")), "the trial writes none"


@pytest.mark.parametrize("way", ["settings", "environment", "JAVA_TOOL_OPTIONS", "file"])
@pytest.mark.parametrize(
    "given",
    ["-Xshare:off", "-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=127.0.0.1:0", "-Xmx600m"],
)
def test_java_starts_beside_options_of_the_user(archives, monkeypatch, tmp_path, way, given) -> None:
    """Java ends with an error where it is to write an archive beside an agent, for one."""
    settings = {"spark.driver.extraJavaOptions": given} if way == "settings" else {}
    if way == "file":
        (tmp_path / "spark-defaults.conf").write_text(f"spark.driver.extraJavaOptions  {given}\n")
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    elif way != "settings":
        monkeypatch.setenv("SPARK_SUBMIT_OPTS" if way == "environment" else way, given)
    chosen = options(settings, check_java())
    assert class_archive.starts(check_java(), [*chosen, *([] if way == "JAVA_TOOL_OPTIONS" else [given])])
    assert not any("ArchiveClassesAtExit" in option for option in chosen) or given == "-Xmx600m"


EPOCHS = """
import sys
from pathlib import Path
import dagster_operators as do
from dagster_operators.runtime import java_start
from dagster_operators.runtime.engine import Spark
folder = Path(sys.argv[1])
(folder / "in").mkdir(exist_ok=True)
(folder / "in" / f"{len(list((folder / 'in').iterdir()))}.json").write_text('{"v": 1}')
engine = Spark(master="local[1]", config={"spark.sql.shuffle.partitions": "1"})
pipeline = do.Pipeline("small", root=str(folder / "root"), engine=engine)
pipeline.source("rows", do.FileSource(str(folder / "in"), format="json", schema="v long")).to_table("copy")
pipeline.run_epoch()
from pyspark import SparkContext
java = SparkContext._active_spark_context._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
print(pipeline.read("copy").count(), *java.getInputArguments())
"""


@pytest.mark.slow
def test_the_third_process_has_an_archive_and_the_second_one_knows_the_size(tmp_path: Path) -> None:
    """Three processes, an epoch each: a mark, the archive, and its use; a damaged one is done without."""
    archives = tmp_path / "archives"

    def run() -> list[str]:
        environment = {LIFETIME_VARIABLE: "brief", class_archive.FOLDER_VARIABLE: str(archives), "JDK_JAVA_OPTIONS": ""}
        done = subprocess.run(
            [sys.executable, "-c", EPOCHS, str(tmp_path)], env={**os.environ, **environment},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.split()

    first, second = run(), run()
    assert (first[0], second[0]) == ("1", "2")
    assert FIRST_COMPILER not in first
    assert FIRST_COMPILER in second
    assert not any("Archive" in option for option in first)
    assert any("ArchiveClassesAtExit" in option for option in second)
    part = next(archives.glob("*.part"))
    for _ in range(600):  # Java writes the archive when Python has ended
        if part.read_bytes()[:1]:
            break
        time.sleep(0.1)
    third = run()
    assert third[0] == "3"
    (archive,) = archives.glob("*.jsa")
    assert f"-XX:SharedArchiveFile={archive}" in third
    damaged = bytearray(archive.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    archive.chmod(0o600)
    archive.write_bytes(damaged)
    uses = [option for option in third if "Shared" in option or "IgnoreUnrecognized" in option]
    subprocess.run([check_java(), *uses, "-version"], capture_output=True, check=True)
