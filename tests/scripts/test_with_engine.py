"""The script that picks the engine of `make run`, on made-up machines: a PATH of their own, with or without Java."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "with-engine"
SHOW = ["sh", "-c", 'echo "engine=${DAGSTER_OPERATORS_ENGINE:-} home=${JAVA_HOME:-}"']
NEEDED = ("cut", "dirname", "env", "head", "id", "mkdir", "mv", "sed", "sh")


def program(file: Path, script: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def java(home: Path, version: str) -> Path:
    program(home / "bin" / "java", f"echo 'openjdk version \"{version}\" 2021-09-14' >&2")
    return home


class Machine:
    """A machine with the programs we give it and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name in NEEDED:
            found = shutil.which(name)
            assert found
            (self.bin / name).symlink_to(found)

    def run(self, command: list[str] = SHOW, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {"PATH": str(self.bin), "DAGSTER_OPERATORS_JAVA_HOMES": f"{self.folder}/jvm/*", **environment}
        return subprocess.run(["sh", SCRIPT, *command], env=variables, capture_output=True, text=True, check=False)

    def engine(self, **environment: str) -> str:
        done = self.run(**environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.2"])
def test_spark_where_java_is_new_enough(machine: Machine, version: str) -> None:
    home = java(machine.folder / "mine", version)
    assert machine.engine(JAVA_HOME=str(home)) == f"engine= home={home}"


def test_a_java_too_old_or_gone_is_not_taken(machine: Machine) -> None:
    java(machine.folder, "17.0.1")
    assert machine.engine(JAVA_HOME=str(java(machine.folder / "old", "1.8.0_392"))) == "engine= home="
    assert machine.engine(JAVA_HOME="/nowhere") == "engine= home="


def test_a_java_that_is_not_on_the_path_is_found(machine: Machine) -> None:
    java(machine.folder / "jvm" / "java-11", "11.0.1")
    home = java(machine.folder / "jvm" / "java-21", "21.0.1")
    assert machine.engine() == f"engine= home={home}"


def test_sail_where_there_is_no_java_and_no_way_to_install_it(machine: Machine) -> None:
    done = machine.run()
    assert (done.returncode, done.stdout.strip()) == (0, "engine=sail home=")
    assert "install the package openjdk-17" in done.stderr


def test_java_is_installed_where_that_is_allowed_and_its_package_named_where_not(machine: Machine) -> None:
    made = java(machine.folder / "made", "17.0.1")
    program(machine.bin / "sudo", 'shift; [ "$1" = true ] || "$@"')
    program(machine.bin / "true", "")
    program(
        machine.bin / "apt-get",
        f'case "$*" in *install*openjdk-17-jre-headless) mkdir -p {machine.folder}/jvm; mv {made} {machine.folder}/jvm/17;; esac',
    )
    refused = machine.run(DAGSTER_OPERATORS_INSTALL="no")
    assert refused.stdout.strip() == "engine=sail home="
    assert "install the package openjdk-17-jre-headless" in refused.stderr
    assert machine.engine() == f"engine= home={machine.folder}/jvm/17"


def test_a_failing_installation_ends_at_sail(machine: Machine) -> None:
    program(machine.bin / "sudo", 'shift; [ "$1" = true ] || "$@"')
    program(machine.bin / "apt-get", "exit 100")
    assert machine.engine() == "engine=sail home="


@pytest.mark.parametrize("engine", ["sail", "sc://somewhere:15002"])
def test_an_engine_without_java_that_is_chosen_stays(machine: Machine, engine: str) -> None:
    assert machine.engine(DAGSTER_OPERATORS_ENGINE=engine, CI="true") == f"engine={engine} home="


def test_ci_does_not_fall_back(machine: Machine) -> None:
    done = machine.run(CI="true")
    assert (done.returncode, done.stdout) == (1, "")


def test_the_exit_code_is_that_of_the_command(machine: Machine) -> None:
    assert machine.run(["sh", "-c", "exit 7"], DAGSTER_OPERATORS_ENGINE="sail").returncode == 7
