"""Whether a constructor makes use of the initial capability: only then must it be kept from epoch to epoch."""

from __future__ import annotations

import dis
from types import CodeType, FunctionType, MethodType
from typing import Any


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
    loads = (each for each in dis.get_instructions(code) if each.opname.startswith("LOAD_FAST"))
    return name in code.co_cellvars or any(name == each.argval or _names(each.argval, name) for each in loads)


def _names(argument: Any, name: str) -> bool:
    """Whether an instruction is about several variables, and this is one of them."""
    return isinstance(argument, tuple) and name in argument
