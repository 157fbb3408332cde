"""Which tables a program says were renamed since the last epoch, against what that had."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dagster_operators.errors import ChangedPipelineError


def renamed_tables(
    then: Mapping[str, str], now: Mapping[str, str], left: Collection[str] = (), *, pipeline: str = ""
) -> dict[str, str]:
    """What tables were called in the last epoch, of those that have another name since.

    Args:
        then: The tables of the last epoch, each with what it was said to be renamed from; empty for most.
        now: The same of the next one.
        left: Tables that there are, of earlier epochs too.
        pipeline: The pipeline's name, for errors.

    Raises:
        ChangedPipelineError: A table is said to be renamed from what it cannot have been.

    >>> renamed_tables({"x": "", "y": ""}, {"z": "x", "x": "y"})
    {'z': 'x', 'x': 'y'}
    >>> renamed_tables({"z": "x"}, {"z": "x"})
    {}
    """
    said = {name: old for name, old in now.items() if old and then.get(name) != old}
    found = {name: old for name, old in said.items() if old in then}
    for name, old in said.items():
        if old not in then and name not in then and name not in left:
            raise _wrong(pipeline, name, old, *_never(then, now, old, left))
    for name, old in found.items():
        if old in now and old not in found:
            raise _wrong(
                pipeline, name, old, "which is still there", f"leave renamed_from out, or give what is {old!r} now another name"
            )  # fmt: skip
        if name in then and name not in found.values():
            raise _wrong(
                pipeline, name, old, f"and in the last epoch there was {name!r} beside {old!r}",
                "give it a name that the pipeline did not have then; or say of both what they were",
            )  # fmt: skip
    return found


def _never(then: Mapping[str, str], now: Mapping[str, str], old: str, left: Collection[str]) -> tuple[str, str]:
    if old in left:
        return (
            "which the last epoch no longer wrote",
            f"run an epoch with {old!r} first, in which it is said what becomes of it; or backfill=True of to_table instead",
        )
    gone = ", ".join(repr(name) for name in then if name not in now) or "none"
    told = f"correct the name, or leave renamed_from out if it is new (the tables of the last epoch that are gone: {gone})"
    return "and the pipeline never had a table of that name", told


def _wrong(pipeline: str, name: str, old: str, problem: str, remedy: str) -> ChangedPipelineError:
    where = {"pipeline": pipeline} if pipeline else {}
    return ChangedPipelineError(f"it is said to be renamed from {old!r}, {problem}", **where, table=name, remedy=remedy)
