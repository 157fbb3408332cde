"""Every public method of a stream shows by an example what it does; the examples run with the tests."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from dagster_operators.api.keyed_stream import KeyedStream
from dagster_operators.api.stream import Stream
from dagster_operators.api.windowed_stream import WindowedStream


def methods() -> dict[str, Any]:
    """The public methods and properties of the three kinds of streams, by name."""
    found = {}
    for kind in (Stream, KeyedStream, WindowedStream):
        for name, member in inspect.getmembers(kind, lambda one: inspect.isfunction(one) or isinstance(one, property)):
            if not name.startswith("_"):
                found[f"{kind.__name__}.{name}"] = member
    return found


@pytest.mark.parametrize("name", methods())
def test_every_method_has_an_example(name: str) -> None:
    documentation = inspect.getdoc(methods()[name]) or ""
    assert ">>> " in documentation


@pytest.mark.parametrize("name", methods())
def test_every_argument_is_explained(name: str) -> None:
    member = methods()[name]
    if isinstance(member, property):
        return
    documentation = inspect.getdoc(member) or ""
    missing = [argument for argument in inspect.signature(member).parameters if f"{argument}:" not in documentation]
    assert [argument for argument in missing if argument != "self"] == []
