"""Arguments of what users call: a misspelt or wrong one is told by the names that the user knows, and nothing comes of the call.

What is expected stands once, in the signature: a name that no parameter has is answered with the nearest that there is, and a
value that is none of its annotation with what that asks for. A refusal of the callable's own says more, and comes first.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin

from dagster_operators.errors import OperatorsError, PipelineError

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

_PLAIN: Final[Mapping[Any, tuple[str, tuple[type, ...]]]] = {
    str: ("a text", (str, os.PathLike)),
    bool: ("True or False", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
    bytes: ("bytes", (bytes,)),
    timedelta: ("a timedelta", (timedelta,)),
    NoneType: ("None", (NoneType,)),
}
_SHOWN: Final = 60
_PASSWORD: Final = re.compile(
    r"://[^@]*@|(password|passphrase|passwd|pass|pwd|secret|token|key|signature|sig)[\"']?\s*[=:]", re.IGNORECASE
)
"""What connection strings with credentials, and lists of settings, have in them."""


def _nowhere(_receiver: Any, _arguments: Mapping[str, Any]) -> Mapping[str, str]:
    return {}


def _untouched(_arguments: Mapping[str, Any]) -> AbstractContextManager[None]:
    return nullcontext()


def checked(
    function: F,
    shown: str = "",
    *,
    place: Callable[[Any, Mapping[str, Any]], Mapping[str, str]] = _nowhere,
    trial: Callable[[Mapping[str, Any]], AbstractContextManager[None]] | None = _untouched,
) -> F:
    """The function, with wrong arguments told.

    Args:
        function: The function; its first argument is the receiver if it is a method.
        shown: Its name for the user, by default its own.
        place: The fields of an error, from the receiver and the arguments by name.
        trial: From the arguments by name to a context in which the function is called, and which undoes what it did when it
            refuses something. There it is called with wrong arguments all the same, as it may say more of them itself. None for
            one that does more than to make something: with wrong arguments it is not called.

    >>> def read(table: str, epoch: int | None = None): ...
    >>> asked = checked(read)
    >>> asked("t", epch=3)
    Traceback (most recent call last):
    TypeError: read(): got an unexpected keyword argument 'epch'; did you mean 'epoch'?
    >>> asked("t", "last")
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: the argument epoch of read is 'last'. To do: give a whole number
    """
    if getattr(function, "_checked", False):
        return function
    shown = shown or function.__name__
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        bound = bound_to(signature, shown, arguments, keywords)
        raised = refusal(function, shown, bound.arguments)
        if raised is not None:
            raised.where.update(place(arguments[0] if arguments else None, bound.arguments))
        if trial is None:
            if raised is not None:
                raise raised
            return function(*arguments, **keywords)
        with trial(bound.arguments):
            if raised is None:
                return function(*arguments, **keywords)
            try:
                function(*arguments, **keywords)
            except OperatorsError as error:
                if getattr(error, "_of_argument", False):  # of one that this one calls, which the user may not know
                    raise raised from None
                raise
            except Exception:  # noqa: BLE001 - whatever became of a wrong argument
                raise raised from None
            raise raised

    vars(call)["_checked"] = True
    return cast("F", call)


def checked_constructor(made: C) -> C:
    """The class, whose constructor tells wrong arguments.

    >>> @checked_constructor
    ... class Window:
    ...     def __init__(self, size: str) -> None: ...
    >>> Window(sizes="1 hour")
    Traceback (most recent call last):
    TypeError: Window(): got an unexpected keyword argument 'sizes'; did you mean 'size'?
    """
    constructor = getattr(made, "__init__")  # noqa: B009 - of this class, as all that is made has it
    setattr(made, "__init__", checked(constructor, made.__name__))  # noqa: B010
    return made


def checked_methods(
    made: C,
    place: Callable[[Any, Mapping[str, Any]], Mapping[str, str]] = _nowhere,
    trial: Callable[[Mapping[str, Any]], AbstractContextManager[None]] | None = None,
) -> C:
    """The class, of which all public methods tell wrong arguments, also those that it inherits."""
    for name in dir(made):
        method = inspect.getattr_static(made, name)
        if not name.startswith("_") and inspect.isfunction(method):
            setattr(made, name, checked(method, f"{made.__name__}.{name}", place=place, trial=trial))
    return made


def refusal(function: Callable[..., Any], shown: str, arguments: Mapping[str, Any]) -> PipelineError | None:
    """The error for the first of the arguments that is none of what its parameter is annotated with, if there is one.

    >>> print(refusal(checked, "checked", {"shown": 5}))
    the argument shown of checked is 5. To do: give a text
    """
    for parameter, value, expected in _wrong(function, arguments):
        bare = isinstance(value, int | float) and not isinstance(value, bool) and timedelta in _members(expected)
        problem = f"the argument {parameter} of {shown} is {_value(value, expected)}{', which has no unit' if bare else ''}"
        raised = PipelineError(problem, remedy=_remedy(parameter, value, expected))
        vars(raised)["_of_argument"] = True
        return raised
    return None


def bound_to(
    signature: inspect.Signature, shown: str, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> inspect.BoundArguments:
    """The arguments of a call by the names of the parameters.

    Raises:
        TypeError: They are not what it takes; a misspelt keyword is answered with the nearest that there is.
    """
    try:
        return signature.bind(*arguments, **keywords)
    except TypeError as error:
        unknown = next((name for name in keywords if name not in signature.parameters), None)
        open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
        if unknown is None or open_ended:
            raise TypeError(f"{shown}(): {error}") from None
        meant = _meant(signature, unknown)
    raise TypeError(f"{shown}(): got an unexpected keyword argument {unknown!r}{meant}")


def _meant(signature: inspect.Signature, keyword: str) -> str:
    """What a keyword that is none of the parameters may have been meant to be."""
    named = [
        parameter.name for parameter in signature.parameters.values()
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD) and parameter.name != "self"
    ]  # fmt: skip
    close = get_close_matches(keyword, named, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; it takes {', '.join(named)}" if named else ""


def _wrong(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """The arguments that are none of what their parameters are annotated with: name, value, annotation."""
    wanted, parameters = _annotations(function), _parameters(function)
    for name, given in arguments.items():
        if name not in parameters:
            continue
        kind = parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            pairs = [(name, value) for value in given]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            pairs = list(given.items())
        else:
            pairs = [(name, given)]
        for shown, value in pairs:
            if not _fits(value, wanted.get(name, Any)):
                yield shown, value, wanted[name]


class _Names(dict[str, Any]):
    """What an annotation's names stand for; a name that only type checkers know stands for anything."""

    def __missing__(self, name: str) -> Any:
        return Any


