"""Operators' files as modules of their own."""

from __future__ import annotations

import sys
import types

import pytest

from dagster_operators.operators.events.dora_module import DoraStatus
from dagster_operators.operators.events.source_modules import SourceModules


def load(owner="a", path="ops/op.py", **files):
    texts = {f"ops/{name.replace('_in_', '/').replace('package', '__init__')}.py": text for name, text in files.items()}
    return SourceModules(texts, "ops", owner).load(path)


def test_dora_is_provided_and_does_not_hide_what_is_installed(monkeypatch):
    installed = types.ModuleType("dora")
    monkeypatch.setitem(sys.modules, "dora", installed)
    made = load(op="import dora\nfrom dora import DoraStatus as Status\ndef late():\n    import dora as again\n    return again")
    assert made.Status is DoraStatus is made.late().DoraStatus
    import dora

    assert dora is installed


def test_a_file_that_does_not_import_the_status_has_it():
    assert load(op="found = DoraStatus.STOP").found is DoraStatus.STOP


def test_imports_from_beside_it_are_its_own():
    first = load("a", op="import extra\nvalue = extra.VALUE", extra="VALUE = 1")
    second = load("b", op="from extra import VALUE as value", extra="VALUE = 2")
    assert (first.value, second.value) == (1, 2)
    assert "extra" not in sys.modules


def test_packages_beside_it():
    made = load(
        op="import tools.shapes.box\nfrom tools import shapes\nfrom tools.shapes.box import side\nfound = tools.shapes.box.side",
        tools_in_package="",
        tools_in_shapes_in_package="from . import box",
        tools_in_shapes_in_box="from ..names import NAME\nside = NAME",
        tools_in_names="NAME = 'x'",
    )
    assert made.found == made.side == made.shapes.box.side == "x"


def test_classes_work_where_python_looks_for_their_module():
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass Box:\n    x: int = 1"
    assert load(op=text).Box().x == 1


def test_no_two_operators_have_modules_of_one_name():
    made = [load(owner, op="x = 1") for owner in ("a-b", "a_b", "a/b", "a_2d_b")]
    inner = [load("own", path=path, a_in_b="", a_b="").__name__ for path in ("ops/a_b.py",)]
    nested = load("own", op="import a.b\nname = a.b.__name__", a_in_package="", a_in_b="")
    assert len({one.__name__ for one in made} | {*inner, nested.name}) == 6
    assert all(sys.modules[one.__name__] is one for one in made)


def test_a_module_that_failed_is_not_there_by_halves():
    text = "try:\n    import half\nexcept ValueError:\n    pass\nimport half"
    before = set(sys.modules)
    with pytest.raises(ValueError, match="no more"):
        load("failing", op=text, half="begun = True\nraise ValueError('no more')")
    assert set(sys.modules) == before


def test_a_module_that_is_missing_is_an_error_as_ever():
    with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
        load(op="import no_such_module_anywhere")
    with pytest.raises(ModuleNotFoundError, match=r"tools\.lost"):
        load(op="import tools.lost", tools_in_package="")
