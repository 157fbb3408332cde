"""The files that operators and nodes are in, as a dataflow's file names them."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec

from dagster_operators.api.events.noted import Noted
from dagster_operators.api.events.python_files import PythonFiles
from dagster_operators.api.queries.located import Located
from dagster_operators.errors import PipelineError
from dagster_operators.operators.events.state_methods import BOTH, without_the_other


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
        return key

    def script(self, given: Located, what: str) -> str | None:
        """The file of a node's script, or None if something is wrong with it."""
        found = given.data["path"]
        if not isinstance(found.data, str):
            self._noted.wrong(found, f"{what}: its path is no text", "write path: file.py")
            return None
        name = found.data if found.data.endswith(".py") or not self._files.has(f"{found.data}.py") else f"{found.data}.py"
        if "://" in name or not name.endswith(".py"):
            self._noted.wrong(
                found, f"{what}: its path {name!r} is no Python file, and other programs need dora to run",
                "write path: file.py; or make it an operator: in a shared library",
            )  # fmt: skip
            return None
        key = self._loaded(replace(found, data=name), what)
        self._check_digest(given, key, what)
        if key is not None and self._files.is_operator_alone(key):
            self._noted.wrong(
                found, f"{what}: the script {name!r} has a class Operator and does nothing with a Node",
                f"make it an operator: operator: {{python: {name}, inputs: ..., outputs: ...}}",
            )  # fmt: skip
            return None
        return key

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
