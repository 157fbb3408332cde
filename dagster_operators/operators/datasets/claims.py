"""Whether rows lie as a plan says: what an operator forwards is said by its author, and a plan trusts it."""

from __future__ import annotations

from collections.abc import Sequence

from dagster_operators.operators.datasets.rows import Row, groups, in_order, is_in_order, key_of
from dagster_operators.operators.datasets.running.claim_checks import misplaced
from dagster_operators.optimizer.candidates import Candidate
from dagster_operators.optimizer.properties.distribution import Partitioning
from dagster_operators.optimizer.properties.fields import in_order as fields_in_order


def check_claims(candidate: Candidate, parts: Sequence[Sequence[Row]]) -> None:
    """See that an operator's rows lie as the plan says.

    Args:
        candidate: The operator, as the plan has it.
        parts: The rows that it gave, in their parts.

    Raises:
        PipelineError: They do not: a forwarded field is not handed on by the operator, or a key is not unique.
    """
    if candidate.title:  # a combiner: there is an exchange behind it, so that nobody relies on how its rows lie
        return
    problem = _misplaced(candidate, parts) or _disordered(candidate, parts) or _repeated(candidate, parts)
    if problem:
        raise misplaced(problem, candidate.node.name or candidate.node.kind)


def _misplaced(candidate: Candidate, parts: Sequence[Sequence[Row]]) -> str | None:
    lies = candidate.distribution
    if not lies.partitioning.is_on_key or lies.fields is None:
        return None
    places: dict[object, int] = {}
    for number, part in enumerate(parts):
        for key in map(key_of(lies.fields), part):
            if places.setdefault(key, number) != number:
                return f"rows with the key {key} in {list(lies.fields)} are in two parts"
    if lies.partitioning is Partitioning.RANGE and lies.ordering is not None:
        rows = [row for part in parts for row in part]
        part_of = key_of(lies.ordering.fields)
        sorted_places = [places[part_of(row)] for row in in_order(rows, lies.ordering.sorted_by)]
        if sorted_places != sorted(sorted_places):
            return f"the parts do not follow one another in the order {lies.ordering}"
    return None


def _disordered(candidate: Candidate, parts: Sequence[Sequence[Row]]) -> str | None:
    order = candidate.order
    for part in parts:
        if order.ordering is not None and not is_in_order(part, order.ordering):
            return f"a part is not in the order {order.ordering}"
        if order.grouped is not None:
            keys = [key for key, _ in groups(part, order.grouped)]
            if len(set(keys)) < len(keys):
                return f"rows with equal values in {list(order.grouped)} do not lie together"
    return None


def _repeated(candidate: Candidate, parts: Sequence[Sequence[Row]]) -> str | None:
    for fields in candidate.distribution.unique:
        keys = [key for part in parts for key in map(key_of(fields_in_order(fields)), part)]
        if len(set(keys)) < len(keys):
            return f"two rows have equal values in {sorted(map(str, fields))}"
    return None
