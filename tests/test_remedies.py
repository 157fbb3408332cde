"""Errors in the source say what to do, and the calls on stored data that they name are whole."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import dagster_operators
from dagster_operators import errors
from tests.remedies import DECLARING, calls_in, cannot_be_done, why_not

PACKAGE = Path(dagster_operators.__file__).parent
HERE, VALUE = "\0", "x"
"""Stands for what a text is given as it is printed."""

KNOWN = (VALUE, "source", "table")
"""Connectors write ``source`` for the name that an error learns later, and what is said of programs ``table`` for any."""

SHOWN = {"testing"}
"""Folders whose texts are no errors."""

CLASSES = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.OperatorsError)}


@cache
def nodes() -> tuple[tuple[Path, ast.AST], ...]:
    """All parts of the package's modules without docstrings."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(ast.walk(ast.parse(path.read_text())))
        docstrings = {id(part.value) for part in parts if isinstance(part, ast.Expr)}
        kinds = (ast.Constant, ast.JoinedStr, ast.Call)
        found += [(path.relative_to(PACKAGE), part) for part in parts if isinstance(part, kinds) and id(part) not in docstrings]
    return tuple(found)


def text_of(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else HERE for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def wrong_calls(text: str) -> list[str]:
    """The calls in a text that cannot be made, whether what it is given is a whole argument, or more of them or none."""
    found = []
    for call in calls_in(text.replace("in Python: pipeline", "")):  # a command has put the call there
        method = call.partition("(")[0].rpartition(".")[2]
        if method in DECLARING or not call.endswith(")"):  # made of several texts
            continue
        ways = (call.replace(HERE, VALUE), re.sub(f"(?<=[])'\"]){HERE}", "", call).replace(HERE, VALUE))
        if all(why_not(way, KNOWN) for way in ways):
            found.append(f"{call}: {why_not(ways[0], KNOWN)}")
    return found


def test_calls_on_stored_data_are_whole() -> None:
    texts = [(path, text) for path, node in nodes() if "pipeline." in (text := text_of(node))]
    assert len([text for _, text in texts if calls_in(text)]) > 30
    wrong = [f"{path}: {one}" for path, text in texts for one in wrong_calls(text)]
    assert not wrong


@pytest.mark.parametrize(
    "text", ["pipeline.reset(..., 0)", "pipeline.rollback(to=...)", "pipeline.withdrow('t')", f"pipeline.reset({HERE}, EPOCH)"]
)
def test_calls_with_gaps_are_seen(text: str) -> None:
    assert wrong_calls(f"do it: {text}; or leave it")


def test_all_errors_say_what_to_do() -> None:
    made = [
        (f"{path}:{node.lineno}: {node.func.id}", {given.arg for given in node.keywords})
        for path, node in nodes()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CLASSES
    ]
    assert len(made) > 1000
    # Errors of several places say it of each; some are given all that they have.
    silent = [name for name, given in made if not {"remedy", "errors", None} & given]
    assert not silent


def test_remedies_name_arguments_without_gaps_before_them() -> None:
    texts = [(path, text_of(node)) for path, node in nodes()]
    gaps = [f"{path}: {text}" for path, text in texts if re.search(r"\w\(\.\.\., \w+=", text) and path.parts[0] not in SHOWN]
    assert not gaps


@pytest.mark.parametrize(
    ("remedy", "why"),
    [
        ("run `dagster-operators repair lake --ledgr`", "No such option"),
        ("run `dagster-operators repare lake`", "no such command"),
        ("run `dagster-operators reset lake rows --to EPOCH`", "open"),
        ("run `dagster-operators doctor`", "open"),
        ("call pipeline.mend('t')", "the method mend"),
        ("call pipeline.reset(rows, 0)", "open"),
    ],
)
def test_what_cannot_be_done_is_seen(remedy: str, why: str) -> None:
    assert any(why in wrong for wrong in cannot_be_done(remedy))


def test_what_can_be_done_is_let_through() -> None:
    assert not cannot_be_done(
        "have `dagster-operators doctor 'my lake'` say it; or pipeline.reset(source, 0, tables='restart'); or "
        "`dagster-operators repair lake clean --keep ours`; or put pipeline.source(...) before it", "source"
    )  # fmt: skip
