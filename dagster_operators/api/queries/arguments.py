"""The arguments of a call as they stand in a text, each turned into what its annotation asks for."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from dagster_operators.api.queries.constructors import PYTHON, constructor, constructors, python_object, takes_only_plain
from dagster_operators.api.queries.located import Located
from dagster_operators.api.queries.methods import words
from dagster_operators.catalog.catalog import near
from dagster_operators.catalog.loading import catalog
from dagster_operators.errors import OperatorsError, PipelineError

_STREAMS = frozenset({"Stream", "KeyedStream", "WindowedStream", "Query", "Self"})
_MANY = frozenset({"Mapping", "dict", "Sequence", "list", "tuple", "Iterable"})
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_OPEN = frozenset[str]()


@dataclass(frozen=True)
class Arguments:
    """Arguments of a call."""

    positional: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)


class ArgumentReader:
    """Turns located values into arguments.

    Args:
        stream: Gives the stream that a value stands for; None for one that is wrong.
        told: Is told of each error.

    Attributes:
        failures: How much was wrong up to now.
    """

    def __init__(self, stream: Callable[[Located], Any], told: Callable[[OperatorsError], None]) -> None:
        self.failures = 0
        self._find_stream = stream
        self._tell_error = told

    def tell(self, error: OperatorsError) -> None:
        """Something is wrong."""
        self.failures += 1
        self._tell_error(error)

    def _stream(self, given: Located) -> Any:
        found = self._find_stream(given)
        if found is None:
            self.failures += 1  # the error itself was told where it is
        return found

    def arguments(self, what: str, parameters: list[inspect.Parameter], given: Located) -> Arguments:
        """What a call is given; its errors are told, and what is wrong is left out.

        Args:
            what: What is called.
            parameters: What it takes.
            given: Its arguments: by name, a list of them in order, or the first one.
        """
        if isinstance(given.data, dict) and not self._is_first(parameters, given):
            found = self._by_name(what, parameters, given)
        else:
            values = () if given.data is None and not given.tag else given.data if isinstance(given.data, tuple) else (given,)
            found = self._in_order(what, parameters, values, given)
        return found

    def call(self, what: str, function: Callable[..., Any], given: Located) -> Any:
        """What a function makes of its arguments; None after an error, which is told."""
        before = self.failures
        found = self.arguments(what, [*inspect.signature(function).parameters.values()], given)
        with self.telling(what, given):
            return None if self.failures > before else function(*found.positional, **found.named)
        return None

    def with_one_value(
        self, what: str, value: inspect.Parameter, others: list[inspect.Parameter], given: Located
    ) -> Arguments | None:
        """A dictionary with one value that something makes, and other arguments by name; None after an error, which is told."""
        before, accepted = self.failures, words(value.annotation)
        made = (
            {name: maker for name in given.data if (maker := self._maker(name, accepted))} if isinstance(given.data, dict) else {}
        )
        if len(made) != 1:
            problem = f"{what} is {' and '.join(made)} at once" if made else f"{what} does not say what it is"
            self._tell(problem, given, f"use one of: {', '.join(constructors(accepted))}")
            return None
        ((name, maker),) = made.items()
        rest = {other: part for other, part in given.data.items() if other != name}
        found = self._by_name(what, others, replace(given, data=rest))
        one = maker(given.data[name])
        return None if self.failures > before else Arguments((one,), found.named)

    @contextmanager
    def telling(self, what: str, given: Located) -> Iterator[None]:
        """Whatever is raised is told, with the place of a value."""
        try:
            yield
        except OperatorsError as error:
            self.tell(error.at(**given.place))
        except Exception as error:  # noqa: BLE001 - it is the user's code, and an error of the text at this place
            self.tell(PipelineError(f"{what}: {error}", **given.place, remedy="correct the arguments"))

    def _is_first(self, parameters: list[inspect.Parameter], given: Located) -> bool:
        """Whether a dictionary is no set of arguments but the first one: a window, say."""
        if not parameters or given.tag:
            return bool(given.tag)
        names = {parameter.name for parameter in parameters}
        accepted = words(parameters[0].annotation)
        only = next(iter(given.data)) if len(given.data) == 1 else ""
        if not names.isdisjoint(given.data):
            return False
        return (not accepted.isdisjoint(_STREAMS) and "from" in given.data) or self._maker(only, accepted) is not None

    # --- which argument is which ---------------------------------------------------------------------------------------

    def _in_order(self, what: str, parameters: list[inspect.Parameter], values: tuple[Located, ...], given: Located) -> Arguments:
        taking = [one for one in parameters if one.kind in _POSITIONAL]
        rest = next((one for one in parameters if one.kind is inspect.Parameter.VAR_POSITIONAL), None)
        if rest is None and len(values) > len(taking):
            takes = ", ".join(one.name for one in taking) or "none"
            self._tell(f"{what} has {len(values)} arguments and takes {takes}", values[len(taking)], "give others by name")
            return Arguments()
        chosen = [*taking[: len(values)], *[rest] * (len(values) - len(taking))]
        found = tuple(self.value(one, words(to.annotation), to) for one, to in zip(values, chosen, strict=True) if to)
        self._check_missing(what, parameters, {one.name for one in chosen if one}, given)
        return Arguments(found)

    def _by_name(self, what: str, parameters: list[inspect.Parameter], given: Located) -> Arguments:
        by_name = {one.name: one for one in parameters if one.kind is not inspect.Parameter.VAR_KEYWORD}
        rest = next((one for one in parameters if one.kind is inspect.Parameter.VAR_KEYWORD), None)
        positional: dict[str, tuple[Any, ...]] = {}
        named: dict[str, Any] = {}
        for name, value in given.data.items():
            parameter = by_name.get(name, rest)
            if parameter is None:
                values = constructors(words(parameters[0].annotation)) if parameters else []
                if name in values:
                    self._tell_beside(what, name, words(parameters[0].annotation), given)
                    return Arguments()
                remedy = near(name, [*by_name, *values]) or f"it takes: {', '.join(by_name) or 'none'}"
                self.tell(PipelineError(f"{what} has no argument {name!r}", **given.key_place(name), remedy=remedy))
                continue
            accepted = words(parameter.annotation)
            for_columns = parameter.kind is inspect.Parameter.POSITIONAL_ONLY and "Mapping" in accepted
            if for_columns and rest is not None and not isinstance(value.data, dict):
                parameter, accepted = rest, words(rest.annotation)  # a column that is called as the argument for columns
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                parts = value.data if isinstance(value.data, tuple) else (value,)
                positional[name] = tuple(self.value(part, accepted, parameter) for part in parts)
            elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                positional[name] = (self.value(value, accepted, parameter),)
            else:
                found = self.value(value, accepted, parameter)
                named[name] = _frozen(found) if parameter is rest else found
        if by_name.keys() >= given.data.keys() or rest is not None:
            self._check_missing(what, parameters, given.data.keys(), given)
        return _ordered(parameters, positional, named)

    def _tell_beside(self, what: str, name: str, accepted: frozenset[str], given: Located) -> None:
        """What belongs to a value stands beside it: ``{tumbling: 1 hour, offset: 5 minutes}``."""
        made, others = constructor(name, accepted), [other for other in given.data if other != name]
        first = next(iter(inspect.signature(made).parameters)) if made else "value"
        inner = ", ".join([f"{first}: {given.data[name].text}", *(f"{other}: {given.data[other].text}" for other in others)])
        problem = f"{' and '.join(map(repr, others))} stands beside {name!r}, whose argument it is"
        self.tell(PipelineError(problem, **given.key_place(others[0]), remedy=f"write {what}: {{{name}: {{{inner}}}}}"))

    def _check_missing(self, what: str, parameters: list[inspect.Parameter], given: Any, at: Located) -> None:
        optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        for one in parameters:
            if one.default is inspect.Parameter.empty and one.kind not in optional and one.name not in given:
                self.tell(PipelineError(f"{what} needs {one.name!r}", **at.place, remedy=f"write {what}: {{{one.name}: ...}}"))

    # --- what an argument is -----------------------------------------------------------------------------------------

    def value(self, given: Located, accepted: frozenset[str], parameter: inspect.Parameter) -> Any:
        """What a located value is for an argument with these names in its annotation; None after an error, which is told."""
        if given.tag:
            return self._tagged(given)
        if not accepted.isdisjoint(_STREAMS):
            return self._stream(given)
        if "LogicalOperator" in accepted and isinstance(given.data, str):
            return self._operator(given)
        if isinstance(given.data, dict):
            return self._of_dictionary(given, accepted, parameter)
        if isinstance(given.data, tuple):
            return [self.value(part, accepted, parameter) for part in given.data]
        return self._scalar(given, accepted, parameter)

    def _of_dictionary(self, given: Located, accepted: frozenset[str], parameter: inspect.Parameter) -> Any:
        only = next(iter(given.data)) if len(given.data) == 1 else ""
        many = not accepted.isdisjoint(_MANY)
        maker = None if many else self._maker(only, accepted)
        if maker is not None:
            return maker(given.data[only])
        if many or set(constructors(accepted)) <= {PYTHON}:
            inner = accepted - _MANY
            return {name: self.value(part, inner, parameter) for name, part in given.data.items()}
        self._tell(f"{parameter.name} cannot be {only or 'this'!r}", given, f"use one of: {', '.join(constructors(accepted))}")
        return None

    def _maker(self, name: str, accepted: frozenset[str]) -> Callable[[Located], Any] | None:
        if name == PYTHON and not takes_only_plain(accepted):
            return self._python
        function = constructor(name, accepted) if name else None
        return None if function is None else lambda given: self.call(name, function, given)

    def _python(self, given: Located) -> Any:
        """``module:name``, or a dictionary of the object and the arguments that it is called with."""
        if not isinstance(given.data, dict):
            with self.telling(PYTHON, given):
                return python_object(given.text)
            return None
        found = None
        unknown = [name for name in given.data if name not in ("object", "arguments")]
        if unknown or "object" not in given.data:
            self._tell("a Python object needs its name as 'object', and perhaps 'arguments'", given, "write module:name")
        else:
            with self.telling(PYTHON, given):
                found = python_object(given.data["object"].text)
        if found is None or "arguments" not in given.data:
            return found
        return self.call(given.data["object"].text, found, given.data["arguments"])

    def _tagged(self, given: Located) -> Any:
        if given.tag == "!stream":
            return self._stream(given)
        if given.tag == "!python":
            return self._python(given)
        if given.tag == "!env" and isinstance(given.data, str):
            if given.data not in os.environ:
                self._tell(f"the environment has no variable {given.data!r}", given, "set it")
            return os.environ.get(given.data)
        self._tell(f"the tag {given.tag!r} is not known here", given, "use !env, !stream or !python")
        return None

    def _operator(self, given: Located) -> Any:
        registration = catalog().operator(given.data)
        if registration is None:
            kinds = [one.kind for one in catalog().registrations]
            self._tell(f"there is no kind of operator {given.data!r}", given, near(given.data, kinds) or "install its package")
        return None if registration is None else registration.operator

    def _scalar(self, given: Located, accepted: frozenset[str], parameter: inspect.Parameter) -> Any:
        data = given.data
        if data is None and ("None" in accepted or accepted in (_OPEN, {"Any"})):
            return None
        if "str" in accepted and accepted.isdisjoint({type(data).__name__, "Any"}):
            return given.text  # a number is fine Spark SQL
        if "Literal" in accepted or not takes_only_plain(accepted) or accepted == _OPEN or "Any" in accepted:
            return data
        fitting = {"int": {"int", "float"}, "str": {"str", "timedelta"}}.get(type(data).__name__, {type(data).__name__})
        if accepted.isdisjoint(fitting):
            wanted = " or ".join(sorted(accepted - _MANY - {"None"}))
            self._tell(f"{parameter.name} is {given.text!r}, not {wanted}", given, "correct it")
        return data

    def _tell(self, problem: str, given: Located, remedy: str) -> None:
        self.tell(PipelineError(problem, **given.place, remedy=remedy))


def _ordered(parameters: list[inspect.Parameter], positional: Mapping[str, tuple[Any, ...]], named: dict[str, Any]) -> Arguments:
    """Arguments in the order that a call needs: what stands before a list of others cannot be given by name."""
    found: list[Any] = []
    last = max((at for at, one in enumerate(parameters) if one.name in positional), default=-1)
    for one in parameters[: last + 1]:
        if one.name in positional:
            found += positional[one.name]
        elif one.kind in _POSITIONAL and one.name in named:
            found.append(named.pop(one.name))
    return Arguments(tuple(found), named)


def _frozen(value: Any) -> Any:
    """Lists as tuples: the settings of operators are values."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
