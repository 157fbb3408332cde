"""What an event loop keeps between epochs, as it is put back: without what is no longer so."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from dagster_operators.operators.events.wiring import EventOperator

SOURCE: Final = "source"
"""Beside that an input is closed: what it read. Where it reads something else by then, that is not closed."""


def without(state: Mapping[str, Any], paths: Collection[str]) -> Mapping[str, Any]:
    """What ``EventLoop.state`` gave, with nothing of some operators: they have not stopped, and none of their inputs is closed.

    >>> without({"now": 1, "closed": {"a": {"n": "b/n"}, "b": {}}, "stopped": {"a": "STOP"}}, ["a"])
    {'now': 1, 'closed': {'b': {}}, 'stopped': {}}
    """
    of_operators = ("closed", "stopped")
    return {
        name: {path: told for path, told in value.items() if path not in paths} if name in of_operators else value
        for name, value in state.items()
    }


def still_closed(operator: EventOperator, saved: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """The inputs of an operator that were closed and still read what they read then, with what that is.

    Earlier versions saved the inputs' ids alone.

    >>> from dagster_operators.operators.events.wiring import EventInput
    >>> one = EventOperator("log", "op", True, "log.py", (EventInput("a", "x/a"), EventInput("b", "x/b")))
    >>> still_closed(one, {"a": "x/a", "b": "y/b"}), still_closed(one, ["a", "c"])
    ({'a': 'x/a'}, {'a': 'x/a'})
    """
    now = {one.id: one.source for one in operator.inputs}
    then = saved if isinstance(saved, Mapping) else {name: now.get(name, "") for name in saved}
    return {name: source for name, source in then.items() if now.get(name) == source}
