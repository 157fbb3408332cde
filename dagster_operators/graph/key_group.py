"""Key groups: which of 128 a key belongs to, as an expression that the engine computes.

State and subtasks are divided by them alike; ``state/key_hash.py`` computes the same in the workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

KEY_GROUPS: Final = 128
"""How many key groups there are."""

SHIFT: Final = 57
"""By so many bits the hash is shifted: its top seven bits are the group."""


def key_group(keys: Sequence[str]) -> str:
    """The key group, 0 to 127, of rows with these keys, given as Spark SQL; without keys all rows are of one.

    >>> key_group(["`k`", "CAST(`v` AS long)"]), key_group([])
    ('(shiftright(xxhash64(`k`, CAST(`v` AS long)), 57) + 64)', '0')
    """
    return f"(shiftright(xxhash64({', '.join(keys)}), {SHIFT}) + {KEY_GROUPS // 2})" if keys else "0"
