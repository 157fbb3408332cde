"""What a function imports when it is called is a part of what it does, as far as it is of the same package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_operators.functions.content import digest_of, exact_digest_of

CALLS = """
def taken(x):
    from .helpers import helper
    return helper(x)

def as_module(x):
    import inner_imports_package.helpers as helpers
    return helpers.helper(x)

def within(x):
    def inner(y):
        from inner_imports_package import helpers
        return helpers.helper(y)
    return inner(x)

def of_others(x):
    import json
    from math import sqrt
    return json.dumps(sqrt(x))
"""
HELPERS = '''
import math
from .further import FACTOR

def helper(x):
    """A helper."""
    return twice(x) * FACTOR

def twice(x):
    return 2 * x

def unread(x):
    return x
'''
FURTHER = "FACTOR = 3\nOTHER = 4\n"
PACKAGE = "inner_imports_package"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    importlib.invalidate_caches()


def digest(
    place: Path,
    function: str,
    number: int,
    helpers: str = HELPERS,
    further: str = FURTHER,
    *,
    load: bool = False,
    init: str | None = "",
) -> str:
    """The digest of a function of the package, in a folder of its own, as in another process."""
    forget()
    folder = place / str(number)
    package = folder / PACKAGE
    package.mkdir(parents=True)
    for name, content in {"__init__": init, "calls": CALLS, "helpers": helpers, "further": further}.items():
        if content is not None:
            (package / f"{name}.py").write_text(content)
    sys.path.insert(0, str(folder))
    try:
        calls = importlib.import_module(f"{PACKAGE}.calls")
        if load:
            importlib.import_module(f"{PACKAGE}.helpers")
        return exact_digest_of(getattr(calls, function))
    finally:
        sys.path.remove(str(folder))


@pytest.mark.parametrize("function", ["taken", "as_module", "within"])
def test_what_it_imports_is_a_part_of_it(place: Path, function: str) -> None:
    before = digest(place, function, 0)
    assert digest(place, function, 1, load=True) == before, "the same in a process that has loaded it"
    assert digest(place, function, 2, HELPERS.replace("return x", "return -x")) == before, "nothing reads it"
    assert digest(place, function, 3, HELPERS.replace("A helper", "Another text")) == before
    assert digest(place, function, 4, further=FURTHER.replace("4", "5")) == before
    changed = [
        digest(place, function, 5, HELPERS.replace("* FACTOR", "+ FACTOR")),
        digest(place, function, 6, HELPERS.replace("2 * x", "3 * x")),
        digest(place, function, 7, further=FURTHER.replace("3", "5")),
    ]
    assert len({before, *changed}) == 4


@pytest.mark.parametrize("function", ["taken", "as_module", "within"])
def test_a_package_may_have_no_file_of_its_own(place: Path, function: str) -> None:
    before = digest(place, function, 0, init=None)
    assert digest(place, function, 1, HELPERS.replace("return x", "return -x"), init=None) == before
    assert digest(place, function, 2, HELPERS.replace("2 * x", "3 * x"), init=None) != before


def test_imports_of_other_packages_change_no_digest_of_before(place: Path) -> None:
    assert digest(place, "of_others", 0) == digest(place, "of_others", 1, HELPERS + "more = 1\n")


def test_digests_that_state_depends_on_stay_as_they_were(place: Path) -> None:
    """Those of functions of streams: a change would be asked about in each pipeline behind an upgrade."""
    digest(place, "taken", 0)
    calls = sys.modules[f"{PACKAGE}.calls"]
    first = digest_of(calls.taken)
    digest(place, "taken", 1, HELPERS.replace("2 * x", "3 * x"))
    assert digest_of(sys.modules[f"{PACKAGE}.calls"].taken) == first
