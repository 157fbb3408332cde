"""Where streams come out of operators and go into them: ports.

Every operator has a main output. Late rows, rejected rows and whatever else an operator puts out come out of further output
ports, and are streams like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAIN: Final = "main"
"""The output port that every operator has."""


@dataclass(frozen=True, order=True)
class StreamRef:
    """A stream, known by where it comes from.

    Attributes:
        operator: The name of the operator that puts it out.
        port: At which of its output ports.

    >>> str(StreamRef("hourly")), str(StreamRef("hourly", "late"))
    ('hourly', 'hourly.late')
    """

    operator: str
    port: str = MAIN

    def __str__(self) -> str:
        return self.operator if self.is_main else f"{self.operator}.{self.port}"

    @property
    def is_main(self) -> bool:
        """Whether it is the operator's main output.

        >>> StreamRef("hourly").is_main, StreamRef("hourly", "late").is_main
        (True, False)
        """
        return self.port == MAIN
