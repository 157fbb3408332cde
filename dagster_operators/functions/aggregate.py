"""``do.udaf``: aggregate functions of the user's own, kept up to date from partial results or computed when a window closes.

With ``update``, ``merge`` and ``finish`` the state of an aggregate is as large as the author makes it. With ``compute`` alone it
is the rows themselves. On the engine both are scalar functions over the lists that ``collect_list`` makes of a group's rows or
states, so they work wherever scalar functions do, in every operator that has aggregates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from inspect import isclass
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.arguments import checked
from dagster_operators.errors import OperatorsError, PipelineError
from dagster_operators.functions.groups import Groups, plain
from dagster_operators.functions.install import Installable
from dagster_operators.functions.shipping import EngineFunction
from dagster_operators.functions.values import arity_of, as_array, forms_of, raised, type_of
from dagster_operators.graph.user_functions import known, register
from dagster_operators.types.arrow_schema import arrow_type
from dagster_operators.types.ddl import parse_type

if TYPE_CHECKING:
    import pyarrow as pa

Definition = type | Callable[..., Any]


class UserAggregate(Installable):
    """An aggregate function of the user's own; made by :func:`udaf`. Calling it aggregates the columns that it is given.

    Attributes:
        name: What expressions call it.
        returns: The Spark type of its value.
        state: The Spark type of its partial results; None if it is computed from all rows at once.
        definition: A class with ``update``, ``merge`` and ``finish``, or with ``compute``; or the function ``compute``.
        vectorised: Whether its functions see many groups at once.
        arity: The least and the largest number of arguments.
    """

    is_aggregate: ClassVar[bool] = True

    def __init__(self, definition: Definition, name: str, returns: str, state: str | None, *, vectorised: bool) -> None:
        self.name = name
        self.returns = type_of(returns, name)
        self.state = None if state is None else type_of(state, name)
        self.definition = definition
        self.vectorised = vectorised
        self._check()
        self.arity = arity_of(self._first, name)
        update_wrapper(self, definition)

    def __call__(self, *columns: pa.Array) -> Any:
        """The value of one group with these columns, as the engine would give it (not of a vectorised aggregate)."""
        value = plain(self._first(*columns))
        return plain(self._made().finish(value)) if self.state is not None and hasattr(self.definition, "finish") else value

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        """What a class has for a base that names this one: the class as it was written, which is no aggregate by itself."""
        if not isclass(self.definition):
            raise PipelineError(
                f"{self.name!r} is a function, and no class can be derived from it", function=self.name,
                remedy="write a class with update, merge and finish, or with compute",
            )  # fmt: skip
        return (self.definition,)

    def __repr__(self) -> str:
        return f"<aggregate {self.name} of {self.place} -> {self.returns}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.definition, self.name, self.returns, self.state, self.vectorised)

    @property
    @override
    def place(self) -> str:
        """The module and name of the definition."""
        return f"{self.definition.__module__}.{self.definition.__qualname__}"

    @override
    def content(self) -> Sequence[Any]:
        return self.definition, self.name, self.returns, self.state, self.vectorised

    @override
    def engine_functions(self) -> Sequence[EngineFunction]:
        """``<name>__whole`` from rows to the value; with a state also ``__update``, ``__merge`` and ``__finish``."""
        kinds = {"whole": self.returns}
        if self.state is not None:
            kinds = {"update": self.state, "merge": self.state, "finish": self.returns, **kinds}
        state = None if self.state is None else arrow_type(parse_type(self.state))
        forms = forms_of(self._first)
        return [
            EngineFunction(
                self.part(step),
                kind,
                GroupCall(self.name, self.definition, step, state, arrow_type(parse_type(kind)), forms, self.vectorised),
                self.definition.__module__,
            )
            for step, kind in kinds.items()
        ]

    def part(self, step: str) -> str:
        """What the engine calls one step: ``update``, ``merge``, ``finish`` or ``whole``."""
        return f"{self.name}__{step}"

    @property
    def _first(self) -> Callable[..., Any]:
        """What sees the arguments."""
        first: Callable[..., Any] = self._made().update if self.state is not None else _compute_of(self.definition)
        return first

    def _made(self) -> Any:
        return self.definition()

    def _check(self) -> None:
        has = {step for step in ("update", "merge", "finish", "compute") if hasattr(self.definition, step)}
        if not isclass(self.definition):
            has = {"compute"}
        problem = ""
        if self.state is None and "compute" not in has:
            problem = "has no state and no compute(...)" if "update" not in has else "has update(...) and no state"
        elif self.state is not None and not {"update", "merge"} <= has:
            problem = "has a state, and lacks update(...) or merge(states)"
        elif self.state not in (None, self.returns) and "finish" not in has:
            problem = "has a state of another type than its value, and no finish(state)"
        if problem:
            raise PipelineError(
                f"the aggregate {self.name!r} {problem}", function=self.name,
                remedy='give state="..." and a class with update, merge and finish; or a function over all values of a group',
            )  # fmt: skip


def _compute_of(definition: Definition) -> Callable[..., Any]:
    made: Any = definition() if isclass(definition) else definition
    compute: Callable[..., Any] = getattr(made, "compute", made)
    return compute


def _again(definition: Definition, name: str, returns: str, state: str | None, vectorised: bool) -> UserAggregate:  # noqa: FBT001
    return UserAggregate(definition, name, returns, state, vectorised=vectorised)


@dataclass(frozen=True)
class GroupCall:
    """One step of an aggregate as a worker runs it: from a list for each group to a column with one value for each group."""

    name: str
    definition: Definition
    step: str
    state: pa.DataType | None
    kind: pa.DataType
    forms: tuple[str, ...]
    vectorised: bool

    def __call__(self, column: pa.Array) -> pa.Array:
        """One value for each group."""
        try:
            return self._run(column)
        except OperatorsError:
            raise
        except (Exception, SystemExit) as error:
            raise raised(self.name, error, [column]) from error

    def _run(self, column: pa.Array) -> pa.Array:
        match self.step:
            case "update":
                return self._update(column, self.kind)
            case "merge":
                states = Groups.of_values(column)
                return self._of_groups(self.definition().merge, states, self.kind, ("arrow",))
            case "finish":
                return self._finish(column)
            case _ if self.state is None:
                return self._of_groups(_compute_of(self.definition), Groups.of_rows(column), self.kind, self.forms)
            case _:
                return self._finish(self._update(column, self.state))

    def _update(self, column: pa.Array, state: pa.DataType) -> pa.Array:
        return self._of_groups(self.definition().update, Groups.of_rows(column), state, self.forms)

    def _of_groups(self, function: Callable[..., Any], groups: Groups, kind: pa.DataType, forms: tuple[str, ...]) -> pa.Array:
        result = function(*groups.lists()) if self.vectorised else groups.apply(function, forms, self.name)
        return as_array(result, kind, len(groups.ends) - 1, self.name)

    def _finish(self, states: pa.Array) -> pa.Array:
        made = self.definition()
        if not hasattr(made, "finish"):
            return states
        if self.vectorised:
            return as_array(made.finish(states), self.kind, len(states), self.name)
        values = Groups(list(range(len(states) + 1)), [states]).apply(
            lambda one: made.finish(one[0].as_py()), ("arrow",), self.name
        )
        return as_array(values, self.kind, len(states), self.name)


@checked
def udaf(
    returns: str, *, state: str | None = None, name: str | None = None, vectorised: bool = False
) -> Callable[[Definition], UserAggregate]:
    """Make an aggregate function known by its name, for windowed and keyed aggregates of every pipeline of this process.

    Over a plain function (or a class with ``compute``) the aggregate is *computed when its window closes*: the function gets all
    values of a group, one ``pyarrow.Array`` for each argument (pandas or numpy where annotated so), sorted by the arguments from
    the first to the last, and returns one value. The state holds every row, as ``collect_list`` does.

    Over a class with ``update(*columns) -> state``, ``merge(states) -> state`` and ``finish(state) -> value`` the aggregate is
    *incremental*: the state holds one partial result for each group and epoch. ``update`` gets new rows as above, in no order;
    ``merge`` an Arrow array of states, one or more; ``finish`` one state as a Python value. A state of several columns is a dict
    (or tuple). ``merge`` must not depend on the order or the grouping of what it merges. Without ``finish`` the state is the
    value.

    A group may be empty (where a FILTER keeps nothing). Nulls are the function's own affair.

    Args:
        returns: The Spark type of the value.
        state: The Spark type of a partial result, or its columns: ``"total double, n long"``.
        name: What expressions call it; by default the function's name, or the class's in snake_case.
        vectorised: Let the functions see many groups at once: ``update`` and ``compute`` get a ``pyarrow.ListArray`` for each
            argument and ``merge`` one of states, each with one list for each group, ``finish`` an array of states; each
            returns an array with one value for each group.

    Raises:
        PipelineError: Another function has the name, or a step is missing.
        SchemaError: A type is none.

    Example:
        >>> import pyarrow as pa, pyarrow.compute as pc
        >>> @udaf("double", state="total double, n long")
        ... class OwnAverage:
        ...     def update(self, x):
        ...         return {"total": pc.sum(x), "n": pc.count(x)}
        ...     def merge(self, states):
        ...         return {"total": pc.sum(states.field("total")), "n": pc.sum(states.field("n"))}
        ...     def finish(self, state):
        ...         return state["total"] / state["n"] if state["n"] else None
        >>> @udaf("long")
        ... def middle(x):
        ...     return sorted(x.to_pylist())[len(x) // 2] if len(x) else None
        >>> OwnAverage, middle(pa.array([3, 1, 2]))
        (<aggregate own_average of dagster_operators.functions.aggregate.OwnAverage -> double>, 2)
    """

    def declare(definition: Definition) -> UserAggregate:
        own = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", definition.__name__).lower() if isclass(definition) else definition.__name__
        return register(UserAggregate(definition, name or own, returns, state, vectorised=vectorised))

    return declare


def aggregates() -> dict[str, UserAggregate]:
    """The aggregate functions of the user's own, by name in lower case."""
    return {function.name.lower(): function for function in known() if isinstance(function, UserAggregate)}
