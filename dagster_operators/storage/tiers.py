"""Tiers of files by their number of rows: what size-tiered compaction joins are files of one tier."""

from __future__ import annotations


def tier(rows: int, length: int) -> int:
    """How often a number of rows divides by the length of a tier: so many joins it takes to get there from single rows.

    >>> tier(5, 8), tier(100, 8), tier(1000, 8)
    (0, 2, 3)
    >>> tier(15, 16), tier(16, 16), tier(255, 16)
    (0, 1, 1)
    """
    level = 0
    while rows >= length:
        rows //= length
        level += 1
    return level
