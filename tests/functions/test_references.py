"""References: what is the user's own by place and content, imported only when it is asked for."""

from __future__ import annotations

import sys
import textwrap
import threading
from dataclasses import replace

import pytest

import dagster_operators as do
from dagster_operators.errors import PlanError
from dagster_operators.functions.references import ObjectReference, Reference
from dagster_operators.graph.user_functions import forget
from dagster_operators.operators.frontier.definition import Definition

MODULE = """
    import dagster_operators as do

    class Client:
        def __init__(self, url, password):
            self.url, self.password = url, password

    def twice(x):
        return x * {factor}
"""


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """Writes a module of a user's own and gives a function that imports it afresh."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(factor):
        sys.modules.pop("their_module", None)
        (tmp_path / "their_module.py").write_text(textwrap.dedent(MODULE.format(factor=factor)))
        (tmp_path / "__pycache__").exists() and [f.unlink() for f in (tmp_path / "__pycache__").iterdir()]
        import linecache

        linecache.checkcache()
        import their_module

        return their_module

    yield write
    sys.modules.pop("their_module", None)


def test_a_function_is_found_again_and_called(theirs):
    reference = Reference.decode(Reference.to(theirs(2).twice).encode())
    assert str(reference) == "their_module:twice"
    assert reference(4) == 8


def test_nothing_is_imported_before_it_is_asked_for(theirs):
    reference = Reference.to(theirs(2).twice)
    del sys.modules["their_module"]
    assert str(Reference.decode(reference.encode())) == "their_module:twice"
    assert "their_module" not in sys.modules
    assert reference(1) == 2
    assert "their_module" in sys.modules


def test_a_function_that_changed_is_refused(theirs):
    reference = Reference.to(theirs(2).twice)
    theirs(3)
    with pytest.raises(PlanError, match="'their_module:twice' is not what it was") as caught:
        reference.resolve()
    assert "to_plan()" in caught.value.remedy


def test_code_that_is_not_installed_is_named():
    with pytest.raises(PlanError, match=r"'nowhere\.at_all:f' cannot be imported"):
        Reference("nowhere.at_all", "f", "0").resolve()
    with pytest.raises(PlanError, match="'json:nothing' cannot be imported"):
        Reference("json", "nothing", "0").resolve()


def test_what_has_no_name_cannot_be_found_again():
    with pytest.raises(PlanError, match="has no name of its own") as caught:
        Reference.to(lambda x: x).resolve()
    assert "top level of a module" in caught.value.remedy


def test_a_registered_function_is_known_by_its_own_digest():
    @do.udf("long")
    def referred_to(x):
        return x

    try:
        assert Reference.to(referred_to).digest == referred_to.digest
    finally:
        forget("referred_to")


def test_an_object_is_made_again_without_its_secret(theirs):
    client = theirs(2).Client("https://host", "hunter2")
    reference = ObjectReference.decode(ObjectReference.to(client).encode())
    assert (reference.left_out, "hunter2" in str(reference.encode())) == (("password",), False)
    with pytest.raises(PlanError, match="'password' of their_module:Client is a secret"):
        reference.resolve()
    again = reference.with_secrets({"password": "other", "nothing": 1}).resolve()
    assert (again.url, again.password) == ("https://host", "other")


def test_an_attribute_that_cannot_be_held_is_named(theirs):
    client = theirs(2).Client(threading.Lock(), None)
    with pytest.raises(PlanError, match="cannot be made again from a plan") as caught:
        ObjectReference.to(client).resolve()
    assert caught.value.attribute == "url"


def test_what_is_the_packages_own_goes_by_its_place_in_any_version():
    """Its code is another in each version, and plans of before stay readable."""
    reference = Reference.to(Definition)
    assert not reference.digest
    assert replace(reference, digest="of a version before").resolve() is Definition
    sink = ObjectReference.to(do.PostgresSink("postgresql://localhost/shop", "orders"))
    given = sink.with_secrets({"_dsn": "postgresql://localhost/shop"})
    assert isinstance(replace(given, type=replace(sink.type, digest="of a version before")).resolve(), do.PostgresSink)
