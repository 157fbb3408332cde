"""What inputs say of the messages that they want, held against what outputs say of those that they send."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from dagster_operators.api.events.noted import Noted
from dagster_operators.api.events.value_types import value_type
from dagster_operators.api.events.written import WrittenOperator
from dagster_operators.api.queries.located import Located
from dagster_operators.errors import OperatorsError
from dagster_operators.operators.events.wiring import TIMER, EventOperator

_WIDER: Final = (("tinyint", "smallint", "int", "bigint", "decimal(20,0)"), ("float", "double"))
"""Types of numbers, each of which takes those before it."""

_FURTHEST: Final = 3
"""How many rules are followed one after another, as in dora."""

_BYTES: Final = "std/core/v1/Bytes"
_OF_TICKS: Final = "std/core/v1/UInt64"
"""What dora says that a tick is."""

_STRICT: Final = "strict_types"
_RULES: Final = "type_rules"


def check_input_types(
    root: Located, written: Sequence[WrittenOperator], operators: Sequence[EventOperator], noted: Noted
) -> None:
    """Note each input that wants messages of another type than what it reads sends.

    Args:
        root: The file, with its rules for types.
        written: The operators as they are written.
        operators: The same with the addresses of what their inputs read.
        noted: Collects what is wrong.
    """
    rules = _rules(root)
    strict = _STRICT in root.data and root.data[_STRICT].data is True
    said = {
        operator.address(name): kind for one, operator in zip(written, operators, strict=True) for name, kind in one.said.items()
    }
    made = {operator.address(output) for operator in operators for output in operator.outputs}
    for one, operator in zip(written, operators, strict=True):
        reads = {each.id: each.source for each in operator.inputs}
        for name, wanted in one.wanted.items():
            source = reads.get(name)
            if source is None:  # something else is wrong with it, and was told
                continue
            sent = _OF_TICKS if source.startswith(TIMER) else said[source].text if source in said else None
            what = f"the input {name!r} of the operator '{one.path}' wants {wanted.text!r}, and {source!r}"
            if sent is None:
                if strict and source in made:
                    noted.wrong(wanted, f"{what} says no type ({_STRICT})", "give it one under output_types")
            elif not _fits(sent, wanted.text, rules):
                remedy = f"correct one of them; or say that it fits: {_RULES}: [{{from: {sent}, to: {wanted.text}}}]"
                noted.wrong(wanted, f"{what} sends {sent!r}", remedy)


def _rules(root: Located) -> Mapping[str, set[str]]:
    """Which types take which others, as the file says; what is no rule is told elsewhere."""
    found: dict[str, set[str]] = defaultdict(set)
    given = root.data.get(_RULES)
    for rule in given.data if given is not None and isinstance(given.data, tuple) else ():
        if isinstance(rule.data, dict) and {"from", "to"} <= rule.data.keys():
            found[_base(rule.data["from"].text)].add(_base(rule.data["to"].text))
    return found


def _fits(sent: str, wanted: str, rules: Mapping[str, set[str]]) -> bool:
    """Whether messages of a type can be taken for another one.

    >>> _fits("int32", "std/core/v1/Int64", {}), _fits("int64", "Int32", {}), _fits("std/media/v1/Image", _BYTES, {})
    (True, False, True)
    >>> _fits("mine/A", "mine/C", {"mine/A": {"mine/B"}, "mine/B": {"mine/C"}}), _fits("a/Audio[rate=8]", "a/Audio[rate=16]", {})
    (True, False)
    """
    if wanted == _BYTES:
        return True
    if _base(sent) == _base(wanted):
        return all(_parameters(wanted).get(key, value) == value for key, value in _parameters(sent).items())
    reached = {_base(sent)}
    for _ in range(_FURTHEST):
        reached |= {to for one in reached for to in rules.get(one, ())}
    return any(_is_wider(_base(wanted), one) for one in reached)


def _is_wider(wanted: str, sent: str) -> bool:
    """Whether a type is the same as another one, or a wider one for numbers."""
    if wanted == sent:
        return True
    for kinds in _WIDER:
        if wanted in kinds and sent in kinds:
            return kinds.index(wanted) >= kinds.index(sent)
    return False


def _base(text: str) -> str:
    """A type by the name that it has among Spark's, or in dora without parameters."""
    name = text.partition("[")[0]
    with suppress(OperatorsError):
        return value_type(text) or name
    return name


def _parameters(text: str) -> dict[str, str]:
    inside = text.partition("[")[2].rstrip("]")
    pairs = [part.partition("=") for part in inside.split(",") if part]
    return {key.strip(): value.strip() for key, _, value in pairs}
