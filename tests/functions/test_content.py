"""The digest of a function: what changes it, what does not, and that every process finds the same."""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
import subprocess
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from operator import attrgetter, itemgetter, methodcaller
from pathlib import Path, PurePosixPath
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from dagster_operators.errors import PipelineError
from dagster_operators.functions.content import digest_of, exact_digest_of
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


@dataclass
class Recorded:
    """A record of a package that no function comes from."""

    number: int


Recorded.__module__ = "elsewhere.records"


class Adding:
    """A callable object."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, row: Any) -> Any:
        return row + self.number

    def method(self, row: Any) -> Any:
        return row - self.number


class Slotted:
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, row: Any) -> Any:
        return row + self.number


def added(row: int, number: int) -> int:
    return row + number


def holding(value: Any) -> Callable[[Any], Any]:
    return lambda row: (row, value)


DIFFERENT: dict[str, Callable[[], tuple[Any, Any]]] = {
    "the attributes of an object": lambda: (Adding(1), Adding(2)),
    "the attributes of an object with slots": lambda: (Slotted(1), Slotted(2)),
    "the object of a method": lambda: (Adding(1).method, Adding(2).method),
    "the method of an object": lambda: (Adding(1).method, Adding(1).__call__),
    "the arguments of a partial function": lambda: (partial(added, number=1), partial(added, number=2)),
    "the function of a partial function": lambda: (partial(added, 1), partial(max, 1)),
    "an object within a partial function": lambda: (partial(Adding(1)), partial(Adding(2))),
    "the item that is got": lambda: (itemgetter(0), itemgetter(1)),
    "the attribute that is got": lambda: (attrgetter("k"), attrgetter("v")),
    "the text of a text's method": lambda: ("-".join, "+".join),
    "the dictionary of a dictionary's method": lambda: ({1: 2}.get, {1: 3}.get),
    "a function of Python's": lambda: (max, min),
    "the names of a called method": lambda: (methodcaller("split", sep=","), methodcaller("split", sep=";")),
    "a called method": lambda: (methodcaller("split", sep=","), methodcaller("rsplit", sep=",")),
    "a fraction": lambda: (holding(Fraction(1, 2)), holding(Fraction(1, 3))),
    "an identifier": lambda: (holding(UUID(int=1)), holding(UUID(int=2))),
    "a path": lambda: (holding(PurePosixPath("a")), holding(PurePosixPath("b"))),
    "a time zone": lambda: (holding(ZoneInfo("UTC")), holding(ZoneInfo("Europe/Berlin"))),
    "some bytes": lambda: (holding(bytearray(b"a")), holding(bytearray(b"b"))),
    "an array": lambda: (holding(array("q", [1])), holding(array("q", [2]))),
    "a queue": lambda: (holding(deque([1])), holding(deque([2]))),
    "a slice": lambda: (holding(slice(1)), holding(slice(2))),
    "a namespace": lambda: (holding(SimpleNamespace(a=1)), holding(SimpleNamespace(a=2))),
    "a view of a dictionary": lambda: (holding(MappingProxyType({1: 2})), holding(MappingProxyType({1: 3}))),
    "a record of another package": lambda: (holding(Recorded(1)), holding(Recorded(2))),
}
"""What is called, and changes what is done, though no syntax of a function does."""


@pytest.mark.parametrize("change", DIFFERENT)
def test_whatever_can_be_called_is_told_apart(change: str) -> None:
    before, after = DIFFERENT[change]()
    assert exact_digest_of(before) == exact_digest_of(DIFFERENT[change]()[0])
    assert exact_digest_of(before) != exact_digest_of(after)


def test_the_class_of_an_object_counts(tmp_path: Path) -> None:
    text = """
class Adding:
    def __call__(self, row):
        return row + 1
f = Adding()
"""
    digests = set()
    for number, other in enumerate((text, text, text.replace("+ 1", "+ 2"))):
        (tmp_path / str(number)).mkdir()
        digests.add(exact_digest_of(module(tmp_path / str(number), other, "mine").f))
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("lambda row: row.k", "lambda row: row.v"),
        ("lambda row: row.k(a=1)", "lambda row: row.k(b=1)"),
        ("lambda row: [part + 1 for part in row]", "lambda row: [part + 2 for part in row]"),
        ("lambda row: (lambda other: other.k)(row)", "lambda row: (lambda other: other.v)(row)"),
        ("lambda row: row in {'a', 'b'}", "lambda row: row in {'a', 'c'}"),
        ("lambda row: max(row)", "lambda row: min(row)"),
        ("lambda row: 1", "lambda row: 1.0"),
        ("lambda row: row", "lambda *row: row"),
        ("lambda row: row", "lambda **row: row"),
        ("lambda row: row", "lambda *, row: row"),
    ],
)
def test_a_function_without_a_source_is_known_by_its_names_and_constants(before: str, after: str) -> None:
    """As a lambda amid a statement: its line by itself is no syntax."""
    first, again, other = (eval(text) for text in (before, before, after))  # noqa: S307 - the test's own
    assert exact_digest_of(first) == exact_digest_of(again)
    assert exact_digest_of(first) != exact_digest_of(other)


@pytest.mark.parametrize("digest", ["digest_of", "exact_digest_of"])
def test_so_it_is_in_every_process(digest: str) -> None:
    digested = "lambda row: row in {'a', 'b', 'c'}"
    program = f"from dagster_operators.functions.content import {digest}; print({digest}(eval({digested!r})))"
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_a_function_of_a_module_that_is_named(tmp_path: Path) -> None:
    """A helper is followed where it is an attribute of its module, too; other attributes change nothing."""
    helpers = "def scale(x):\n    return x * 2\ndef other(x):\n    return x\n"
    calling = "import sys\nhelpers = sys.modules['mine.helpers']\ndef f(x):\n    return [helpers.scale(y) for y in x]\n"
    found = []
    for number, text in enumerate((helpers, helpers.replace("* 2", "* 3"), helpers.replace("return x\n", "return -x\n"))):
        (tmp_path / str(number)).mkdir()
        sys.modules["mine.helpers"] = module(tmp_path / str(number), text, "mine.helpers")
        try:
            found.append(exact_digest_of(module(tmp_path / str(number), calling, "mine").f))
        finally:
            del sys.modules["mine.helpers"]
    assert found[0] != found[1]
    assert found[0] == found[2]


def test_digests_are_those_of_earlier_versions(tmp_path: Path) -> None:
    """Stored state depends on them: other ones would stop pipelines whose functions nobody changed."""
    text = """
from dataclasses import dataclass
from functools import partial
@dataclass
class Rates:
    tax: int = 1
    def taxed(self, x):
        return x + self.tax
RATES = Rates()
def helper(x, y=2):
    return x + y
ADDED = partial(helper, y=3)
def f(x):
    return RATES.taxed(helper(x)) + ADDED(x)
"""
    made = module(tmp_path, text, "mine").f
    assert digest_of(made) == "9a929607e5af9b49"


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
