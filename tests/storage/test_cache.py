"""One folder for what can be made again: whoever asks gets the same, and libraries only one that nobody else may write."""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
from pathlib import Path

import pytest

from dagster_operators.errors import EngineError
from dagster_operators.storage.cache import CACHE_VARIABLE, cache_folder, is_private, library_folder, make_private, state_copies


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_by_default_copies_and_libraries_are_in_one_folder_of_the_user(temporary):
    folder = temporary / f"dagster_operators-{pwd.getpwuid(os.getuid()).pw_name}"
    assert cache_folder() == folder
    assert state_copies("flights") == f"{folder}/state/flights"
    assert library_folder() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_user_without_a_name(temporary, monkeypatch):
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: {}[uid])
    assert cache_folder() == temporary / f"dagster_operators-{os.getuid()}"


def test_the_variable_names_another_folder(temporary, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(temporary / "a" / "b"))
    assert state_copies("flights") == f"{temporary}/a/b/state/flights"
    assert library_folder() == temporary / "a" / "b"


def test_an_empty_variable_means_no_copies_but_libraries_need_a_file(temporary, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, "")
    assert cache_folder() is None
    assert state_copies("flights") is None
    assert library_folder().parent == temporary


def test_a_folder_that_others_may_write_holds_no_libraries(temporary, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(temporary / "shared"))
    (temporary / "shared").mkdir()
    (temporary / "shared").chmod(0o770)
    with pytest.raises(EngineError, match="can be written by others"):
        library_folder()


def test_folders_that_are_made_are_private(temporary):
    make_private(Path(temporary, "x", "y"))
    assert [stat.S_IMODE((temporary / part).stat().st_mode) for part in ("x", "x/y")] == [0o700, 0o700]


def test_a_folder_is_private_whose_parents_are_too_or_the_system_s(temporary, monkeypatch):
    folder = temporary / "x" / "y"
    make_private(folder)
    assert is_private(folder)
    temporary.chmod(0o1777)
    assert is_private(folder), "as the system's folder for temporary files is"
    temporary.chmod(0o777)
    assert not is_private(folder), "others can put another folder in its place"
    folder.parent.chmod(0o722)
    folder.chmod(0o722)
    assert not is_private(folder)
    (temporary / "link").symlink_to(folder, target_is_directory=True)
    assert not is_private(temporary / "link")
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert not is_private(folder)


@pytest.mark.parametrize("pipeline", ["..", "", "a/../..", "/etc"])
def test_copies_of_a_pipeline_with_a_forged_name_are_nowhere(pipeline):
    assert state_copies(pipeline) is None
