"""Messages to outputs that a file does not declare: they are left out, as dora does, and told."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from dagster_operators.operators.events.wiring import EventOperator

_log = logging.getLogger("dagster_operators.operators.events.event_loop")

_MOST: Final = 100
"""So many outputs are told each: who makes up the ids of outputs would make a figure and a line of the log with each."""

OTHERS: Final = "others"
"""What all outputs behind these are counted as."""


class Ignored(Counter[str]):
    """How many messages were sent to each output that is not declared, by its address.

    >>> one, ignored = EventOperator("log", "op", False, "log.py"), Ignored()
    >>> for number in range(1000):
    ...     ignored.leave_out(one, f"made up {number % 200}")
    >>> len(ignored), ignored["log/op/made up 7"], ignored[OTHERS]
    (101, 5, 500)
    """

    def leave_out(self, operator: EventOperator, output: str) -> None:
        """Count a message; the first one of an output is told here, all by the epoch."""
        address = operator.address(output)
        if address not in self and len(self) >= _MOST:
            address = OTHERS
        self[address] += 1
        if self[address] == 1:
            declared = ", ".join(operator.outputs) or "none"
            if address == OTHERS:
                text = "%s sends to %r, too, which is not among its outputs (%s); that of others like it is not told any more"
            else:
                text = "%s sends to %r, which is not among its outputs (%s): its messages are ignored"
            _log.warning(text, operator.path, output, declared)
