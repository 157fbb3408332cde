"""Our errors as Dagster's failures: they show the error's place and what to do, and are retried only where that can help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import dagster as dg

from dagster_operators.errors import OperatorsError, PipelineBusyError
from dagster_operators.orchestration.masked_errors import masked, masked_text
from dagster_operators.orchestration.remedies import commands_for

RETRY_HELPS: Final = "a retry can help"
"""The metadata entry of a failure that says whether the cause may pass by itself."""


def as_failure(error: OperatorsError, root: str = "", *, last_try: bool = False, mask: bool = False) -> dg.Failure:
    """The failure that ends a step, with the error's fields as metadata and the commands that settle it.

    Args:
        error: The error.
        root: The pipeline's storage root, for the commands.
        last_try: Whether the step is not tried again in any case: then this, and no count of retries, is what Dagster shows.
        mask: Whether what the error quotes of rows is left out.

    >>> from dagster_operators.errors import SchemaError
    >>> as_failure(SchemaError("no column 'x'", column="x")).allow_retries
    False
    """
    commands = commands_for(error, root) if root else ()
    error = masked(error) if mask else error
    fields = {"error": type(error).__name__, **error.where, **({"to do": error.remedy} if error.remedy else {})}
    metadata = {name: value if isinstance(value, int | float | str) else str(value) for name, value in fields.items()}
    told = "\n".join([f"{type(error).__name__}: {error}", *(f"    {command}" for command in commands)])
    metadata |= {RETRY_HELPS: error.retryable, **({"command": "\n".join(commands)} if commands else {})}
    return dg.Failure(told, metadata=metadata, allow_retries=not (last_try or is_final(error)))


def unexpected(error: Exception, *, last_try: bool = True, mask: bool = False) -> dg.Failure:
    r"""The failure of a step that something else ended: its type and, unless rows are masked, the last line of what it says.

    >>> unexpected(ValueError("a long story\nno such key")).description
    'ValueError: no such key'
    """
    kind, lines = type(error).__name__, str(error).strip().splitlines()
    told = masked_text(error) if mask else f"{kind}: {lines[-1]}" if lines else kind
    return dg.Failure(told, metadata={"error": kind, RETRY_HELPS: True}, allow_retries=not last_try)


def terminated() -> dg.Failure:
    """The failure of a step whose run is terminated.

    Dagster takes an interrupt for the end of a machine, and retries an op that has a retry policy; a person who terminates a run
    wants it to end.
    """
    return dg.Failure("The run is being terminated. The next run goes on with its epoch.", allow_retries=False)


def is_final(error: Exception) -> bool:
    """Whether no try of the step after this one can help.

    Of a pipeline that is busy the step has waited for the other run already: tries would multiply that.

    >>> is_final(PipelineBusyError("busy")), is_final(OSError("no space left"))
    (True, False)
    """
    return isinstance(error, PipelineBusyError) or (isinstance(error, OperatorsError) and not error.retryable)


def is_last_try(context: dg.OpExecutionContext) -> bool:
    """Whether the step's retry policy has no try after this one."""
    policy = context.op_def.retry_policy
    return policy is None or context.retry_number >= policy.max_retries


@contextmanager
def as_failures(root: str = "", *, last_try: bool = False, mask: bool = False) -> Iterator[None]:
    """Turn our errors and interrupts into failures, at the last try all errors, and where rows are masked always all.

    Args:
        root: As of :func:`as_failure`.
        last_try: As of :func:`as_failure`.
        mask: As of :func:`as_failure`. Dagster records the cause of a failure, too, so then it gets none.
    """
    try:
        yield
    except OperatorsError as error:
        raise as_failure(error, root, last_try=last_try, mask=mask) from (None if mask else error)
    except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError) as interrupt:
        raise terminated() from interrupt
    except dg.Failure:
        raise
    except Exception as error:
        if mask:
            raise unexpected(error, last_try=last_try, mask=True) from None
        if last_try:
            raise unexpected(error) from error
        raise
