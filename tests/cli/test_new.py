"""``dagster-operators new operator``: what it writes, that it works once installed, and which names it refuses."""

from __future__ import annotations

import runpy
import subprocess
import sys
import tomllib

import pytest
from click.testing import CliRunner

from dagster_operators.cli.main import main
from dagster_operators.cli.scaffold import WAYS, new_operator
from dagster_operators.errors import PipelineError
from tests.outside.environment import Environment


def run(*arguments):
    return CliRunner().invoke(main, ["new", "operator", *map(str, arguments)])


@pytest.mark.parametrize("way", WAYS)
def test_an_operator_is_three_files_in_one_folder_and_an_entry_point(tmp_path, way):
    tmp_path = tmp_path / "my own"
    tmp_path.mkdir()
    done = run("drop_nulls", "--into", tmp_path, f"--{way}")
    assert done.exit_code == 0, done.output
    folder = tmp_path / "dagster-operators-drop-nulls"
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    source = "src/dagster_operators_drop_nulls"
    assert {name for name in files if name.startswith(source)} - {f"{source}/__init__.py"} == {
        f"{source}/logical.py", f"{source}/lowering.py", f"{source}/physical.py",
    }  # fmt: skip
    assert {name for name in files if not name.startswith(source)} == {
        "pyproject.toml", "README.md", "docs/drop_nulls.md", "tests/test_drop_nulls.py",
    }  # fmt: skip
    entry = (
        '[project.entry-points."dagster_operators.operators"]\ndrop_nulls = "dagster_operators_drop_nulls.lowering:register"\n'
    )
    assert entry in (folder / "pyproject.toml").read_text()
    assert [name for name in files if "$" in (folder / name).read_text()] == []
    assert f"    pip install -e '{folder}' && pytest '{folder}'\n" in done.output
    assert str(folder / source / "physical.py") in done.output


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
def test_what_it_wrote_passes_its_tests_once_it_is_installed(tmp_path):
    environment = Environment.make(tmp_path / "environment")
    new_operator("drop_nulls", tmp_path, "relational")
    folders = [tmp_path / "dagster-operators-drop-nulls"]
    done = run("new_keys", "--add-to", folders[0], "--batch")
    assert done.exit_code == 0, done.output
    environment.install(folders[0])
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-c", "/dev/null", "--rootdir", str(tmp_path)]
    done = environment.run("-m", "pytest", *options, *map(str, folders), DAGSTER_OPERATORS_ENGINE="sail", RUST_LOG="off")
    assert done.returncode == 0, done.stdout.decode()[-4000:]
    assert "9 passed" in done.stdout.decode()


def test_its_tests_say_what_to_do_where_it_is_not_installed(tmp_path, monkeypatch):
    new_operator("drop_nulls", tmp_path)
    folder = tmp_path / "dagster-operators-drop-nulls"
    monkeypatch.syspath_prepend(folder / "src")
    with pytest.raises(pytest.fail.Exception, match="do not have the method drop_nulls yet: install"):
        runpy.run_path(str(folder / "tests/test_drop_nulls.py"))


def test_the_command_is_there_without_its_script():
    done = subprocess.run([sys.executable, "-m", "dagster_operators.cli", "plan", "--help"], capture_output=True, check=True)
    assert b"Usage: dagster-operators plan" in done.stdout


@pytest.mark.parametrize("name", ["Limit", "drop-nulls", "2nd", "class", "drop__nulls", "_hidden", "", "../escape", "naïve"])
def test_what_is_no_name_is_refused(tmp_path, name):
    done = run(name, "--into", tmp_path)
    assert (done.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert "is no name for an operator" in done.output


@pytest.mark.parametrize("name", ["filter", "union", "source", "columns", "key_by", "window", "keys"])
def test_a_name_that_is_taken_is_refused_with_who_has_it(tmp_path, name):
    done = run(name, "--into", tmp_path)
    assert (done.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert f"the name {name!r} is taken by 'dagster_operators'" in done.output


def test_a_class_of_this_package_is_not_hidden(tmp_path):
    with pytest.raises(PipelineError, match="a class 'Stream' would be mistaken"):
        new_operator("stream", tmp_path)


def test_a_package_gets_a_second_operator_and_nothing_in_it_is_overwritten(tmp_path):
    folder = tmp_path / "dagster-operators-drop-nulls"
    assert run("drop_nulls", "--into", tmp_path).exit_code == 0
    assert run("new_keys", "--add-to", folder, "--batch").exit_code == 0
    points = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]["dagster_operators.operators"]
    assert points == {
        "drop_nulls": "dagster_operators_drop_nulls.lowering:register",
        "new_keys": "dagster_operators_drop_nulls.new_keys.lowering:register",
    }
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert [path for path, text in before.items() if b"$" in text] == []
    assert folder / "src/dagster_operators_drop_nulls/new_keys/physical.py" in before
    for name, place, told in (
        ("new_keys", folder, "is there already"),
        ("other", folder / "docs", "has no pyproject.toml"),
    ):
        done = run(name, "--add-to", place)
        assert (done.exit_code, told in done.output) == (1, True)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_nothing_is_overwritten(tmp_path):
    assert run("drop_nulls", "--into", tmp_path).exit_code == 0
    changed = tmp_path / "dagster-operators-drop-nulls" / "README.md"
    changed.write_text("mine")
    done = run("drop_nulls", "--into", tmp_path, "--batch")
    assert done.exit_code == 1
    assert "is there already" in done.output
    assert changed.read_text() == "mine"
    assert run("drop_nulls", "--into", tmp_path / "missing").exit_code == 2
