"""A plan written by the first version of the package stays readable, and means what it meant."""

from __future__ import annotations

import json
from pathlib import Path

from dagster_operators.plans.codec import from_bytes, to_bytes
from dagster_operators.plans.shown import as_json
from tests.operators.samples import SAMPLES

HERE = Path(__file__).parent
DATA = (HERE / "first_version.plan").read_bytes()


def test_it_is_read_as_it_was_written():
    """The settings that there were are the same; those that operators got since may stand beside them."""
    assert missing(json.loads((HERE / "first_version.json").read_text()), as_json(from_bytes(DATA))) == []


def missing(wanted, found, place="plan"):
    """What of the wanted is not in what was found."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [told for name in wanted for told in missing(wanted[name], found.get(name), f"{place}.{name}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [told for number, one in enumerate(wanted) for told in missing(one, found[number], f"{place}[{number}]")]
    return [] if wanted == found else [f"{place} was {wanted!r} and is {found!r}"]


def test_what_is_missing_would_be_noticed():
    assert missing({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}) == ["plan.a[1].b was 2 and is 3"]


def test_it_has_every_operator_of_its_time():
    kinds = {node.operator.kind for node in from_bytes(DATA).nodes}
    assert len(kinds) == 24
    assert kinds <= {sample.kind for sample in SAMPLES}


def test_it_is_written_again():
    again = to_bytes(from_bytes(DATA))
    assert from_bytes(again) == from_bytes(DATA)
