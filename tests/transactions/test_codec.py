"""What is written to the ledger is read back equal, and nothing else is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators.errors import LedgerError, LedgerVersionError
from dagster_operators.transactions.codec import added, decode, encode, from_json, to_json


@dataclass(frozen=True)
class Part:
    name: str
    size: float = 0.0


@dataclass(frozen=True)
class Whole:
    """A field of every kind of type."""

    number: int
    flag: bool
    which: Literal["a", "b"]
    anything: Any
    maybe: str | None
    pair: tuple[int, str]
    parts: tuple[Part, ...]
    names: frozenset[str]
    by_name: Mapping[str, tuple[int, ...]]
    since: int = added(2, 0)


NUMBERS = st.integers(-(2**63), 2**63 - 1)
plain = st.none() | st.booleans() | NUMBERS | st.text(max_size=3)
wholes = st.builds(
    Whole, NUMBERS, st.booleans(), st.sampled_from("ab"),
    plain | st.lists(plain, max_size=2), st.none() | st.text(max_size=3),
    st.tuples(NUMBERS, st.text(max_size=3)),
    st.lists(st.builds(Part, st.text(max_size=3), st.floats(allow_nan=False)), max_size=2).map(tuple),
    st.frozensets(st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.lists(NUMBERS, max_size=2).map(tuple), max_size=2), st.integers(0, 1),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(wholes)
def test_what_is_written_is_read_back(whole: Whole) -> None:
    assert from_json(Whole, to_json(whole)) == whole
    assert ("since" in encode(whole)) == (whole.since != 0)


GIVEN = encode(Whole(1, True, "a", None, None, (1, "x"), (Part("p"),), frozenset(), {"n": (1,)}))  # noqa: FBT003


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"number": True}, "Whole.number"),
        ({"number": 1.5}, "Whole.number"),
        ({"flag": 1}, "Whole.flag"),
        ({"which": "c"}, "Whole.which"),
        ({"maybe": 1}, "Whole.maybe"),
        ({"pair": [1]}, "Whole.pair"),
        ({"pair": [1, 2]}, "Whole.pair"),
        ({"pair": None}, "Whole.pair"),
        ({"parts": {}}, "Whole.parts"),
        ({"parts": [{"name": 1, "size": 0}]}, "Whole.parts.name"),
        ({"parts": [{"name": "p", "size": True}]}, "Whole.parts.size"),
        ({"names": "x"}, "Whole.names"),
        ({"names": [1]}, "Whole.names"),
        ({"by_name": []}, "Whole.by_name"),
        ({"by_name": {"n": ["x"]}}, "Whole.by_name.n"),
    ],
)
def test_a_value_of_another_type_is_refused_where_it_lies(changed: dict[str, Any], place: str) -> None:
    with pytest.raises(LedgerError, match=f"^{re.escape(place)} has the unexpected value"):
        decode(Whole, {**GIVEN, **changed})


def test_fields_are_those_that_are_known() -> None:
    assert decode(Whole, GIVEN).since == 0  # of a later version: it may be missing
    with pytest.raises(LedgerVersionError, match=r"^Whole has the unknown field 'more'"):
        decode(Whole, {**GIVEN, "more": 1})
    with pytest.raises(LedgerError, match=r"misses \['number'\]"):
        decode(Whole, {name: value for name, value in GIVEN.items() if name != "number"})
    with pytest.raises(LedgerError, match="a set cannot be written"):
        encode(set())
