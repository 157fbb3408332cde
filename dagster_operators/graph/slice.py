"""The part of a source that one epoch reads, as plain JSON values.

>>> SourceSlice.from_json(SourceSlice(start={"version": 3}, end={"version": 5}, items=[4, 5]).to_json()).end
{'version': 5}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

JSON: TypeAlias = bool | int | float | str | list[Any] | dict[str, Any] | None
"""A value that ``json.dumps`` writes and ``json.loads`` gives back equal."""


@dataclass(frozen=True)
class SourceSlice:
    """What one epoch reads of one source.

    Args:
        start: Position of the source before the slice, small however long the history is; None before the first slice.
        end: Position after the slice; the next slice starts here.
        items: The exact content, for example a list of files, so that every attempt of the epoch reads the same rows.
    """

    start: JSON
    end: JSON
    items: JSON

    def to_json(self) -> dict[str, Any]:
        """The slice as a JSON object."""
        return {"start": self.start, "end": self.end, "items": self.items}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SourceSlice:
        """The slice that ``to_json`` wrote."""
        return cls(start=value["start"], end=value["end"], items=value["items"])
