"""What may not be read or written, and an engine that is missing: refused with the reason, nothing committed, nothing lost."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dagster_operators.errors import JavaMissingError, MissingInputError, StorageError
from dagster_operators.runtime.engine import check_java
from tests.end_to_end.alone import run_alone
from tests.end_to_end.landing import Landing, keys_of, refused
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")

GOOD = "a,1,2024-01-01T00:00:00Z"


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    made = Landing(tmp_path, SAIL)
    made.arrive(GOOD)
    return made


@contextmanager
def mode(path: Path, bits: int) -> Iterator[None]:
    """Change a mode, and give the owner all rights again at the end."""
    path.chmod(bits)
    try:
        yield
    finally:
        path.chmod(0o700)


def assert_nothing_was_lost(landing: Landing) -> None:
    pipeline = landing.pipeline()
    pipeline.run_epoch()
    assert keys_of(pipeline) == ["a"]


# --- input -----------------------------------------------------------------------------------------------------------


def test_a_folder_that_may_not_be_read(landing: Landing) -> None:
    with mode(landing.folder, 0):
        outcome = run_alone(landing, bound_by_modes=True)
    outcome.assert_refused(MissingInputError, "may not be read", source="rows", file=str(landing.folder))
    assert_nothing_was_lost(landing)


def test_a_file_that_may_not_be_read(landing: Landing) -> None:
    (file,) = landing.folder.iterdir()
    with mode(file, 0):
        outcome = run_alone(landing, bound_by_modes=True)
    outcome.assert_refused(MissingInputError, "may not be read", source="rows", file=str(file))
    assert_nothing_was_lost(landing)


def test_a_link_to_itself_as_folder(landing: Landing) -> None:
    landing.folder = landing.folder / "loop"
    landing.folder.symlink_to(landing.folder)
    pipeline = landing.pipeline()
    with refused(pipeline, MissingInputError, "cannot be read", source="rows", file=str(landing.folder)):
        pipeline.run_epoch()


@pytest.mark.timeout(60)
def test_a_pipe_among_the_files_is_not_waited_for(landing: Landing) -> None:
    pipe = landing.folder / "pipe.csv"
    os.mkfifo(pipe)
    pipeline = landing.pipeline()
    with refused(pipeline, MissingInputError, "no file but a pipe", source="rows", file=str(pipe)):
        pipeline.run_epoch()
    pipe.unlink()
    assert_nothing_was_lost(landing)


# --- storage root ----------------------------------------------------------------------------------------------------


def test_a_root_that_may_not_be_written(landing: Landing) -> None:
    landing.root.mkdir()
    with mode(landing.root, 0o500):
        outcome = run_alone(landing, bound_by_modes=True)
    outcome.assert_refused(StorageError, "denied")
    assert outcome.where
    assert outcome.where["file"].startswith(str(landing.root))
    assert not list(landing.root.iterdir())
    assert_nothing_was_lost(landing)


def test_a_table_that_may_not_be_written(landing: Landing) -> None:
    """The rights are lost between two epochs, of one table only."""
    pipeline = landing.pipeline()
    pipeline.run_epoch()
    landing.arrive("b,2,2024-01-01T05:00:00Z")
    with mode(landing.root / "tables" / "clean", 0o500):
        outcome = run_alone(landing, bound_by_modes=True)
        outcome.assert_refused(StorageError, "denied", epoch="2")
        assert len(pipeline.history()) == 1
    pipeline.run_epoch()
    assert keys_of(pipeline) == ["a", "b"]


def test_a_root_below_a_file(landing: Landing) -> None:
    landing.root.write_text("no folder")
    landing.root = landing.root / "inner"
    outcome = run_alone(landing)
    outcome.assert_refused(StorageError, "")
    assert outcome.where
    assert outcome.where["file"].startswith(str(landing.root))
    landing.root.parent.unlink()
    assert_nothing_was_lost(landing)


# --- Java ------------------------------------------------------------------------------------------------------------


def test_no_java(landing: Landing, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path / "nothing")}
    environment.pop("JAVA_HOME", None)
    outcome = run_alone(landing, engine="spark", environment=environment)
    outcome.assert_refused(JavaMissingError, "no java was found")
    assert "DAGSTER_OPERATORS_ENGINE=sail" in outcome.remedy
    assert_nothing_was_lost(landing)


def test_a_java_home_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissingError, match="no java was found"):
        check_java.__wrapped__()


def test_a_java_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!{sys.executable}\nimport sys\nsys.stderr.write('openjdk version \"11.0.22\" 2024-01-16\\n')\n")
    java.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissingError, match=r"is version 11\.0\.22"):
        check_java.__wrapped__()
