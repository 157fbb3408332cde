"""Finds what a user's function raised in a worker within what the engine says about it.

Engines hand on an exception of Python as text: Spark its traceback, Sail the same in other words. Our own errors stand in it with
their place and remedy.
"""

from __future__ import annotations

import ast
import re

from dagster_operators.errors import OperatorsError, UserFunctionError

_QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_TOLD = re.compile(
    rf"UserFunctionError: (?P<problem>the function '(?P<function>\w+)' .*?) "
    rf"\[function '\w+'(?:, arguments (?P<arguments>{_QUOTED}))?\]"
    r"\. To do: (?P<remedy>[^\n]*)"
)


def explained(error: BaseException) -> OperatorsError | None:
    """The error of the user's function that is behind a failed stage, with the place that is known; None if there is none.

    >>> cause = RuntimeError("Traceback ...: dagster_operators.errors.UserFunctionError: the function 'f' raised ValueError: no "
    ...     "[function 'f', arguments '(1); (2)']. To do: correct it")
    >>> print(explained(cause))
    the function 'f' raised ValueError: no [function 'f', arguments '(1); (2)']. To do: correct it
    """
    found: BaseException | None = error
    where = error.where if isinstance(error, OperatorsError) else {}
    while found is not None:
        text = found.problem if isinstance(found, OperatorsError) else str(found)  # without a remedy behind that of the function
        if told := _TOLD.search(text):
            arguments = ast.literal_eval(told["arguments"] or "None")
            ours = UserFunctionError(told["problem"], function=told["function"], arguments=arguments, remedy=told["remedy"])
            return ours.at(**where)
        found = found.__cause__
    return None
