"""The candidates of a plan that are computed in each round of an iteration, and those that are computed once."""

from __future__ import annotations

from dagster_operators.optimizer.candidates import Candidate, Channel, Loop
from dagster_operators.optimizer.planning import OptimizedPlan


def in_round(loop: Loop) -> list[Candidate]:
    """The candidates whose rows are others in each round, each behind those that it reads."""
    found: dict[int, Candidate] = {}
    for end in loop.ends:
        for candidate in end:
            if candidate.node.is_dynamic:
                found.setdefault(id(candidate), candidate)
    return list(found.values())


def channels_into(iteration: Candidate) -> list[Channel]:
    """The channels from outside into an iteration's round."""
    if iteration.loop is None:
        return []
    inside = in_round(iteration.loop)
    known = set(map(id, inside))
    return [
        channel
        for candidate in inside if candidate.initial is None
        for channel in (*candidate.inputs, *candidate.broadcasts) if id(channel.source) not in known
    ]  # fmt: skip


def outside_of_rounds(plan: OptimizedPlan) -> tuple[list[Candidate], list[tuple[Channel, int]], list[Candidate]]:
    """The candidates that are computed once, the channels from them into iterations, and those of them that leave rounds."""
    found: dict[int, Candidate] = {}
    leaving: list[tuple[Channel, int]] = []
    kept: list[Candidate] = []

    def visit(end: Candidate) -> None:
        for candidate in end:
            if id(candidate) in found or candidate.node.is_dynamic:
                continue
            if candidate.loop is not None:
                inside = {id(one): one for one in in_round(candidate.loop)}
                for channel in channels_into(candidate):
                    visit(channel.source)
                    (reader,) = [one for one in inside.values() if channel in (*one.inputs, *one.broadcasts)][:1]
                    leaving.append((channel, reader.parallelism))
                leaving.extend((channel, candidate.parallelism) for channel in candidate.inputs)
                same = [leaves for leaves in candidate.loop.ends if not leaves.node.is_dynamic]
                kept.extend(same)
                for leaves in same:
                    visit(leaves)
            found[id(candidate)] = candidate

    for sink in plan.sinks:
        visit(sink)
    return list(found.values()), leaving, kept
