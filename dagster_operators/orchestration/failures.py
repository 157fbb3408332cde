"""Our errors as Dagster's failures: they show the error's place and what to do, and are retried only where that can help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from dagster_operators.errors import OperatorsError


def as_failure(error: OperatorsError) -> dg.Failure:
    """The failure that ends a step, with the error's fields as metadata.

    >>> from dagster_operators.errors import SchemaError
    >>> as_failure(SchemaError("no column 'x'", column="x")).allow_retries
    False
    """
    fields = {"error": type(error).__name__, **error.where, **({"to do": error.remedy} if error.remedy else {})}
    metadata = {name: value if isinstance(value, int | float | str) else str(value) for name, value in fields.items()}
    return dg.Failure(str(error), metadata=metadata, allow_retries=error.retryable)


def terminated() -> dg.Failure:
    """The failure of a step whose run is terminated.

    Dagster takes an interrupt for the end of a machine, and retries an op that has a retry policy; a person who terminates a run
    wants it to end.
    """
    return dg.Failure("The run is being terminated. The next run goes on with its epoch.", allow_retries=False)


@contextmanager
def as_failures() -> Iterator[None]:
    """Turn our errors and interrupts into failures."""
    try:
        yield
    except OperatorsError as error:
        raise as_failure(error) from error
    except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError) as interrupt:
        raise terminated() from interrupt
