"""The digest of a function: what changes it, what does not, and that every process finds the same."""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dagster_operators.errors import PipelineError
from dagster_operators.functions.content import digest_of
from dagster_operators.functions.scalar import udf
from dagster_operators.graph import user_functions

MODULE = '''
import math
from dataclasses import dataclass
from dagster_operators.functions.scalar import udf

WORDS = {"b", "a", "c"}

@dataclass
class Settings:
    names: set
    factor: int = 2

SETTINGS = Settings({"x", "y"})

def helper(x):
    return x * SETTINGS.factor

@udf("long", name="%(name)s")
def f(x, more=1):
    """Twice."""
    # a comment
    return [helper(math.floor(v)) + more for v in x if v not in WORDS]

@udf("long", name="%(name)s_again")
def g(x):
    return f(x)

@udf("long", name="%(name)s_endless")
def endless(x):
    return endless(x)
'''


@pytest.fixture(autouse=True)
def modules_of_its_own() -> Iterator[None]:
    yield
    for name in ("mine", "theirs", "reloaded"):
        sys.modules.pop(name, None)


def module(folder: Path, text: str, name: str) -> ModuleType:
    """A module of this text."""
    path = folder / f"{name}.py"
    path.write_text(text % {"name": name} if "%(name)s" in text else text)
    made = ModuleType(name)
    made.__file__ = str(path)
    sys.modules[name] = made
    exec(compile(path.read_text(), str(path), "exec"), made.__dict__)  # noqa: S102 - it is the test's own
    return made


def digests(folder: Path, text: str, name: str = "mine") -> list[str]:
    for known in user_functions.known():
        user_functions.forget(known.name)
    folder.mkdir()
    made = module(folder, text, name)
    return [digest_of(made.f.function), made.f.digest, made.g.digest, made.endless.digest]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    # a comment\n", ""),
        ('"""Twice."""', '"""Two times."""'),
        ("x, more=1", "x,more = 1"),
        ("import math\n", "import math\n\n\nUNUSED = 7\n\n"),
    ],
)
def test_what_does_not_change_what_it_does(old: str, new: str, tmp_path: Path) -> None:
    assert old in MODULE
    assert digests(tmp_path / "a", MODULE) == digests(tmp_path / "b", MODULE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+ more", "- more"),
        ("more=1", "more=2"),
        ("return x * SETTINGS", "return x + SETTINGS"),
        ("factor: int = 2", "factor: int = 3"),
        ('{"x", "y"}', '{"x", "z"}'),
        ('"a", "c"', '"a", "d"'),
        ("math.floor", "math.ceil"),
    ],
)
def test_what_changes_what_it_does(old: str, new: str, tmp_path: Path) -> None:
    before, after = digests(tmp_path / "a", MODULE), digests(tmp_path / "b", MODULE.replace(old, new))
    assert all(one != other for one, other in zip(before[:3], after[:3], strict=True))
    assert before[3] == after[3]


def test_every_process_finds_the_same(tmp_path: Path) -> None:
    module(tmp_path, MODULE, "theirs")
    program = "import theirs; print(theirs.f.digest, theirs.g.digest)"
    found = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1


def test_values_count() -> None:
    def closing_over(value: Any) -> Any:
        return lambda x: x + value

    values = [1, 2, "1", 1.0, (1,), [1], {1}, dt.date(2024, 1, 1), dt.timedelta(1), np.array([1]), np.array([2]), len, None]
    assert len({digest_of(closing_over(value)) for value in values}) == len(values)
    assert len({digest_of(closing_over(object())) for _ in range(3)}) == 1


def test_a_module_may_be_loaded_again_while_its_helpers_are_missing(tmp_path: Path) -> None:
    text = """
from dagster_operators.functions.scalar import udf

@udf("long")
def early(x):
    return late(x)

def late(x):
    return x
"""
    first = module(tmp_path, text, "reloaded").early
    assert first.digest
    again = module(tmp_path, text, "reloaded").early
    assert again.digest == first.digest


def test_the_source_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Doubling:
        def double(self, x: int) -> int:
            return x * 2

    first = digest_of(Doubling)
    monkeypatch.setattr("inspect.getsource", lambda _: pytest.fail("parsed again"))
    assert digest_of(Doubling) == first


def test_one_place_can_be_several_functions() -> None:
    def scaled(factor: int) -> Any:
        return udf("long", name="scaled")(lambda x: x * factor)

    assert scaled(2)
    with pytest.raises(PipelineError, match="two different functions"):
        scaled(3)


def test_functions_written_alike_that_take_something_else_from_their_modules_are_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded(name: str, factor: int) -> None:
        file = tmp_path / f"{name}.py"
        lines = (
            "import dagster_operators as do",
            '@do.udf("long")',
            "def by_the_factor(x):",
            "    return x * FACTOR",
            f"FACTOR = {factor}",
        )
        file.write_text("\n".join(lines))
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)

    loaded("of_one_pipeline", 2)
    loaded("of_the_same", 2)
    assert user_functions.contents_of("by_the_factor(v)")
    loaded("of_another", 3)
    with pytest.raises(PipelineError, match=r"one of of_one_pipeline.*, one of of_another"):
        user_functions.contents_of("by_the_factor(v)")
    for gone in ("of_one_pipeline", "of_the_same"):
        monkeypatch.delitem(sys.modules, gone)
    assert user_functions.contents_of("by_the_factor(v)")
    user_functions.forget("by_the_factor")
