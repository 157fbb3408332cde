"""Decisions are stored under facts: other words for a change ask nothing again, and code goes by no words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster_operators
from dagster_operators.plans.verdict import Level, Verdict
from dagster_operators.plans.verdicts import judge
from tests.plans.test_verdicts import ROWS, plan, stored

LEFT = {
    "source_named", "fail", "_with", "commands_for", "explain_failure", "failed_value", "tell_epoch", "told", "_owned", "masked",
}  # fmt: skip
"""Functions that do so still: most put a call into a remedy in the place of another."""


def asked() -> Iterator[Verdict]:
    for _, before, after, wanted in ROWS:
        if any(row[0] == "decision" for row in wanted):
            old, new = plan(before), plan(after)
            known = stored(old)
            yield from (one for one in judge(old, new, known) if one.level is Level.DECISION)


def test_a_decision_is_known_again_by_facts() -> None:
    """Of the same subject another text is another question, the same facts in other words are not."""
    found = list(asked())
    assert len(found) > 20
    texts: dict[tuple[str, str], set[str]] = {}
    for verdict in found:
        assert verdict.reasons, verdict
        texts.setdefault((verdict.subject, verdict.question), set()).add(verdict.problem)
        other = replace(verdict, problem="it is put in other words")
        assert (other.question, Verdict.from_json(other.to_json()).question) == (verdict.question, verdict.question)
        for key in (verdict.question, verdict.former_question):  # as this version stores it, and as 0.2.0 did
            assert verdict.answered({(verdict.subject, key): "keep"}).decided == "keep"
        assert other.answered({(verdict.subject, verdict.question): "keep"}).decided == "keep"
    assert [told for told in texts.values() if len(told) > 1] == []


def test_no_code_goes_by_the_words_of_a_problem_or_remedy() -> None:
    """Neither compared nor searched: what a branch needs is a value beside them."""
    root, found = Path(dagster_operators.__file__).parent, set()
    for file in root.rglob("*.py"):
        text = file.read_text()
        for function in ast.walk(ast.parse(text)) if ".problem" in text or ".remedy" in text else ():
            if isinstance(function, ast.FunctionDef) and any(map(_goes_by_words, ast.walk(function))):
                found.add(function.name)
    assert found <= LEFT


def _goes_by_words(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return any(_is_told(one) for one in (node.left, *node.comparators))
    call = node.func if isinstance(node, ast.Call) else None
    searching = {"startswith", "endswith", "partition", "split", "removeprefix", "removesuffix", "replace", "find"}
    return isinstance(call, ast.Attribute) and call.attr in searching and _is_told(call.value)


def _is_told(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("problem", "remedy")
