"""Word count: how often each word comes in lines of text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import dagster_operators as do

_WORD = re.compile(r"\w+")


def words_of(row: Any) -> Iterator[tuple[str, int]]:
    """The words of a line, in small letters, each with a 1."""
    return ((word, 1) for word in _WORD.findall(row.line.lower()))


def count_words(lines: do.DataSet) -> do.DataSet:
    """Each word, and how often it comes.

    Args:
        lines: The text, in the field ``line``.

    >>> program = do.data_sets.LocalProgram(parallelism=2)
    >>> lines = program.rows([("To be, or not to be",)], "line")
    >>> sorted(map(tuple, program.collect(count_words(lines))))
    [('be', 2), ('not', 1), ('or', 1), ('to', 2)]
    """
    words = lines.flat_map(words_of, schema="word string, count long").name("words of a line")
    return words.group_by("word").sum("count").name("count by word")
