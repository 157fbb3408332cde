"""Fixtures that all tests share: engines and a PostgreSQL server, each started once when a test first asks for it."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from dagster_operators.errors import JavaMissingError
from dagster_operators.runtime.engine import check_java
from tests.engines import CONNECT, EMBEDDED, ENGINES, SAIL
from tests.examples import TIMES
from tests.met_errors import watch, wrong_in_met

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.connectors.postgres_server import Database, PostgresServer
    from tests.storage.s3_server import S3Server


pytest_plugins = ["tests.spark_again"]

OF_SLOW = 900
"""Seconds that a slow test has if it says nothing else: those that try many examples took 430 on a machine with a load of 30."""

NOWHERE = tuple(Path(__file__).parents[1] / name for name in ("nowhere", "unused"))


def _lacks(what: str) -> NoReturn:
    """End a test that needs something this machine does not have: it is skipped, but in CI nothing may be missing."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI needs {what}")
    pytest.skip(f"needs {what}")


def _engines_of(item: pytest.Item) -> list[str]:
    parameters = getattr(item, "callspec", None)
    asked = {*getattr(item, "fixturenames", ()), *(map(str, parameters.params.values()) if parameters else ())}
    return [engine for engine in ENGINES if engine in asked]


# Sail's and Connect's client would run its own hooks in the child that becomes Spark's Java process, which at times ends it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("RUST_LOG", "off")  # Sail's messages, which are not the tests'

watch()

SLOW = (
    "tests/connectors/test_postgres_crash",
    "tests/connectors/test_sink_pipeline.py::test_a_pipeline_that_is_killed",
    "tests/api/events/test_between_operators.py::test_every_cut",
    "tests/cli/test_new.py::test_what_it_wrote_passes",
    "tests/crash/",
    "tests/end_to_end/test_browser",
    "tests/end_to_end/test_same_answer",
    "tests/end_to_end/test_replaced_files.py::test_each_data_file",
    "tests/functions/test_aggregate.py::test_other_engines_give_the_same[connect]",
    "tests/functions/test_scalar.py::test_a_function_is_called_in_every_operator[connect]",
    "tests/jobs/test_nexmark_queries.py::test_killed_in_the_middle",
    "tests/operators/aggregates/test_moments.py::test_moments",
    "tests/operators/arrow/test_numbered.py::test_a_retry_finds_the_same_places[spark]",
    "tests/operators/loops/test_loop.py::test_a_run_that_dies_in_the_third_round_goes_on_there[spark]",
    "tests/orchestration/test_component.py::test_dg_lists",
    "tests/storage/test_root_path.py::test_a_root_with_any_signs_holds_what_a_plain_one_does[spark]",
    "tests/outside/test_environment",
    "tests/outside/test_wheel",
    "tests/planner/rules/test_every_rule.py::test_nor_do_they_on_spark",
    "tests/planner/rules/test_roots.py::test_they_may_on_spark_too",
    "tests/planner/rules/test_skip_files.py::test_nothing_that_is_seen_changes[engine1]",
    "tests/runtime/workers/test_process_program.py::test_an_operator_that_aborts_is_an_error_and_once_mended_the_run_goes_on[spark]",
    "tests/transactions/test_crash",
    "tests/transactions/test_every_interleaving.py::test_effects_that_take_place_and_are_reported_as_failed[two runs, once]",
    "tests/transactions/test_every_interleaving.py::test_stages_side_by_side_of_a_run_that_another_takes_over_from[in threads-1]",
    "tests/transactions/test_every_interleaving.py::test_two_runs_and_two_crashes",
)
"""What is slow, by how its name begins."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect as cheaply as can be, since each process of a run does it.

    The tests with their asserts rewritten, which takes longer than all else, are kept also where PYTHONDONTWRITEBYTECODE is set,
    as the compiled package is. Garbage is not looked for: nearly all that is made stays.
    """
    forbidden, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    gc.disable()
    try:
        return (yield)
    finally:
        sys.dont_write_bytecode = forbidden
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that ask for an engine, so that ``-m 'not spark'`` leaves them out, and those that are slow.

    In a long search each test has as many times the time as it tries examples.
    """
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")
        if item.get_closest_marker("slow") is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(OF_SLOW))
        if TIMES > 1:
            own = item.get_closest_marker("timeout")
            item.add_marker(pytest.mark.timeout(TIMES * float(own.args[0] if own else config.getini("timeout"))), append=False)
        for engine in _engines_of(item):
            item.add_marker("sail" if engine == "sail" else "spark")


def pytest_collection_finish() -> None:
    """Leave what was collected, which stays to the end, out of every further search for garbage, and search less often.

    By default each 700 new objects are a reason to search.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_runtest_call(item: pytest.Item) -> None:
    """Let PySpark's functions follow the test's engine: they work for one kind of session at a time."""
    engines = _engines_of(item)
    if len(engines) == 1:
        if engines[0] == "connect":
            EMBEDDED.session()  # whose process serves it
        ENGINES[engines[0]].session()


