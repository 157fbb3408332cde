"""``get_state()`` and ``set_state(value)``, with which an operator says itself what is kept: it has both or neither."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

METHODS: Final = ("get_state", "set_state")

BOTH: Final = "write both; or neither, and its attributes are saved: a method that is for something else needs another name"
"""What to do where an operator has one of them."""


def without_the_other(method: str) -> str:
    """What is wrong where an operator has one of them.

    >>> without_the_other("get_state")
    'it has get_state() without set_state(value), so that what is saved could not be put back'
    """
    if method == "get_state":
        return "it has get_state() without set_state(value), so that what is saved could not be put back"
    return "it has set_state(value) without get_state(), so that nothing says what is saved"


def one_alone(text: str) -> str | None:
    r"""The method that the class ``Operator`` of a Python file has without the other one, where that is seen without running it.

    >>> one_alone("class Operator:\n    def get_state(self): return 1")
    'get_state'
    >>> one_alone("class Operator(Base):\n    def get_state(self): return 1") is None  # Base may have the other one
    True
    """
    made = [one for one in ast.parse(text).body if isinstance(one, ast.ClassDef) and one.name == "Operator"]
    if not made or made[-1].bases or made[-1].keywords or made[-1].decorator_list or all(name in text for name in METHODS):
        return None
    own = [one.name for one in made[-1].body if isinstance(one, ast.FunctionDef) and one.name in METHODS]
    return own[0] if own else None


def names_attribute(text: str, attribute: str) -> bool:
    """Whether a Python file names an attribute, as far as can be seen.

    >>> names_attribute("class A: state = 1", "state"), names_attribute("a.state", "state"), names_attribute("state = 1", "state")
    (True, True, False)
    """
    return any(
        (isinstance(node, ast.Attribute) and node.attr == attribute)
        or (isinstance(node, ast.Constant) and node.value == attribute)
        or (isinstance(node, ast.ClassDef) and attribute in _assigned(node))
        for node in ast.walk(ast.parse(text))
    )


def _assigned(made: ast.ClassDef) -> Iterator[str]:
    """The names that a class's body assigns."""
    for statement in made.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        yield from (one.id for one in targets if isinstance(one, ast.Name))
