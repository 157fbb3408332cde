"""Archives of Spark's classes: who writes them, who uses them, whose they may be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dagster_operators.runtime import class_archive
from dagster_operators.runtime.class_archive import FOLDER_VARIABLE, options

FINISHED = (0xF00BABA8).to_bytes(4, "little") + b"classes"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "archives"))
    return tmp_path / "archives"


@pytest.fixture
def java(tmp_path: Path) -> str:
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch()
    (tmp_path / "jdk" / "release").write_text("17")
    return str(program)


def written(given: tuple[str, ...]) -> Path:
    (option,) = [option for option in given if option.startswith("-XX:ArchiveClassesAtExit=")]
    return Path(option.partition("=")[2])


def used(given: tuple[str, ...]) -> Path | None:
    paths = [option.partition("=")[2] for option in given if option.startswith("-XX:SharedArchiveFile=")]
    return Path(paths[0]) if paths else None


def test_the_first_marks_the_second_writes_the_third_uses(folder: Path, java: str) -> None:
    assert options(java, {}, make=True) == ()
    part = written(options(java, {}, make=True))
    assert options(java, {}, make=True) == (), "one writes it already"
    part.write_bytes(b"\0\0\0\0 begun")
    assert options(java, {}, make=True) == (), "Java has not written it to its end"
    part.write_bytes(FINISHED)
    archive = used(options(java, {}, make=False))
    assert archive is not None
    assert archive.read_bytes() == FINISHED
    assert not part.exists()


def test_processes_that_last_write_none(folder: Path, java: str) -> None:
    assert [options(java, {}, make=False) for _ in range(3)] == [(), (), ()]


def test_an_archive_that_never_came_is_written_by_another_process(folder: Path, java: str) -> None:
    options(java, {}, make=True)
    part = written(options(java, {}, make=True))
    os.utime(part, (0, 0))
    assert written(options(java, {}, make=True)).exists()


def test_another_java_or_jar_has_another_archive(folder: Path, java: str) -> None:
    options(java, {}, make=True)
    written(options(java, {}, make=True)).write_bytes(FINISHED)
    assert used(options(java, {}, make=True))
    assert used(options(java, {"spark.jars.packages": "a:b:1"}, make=True)) is None
    (Path(java).parents[1] / "release").write_text("21")
    assert used(options(java, {}, make=True)) is None


def test_only_the_last_used_are_kept(folder: Path, java: str) -> None:
    for number in range(5):
        settings = {"spark.jars.packages": f"a:b:{number}"}
        options(java, settings, make=True)
        written(options(java, settings, make=True)).write_bytes(FINISHED)
        archive = used(options(java, settings, make=True))
        assert archive is not None
        os.utime(archive, (number, number))
    assert sorted(path.stat().st_mtime for path in folder.glob("*.jsa")) == [2, 3, 4]


@pytest.mark.parametrize("rights", [0o777, 0o720, 0o702])
def test_a_folder_that_others_may_write_to_is_not_used(folder: Path, java: str, rights: int) -> None:
    folder.mkdir()
    folder.chmod(rights)
    assert [options(java, {}, make=True) for _ in range(3)] == [(), (), ()]


def test_a_link_is_no_folder(folder: Path, java: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    assert [options(java, {}, make=True) for _ in range(3)] == [(), (), ()]


def test_no_folder_no_home_no_archive(java: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for chosen in ("no", "/proc/none", str(tmp_path / "with blank")):
        monkeypatch.setenv(FOLDER_VARIABLE, chosen)
        assert [options(java, {}, make=True) for _ in range(3)] == [(), (), ()]
    assert class_archive.FOLDER_VARIABLE == FOLDER_VARIABLE
