from __future__ import annotations

import dis
import sys
from types import SimpleNamespace

import pytest

from dagster_operators.operators.frontier.first_parameter import uses_first_parameter


def kept_by_what_sees_all(capability, info):
    return locals()["capability"]


def put_by_another_name(capability, info):
    other = capability
    return other, info


def written_only(capability, info):
    capability = info  # noqa: F841 - that is what it is about
    return info


def test_what_makes_use_of_it_without_an_instruction_about_it_is_seen():
    assert [uses_first_parameter(each) for each in (kept_by_what_sees_all, put_by_another_name)] == [True, True]


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="one instruction writes a variable and reads another")
def test_writing_is_no_use():
    assert not uses_first_parameter(written_only)


@pytest.mark.parametrize(
    ("instruction", "argument", "used"),
    [
        ("LOAD_FAST", "capability", True),
        ("LOAD_FAST_CHECK", "capability", True),
        ("LOAD_FAST_BORROW", "capability", True),
        ("LOAD_FAST_LOAD_FAST", ("info", "capability"), True),
        ("LOAD_FAST_BORROW_LOAD_FAST_BORROW", ("info", "capability"), True),
        ("STORE_FAST_LOAD_FAST", ("other", "capability"), True),
        ("COPY_FAST", "capability", True),
        ("LOAD_FAST", 17, True),
        ("LOAD_FAST", "info", False),
        ("LOAD_FAST_LOAD_FAST", ("info", "other"), False),
        ("STORE_FAST", "capability", False),
        ("LOAD_CONST", "capability", False),
    ],
)
def test_the_instructions_of_every_python(monkeypatch, instruction, argument, used):
    """Those of 3.13 and 3.14 are about several variables; what is not known may be a use."""
    monkeypatch.setattr(dis, "get_instructions", lambda _: [SimpleNamespace(opname=instruction, argval=argument)])
    assert uses_first_parameter(written_only) is used
