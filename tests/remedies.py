"""Remedies as they are printed: whole texts, with calls and commands that there are."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Container
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dagster_operators import Pipeline

GAP = re.compile(r"\.\.\.|…|(?<!\w)<\w+>|\b(?:EPOCH|FILE|FOLDER|OPERATOR|SOURCE|TIME)\b")
"""What a reader would have to fill in; names of types such as ``array<string>`` are none."""

_OPENED = re.compile(r"(?<![\w.])pipeline\.(\w+)\(")
_NAMED = re.compile(r"(?<![\w./])pipeline\.([a-z_]+)\b(?!\.)")
_COMMAND = re.compile(r"dagster-operators ([a-z-]+)((?: --[a-z-]+)?)")
_PLACES = {"yaml", "yml", "py"}
_TYPED = re.compile(r"`dagster-operators ([^`]+)`")

DECLARING = {"apply", "loop", "source"}
"""Methods that a program declares a pipeline with: a remedy names what is to be added to such a call."""


def calls_in(text: str) -> list[str]:
    """The calls of a pipeline's methods in a text, from their name to the parenthesis that closes them."""
    return [text[opened.start() : _closing(text, opened.end())] for opened in _OPENED.finditer(text)]


def _closing(text: str, at: int) -> int:
    depth, quote = 1, ""
    while depth and at < len(text):
        sign = text[at]
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        else:
            depth += (sign == "(") - (sign == ")")
        at += 1
    return at


def wrong_in(remedy: str, *known: str) -> list[str]:
    """What keeps a reader from doing what a remedy says: a gap, or a call or command that there is not.

    Args:
        remedy: The remedy.
        known: Names that may stand in calls in place of values.
    """
    return [*(f"the gap {gap!r}" for gap in GAP.findall(remedy)), *cannot_be_done(remedy, *known)]


def cannot_be_done(remedy: str, *known: str) -> list[str]:
    """The calls and commands of a remedy that there are not, or that leave something open; programs are written by the user.

    Args:
        remedy: The remedy.
        known: Names that may stand in calls in place of values.
    """
    made = [call for call in calls_in(remedy) if _OPENED.match(call)[1] not in DECLARING]  # type: ignore[index]
    calls = [f"the call {call}: {why}" for call in made if (why := why_not(call, known))]
    names = {name for name in _NAMED.findall(remedy) if name not in _PLACES and not hasattr(_pipeline(), name)}
    commands = [f"the command {name}{option}" for name, option in _COMMAND.findall(remedy) if not _is_command(name, option)]
    typed = [f"the command {words}: {why}" for words in _TYPED.findall(remedy) if (why := _why_not_typed(words))]
    return [*calls, *(f"the method {name}" for name in sorted(names)), *commands, *typed]


def _pipeline() -> type[Pipeline]:
    from dagster_operators import Pipeline

    return Pipeline


def why_not(call: str, known: Container[str] = ()) -> str:
    """Why a call cannot be made as it stands; nothing if it can."""
    try:
        parsed = ast.parse(call, mode="eval").body
    except SyntaxError as error:
        return str(error)
    assert isinstance(parsed, ast.Call)
    assert isinstance(parsed.func, ast.Attribute)
    method = getattr(_pipeline(), parsed.func.attr, None)
    if method is None:
        return "there is no such method"
    try:
        inspect.signature(method).bind(None, *parsed.args, **{str(given.arg): given.value for given in parsed.keywords})
    except TypeError as error:
        return str(error)
    parts = [node for given in (*parsed.args, *parsed.keywords) for node in ast.walk(given)]
    left = [node.id for node in parts if isinstance(node, ast.Name) and node.id not in known]
    gaps = ["..." for node in parts if isinstance(node, ast.Constant) and node.value is ...]
    return f"it leaves {[*left, *gaps]} open" if left or gaps else ""


def _is_command(name: str, option: str) -> bool:
    from dagster_operators.cli.main import main

    command = main.commands.get(name)
    options = (
        {spelled for parameter in command.params if isinstance(parameter, click.Option) for spelled in parameter.opts}
        if command
        else set()
    )
    return command is not None and (not option.strip() or option.strip() in options)


def _why_not_typed(words: str) -> str:
    """Why a command cannot be typed as it stands; nothing if it can."""
    from dagster_operators.cli.main import main

    name, *words_given = shlex.split(words, comments=True)
    command = main.commands.get(name)
    if command is None:
        return "there is no such command"
    try:
        values, _, _ = command.make_parser(click.Context(command, info_name=name)).parse_args(args=words_given)
    except click.UsageError as error:
        return error.format_message()
    asked = [parameter.name for parameter in command.params if isinstance(parameter, click.Argument) and parameter.required]
    left = [str(name) for name in asked if not isinstance(given := values.get(str(name)), str | tuple | list) or not given]
    gaps = [gap for gap in GAP.findall(words) if gap != "FILE"]
    return f"it leaves {[*left, *gaps]} open" if left or gaps else ""
