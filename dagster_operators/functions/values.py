"""What goes into a user's function and comes out of it: Arrow arrays, or what its annotations ask for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import PipelineError, SchemaError, UserFunctionError
from dagster_operators.types.ddl import parse_ddl
from dagster_operators.types.nested_nulls import with_nested_nulls

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN_ROWS = 3
_SHOWN = 200
MANY = 99
"""The largest number of arguments of a function that takes any."""


def type_of(text: str, name: str) -> str:
    """A Spark type in the spelling of ``simpleString``; several columns are a struct.

    >>> type_of("long", "f"), type_of("total double, n long", "f")
    ('bigint', 'struct<total:double,n:bigint>')
    """
    try:
        return str(parse_ddl(f"value {text}")[0].type)
    except SchemaError as single:
        try:
            return str(parse_ddl(f"value struct<{text}>")[0].type)
        except SchemaError:
            raise SchemaError(
                f"the function {name!r} has {text!r} for a type: {single.problem}", function=name,
                remedy="write a Spark type such as long, array<string> or decimal(10,2); or columns: a int, b string",
            ) from None  # fmt: skip


def arity_of(function: Callable[..., Any], name: str) -> tuple[int, int]:
    """The least and the largest number of arguments that expressions may give.

    >>> arity_of(lambda x, y=None: x, "f")
    (1, 2)
    """
    parameters = inspect.signature(function).parameters.values()
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    several = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if not plain and not several:
        raise PipelineError(
            f"the function {name!r} takes no argument", function=name, remedy="let it take a column; it need not look at it"
        )
    return max(sum(p.default is p.empty for p in plain), 1), MANY if several else len(plain)


def form_of(annotation: Any) -> str:
    """What an annotation asks for: ``pandas``, ``numpy`` or ``arrow``.

    >>> form_of("pd.Series"), form_of("np.ndarray"), form_of("pa.Array"), form_of(inspect.Parameter.empty)
    ('pandas', 'numpy', 'arrow', 'arrow')
    """
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__qualname__", None) or str(annotation)
    if text.endswith("Series"):
        return "pandas"
    return "numpy" if "ndarray" in text or "NDArray" in text else "arrow"


def forms_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """What each parameter of a function asks for; the last one counts for all that follow."""
    return tuple(form_of(parameter.annotation) for parameter in inspect.signature(function).parameters.values())


def given(columns: Sequence[pa.Array], forms: Sequence[str]) -> list[Any]:
    """Arrow columns in the form that the function's parameters ask for."""
    return [_as(column, forms[min(position, len(forms) - 1)]) for position, column in enumerate(columns)]


def _as(column: pa.Array, form: str) -> Any:
    match form:
        case "pandas":
            return column.to_pandas()
        case "numpy":
            return column.to_numpy(zero_copy_only=False)
        case _:
            return column


def as_array(result: Any, kind: pa.DataType, rows: int, name: str) -> pa.Array:
    """What a function returned as an Arrow array of the declared type: an Arrow array, pandas, numpy or a list.

    Raises:
        UserFunctionError: It is of another type or length.
    """
    import pyarrow as pa

    from dagster_operators.types.exact_cast import exact_array, exact_cast

    try:
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        if isinstance(result, pa.Array):
            array = exact_cast(result, kind)
        elif isinstance(result, pa.Scalar | str | bytes | Mapping | AbstractSet) or not hasattr(result, "__len__"):
            raise UserFunctionError(
                f"the function {name!r} returned {shortened(result)}, which is no column", function=name,
                remedy="return an array with one value for each row",
            )  # fmt: skip
        else:
            from_pandas = type(result).__module__.startswith("pandas")
            if isinstance(result, list | tuple) or str(getattr(result, "dtype", "")) == "object":
                array = exact_array(result, kind, from_pandas=from_pandas)
            else:
                array = exact_cast(pa.array(result, from_pandas=from_pandas), kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, OverflowError) as error:
        raise UserFunctionError(
            f"the function {name!r} did not return {kind}: {str(error).splitlines()[0]}", function=name,
            remedy="return what `returns` says",
        ) from error  # fmt: skip
    if len(array) != rows:
        raise UserFunctionError(
            f"the function {name!r} returned {len(array)} values for {rows} rows", function=name,
            remedy="return one value for each row",
        )  # fmt: skip
    return with_nested_nulls(array)


def raised(name: str, error: BaseException, columns: Sequence[pa.Array], first: int = 0) -> UserFunctionError:
    """The error for an exception in a user's function, with the arguments of the first rows it was called with."""
    rows = [[column[row].as_py() for column in columns] for row in range(first, min(first + _SHOWN_ROWS, len(columns[0])))]
    told = "; ".join(f"({', '.join(shortened(value) for value in row)})" for row in rows)
    return UserFunctionError(
        f"the function {name!r} raised {type(error).__name__}: {shortened(error, str)}", function=name, arguments=told,
        remedy="correct the function, or filter the rows before it",
    )  # fmt: skip


def shortened(value: Any, text: Callable[[Any], str] = repr) -> str:
    """A value on one line, not too long."""
    line = " ".join(text(value).split())
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "..."
