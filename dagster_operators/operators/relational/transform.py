"""Transform: a user's own function from DataFrame to DataFrame, for what SQL expressions cannot say."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import OperatorsError, PipelineError, SchemaError
from dagster_operators.functions.references import Reference, resolved
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.graph.ports import InputPort
from dagster_operators.graph.values import Fields
from dagster_operators.operators.physical import Stateless

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True, eq=False)
class Transform(LogicalOperator):
    """Any function from DataFrame to DataFrame that treats every row on its own; called only while an epoch is planned and run.

    A function that looks at several rows at once (a sort, a window, a group) sees one epoch's rows, so its result would
    depend on how the input is cut. The function is known by its source text: what it takes from outside (a closure, a
    partial's arguments) is not seen to change.

    Attributes:
        function: What is applied; of a plan that was read a reference to it, resolved when it is needed.
        columns: The names of the output's columns, if they are to be known before the pipeline is planned.
    """

    kind: ClassVar[str] = "transform"
    stateless: ClassVar[bool] = True
    repeatable: ClassVar[bool] = False
    function: Callable[[DataFrame], DataFrame]
    columns: tuple[str, ...] | None = None

    @override
    def encode(self) -> Fields:
        return {**super().encode(), "function": Reference.to(self.function)}

    @override
    def config(self) -> dict[str, Any]:
        function = resolved(self.function)
        name = f"{function.__module__}.{getattr(function, '__qualname__', repr(type(function)))}"
        try:
            source = inspect.getsource(function)
        except (OSError, TypeError):
            source = name
        return {"function": name, "source": hashlib.sha256(source.encode()).hexdigest()[:16]}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", remedy="use filter, select or with_columns after an aggregate without a window"),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        return replace(inputs[0].with_columns(self.columns), complete_windows=False)  # it may change the times

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        everything = frozenset((0, column) for column in inputs[0].columns or ())
        return dict.fromkeys(self.columns or (), everything)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> TransformRows:
        """The function itself."""
        return TransformRows(self)


@dataclass(frozen=True)
class TransformRows(Stateless):
    """The lowering of :class:`Transform`."""

    logical: Transform

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        try:
            result = self.logical.function(frame)
        except OperatorsError:
            raise
        except Exception as error:
            if type(error).__module__.startswith("pyspark."):
                raise  # what the engine says about a column or type is told with the columns there are
            raise PipelineError(
                f"the function raised {type(error).__name__}: {error}", operator=self.logical.name, remedy="correct the function"
            ) from error
        if not hasattr(result, "selectExpr"):
            raise PipelineError(
                f"the function returned {result!r}, not a DataFrame", operator=self.logical.name, remedy="return a DataFrame"
            )
        if self.logical.columns is not None and tuple(result.columns) != self.logical.columns:
            raise SchemaError(
                f"the function's columns are {', '.join(result.columns)}, and columns= says {', '.join(self.logical.columns)}",
                operator=self.logical.name,
                remedy="make them agree",
            )
        return result
