"""The columns that say where a row is in its source: for those who take rows of one time in the order that they have there."""

from __future__ import annotations

from typing import Final

FILE: Final = "__do_file"
"""The column with the place of the row's file in the slice; of a text that is read in pieces, of the piece."""

PLACE: Final = "__do_place"
"""The column with a number that ascends along the file or piece."""

PLACES: Final = (FILE, PLACE)

UNPLACED: Final = -1
"""The place of a row whose source does not know it."""
