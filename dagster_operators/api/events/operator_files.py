"""The files that operators and nodes are in, as a dataflow's file names them."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec
from typing import Final

from dagster_operators.api.events.noted import Noted
from dagster_operators.api.events.python_files import PythonFiles
from dagster_operators.api.queries.located import Located
from dagster_operators.errors import PipelineError
from dagster_operators.operators.events.state_methods import BOTH, without_the_other

_ON_EVENT: Final = "on_event"
_OF_PYTHON: Final = ("pip", "pip3", "uv", "maturin", "poetry")
"""Programs that install commands in Python's environment."""


class OperatorFiles:
    """Finds them, and adds them to those that go with the dataflow.

    Args:
        noted: Collects what is wrong.
        files: Takes the files.
    """

    def __init__(self, noted: Noted, files: PythonFiles) -> None:
        self._noted = noted
        self._files = files

    def python(self, given: Located, what: str) -> str | None:
        """The file of an operator, or None if something is wrong with it."""
        found = given.data["python"]
        if isinstance(found.data, dict):
            self._noted.unknown_keys(f"python of {what}", found, ("source", "conda_env"), told=("source",))
            conda = found.data.get("conda_env")
            if conda is not None and conda.data is not None:
                self._noted.wrong(
                    conda, f"{what}: it runs in the workers' own Python, not in the conda environment {conda.text!r}",
                    "install what it needs beside this package, and leave conda_env out",
                )  # fmt: skip
            found = found.data.get("source", found)
        if not isinstance(found.data, str):
            self._noted.wrong(found, f"{what}: its Python file is no text", "write python: file.py")
            return None
        if "://" in found.data:
            self._noted.wrong(found, f"{what}: its Python file is at a URL", "download it, and give its path")
            return None
        key = self._loaded(found, what, needs="Operator")
        alone = self._files.method_alone(key) if key is not None else None
        if alone is not None:
            self._noted.wrong(found, f"{what}, in {found.data!r}: {without_the_other(alone)}", BOTH)
            return None
        if key is not None and self._files.lacks(key, "Operator", _ON_EVENT):
            self._noted.wrong(
                found, f"{what}: the class Operator in {found.data!r} has no method {_ON_EVENT}",
                f"write def {_ON_EVENT}(self, event, send_output), which returns DoraStatus.CONTINUE",
            )  # fmt: skip
            return None
        return key

    def script(self, given: Located, what: str) -> str | None:
        """The file of a node's script, or None if something is wrong with it."""
        found = given.data["path"]
        if not isinstance(found.data, str):
            self._noted.wrong(found, f"{what}: its path is no text", "write path: file.py")
            return None
        name = found.data if found.data.endswith(".py") or not self._files.has(f"{found.data}.py") else f"{found.data}.py"
        if "://" in name:
            self._noted.wrong(found, f"{what}: its path {name!r} is a URL", "download it, and write path: file.py")
            return None
        if not name.endswith(".py"):
            return self._installed(given, found, what)
        key = self._loaded(replace(found, data=name), what)
        self._check_digest(given, key, what)
        if key is not None and self._files.is_operator_alone(key):
            self._noted.wrong(
                found, f"{what}: the script {name!r} has a class Operator and does nothing with a Node",
                f"make it an operator: operator: {{python: {name}, inputs: ..., outputs: ...}}",
            )  # fmt: skip
            return None
        return key

    def _installed(self, given: Located, found: Located, what: str) -> str | None:
        """The file of a node that is installed, by the name of its command; or None if there is none."""
        name = found.data
        key = self._files.add_installed(name)
        if key is not None:
            return key
        build = given.data.get("build")
        by = build.data.strip() if build is not None and isinstance(build.data, str) else ""
        if name in ("dynamic", "shell"):
            told, way = f"is {name!r}, which only dora's daemon has", "write path: file.py"
        elif any(word in _OF_PYTHON for word in by.split()):
            if self._noted.is_checked:
                self._noted.remark(found, f"{what}: its path is the command {name!r}, which is not installed")
                return self._files.add_missing(name)
            told = f"is the command {name!r}, which is not installed"
            way = f"install it ({by}), or run with --build: dagster-operators run FILE --build"
        else:
            told = f"is the native program {name!r}, which speaks to dora's daemon, and there is none here"
            way = "write path: file.py; or make it an operator: in a shared library"
        self._noted.wrong(found, f"{what}: its path {told}", way)
        return None

    def _check_digest(self, given: Located, key: str | None, what: str) -> None:
        """See that a file is the one whose digest is written."""
        wanted = given.data.get("path_sha256")
        if wanted is None or wanted.data is None:
            return
        if not re.fullmatch(r"[0-9a-fA-F]{64}", wanted.text):
            self._noted.wrong(wanted, f"{what}: path_sha256 is {wanted.text!r}", "write the 64 digits that sha256sum gives")
        elif key is not None and (found := self._files.digest(key)) != wanted.text.lower():
            self._noted.wrong(
                wanted, f"{what}: the file {key!r} has another SHA-256 than path_sha256: {found}",
                "use the file that was meant; or write that digest, if it is this one",
            )  # fmt: skip

    def shared_library(self, given: Located, what: str) -> str | None:
        """The library of an operator, or None if something is wrong with it."""
        found = given.data["shared-library"]
        if "python" in given.data:
            self._noted.wrong(given.data["python"], f"{what} has two sources", "take one of them out")
        if find_spec("cffi") is None:
            self._noted.wrong(
                found, f"{what}: libraries need cffi, which is not installed", "pip install 'dagster_operators[native]'"
            )
            return None
        if not isinstance(found.data, str):
            self._noted.wrong(found, f"{what}: its library is no text", "write shared-library: target/release/name")
            return None
        try:
            return self._files.add_library(found.data)
        except PipelineError as error:
            self._noted.wrong(found, f"{what}: {error.problem}", error.remedy)
            return None

    def _loaded(self, found: Located, what: str, needs: str | None = None) -> str | None:
        try:
            key = self._files.add(found.data)
        except OSError as error:
            told = "is not there" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
            self._noted.wrong(found, f"{what}: the file {found.data!r} {told}", "give its path as seen from the dataflow's file")
            return None
        except SyntaxError as error:
            place = f", line {error.lineno}" if error.lineno else ""
            self._noted.wrong(found, f"{what}: the file {found.data!r} is no Python{place}: {error.msg}", "correct the file")
            return None
        if needs is not None and not self._files.defines(key, needs):
            self._noted.wrong(
                found, f"{what}: the file {found.data!r} has no class Operator", "give the operator's class that name"
            )
            return None
        return key
