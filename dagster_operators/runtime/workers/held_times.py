"""What programs hold at their outputs: as a manifest has it, and as the next epoch gives it back to them.

Most operators tell one watermark, which is what they hold at each output alike; then the watermark says it. Of others the records
have a frontier for each output, an empty one for an output that holds nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dagster_operators.graph.ports import StreamRef
from dagster_operators.time.frontier import FINISHED, Frontier


def to_record(operator: str, ports: Collection[str], held: Mapping[str, Frontier], watermark: int) -> dict[str, Frontier]:
    """What an operator holds, by the text of the output's stream; nothing if the watermark says it.

    >>> to_record("keeper", ["main"], {"main": Frontier([5])}, 5)
    {}
    >>> to_record("keeper", ["main", "side"], {"side": Frontier([5])}, 5)
    {'keeper': Frontier([]), 'keeper.side': Frontier([5])}
    """
    same = Frontier.from_watermark(watermark)
    if all(held.get(port, FINISHED) == same for port in ports):
        return {}
    return {str(StreamRef(operator, port)): held.get(port, FINISHED) for port in ports}


def from_record(
    operator: str, ports: Collection[str], held: Mapping[str, Frontier], watermarks: Mapping[str, int]
) -> dict[str, Frontier]:
    """What an operator held at its outputs, by port; none if it told nothing of its time yet.

    >>> from_record("keeper", ["main"], {}, {"keeper": 5}), from_record("keeper", ["main"], {}, {})
    ({'main': Frontier([5])}, {})
    >>> from_record("keeper", ["main", "side"], {"keeper": FINISHED, "keeper.side": Frontier([7])}, {"keeper": 5})
    {'main': Frontier([]), 'side': Frontier([7])}
    """
    streams = {port: str(StreamRef(operator, port)) for port in ports}
    found = {port: held[stream] for port, stream in streams.items() if stream in held}
    if found or operator not in watermarks:
        return found
    return dict.fromkeys(ports, Frontier.from_watermark(watermarks[operator]))
