"""The Nexmark benchmark: an online auction's events, and queries over them as pipelines.

:mod:`~jobs.nexmark.generator` makes the events, :mod:`~jobs.nexmark.queries` has the queries, :mod:`~jobs.nexmark.reference`
what they come to, :mod:`~jobs.nexmark.run` runs them. See ``docs/nexmark.md``.
"""

from typing import Final

SIDE_INPUT: Final = "side_input.csv"
"""The file with the bounded side input, in the folder of the events."""

SIDE_KEYS: Final = 10_000
"""How many keys it has."""
