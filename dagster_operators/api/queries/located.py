"""YAML as values that know where they stand, so that every error can say so.

The text is read safely: plain values and a few tags, no objects. It is read as YAML 1.2 has it, so that ``on``, ``yes`` and
``12:30`` are text. Keys are always text. A key that is given twice is an error, and so is a text that its aliases would make
grow beyond all bounds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from dagster_operators.errors import QueryError

_MERGE: Final = "<<"

_MOST_CHARACTERS: Final = 2_000_000
"""So long a text may be: reading takes a second for some hundred thousand characters."""

_SHOWN: Final = 50
"""So many characters of a value are in an error."""

_MOST_NESTED: Final = 60
_MOST_VALUES: Final = 500_000
"""How many values a text may have once its aliases are followed."""

_SCALARS: Final[list[tuple[str, str, str]]] = [
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+0123456789."),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
]
"""YAML 1.2's core schema: what a plain scalar is, by its text."""

_PLAIN: Final = frozenset({"map", "seq", "str", *(name for name, _, _ in _SCALARS)})


@dataclass(frozen=True)
class Located:
    """A value in a text.

    Attributes:
        data: Text, a number, a truth value, None, a tuple of values, or a dictionary of values by name.
        line: Its line, from 1.
        character: Its place in the line, from 1.
        text: A scalar as it is written.
        tag: Such as ``!env``; empty for plain values.
        keys: Of a dictionary, the line and character of each key.
        file: The file, where that is not the one that is read as a whole.
    """

    data: Any
    line: int
    character: int
    text: str = ""
    tag: str = ""
    keys: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    file: str = field(default="", repr=False)

    @property
    def place(self) -> dict[str, Any]:
        """Line and character, as fields of an error; the file, where it is another one."""
        return {**({"file": self.file} if self.file else {}), "line": self.line, "character": self.character}

    def key_place(self, key: str) -> dict[str, Any]:
        """Line and character of a dictionary's key, as fields of an error; the file, where it is another one."""
        line, character = self.keys[key]
        return {**self.place, "line": line, "character": character}

    def plain(self) -> Any:
        """The value without places, lists and dictionaries as Python has them.

        >>> read_yaml("{a: [1, x], on: null}").plain()
        {'a': [1, 'x'], 'on': None}
        """
        if isinstance(self.data, dict):
            return {name: value.plain() for name, value in self.data.items()}
        if isinstance(self.data, tuple):
            return [value.plain() for value in self.data]
        return self.data


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Only finds out what a scalar is; values are made by :class:`_Converter`."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as PyYAML has it


for _name, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_name}", re.compile(f"(?:{_pattern})$"), ["" if c == "\0" else c for c in _first]
    )


def read_yaml(text: str) -> Located:
    """The one document of a text.

    Raises:
        QueryError: This is no YAML, or more than is read here.

    >>> read_yaml("a: 1").data["a"]
    Located(data=1, line=1, character=4, text='1', tag='', keys={})
    """
    if len(text) > _MOST_CHARACTERS:
        raise QueryError(
            f"the text has {len(text)} characters, and may have {_MOST_CHARACTERS}", line=1, character=1,
            remedy="keep rows and long texts in files of their own",
        )  # fmt: skip
    try:
        _check_depth(text)
        node = _Loader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        raise _located_error(text, error) from None
    except yaml.YAMLError as error:
        raise QueryError(f"this is no YAML: {error}", remedy="correct the text") from None
    return Located(None, 1, 1) if node is None else _Converter().convert(node)


def _located_error(text: str, error: yaml.MarkedYAMLError) -> QueryError:
    """The error of a text that is no YAML, at the place where it begins: of a quote that is not closed, the quote."""
    mark, context = error.problem_mark or error.context_mark, error.context or ""
    problem, remedy = error.problem or context, "correct the text"
    quote = _quote_over_lines(text, None if mark is None else mark.line)
    if context == "while scanning a quoted scalar":
        mark, problem, remedy = error.context_mark, "a quote is not closed", "close it on its line"
    elif quote is not None:
        mark, problem, remedy = quote, f"a quote is not closed where it is meant to be ({problem})", "close it on its line"
    elif _begins_before(error, context):
        mark = error.context_mark
        problem = f"{problem}, {context}" if context.startswith("while parsing") else problem
    where = {"line": mark.line + 1, "character": mark.column + 1} if mark else {}
    return QueryError(f"this is no YAML: {problem}", **where, remedy=remedy)


