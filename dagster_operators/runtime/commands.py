"""Remedies that name methods of a pipeline, for those who are on the command line: the commands that do the same."""

from __future__ import annotations

import json
import re
import shlex
from ast import literal_eval
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from dagster_operators.errors import BadInputError, call_of
from dagster_operators.storage.location import OF_SOURCE
from dagster_operators.storage.uri import public_uri

_CALL: Final = re.compile(r"(?<!in Python: )pipeline\.(\w+)\(((?:[^()'\"]|'[^']*'|\"[^\"]*\")*)\)")
_ARGUMENT: Final = re.compile(r"\s*(?:(\w+)=)?(\[[^\]]*\]|\{.*\}|'[^']*'|\"[^\"]*\"|\.\.\.|[^,]+?)\s*(?:,|$)")
_TABLES: Final = re.compile(r'(?<![(\w])tables="(keep|restart)"')
_SECRETS: Final = re.compile(r"from_plan with (.*\})")

_TYPED: Final = re.compile(r" \(in a shell: `[^`]*`(?:, `[^`]*`)*\)")

Given = dict[str, list[str]]
"""The arguments of a call as words of a command, by their names; those without one as ``""``."""


def as_commands(remedy: str, root: str) -> str:
    r"""A remedy with the commands that do what it says to call; what is to be called "in Python:" stays.

    >>> as_commands('take it back: pipeline.withdraw("operator per_key"); or pipeline.rollback(to=41, keep_sinks=True)', "lake")
    'take it back: dagster-operators withdraw lake operator per_key; or dagster-operators rollback lake 41 --keep-sinks'
    >>> as_commands('pipeline.reset(["a", "b"], ...), or pipeline.repair("t", keep="ours")', "lake")
    'dagster-operators reset lake a b --to EPOCH, or dagster-operators repair lake t --keep ours'
    >>> as_commands('say tables="restart"; pipeline.read(table, epoch=...)', "lake")
    'say --tables restart; dagster-operators read lake table --epoch EPOCH'
    >>> as_commands("give it again: from_plan with secrets={'rows': {'dsn': 'the secret'}}", "lake")
    'give it again: --secrets FILE, with {"secrets": {"rows": {"dsn": "the secret"}}}'
    >>> as_commands(with_commands("compute it anew: pipeline.rebuild('t')", "s3://lake"), "lake")
    'compute it anew: dagster-operators rebuild lake t'
    >>> as_commands("pipeline.reset('a', {'line': 7, 'file': None}, tables='keep')", "lake")
    'dagster-operators reset lake a --to \'{"line": 7, "file": null}\' --tables keep'
    """
    typed = _TABLES.sub(r"--tables \1", _CALL.sub(lambda call: _command(call, root), _TYPED.sub("", remedy)))
    return _SECRETS.sub(_in_file, typed)


def with_commands(remedy: str, root: str) -> str:
    """A remedy for those who are in Python, with the commands that do what its calls do, where these are whole.

    >>> with_commands("pipeline.widen('t'), or reset anew: pipeline.reset(..., 0)", "s3://my lake/p")
    "pipeline.widen('t'), or reset anew: pipeline.reset(..., 0) (in a shell: `dagster-operators widen 's3://my lake/p' t`)"
    """
    commands = [f"`{command}`" for command in commands_of(remedy, root)]
    return f"{remedy} (in a shell: {', '.join(commands)})" if commands else remedy


def commands_of(remedy: str, root: str) -> list[str]:
    """The commands that do what the whole calls of a remedy do, each once.

    >>> commands_of("pipeline.rebuild(['a', 'b'], operators='c') computes anew; or pipeline.reset(..., 0)", "s3://lake/p")
    ['dagster-operators rebuild s3://lake/p a b --operator c']
    """
    whole = [call for call in _CALL.finditer(remedy) if call[1] in _COMMANDS and "..." not in call[2]]
    return list(dict.fromkeys(_command(call, public_uri(root)) for call in whole))


@contextmanager
def source_named(root: str) -> Iterator[None]:
    """Errors about files that may be the same name their source in the call that says so, and the command.

    >>> with source_named("lake"):
    ...     raise BadInputError("it changed", source="rows", remedy="pipeline.restore_times(source); else put it back")
    Traceback (most recent call last):
    dagster_operators.errors.BadInputError: it changed [source 'rows']. To do: pipeline.restore_times('rows') (in a shell: ...
    """
    try:
        yield
    except BadInputError as error:
        if (source := error.where.get("source")) is not None:
            error.remedy = error.remedy.replace(OF_SOURCE, with_commands(call_of("restore_times", source), root))
        raise