@pytest.fixture(scope="session", autouse=True)
def _copies_of_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Workers keep local copies of state; those of the tests go with the tests' other files."""
    os.environ.setdefault("DAGSTER_OPERATORS_CACHE", str(tmp_path_factory.mktemp("copies")))


@pytest.fixture(autouse=True)
def _nowhere_stays_empty() -> Iterator[None]:
    """Pipelines whose root is ``nowhere`` or ``unused`` are only looked at: a write leaves files in the working tree."""
    yield
    if written := [root for root in NOWHERE if root.exists()]:
        for root in written:
            shutil.rmtree(root, ignore_errors=True)
        pytest.fail(f"something was written to the root {written[0].name!r}: let the test use tmp_path")


@pytest.fixture(autouse=True)
def _errors_say_what_to_do() -> Iterator[None]:
    """Each error of this package that a test meets has a way out, else the test fails: what it says to call or to type is there.

    Whether the ways lead to the end is for tests that follow them; tests/test_followed_remedies.py names these.
    """
    yield
    if wrong := wrong_in_met():
        pytest.fail("\n".join(wrong))


@pytest.fixture
def spark() -> SparkSession:
    """Embedded Apache Spark with Delta on two cores, started once; another one if it stopped by itself."""
    try:
        check_java()
    except JavaMissingError as error:
        _lacks(f"Java ({error})")
    return EMBEDDED.session()


@pytest.fixture
def connect(spark: SparkSession) -> SparkSession:
    """The same Spark through Spark Connect."""
    assert spark
    return CONNECT.session()


@pytest.fixture(scope="session")
def sail() -> SparkSession:
    """Embedded Sail behind Spark Connect."""
    if importlib.util.find_spec("pysail") is None:
        _lacks("Sail, the extra sail")
    return SAIL.session()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server on loopback, started once."""
    if importlib.util.find_spec("psycopg") is None:
        _lacks("psycopg, the extra postgres")
    from tests.connectors.postgres_server import PostgresServer, binaries

    programs = binaries()
    if programs is None:
        _lacks("the programs of a PostgreSQL server (Debian's package postgresql)")
    server = PostgresServer(programs, Path(tempfile.mkdtemp(prefix="postgres-")))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def s3_process() -> Iterator[S3Server]:
    """An S3 server on loopback, started once."""
    from tests.storage.s3_server import s3_server

    with s3_server() as server:
        yield server


@pytest.fixture
def s3(s3_process: S3Server) -> Iterator[S3Server]:
    """The server, which behaves; what Sail is told by the environment is gone afterwards."""
    before = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    s3_process.behave()
    yield s3_process
    s3_process.behave()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Database]:
    """A new database; nothing prepared may be left in it."""
    with postgres.database() as made:
        yield made
        assert made.prepared() == []
