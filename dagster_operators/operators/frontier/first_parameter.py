"""Whether a constructor makes use of the initial capability: only then must it be kept from epoch to epoch."""

from __future__ import annotations

import dis
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

_NO_READING: Final = {"STORE_FAST", "DELETE_FAST"}

_SEES_ALL: Final = {"locals", "vars", "eval", "exec", "_getframe"}
"""What reads variables without an instruction about them."""


def uses_first_parameter(function: Any) -> bool:
    """Whether a function, or an object that is called like one, reads the first argument that it is given.

    Of what has no code in Python to look at it is taken for granted.

    >>> def mapped(capability, info): return info
    >>> def kept(capability, info): return lambda: capability
    >>> uses_first_parameter(mapped), uses_first_parameter(kept), uses_first_parameter(print)
    (False, True, True)
    """
    if isinstance(function, FunctionType):
        return _reads(function.__code__, 0)
    method = function if isinstance(function, MethodType) else function.__call__
    called = getattr(method, "__func__", None)
    return not isinstance(called, FunctionType) or _reads(called.__code__, 1)


def _reads(code: CodeType, place: int) -> bool:
    """Whether code reads its parameter at a place, or a function within does."""
    if code.co_argcount <= place:
        return True
    name = code.co_varnames[place]
    # An instruction may both write one variable and read another, under names that differ from one Python to the next.
    others = (each for each in dis.get_instructions(code) if "FAST" in each.opname and each.opname not in _NO_READING)
    unseen = name in code.co_cellvars or not _SEES_ALL.isdisjoint(code.co_names)
    return unseen or any(_may_be_about(each.argval, name) for each in others)


def _may_be_about(argument: Any, name: str) -> bool:
    """Whether an instruction is about this variable, perhaps among several; what is not understood may be."""
    return name in argument if isinstance(argument, tuple) else argument == name or not isinstance(argument, str)
