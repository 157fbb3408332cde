"""The kit for logical operators: every operator of the package passes, and each slip is found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

import dagster_operators as do
from dagster_operators.catalog import loading
from dagster_operators.connectors.operator_source import OperatorSource
from dagster_operators.graph.changes import Changes
from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.user_functions import forget
from dagster_operators.operators.relational.source import Source
from dagster_operators.testing import check_operator
from tests.catalog.limits import Head, take
from tests.operators.samples import SAMPLES

COLUMNS = ("k", "v", "t", "xs", "op")
ROWS = StreamType(COLUMNS, "t")
RIGHT = StreamType(("l", "w", "u"), "u")
INPUTS = {
    "source": (),
    "loop_variable": (),
    "union": (ROWS, ROWS),
    "window_join": (ROWS, RIGHT),
    "interval_join": (ROWS, RIGHT),
    "join": (ROWS, RIGHT),
    "as_of_join": (ROWS, RIGHT),
    "apply": (ROWS, RIGHT),
    "input_window_aggregate": (StreamType((*COLUMNS, "window_start", "window_end"), "window_start"),),
    "latest": (StreamType(COLUMNS, changes=Changes.RETRACT),),
    "deduplicate_changes": (StreamType((*COLUMNS, "w"), "t", Changes.RETRACT),),
}


@pytest.fixture
def asked():
    @do.udf("string")
    async def asked(k):
        return k

    yield
    forget("asked")


@pytest.mark.parametrize("operator", SAMPLES, ids=[f"{sample.kind}-{i}" for i, sample in enumerate(SAMPLES)])
def test_every_operator_of_the_package_passes(operator, asked):
    if isinstance(operator, Source) and isinstance(operator.connector, OperatorSource):
        connector = OperatorSource("a", operator.connector.operator, "unused")
        operator = Source(name="a", connector=connector)
    check_operator(operator, *INPUTS.get(operator.kind, (ROWS,)))


@pytest.fixture
def registered(monkeypatch):
    """Registers an operator with a catalog of its own, with the lowering rule of another."""
    monkeypatch.setattr(loading, "_default", [])
    monkeypatch.setattr(loading, "entry_points", lambda group: [])

    def register(operator, lower=lambda operator, inputs: (operator.rows,)):
        loading.catalog().of("limits").add_operator(operator, lowerings={"take": lower})

    return register


def fails(operator, told):
    with pytest.raises(AssertionError, match=told):
        check_operator(operator, ROWS)


def test_an_operator_of_another_package_passes(registered):
    registered(Head)
    check_operator(Head(name="first", rows=3), ROWS)


def test_what_is_not_registered_is_told():
    fails(Head(name="first", rows=3), "Head 'first': no installed package registers the kind 'head'")


def test_a_forgotten_setting_is_found(registered):
    @dataclass(frozen=True, kw_only=True)
    class Forgetful(Head):
        """Forgets."""

        kind: ClassVar[str] = "forgetful"
        more: int = 0

        def encode(self):
            return {"name": self.name, "chain": self.chain, "rows": self.rows}

    registered(Forgetful)
    check_operator(Forgetful(name="a", rows=1), ROWS)
    fails(Forgetful(name="a", rows=1, more=2), "what decode makes of its encoded settings is not equal to it")


def test_a_lenient_decode_is_found(registered):
    class Lenient(Head):
        """Takes anything."""

        kind = "lenient"

        @classmethod
        def decode(cls, fields):
            return cls(name=fields["name"], chain=fields["chain"], rows=fields["rows"])

    registered(Lenient)
    fails(Lenient(name="a", rows=1), "decode accepts a setting that it does not have")


def test_lineage_from_nowhere_is_found(registered):
    class Astray(Head):
        """Says that a column comes from nowhere."""

        kind = "astray"

        def lineage(self, inputs):
            return {"k": frozenset({(0, "nowhere")})}

    registered(Astray)
    fails(Astray(name="a", rows=1), "column 'k' is said to come of what its inputs lack")


def test_physical_operators_that_are_no_values_are_found(registered):
    class Plain(Head):
        """Lowers to something new each time."""

        kind = "plain"

    registered(Plain, lambda operator, inputs: object())
    fails(Plain(name="a", rows=1), "lowered twice it gives different physical operators")


def test_a_class_without_a_docstring_is_found(registered):
    class Silent(Head):
        kind = "silent"

    registered(Silent, take)
    fails(Silent(name="a", rows=1), "its class has no docstring")
