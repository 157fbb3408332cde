"""Random numbers and texts that are a function of a seed and an event's number alone, for whole arrays of events at once.

Any event can so be made without those before it, in any process, and is the same however the events are cut into files. The
numbers are those of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014), whose k-th
output is a mix of ``seed + k * GAMMA``; every event owns :data:`DRAWS` of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

DRAWS = 16
"""How many numbers of the sequence belong to one event."""

_GAMMA = 0x9E3779B97F4A7C15
_MIXES = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_TEXT = 1 << 20
"""How many letters there are to cut texts from."""


@dataclass(frozen=True)
class Chance:
    """The random numbers of some events.

    Attributes:
        seed: Of the whole sequence.
        numbers: The numbers of the events.

    >>> chance = Chance(seed=1, numbers=np.arange(1000))
    >>> chance.below(6, draw=0)[:5].tolist() == Chance(1, np.array([0, 1, 2, 3, 4])).below(6, draw=0).tolist()
    True
    """

    seed: int
    numbers: Ints

    def bits(self, draw: int) -> NDArray[np.uint64]:
        """64 random bits for each event; ``draw`` says which of the event's numbers."""
        counters = self.numbers.astype(np.uint64) * np.uint64(DRAWS) + np.uint64(draw + 1)
        value = np.uint64(self.seed % 2**64) + counters * np.uint64(_GAMMA)
        for shift, factor in _MIXES:
            value = (value ^ (value >> np.uint64(shift))) * np.uint64(factor)
        return value ^ (value >> np.uint64(31))

    def below(self, bound: int | Ints, draw: int) -> Ints:
        """A number from 0 up to but without ``bound`` (below 2**31), for each event."""
        high = self.bits(draw) >> np.uint64(32)
        scaled: Ints = ((high * np.asarray(bound).astype(np.uint64)) >> np.uint64(32)).astype(np.int64)
        return scaled

    def fraction(self, draw: int) -> NDArray[np.float64]:
        """A number from 0 up to but without 1, for each event."""
        unit: NDArray[np.float64] = (self.bits(draw) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return unit

    def one_of(self, values: pa.Array, draw: int) -> pa.Array:
        """One of some values, for each event."""
        return values.take(pa.array(self.below(len(values), draw)))

    def words(self, longest: int, draw: int, special: str = " ") -> pa.Array:
        """Texts of 3 up to but without ``longest`` letters, one in 13 a special one; blanks at their ends are cut off."""
        lengths = 3 + self.below(longest - 3, draw)
        return pc.utf8_trim_whitespace(self._cut(_text(special), lengths, draw + 1))

    def letters(self, lengths: Ints, draw: int) -> pa.Array:
        """Texts of given lengths."""
        return self._cut(_text(""), lengths, draw)

    def _cut(self, text: Bytes, lengths: Ints, draw: int) -> pa.Array:
        starts = self.below(len(text) - lengths, draw)
        ends = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=ends[1:])
        places = np.repeat(starts.astype(np.int32) - ends[:-1], lengths) + np.arange(ends[-1], dtype=np.int32)
        return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(ends), pa.py_buffer(text[places]))


@cache
def _text(special: str) -> Bytes:
    """Random letters, one in 13 of them the special one if there is one."""
    chance = Chance(seed=len(special), numbers=np.arange(_TEXT))
    letters = ord("a") + chance.below(26, 0)
    if special:
        letters[chance.below(13, 1) == 0] = ord(special)
    return letters.astype(np.uint8)
