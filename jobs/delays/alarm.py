"""An alarm for each airport: on when the mean delay is above half an hour, off when it is below a quarter of an hour."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from dora import DoraStatus  # type: ignore[import-not-found] # provided where operators run

ON, OFF, LEAST = 30.0, 15.0, 5


class Operator:
    """Knows which airports have an alarm."""

    def __init__(self) -> None:
        self.alarms: set[str] = set()

    def on_event(self, dora_event: dict[str, Any], send_output: Any) -> DoraStatus:
        """Look at the levels, and tell of alarms that begin or end."""
        for level in dora_event["value"].to_pylist() if dora_event["type"] == "INPUT" else ():
            origin, mean = level["origin"], level["mean_delay"]
            begins = origin not in self.alarms and mean > ON and level["flights"] >= LEAST
            if begins or (origin in self.alarms and mean < OFF):
                (self.alarms.add if begins else self.alarms.discard)(origin)
                text = f"{origin} {'on' if begins else 'off'} {mean:.0f}"
                send_output("alarm", pa.array([text]))
                send_output("line", text.encode())
        return DoraStatus.CONTINUE
