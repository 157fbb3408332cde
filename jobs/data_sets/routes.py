"""The routes between airports as a graph: ranks, components and triangles, as Flink's examples compute them.

A route leads both ways. Routes have a ``network``, the airline's, since components are those of each airline's network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import dagster_operators as do

DAMPENING = 0.85
STILL = 0.01
"""The ranks are there when none moves by more than this part of itself from a round to the next."""

ROUNDS = 200
_LINK = "airport string, neighbour string"
_RANK = "airport string, rank double"
_COMPONENT = "network string, airport string, component string"


def both_ways(route: Any) -> list[tuple[str, str]]:
    """A route there and back."""
    return [(route.origin, route.dest), (route.dest, route.origin)]


def links_of(routes: do.DataSet) -> do.DataSet:
    """Each airport with each of its neighbours, once."""
    return routes.flat_map(both_ways, schema=_LINK).name("both ways").distinct("airport", "neighbour").name("links")


def neighbours_of(links: Iterable[Any]) -> Iterator[tuple[str, list[str]]]:
    """An airport with all of its neighbours."""
    known = list(links)
    yield known[0].airport, sorted(link.neighbour for link in known)


def handed_on(rank: Any, near: Any) -> Iterator[tuple[str, float]]:
    """A rank in equal shares to all neighbours."""
    return ((neighbour, rank.rank / len(near.neighbours)) for neighbour in near.neighbours)


def dampened(share: Any) -> tuple[str, float]:
    """A rank of the shares that an airport was handed."""
    return share.airport, 1 - DAMPENING + DAMPENING * share.rank


def page_ranks(routes: do.DataSet) -> do.DataSet:
    """The rank of each airport: high if many airports lead there, or those of a high rank. An average airport has 1.

    A bulk iteration that ends behind the round in which no rank moved.

    >>> program = do.data_sets.LocalProgram(parallelism=2)
    >>> routes = program.rows([("AA", "JFK", "BOS"), ("UA", "JFK", "SFO")], "network", "origin", "dest")
    >>> {airport: round(rank, 2) for airport, rank in sorted(program.collect(page_ranks(routes)))}
    {'BOS': 0.77, 'JFK': 1.45, 'SFO': 0.77}
    """
    links = links_of(routes)
    near = links.group_by("airport").reduce_group(neighbours_of, schema="airport string, neighbours array<string>").name("near")
    start = near.map(lambda airport: (airport.airport, 1.0), schema=_RANK).name("equal ranks")
    loop = start.iterate(ROUNDS)
    before = loop.rows_of_round
    shares = before.join(near).where("airport").equal_to("airport").with_function(handed_on, schema=_RANK, several=True)
    ranks = shares.name("shares").group_by("airport").sum("rank").map(dampened, schema=_RANK).name("ranks of a round")
    moved = ranks.join(before).where("airport").equal_to("airport").with_function(
        lambda now, then: [now] if abs(now.rank - then.rank) > STILL * then.rank else [], schema=_RANK, several=True
    )  # fmt: skip
    return loop.close_with(ranks, moved.name("ranks that moved")).name("page rank")


def components(routes: do.DataSet) -> do.DataSet:
    """The component of each airport in each network, by the first of its airports.

    A delta iteration: a round takes those along whose component changed in the round before.

    >>> program = do.data_sets.LocalProgram(parallelism=2)
    >>> routes = program.rows([("AA", "JFK", "BOS"), ("AA", "LGA", "ORD"), ("UA", "EWR", "BOS")], "network", "origin", "dest")
    >>> [tuple(row) for row in sorted(program.collect(components(routes)))][:3]
    [('AA', 'BOS', 'BOS'), ('AA', 'JFK', 'BOS'), ('AA', 'LGA', 'LGA')]
    """
    there_and_back = routes.flat_map(
        lambda route: [(route.network, *ends) for ends in both_ways(route)], schema=f"network string, {_LINK}"
    )
    edges = there_and_back.name("both ways").distinct("*").name("edges")
    alone = edges.map(lambda edge: (edge.network, edge.airport, edge.airport), schema=_COMPONENT).name("alone")
    start = alone.distinct("network", "airport").name("airports")
    loop = start.iterate_delta(start, ROUNDS, "network", "airport")
    near = loop.workset.join(edges).where("network", "airport").equal_to("network", "airport")
    offers = near.project_first("network").project_second("neighbour").project_first("component").data_set().name("offers")
    least = offers.group_by("network", "neighbour").min("component").name("least offer")
    known = least.join(loop.solution_set).where("network", "neighbour").equal_to("network", "airport")
    changed = known.with_function(
        lambda offer, now: [offer] if offer.component < now.component else [], schema=_COMPONENT, several=True
    ).name("earlier names")  # fmt: skip
    return loop.close_with(changed, changed).name("components")


def triads(links: Iterable[Any]) -> Iterator[tuple[str, str, str]]:
    """Each two neighbours of an airport, which may be neighbours, too."""
    first, *others = links
    known = [first.neighbour]
    for link in others:
        yield from ((link.airport, one, link.neighbour) for one in known)
        known.append(link.neighbour)


def triangles(routes: do.DataSet) -> do.DataSet:
    """Each three airports of which any two have a route between them, in the order of their names.

    >>> program = do.data_sets.LocalProgram(parallelism=2)
    >>> routes = program.rows([("JFK", "BOS"), ("BOS", "ORD"), ("ORD", "JFK"), ("ORD", "LAX")], "origin", "dest")
    >>> program.collect(triangles(routes))
    [Row(first='BOS', second='JFK', third='ORD')]
    """
    links = links_of(routes).filter(lambda link: link.airport < link.neighbour).name("each link once")
    schema = "first string, second string, third string"
    open_ones = links.group_by("airport").sort_group("neighbour").reduce_group(triads, schema=schema).name("triads")
    closed = open_ones.join(links).where("second", "third").equal_to("airport", "neighbour")
    return closed.project_first("first", "second", "third").data_set().name("triangles")
