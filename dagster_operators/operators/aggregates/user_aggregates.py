"""Aggregate functions of the user's own as partial results, beside the built-in ones.

An incremental one keeps its state, folded from lists of rows and then from lists of states; one that is only computed keeps its
rows as a list of structs, and so does every one with DISTINCT, as a set.
"""

from __future__ import annotations

from collections.abc import Sequence

from dagster_operators.errors import SchemaError
from dagster_operators.functions.aggregate import UserAggregate, aggregates
from dagster_operators.operators.aggregates.aggregate_calls import Call
from dagster_operators.operators.aggregates.aggregate_functions import FUNCTIONS, GIVES_WAY, AggregateFunction, PartialColumn
from dagster_operators.operators.aggregates.partial_results import PartialKind


def user_aggregates() -> dict[str, AggregateFunction]:
    """How each aggregate function of the user's own is put together, by name.

    Raises:
        SchemaError: One has the name of a built-in one.
    """
    own = aggregates()
    for name in own.keys() & (FUNCTIONS.keys() - GIVES_WAY):
        raise SchemaError(
            f"{name}() is a built-in aggregate function", function=name, remedy='give yours another name: name="..."'
        )
    return {name: _put_together(function) for name, function in own.items()}


def _put_together(function: UserAggregate) -> AggregateFunction:
    def whole(_: Call, columns: Sequence[PartialColumn]) -> str:
        rows = columns[0]
        ordered = rows.name if "map<" in (rows.type or "") else f"sort_array({rows.name})"
        return f"{function.part('whole')}({ordered})"

    distinct = AggregateFunction((DISTINCT_ROWS,), whole, arity=function.arity)
    if function.state is None:
        return AggregateFunction((ROWS,), whole, arity=function.arity, distinct=distinct)
    kind = PartialKind(
        f"{function.name.lower()}_state",
        lambda call, _: f"{function.part('update')}(collect_list({_row_of(call)}))",
        lambda column, _: f"{function.part('merge')}(collect_list({column}))",
    )
    return AggregateFunction(
        (kind,), lambda _, columns: f"{function.part('finish')}({columns[0].name})", arity=function.arity, distinct=distinct
    )


def _row_of(call: Call) -> str:
    """The arguments as one struct, null where a FILTER leaves the row out, which ``collect_list`` skips."""
    fields = ", ".join(f"'_{number}', {argument}" for number, argument in enumerate(call.arguments, 1))
    return call.kept(f"named_struct({fields})")


ROWS = PartialKind(
    "rows",
    lambda call, _: f"collect_list({_row_of(call)})",
    lambda column, _: f"flatten(collect_list({column}))",
)
DISTINCT_ROWS = PartialKind(
    "distinct_rows",
    lambda call, _: f"collect_set({_row_of(call)})",
    lambda column, _: f"array_distinct(flatten(collect_list({column})))",
)
