"""How late flights are at each airport: the mean delay of those of the last hour, told at every tick."""

from __future__ import annotations

from collections import deque
from typing import Any

import pyarrow as pa
from dora import DoraStatus  # type: ignore[import-not-found] # provided where operators run

HOUR = 3600
KIND = pa.struct([("origin", pa.string()), ("mean_delay", pa.float64()), ("flights", pa.int64())])


class Operator:
    """Keeps the delays of the last hour, by airport."""

    def __init__(self) -> None:
        self.delays: dict[str, deque[tuple[float, int]]] = {}

    def on_event(self, dora_event: dict[str, Any], send_output: Any) -> DoraStatus:
        """Take a flight, or tell how late those of the last hour are."""
        if dora_event["type"] == "INPUT":
            now = dora_event["metadata"]["timestamp"].timestamp()
            if dora_event["id"] == "flight":
                (flight,) = dora_event["value"].to_pylist()
                if flight["dep_delay"] is not None:
                    self.delays.setdefault(flight["origin"], deque()).append((now, flight["dep_delay"]))
            elif levels := [level for origin in sorted(self.delays) if (level := self._level(origin, now))]:
                send_output("level", pa.array(levels, KIND))
        return DoraStatus.CONTINUE

    def _level(self, origin: str, now: float) -> dict[str, Any] | None:
        recent = self.delays[origin]
        while recent and recent[0][0] <= now - HOUR:
            recent.popleft()
        if not recent:
            return None
        return {"origin": origin, "mean_delay": sum(delay for _, delay in recent) / len(recent), "flights": len(recent)}
