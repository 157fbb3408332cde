"""Which rules there are, in which order, and what they make of a plan."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from dagster_operators.catalog.catalog import near
from dagster_operators.catalog.loading import catalog
from dagster_operators.errors import OperatorsError, PipelineError
from dagster_operators.graph.dataflow import Dataflow, Node
from dagster_operators.graph.rule import Rewritten, Rule
from dagster_operators.planner.lowering import needed_operators, with_rounds


@dataclass(frozen=True)
class Optimised:
    """A plan with all rules applied.

    Attributes:
        plan: What is to run, without operators that lead nowhere.
        steps: What each rule did: its name and a few words, in order.
    """

    plan: Dataflow
    steps: tuple[tuple[str, str], ...] = ()


class RuleSet:
    """Rules in an order that fits what each needs.

    Args:
        rules: The rules; the order counts where none needs another.

    Raises:
        PipelineError: A rule needs one that is not there, or two need each other.

    >>> class First(Rule):
    ...     name = "first"
    ...     needed_by = ("second",)
    ...     def apply(self, plan): ...
    >>> class Second(First):
    ...     name, needed_by = "second", ()
    >>> [rule.name for rule in RuleSet([Second(), First()])]
    ['first', 'second']
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        given = {rule.name: rule for rule in rules}
        self._rules = tuple(given[name] for name in _in_order(_needs(given)))

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def apply(self, plan: Dataflow, off: Iterable[str] = ()) -> Optimised:
        """What the rules make of a plan.

        Args:
            plan: What is to be computed.
            off: The names of rules that are left out.

        Raises:
            PipelineError: There is no rule of a name in ``off``, or a rule of another package failed.
        """
        left_out = self._known(plan, off)
        made, steps = _leading_somewhere(with_rounds(plan)), list[tuple[str, str]]()
        for rule in self._rules:
            if rule.name not in left_out:
                rewritten = _applied(rule, made)
                made = rewritten.plan
                steps += ((rule.name, what) for what in rewritten.did)
        return Optimised(made, tuple(steps))

    def _known(self, plan: Dataflow, names: Iterable[str]) -> set[str]:
        known = [rule.name for rule in self._rules]
        for name in names:
            if name not in known:
                raise PipelineError(
                    f"there is no rule {name!r}", pipeline=plan.name, rule=name,
                    remedy=near(name, known) or f"the rules are: {', '.join(known)}",
                )  # fmt: skip
        return set(names)


def _applied(rule: Rule, plan: Dataflow) -> Rewritten:
    """What a rule makes of a plan; a rule of ours that fails is at fault itself, and the pipeline goes without it."""
    try:
        return rule.apply(plan)
    except OperatorsError as error:
        found = (f"failed, and changed nothing: {error}",)
        failed = PipelineError(
            f"the rule {rule.name!r} failed: {error}", pipeline=plan.name, rule=rule.name,
            remedy=f"go without it: Pipeline with rules_off=[{rule.name!r}]",
        )  # fmt: skip
        if not type(rule).__module__.startswith("dagster_operators."):
            raise failed from error
    warnings.warn(f"{failed}. The pipeline runs without what the rule does", RuntimeWarning, stacklevel=2)
    return Rewritten(plan, found)


def _needs(rules: Mapping[str, Rule]) -> dict[str, dict[str, None]]:
    """The names of the rules that must come before each rule."""
    needs: dict[str, dict[str, None]] = {name: {} for name in rules}
    for name, rule in rules.items():
        for other in (*rule.needs, *rule.needed_by):
            if other not in rules:
                raise PipelineError(
                    f"the rule {name!r} names the rule {other!r}, which is not there", rule=name,
                    remedy=f"install the package that brings it; there are: {', '.join(rules)}",
                )  # fmt: skip
        needs[name].update(dict.fromkeys(rule.needs))
        for other in rule.needed_by:
            needs[other][name] = None
    return needs


def _in_order(needs: Mapping[str, Iterable[str]]) -> list[str]:
    done: dict[str, None] = {}
    while len(done) < len(needs):
        ready = next((name for name in needs if name not in done and all(other in done for other in needs[name])), None)
        if ready is None:
            left = ", ".join(repr(name) for name in needs if name not in done)
            raise PipelineError(
                f"no order fits what the rules {left} need: each waits for another one",
                remedy="take a name out of needs or needed_by of one of them",
            )
        done[ready] = None
    return list(done)


def _leading_somewhere(plan: Dataflow) -> Dataflow:
    """The plan without operators that lead to no table or sink."""
    import copy

    needed = needed_operators(plan)
    if len(needed) == len(plan.nodes):
        return plan
    made = copy.copy(plan)
    made.nodes = {name: node for name, node in plan.nodes.items() if name in needed}
    return made


_made: WeakKeyDictionary[Dataflow, tuple[object, tuple[Node, ...], Optimised]] = WeakKeyDictionary()
"""What the rules made of a dataflow in a state; its nodes are held, as they are known by where they are in memory."""
_left_out: WeakKeyDictionary[Dataflow, dict[str, str]] = WeakKeyDictionary()
"""The rules that a pipeline goes without, as what they made of it failed a check, each with the problem."""
_turn = threading.RLock()


def optimised(dataflow: Dataflow) -> Optimised:
    """What all rules there are make of a pipeline's dataflow, but for those that it has switched off and those that failed.

    Raises:
        PipelineError: A rule of another package failed, or the rules fit no order.
    """
    with _turn:  # stages that run side by side may ask at once
        left_out, nodes = _left_out.get(dataflow, {}), tuple(dataflow.nodes.values())
        state = (
            tuple(map(id, nodes)), len(dataflow.side_streams), len(dataflow.tables), len(dataflow.sinks), len(dataflow.feedback),
            dataflow.rules_off, tuple(left_out),
        )  # fmt: skip
        known = _made.get(dataflow)
        if known is None or known[0] != state:
            made = _rules().apply(dataflow, dataflow.rules_off.union(left_out))
            steps = (*made.steps, *((rule, f"is left out: {problem}") for rule, problem in left_out.items()))
            _made[dataflow] = known = (state, nodes, Optimised(made.plan, steps))
        return known[2]


def failing_rule(dataflow: Dataflow, check: Callable[[Dataflow], object]) -> tuple[str, OperatorsError] | None:
    """The first rule behind which a pipeline's dataflow fails a check, and its error; None if it passes behind each.

    Args:
        dataflow: The pipeline's dataflow as it was written.
        check: Raises an error of the package for what fails.
    """
    off = dataflow.rules_off.union(_left_out.get(dataflow, {}))
    names = [rule.name for rule in _rules() if rule.name not in off]
    for number, name in enumerate(names, 1):
        try:
            check(_rules().apply(dataflow, off.union(names[number:])).plan)
        except OperatorsError as error:
            return name, error
    return None


def leave_out(dataflow: Dataflow, rule: str, problem: str) -> None:
    """Apply a rule to a pipeline's dataflow no more; ``explain`` shows it with the problem."""
    with _turn:
        _left_out.setdefault(dataflow, {})[rule] = problem


def optimised_without(dataflow: Dataflow, rule: str) -> Dataflow:
    """What :func:`optimised` would make without one more rule."""
    return _rules().apply(dataflow, dataflow.rules_off.union(_left_out.get(dataflow, {}), (rule,))).plan


def _rules() -> RuleSet:
    return RuleSet(catalog().rules().values())
