"""Stages that were cut otherwise than somebody counts on: whose work each of them is, and what comes before it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dagster_operators.planner.recut import with_all_before, work_of


@dataclass(frozen=True)
class Stage:
    nodes: tuple[str, ...]
    upstream: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.nodes[-1]

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node.partition("_")[0] for node in self.nodes))


A, B, C = Stage(("a",)), Stage(("b",), ("a",)), Stage(("c",), ("b",))
AB, ABC = Stage(("a", "b")), Stage(("a", "b", "c"))


@pytest.mark.parametrize(
    ("defined", "planned", "work"),
    [
        ((A, B, C), (A, B, C), {"a": ("a",), "b": ("b",), "c": ("c",)}),
        ((A, B, C), (ABC,), {"a": (), "b": (), "c": ("c",)}),
        ((ABC,), (A, B, C), {"c": ("a", "b", "c")}),
        ((A, Stage(("b", "c"), ("a",))), (AB, C), {"a": (), "c": ("b", "c")}),
        ((AB, C), (Stage(("a", "b_part")), Stage(("b",), ("b_part",)), C), {"b": ("b_part", "b"), "c": ("c",)}),
        ((A, B), (A, Stage(("b", "new"), ("a",))), {"a": ("a",), "b": ("new",)}),
        ((A, B), (A, B, Stage(("new",), ("b",))), {"a": ("a",), "b": ("b", "new")}),
    ],
)
def test_each_stage_is_the_work_of_the_one_with_its_last_operator(
    defined: tuple[Stage, ...], planned: tuple[Stage, ...], work: dict[str, tuple[str, ...]]
) -> None:
    assert work_of(defined, planned) == work


def test_all_that_comes_before_a_stage_is_run_with_it_in_order() -> None:
    assert list(with_all_before(["b"], (A, Stage(("x",)), B, C))) == ["a", "b"]
    assert list(with_all_before([], (A, B))) == []
