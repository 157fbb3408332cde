"""Rows that do not lie as a plan says, since an author said that fields are forwarded which are not; without an engine."""

from __future__ import annotations

import pytest

from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.drivers.driver import Work
from dagster_operators.operators.datasets.local import LocalExecution
from dagster_operators.optimizer.descriptors import Reduced, Repartitioned, RowWise, SortedParts
from dagster_operators.optimizer.planning import optimized
from dagster_operators.optimizer.program import Node, Sink, Source
from dagster_operators.optimizer.properties.distribution import Partitioning, RequiredDistribution
from dagster_operators.optimizer.properties.fields import Forwarding
from dagster_operators.optimizer.properties.ordering import Direction, Ordering

ROWS = [(number, number % 3) for number in range(20)]


def run(first, forwarding, function, *, claims=True, unique=()):
    """Rows behind a map that says what it forwards, behind an operator that puts them somewhere, and in front of a reduce."""
    source = Source("rows", parallelism=4)
    placed = Node("Partition", "placed", [source], parallelism=4, descriptors=[first], forwarding=[Forwarding.everything()])
    mapped = Node(
        "Map",
        "mapped",
        [placed],
        parallelism=4,
        descriptors=[RowWise()],
        forwarding=[forwarding],
        work=Work(function),
        unique=unique,
    )
    work = Work(lambda one, other: (one[0], one[1] + other[1]), keys=(0,))
    sums = Node("Reduce", "sums", [mapped], parallelism=4, descriptors=[Reduced(frozenset({0}))], work=work)
    return sorted(LocalExecution(optimized([Sink("out", sums, parallelism=4)]), {"rows": ROWS}, claims=claims).run()["out"])


HASHED = Repartitioned(RequiredDistribution(Partitioning.HASH, frozenset({0})))


def test_a_wrong_claim_gives_wrong_rows_and_is_named():
    by_three = lambda row: (row[0] % 3, 1)  # noqa: E731 - it is the point
    right = run(HASHED, Forwarding(), by_three)
    assert right == [(0, 7), (1, 7), (2, 6)]
    assert run(HASHED, Forwarding.of([0]), by_three, claims=False) != right
    with pytest.raises(PipelineError, match=r"with the key .* in \[0\] are in two parts.*operator 'mapped'.*leave fields"):
        run(HASHED, Forwarding.of([0]), by_three)


def test_an_order_that_is_not_kept_is_named():
    ordered = SortedParts(Ordering.of([0], Direction.ASCENDING))
    with pytest.raises(PipelineError, match=r"a part is not in the order \[0:ASC\].*operator 'mapped'"):
        run(ordered, Forwarding.of([0]), lambda row: (-row[0], 1))


def test_a_key_that_is_not_unique_is_named():
    with pytest.raises(PipelineError, match=r"two rows have equal values in \['1'\].*operator 'mapped'"):
        run(HASHED, Forwarding.of([0]), lambda row: row, unique=[frozenset({1})])


def test_ranges_follow_one_another():
    ranged = Repartitioned(RequiredDistribution(Partitioning.RANGE, None, Ordering.of([0], Direction.DESCENDING)))
    assert run(ranged, Forwarding.everything(), lambda row: row) == ROWS
