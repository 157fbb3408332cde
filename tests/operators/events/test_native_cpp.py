"""An operator in C++, built by the machine's compiler."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from dagster_operators.errors import OperatorFailedError
from tests.operators.events.test_native_operator import API, SOURCES, Told


@pytest.fixture(scope="module")
def longest(tmp_path_factory):
    """The library."""
    compilers = shutil.which("cc"), shutil.which("g++")
    if None in compilers:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("needs a C and a C++ compiler: cc and g++")
    folder = tmp_path_factory.mktemp("native")
    api, library = str(folder / "operator_api.o"), folder / "liblongest.so"
    subprocess.run([compilers[0], "-fPIC", "-c", "-o", api, str(API / "operator_api.c")], check=True)
    source = str(SOURCES / "longest.cpp")
    subprocess.run([compilers[1], "-std=c++17", "-shared", "-fPIC", f"-I{API}", "-o", str(library), source, api], check=True)
    return library


def test_it_is_told_of_events_sends_and_is_told_again_what_it_was_told(longest):
    with Told(longest) as told:
        told.message(b"abc")
        told.message(b"x")
        saved = told.operator.save()
    with Told(longest, saved) as again:
        again.message(b"abcde")
    assert told.sent == [("told", "abc of 1"), ("told", "abc of 2")]
    assert again.sent == [("told", "abcde of 3")]


def test_what_it_throws_is_an_error_with_its_node(longest):
    with Told(longest) as told, pytest.raises(OperatorFailedError, match=r"thrown in C\+\+") as caught:
        told.message(b"throw")
    assert caught.value.where["node"] == "node"