def _in_file(given: re.Match[str]) -> str:
    parts = [f'{{"{name}": {value}}}' for name, _, value in (one.partition("=") for one in given[1].split(" or "))]
    return f"--secrets FILE, with {' or '.join(parts)}".replace("'", '"')


_LEFT_OUT: Final = {
    "rebuild": ["TABLE"],
    "reset": ["SOURCE", "EPOCH"],
    "set_watermark": ["SOURCE", "TIME"],
    "rollback": ["EPOCH"],
}
"""What a call's arguments without a name are called in the help of its command, where the call leaves them open."""


def _with_names(call: str, given: Given) -> Given:
    """Arguments with a name in capitals for each that is left open, as in the help of a command.

    >>> _with_names("reset", {"": ["rows", "..."]}), _with_names("rebuild", {"": ["..."], "since": ["2"]})
    ({'': ['rows', 'EPOCH']}, {'': ['TABLE'], 'since': ['2']})
    """
    names = _LEFT_OUT.get(call, [])[-max(len(given.get("", [])), 1) :]
    found = dict(given)
    for name, words in given.items():
        here = names if not name else ["EPOCH"]
        found[name] = [here[min(place, len(here) - 1)] if word == "..." and here else word for place, word in enumerate(words)]
    return found


def _command(call: re.Match[str], root: str) -> str:
    written = _COMMANDS.get(call[1])
    if written is None:
        return call[0]
    given: Given = {}
    for name, value in _ARGUMENT.findall(call[2]):
        given.setdefault(name, []).extend(_words(value))
    place = shlex.quote(root)
    return f"dagster-operators {written(_with_names(call[1], given), place)}"


def _words(value: str) -> list[str]:
    try:
        found = literal_eval(value)
    except (ValueError, SyntaxError):
        return [value]
    if found is ...:
        return ["..."]
    if isinstance(found, dict):
        return [json.dumps(found)]
    return [str(one) for one in found] if isinstance(found, list) else [str(found)]


def _typed(words: list[str]) -> str:
    return " ".join(word if word == "..." else shlex.quote(word) for word in words)


def _of(command: str, *, split: bool = False) -> Callable[[Given, str], str]:
    """A command whose words are those of the call, and whose options are called as its further arguments are."""

    def written(given: Given, root: str) -> str:
        words = [word for value in given.get("", []) for word in (value.split(" ", 1) if split else [value])]
        return " ".join(filter(None, [command, root, _typed(words), _options(given)]))

    return written


def _options(given: Given) -> str:
    found = []
    for name, values in given.items():
        option = f"--{name.replace('_', '-')}"
        if name and values == ["True"]:
            found.append(option)
        elif name:
            found.append(f"{option} {_typed(values)}")
    return " ".join(found)


def _rollback(given: Given, root: str) -> str:
    to = given.pop("to", given.get("", ["EPOCH"]))
    return " ".join(filter(None, ["rollback", root, _typed(to), _options(given)]))


def _reset(given: Given, root: str) -> str:
    *sources, to = [*given.get("", []), *given.pop("to", [])] or ["SOURCE", "EPOCH"]
    return " ".join(filter(None, ["reset", root, _typed(sources or ["SOURCE"]), "--to", _typed([to]), _options(given)]))


def _repair_ledger(given: Given, root: str) -> str:
    return " ".join(filter(None, ["repair", root, "--ledger", _options(given)]))


def _rebuild(given: Given, root: str) -> str:
    operators = [f"--operator {_typed([name])}" for name in given.pop("operators", [])]
    return " ".join(filter(None, ["rebuild", root, _typed(given.get("", [])), *operators, _options(given)]))


_COMMANDS: Final = {
    "rollback": _rollback, "reset": _reset, "rebuild": _rebuild, "repair": _of("repair"), "repair_all": _of("repair"),
    "repair_ledger": _repair_ledger, "decide": _of("decide", split=True), "withdraw": _of("withdraw", split=True),
    "widen": _of("widen"), "restore_times": _of("restore-times"),
    "set_watermark": _of("set-watermark"),
    "drop": _of("drop"), "clean": _of("clean"), "compact": _of("compact"), "read": _of("read"), "unlock": _of("unlock"),
}  # fmt: skip
