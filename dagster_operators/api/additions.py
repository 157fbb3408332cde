"""Calls that build a pipeline: wrong arguments are told, and one that is refused leaves all that it was to add to as it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from dagster_operators.arguments import checked, checked_constructor, checked_methods
from dagster_operators.graph.all_or_nothing import all_or_nothing

if TYPE_CHECKING:
    from collections.abc import Callable

C = TypeVar("C", bound=type)
F = TypeVar("F", bound="Callable[..., Any]")


class Built:
    """Something that pipelines are built with; a class of its own, as a user's may have methods of any name."""

    def _taking_back(self) -> Callable[[], None]:
        """What takes back all that is added to it from now on."""
        raise NotImplementedError


def building(function: F) -> F:
    """The function, of which a refused call changes nothing.

    >>> import dagster_operators as do
    >>> rows = do.Pipeline("p", root="data").source("rows", do.FileSource("in", schema="v long, t timestamp"), event_time="t")
    >>> do.frontier.limit_rate(rows, "5")
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: the argument rows of limit_rate is '5'. To do: give a whole number
    >>> do.frontier.limit_rate(rows, 5).name
    'limit_rate'
    """
    return checked(function, trial=undone)


def building_methods(made: C) -> C:
    """The class, of whose constructor and public methods a refused call changes nothing."""
    return checked_methods(checked_constructor(made), trial=undone)


def undone(arguments: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Where a call with these arguments is undone when it is refused, in all that is built with them."""
    return all_or_nothing(*marks_of(arguments.values()))


def marks_of(values: Iterable[Any]) -> Iterator[Callable[[], None]]:
    """For each of the values that pipelines are built with what takes back all that is added to it from now on."""
    for value in values:
        if type(value) in {tuple, list}:
            yield from marks_of(value)
        elif issubclass(type(value), Built):
            yield value._taking_back()  # noqa: SLF001 - as all that builds it
