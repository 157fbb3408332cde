"""Globs over paths, as a shell has them, in a time that does not grow with the number of their stars."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from dagster_operators.errors import PipelineError

_MOST_GLOBS: Final = 1000
"""So many globs the braces of one may stand for."""

_MOST_DEEP: Final = 3
"""So many ``**`` a glob may have: each of them may have to be tried at every place."""


def glob_regex(glob: str) -> str:
    """A shell glob over a relative path as a regular expression, which takes no longer the more stars there are.

    Raises:
        PipelineError: It has too many ``**``, or braces that stand for too many globs.

    >>> bool(re.fullmatch(glob_regex("*/2023-*.{csv,csv.gz}"), "jfk/2023-01.csv.gz"))
    True
    >>> bool(re.fullmatch(glob_regex("**/*.csv"), "a/b/c.csv")), bool(re.fullmatch(glob_regex("*.csv"), "a/c.csv"))
    (True, False)
    """
    plain = list(itertools.islice(_without_braces(glob), _MOST_GLOBS + 1))
    if len(plain) > _MOST_GLOBS:
        raise PipelineError(
            f"the braces of a path stand for more than {_MOST_GLOBS} globs", file=glob, remedy="name fewer, or take a * instead"
        )
    if any(sum(token.startswith("**") for token in tokens) > _MOST_DEEP for tokens in plain):
        raise PipelineError(
            f"a path has more than {_MOST_DEEP} times ** in it", file=glob, remedy="one ** stands for any number of folders"
        )
    return "|".join(map(_regex_of, plain))


def _without_braces(glob: str) -> Iterator[list[str]]:
    """The tokens of the globs that a glob with braces stands for."""
    tokens = re.findall(r"\*\*/|\*\*|\*|\?|\[!?[^]]+\]|\{[^}]*\}|.", glob, re.DOTALL)
    tokens = [now for before, now in itertools.pairwise(["", *tokens]) if now != before or now[0] != "*"]
    choices = (token[1:-1].split(",") if token[0] == "{" and len(token) > 1 else None for token in tokens)
    ways = [[[token]] if choice is None else list(itertools.chain.from_iterable(map(_without_braces, choice)))
            for token, choice in zip(tokens, choices, strict=True)]  # fmt: skip
    for way in itertools.product(*ways):
        yield list(itertools.chain.from_iterable(way))


def _regex_of(tokens: Sequence[str]) -> str:
    """A star that another one follows takes the first place at which what is between them fits: no other need be tried."""
    parts: list[str] = [""]
    stars: list[str] = []
    for token in tokens:
        if token.startswith("*"):
            stars.append(token)
            parts.append("")
        else:
            parts[-1] += _glob_token(token)
    regex = parts[0]
    for index, (star, between) in enumerate(zip(stars, parts[1:], strict=True)):
        if star == "*" and stars[index + 1 : index + 2] == ["*"]:
            regex += f"(?>[^/]*?{between})"
        else:
            regex += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}[star] + between
    return regex


def _glob_token(sign: str) -> str:
    if sign == "?":
        return "[^/]"
    if sign.startswith("[") and len(sign) > 1:
        return "[^" + sign[2:] if sign[1] == "!" else sign
    return re.escape(sign)
