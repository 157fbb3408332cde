"""What the user's functions keep in variables: it is gone when the epoch ends, which a warning tells.

In timely dataflow a closure lives as long as the dataflow, so that counts and queues are simply its variables. Here the
constructor runs in every epoch. What a variable is for is not to be seen from outside, so nothing is refused.
"""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Callable, Sized
from types import FunctionType
from typing import Any


class Variables:
    """Variables in which a logic could keep something from call to call.

    Args:
        constructor: The user's function.
        logic: What is called: what the constructor gave, or the user's function itself.

    >>> def counting(capability, info):
    ...     counts = {}
    ...     def logic(input, output):
    ...         counts[input] = 1
    ...     return logic
    >>> logic = counting(None, None)
    >>> variables = Variables(counting, logic)
    >>> logic("a", None), variables.changed()
    (None, ['counts'])
    """

    def __init__(self, constructor: Any, logic: Any) -> None:
        self._find = _finder(constructor, logic)
        self._before = {name: _measure(value) for name, value in self._find().items()}

    def changed(self) -> list[str]:
        """Those that hold something, and something else than at first."""
        now = {name: _measure(value) for name, value in self._find().items()}
        return sorted(name for name, measure in now.items() if measure and measure != self._before.get(name))

    def warn(self, operator: str) -> None:
        """Tell of what changed."""
        changed = self.changed()
        if changed:
            warnings.warn(
                f"operator {operator!r}: what its logic has in {', '.join(changed)} is gone when the epoch ends, because the "
                "constructor runs in every epoch. To do: declare what is to live on (state={...}, info.state[...]); what is for "
                "one epoch only, leave as it was at first",
                stacklevel=2,
            )


def _finder(constructor: Any, logic: Any) -> Callable[[], dict[str, Any]]:
    """Gives the variables of a logic as they are then: those that its constructor made, or that the logic itself took along."""
    if not isinstance(logic, FunctionType) or type(constructor).__module__.startswith("dagster_operators."):
        return dict  # the package's own keep nothing there that is to last
    cells = dict(zip(logic.__code__.co_freevars, logic.__closure__ or (), strict=True))
    if logic is not constructor:
        made = constructor if isinstance(constructor, FunctionType) else getattr(constructor.__call__, "__func__", None)
        cells = {name: cell for name, cell in cells.items() if made is not None and name in made.__code__.co_cellvars}
    return lambda: {**_contents(cells), **(_defaults(logic) if logic is constructor else {})}


def _defaults(function: FunctionType) -> dict[str, Any]:
    """The values that parameters have by default; one that changes is a variable."""
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return {**dict(zip(names, values, strict=True)), **(function.__kwdefaults__ or {})}


def _contents(cells: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, cell in cells.items():
        try:
            found[name] = cell.cell_contents
        except ValueError:  # it was given nothing yet
            continue
    return found


def _measure(value: Any) -> Any:
    """What tells whether something was added to a value; None for those that keep nothing, or that are declared."""
    if type(value).__module__.startswith("dagster_operators.") or isinstance(value, bool | str | bytes | type):
        return None
    if isinstance(value, int | float):
        return ("number", value)
    return (len(value), reprlib.repr(value)) if isinstance(value, Sized) and len(value) else None
