"""Makes the functions of the user's own known to an engine's session, each once for as long as its content stays.

Every engine takes them as PySpark's ``arrow_udf``, which passes whole Arrow arrays: so do embedded Spark, Spark Connect and
Sail 0.7.2. Where an engine should need another way, this is the place.
"""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dagster_operators.errors import EngineError, OperatorsError, PipelineError
from dagster_operators.functions.content import digest_of
from dagster_operators.graph.user_functions import UserFunction, known
from dagster_operators.types.data_type import Field
from dagster_operators.types.ddl import parse_type
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType as SparkType

    from dagster_operators.functions.shipping import EngineFunction


class Installable(UserFunction):
    """A function that says what an engine has to know, and is told from others by its content."""

    @cached_property
    def outline(self) -> str:
        """Changes when the definition itself changes."""
        return digest_of(self, follow=False)

    @cached_property
    def digest(self) -> str:
        """Changes when the definition, what it takes from outside, or its declaration changes."""
        return digest_of(self)

    @abstractmethod
    def engine_functions(self) -> Sequence[EngineFunction]:
        """What is registered with the engine: one or several functions of Arrow arrays."""


_installed: WeakKeyDictionary[SparkSession, dict[str, str]] = WeakKeyDictionary()
_lock = threading.RLock()


def install(session: SparkSession) -> None:
    """Register every function that this session does not have yet, or has with another content.

    Raises:
        PipelineError: A function has the name of one of Spark's own.
        EngineError: The engine refused one.
    """
    functions = known()
    if not functions:
        return
    with _lock:
        done = _installed.setdefault(session, {})
        for function in functions:
            if isinstance(function, Installable) and done.get(function.name) != function.digest:
                for part in function.engine_functions():
                    _register(session, part)
                done[function.name] = function.digest


def _register(session: SparkSession, part: EngineFunction) -> None:
    from pyspark.sql import functions as F

    arrow_udf: Any = import_module("pyspark.sql.pandas.functions").arrow_udf
    if hasattr(F, part.name.lower()):
        raise PipelineError(
            f"{part.name}() is one of Spark's own functions", function=part.name, remedy='give yours another name: name="..."'
        )
    try:
        made = arrow_udf(part.shipped(), _pyspark_type(part.returns))
        session.udf.register(part.name, made.asNondeterministic() if part.once else made)
    except OperatorsError as error:
        raise error.at(function=part.name) from error
    except Exception as error:
        raise EngineError(
            f"the engine refused the function {part.name!r}: {str(error).strip().splitlines()[0]}", function=part.name,
            remedy="write the type that it returns as in a schema, such as 'array<long>'; the message says what was refused",
        ) from error  # fmt: skip


def _pyspark_type(text: str) -> SparkType:
    """A type as PySpark's own. It would ask the active session what a text means: another engine's, which may have ended."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(Schema((Field("value", parse_type(text)),)).to_json()))["value"].dataType