@functools.cache
def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


@functools.cache
def _annotations(function: Callable[..., Any]) -> Mapping[str, Any]:
    import builtins

    plain = inspect.unwrap(function)
    names = _Names({**vars(builtins), **getattr(plain, "__globals__", {})})
    found = {}
    for parameter in inspect.signature(plain).parameters.values():
        annotation = parameter.annotation
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, {}, names)  # noqa: S307 - an annotation of this package
            except Exception:  # noqa: BLE001 - one that is made for type checkers alone
                annotation = Any
        found[parameter.name] = Any if annotation is parameter.empty else annotation
    return found


def _fits(value: Any, wanted: Any) -> bool:
    origin, parts = get_origin(wanted), get_args(wanted)
    if inspect.isclass(wanted) and origin is None:
        return _fits_class(value, wanted)
    if origin in (Union, UnionType):
        if timedelta in parts and isinstance(value, int) and not isinstance(value, bool):
            return True  # microseconds: whoever takes a duration says whether it is one with a unit
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return any(value == part and type(value) is type(part) for part in parts)
    if inspect.isclass(origin) and issubclass(origin, Collection):
        return _fits_collection(value, origin, parts)
    return callable(value) if origin is Callable else True


def _fits_class(value: Any, wanted: type) -> bool:
    """Of classes of other packages, and of protocols, anything may stand for one."""
    if wanted in _PLAIN:
        return isinstance(value, _PLAIN[wanted][1]) and (not isinstance(value, bool) or wanted is bool)
    ours = wanted.__module__.startswith("dagster_operators.") and not getattr(wanted, "_is_protocol", False)
    return isinstance(value, wanted) if ours else True


def _fits_collection(value: Any, origin: type, parts: tuple[Any, ...]) -> bool:
    if issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(_fits(k, parts[0]) and _fits(v, parts[1]) for k, v in value.items())
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return False
    each = parts[0] if origin is not tuple or parts[1:] == (...,) else Any
    plain = type(value) in {list, tuple} or isinstance(value, AbstractSet)  # of other classes, such as AssetKey, it is their own
    return not plain or all(_fits(item, each) for item in value)


def _in_words(wanted: Any) -> str:
    """An annotation in words."""
    if wanted in _PLAIN:
        return _PLAIN[wanted][0]
    origin, parts = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        if timedelta in parts:
            return "a duration such as '90 seconds', or a timedelta"
        return " or ".join(dict.fromkeys(_in_words(part) for part in parts if part is not NoneType))
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if inspect.isclass(origin) and issubclass(origin, Collection):
        words = [_in_words(part) for part in parts]
        return f"a mapping from {words[0]} to {words[1]}" if issubclass(origin, Mapping) else f"a list, each of it {words[0]}"
    name = str(getattr(wanted, "__name__", wanted))
    return "a function" if origin is Callable else f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _remedy(parameter: str, value: Any, wanted: Any) -> str:
    if parameter == "schema":
        return "write it as Spark does: 'k string, v long'"
    if isinstance(value, str):
        words = [part for literal in _members(wanted) if get_origin(literal) is Literal for part in get_args(literal)]
        close = get_close_matches(value, [word for word in words if isinstance(word, str)], n=1, cutoff=0.5)
        if close:
            return f"give {_in_words(wanted)}; did you mean {close[0]!r}?"
        if _fits([value], wanted):
            return f"write {parameter}=[{'...' if _hidden(value, wanted) else repr(value)}]: it takes {_in_words(wanted)}"
    return f"give {_in_words(wanted)}"


def _members(wanted: Any) -> tuple[Any, ...]:
    return get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)


def _hidden(value: Any, wanted: Any) -> bool:
    """Whether a value may be secret: bytes, texts with a password, and what stands where settings belong."""
    settings = any(get_origin(part) in (Mapping, dict) for part in _members(wanted))
    return settings or isinstance(value, bytes) or (isinstance(value, str) and _PASSWORD.search(value) is not None)


def _value(value: Any, wanted: Any) -> str:
    """A value in an error; of what can be secret, and of collections, only what it is."""
    if value is None or (isinstance(value, str | int | float | timedelta) and not _hidden(value, wanted)):
        text = repr(value)
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return f"the class {value.__name__}" if inspect.isclass(value) else f"of type {type(value).__name__}"