def _begins_before(error: yaml.MarkedYAMLError, context: str) -> bool:
    """Whether an error is about something that begins in an earlier line than the one where it was noticed."""
    begin, end = error.context_mark, error.problem_mark
    of_one = context.startswith(("while scanning", "while parsing a flow"))
    return of_one and begin is not None and (end is None or begin.line < end.line)


def _quote_over_lines(text: str, line: int | None) -> yaml.Mark | None:
    """The beginning of the quoted text that ends in a line, or the one before, and began in an earlier one."""
    found = None
    try:
        for token in yaml.scan(text, Loader=_Loader):
            if line is None or not isinstance(token, yaml.ScalarToken) or token.style not in ("'", '"'):
                continue
            if token.start_mark.line < token.end_mark.line and line - 1 <= token.end_mark.line <= line:
                found = token.start_mark
    except yaml.YAMLError:
        return found
    return found


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_NESTED:
            raise QueryError(
                f"values are nested more than {_MOST_NESTED} deep", line=event.start_mark.line + 1,
                character=event.start_mark.column + 1, remedy="give inner streams names of their own",
            )  # fmt: skip


class _Converter:
    """From PyYAML's nodes to located values; a node that aliases share is converted once."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Located, int]] = {}
        self._open: set[int] = set()

    def convert(self, node: yaml.Node) -> Located:
        return self._sized(node)[0]

    def _sized(self, node: yaml.Node) -> tuple[Located, int]:
        """A value, and how many values it has in it."""
        known = self._made.get(id(node))
        if known is not None:
            return known
        where = {"line": node.start_mark.line + 1, "character": node.start_mark.column + 1}
        if id(node) in self._open:
            raise QueryError("a value contains itself", **where, remedy="write it without an alias")
        self._open.add(id(node))
        made, size = self._new(node, where)
        self._open.remove(id(node))
        if size > _MOST_VALUES:
            raise QueryError(f"with its aliases the text has more than {_MOST_VALUES} values", **where, remedy="use fewer")
        self._made[id(node)] = made, size
        return made, size

    def _new(self, node: yaml.Node, where: dict[str, int]) -> tuple[Located, int]:
        tag = node.tag if node.tag.startswith("!") else ""
        if not tag and node.tag.rpartition(":")[2] not in _PLAIN:
            raise QueryError(f"the tag {_begun(node.tag)} is not known", **where, remedy="use !env, !stream or !python")
        if isinstance(node, yaml.SequenceNode):
            parts = [self._sized(part) for part in node.value]
            return Located(tuple(part for part, _ in parts), where["line"], where["character"], tag=tag), 1 + sum(
                size for _, size in parts
            )
        if isinstance(node, yaml.MappingNode):
            return self._dictionary(node, where, tag)
        return Located(_scalar(node, where), where["line"], where["character"], text=node.value, tag=tag), 1

    def _dictionary(self, node: yaml.MappingNode, where: dict[str, int], tag: str) -> tuple[Located, int]:
        data: dict[str, Located] = {}
        keys: dict[str, tuple[int, int]] = {}
        total = 1
        for key, value in node.value:
            at = (key.start_mark.line + 1, key.start_mark.column + 1)
            place = {"line": at[0], "character": at[1]}
            if not isinstance(key, yaml.ScalarNode):
                raise QueryError("a key is no text", **place, remedy="use a name")
            if key.value == _MERGE and key.style is None:
                raise QueryError(
                    "the key '<<' merges nothing here: YAML 1.2 has no merge keys", **place,
                    remedy="write its keys out; an alias may stand for a whole value: env: *env",
                )  # fmt: skip
            if key.value in data:
                raise QueryError(f"the key {_begun(key.value)} is given twice", **place, remedy="give it once")
            keys[key.value] = at
            data[key.value], size = self._sized(value)
            total += size
        return Located(data, where["line"], where["character"], tag=tag, keys=keys), total


def _scalar(node: yaml.ScalarNode, where: dict[str, int]) -> Any:
    kind, text = node.tag.rpartition(":")[2], node.value
    if node.tag.startswith("!") or kind == "str":
        return text
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    try:
        return int(text) if kind == "int" else float(text)
    except ValueError:
        raise QueryError(f"{_begun(text)} is no number", **where, remedy="write it in digits, of which there are few") from None


def _begun(text: str) -> str:
    """The beginning of a text, for an error.

    >>> _begun("1" * 5_000_000)
    "'11111111111111111111111111111111111111111111111111'... (5000000 characters)"
    """
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}... ({len(text)} characters)"
