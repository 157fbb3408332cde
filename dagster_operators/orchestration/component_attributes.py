"""Attributes of the component that are Python: named by a place, ``module:name``, or as Dagster writes conditions in YAML."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Final, TypeAlias

import dagster as dg

from dagster_operators.errors import PipelineError
from dagster_operators.graph.python_place import found_at
from dagster_operators.orchestration.translator import PipelineTranslator

NEW_INPUT: Final = "new input"


def object_at(place: str, what: str) -> Any:
    """What is at a place in Python.

    Args:
        place: The place, as ``module:name``.
        what: What it is to be, for errors.

    Raises:
        PipelineError: There is no such place.

    >>> object_at("dagster:multiprocess_executor", "an executor").name
    'multiprocess'
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise PipelineError(f"{place!r} names no {_kind(what)}", remedy="write module:name")
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        raise PipelineError(
            f"the module {module!r} cannot be imported: {error}", remedy=f"install it, or correct the name; looked in {sys.path}"
        ) from error
    try:
        return found_at(module, name)
    except AttributeError:  # told as something of another kind
        return None


def _kind(what: str) -> str:
    return what.partition(" ")[2]


def _one_of(kind: type, what: str) -> Callable[[dg.ResolutionContext, Any], Any]:
    """Resolves an attribute to an object of a kind, which may be what a function or class at the place gives."""

    def resolved(context: dg.ResolutionContext, value: Any) -> Any:
        given = context.resolve_value(value)
        if given is None or isinstance(given, kind):
            return given
        found = object_at(given, what) if isinstance(given, str) else given
        made = found() if callable(found) and not isinstance(found, kind) else found
        if not isinstance(made, kind):
            raise PipelineError(f"{given!r} is no {_kind(what)}", remedy=f"name {what}, or a function that gives one")
        return made

    return resolved


_condition = _one_of(dg.AutomationCondition, "an automation condition")


def _condition_or_new_input(context: dg.ResolutionContext, value: Any) -> Any:
    return value if value == NEW_INPUT else _condition(context, value)


_PLACE: Final = str | None

Executor: TypeAlias = Annotated[
    dg.ExecutorDefinition | None,
    dg.Resolver(
        _one_of(dg.ExecutorDefinition, "an executor"),
        model_field_type=_PLACE,
        description="How the epoch job executes its ops: an executor, as module:name.",
        examples=["dagster:multiprocess_executor"],
    ),
]
RetryPolicy: TypeAlias = Annotated[
    dg.RetryPolicy | None,
    dg.Resolver(
        _one_of(dg.RetryPolicy, "a retry policy"),
        model_field_type=_PLACE,
        description="Of every op: a RetryPolicy, as module:name.",
        examples=["my_project.policies:patient"],
    ),
]
Translator: TypeAlias = Annotated[
    PipelineTranslator | None,
    dg.Resolver(
        _one_of(PipelineTranslator, "a PipelineTranslator"),
        model_field_type=_PLACE,
        description="Has the last word on the assets: a PipelineTranslator, or its class, as module:name.",
        examples=["my_project.names:OfTheLake"],
    ),
]
Condition: TypeAlias = Annotated[
    dg.AutomationCondition[Any] | str | None,
    dg.Resolver(
        _condition_or_new_input,
        model_field_type=_PLACE,
        description="When Dagster's automation asks for a run: new input, a condition, or a place of one, as module:name.",
        examples=[NEW_INPUT, "{{ dg.AutomationCondition.eager() }}", "my_project.conditions:at_night"],
    ),
]
