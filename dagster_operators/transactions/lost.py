"""Files of the pipeline's own that are gone, and tables that others wrote: what is told, and what can be done."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dagster_operators.errors import LostFileError
from dagster_operators.transactions.manifest import Change

RUN_AGAIN: Final = "run again: the epoch is not decided, so that its stages are run anew"

PUT_BACK: Final = "put the file back from a backup"

_EPOCH: Final = re.compile(r"/e(\d+)-g\d+-")


def lost_error(lost: Mapping[str, str], so: str, remedy: str, **where: Any) -> LostFileError:
    """The error for lost files.

    Args:
        lost: What is wrong with each, by its path below the root; not empty.
        so: What does not go because of it.
        remedy: What can be done.
        where: Further places.

    >>> print(lost_error({"tables/clean/e1-g1-0a/part-0": "is missing"}, "it cannot be read", PUT_BACK).problem)
    it cannot be read: a file that was written is missing
    """
    path, problem = next(iter(lost.items()))
    others = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
    return LostFileError(
        f"{so}: a file that was written {problem}{others}",
        table="/".join(path.split("/")[:2]),
        file=path,
        lost=len(lost),
        remedy=f"{remedy}{_or_go_back(lost)}" if remedy == PUT_BACK else remedy,
        **where,
    )


def _or_go_back(lost: Iterable[str]) -> str:
    """The way out without a backup: back to before the first of the files was written.

    >>> _or_go_back(["tables/clean/e7-g1-0a/part-0", "tables/clean/e4-g1-0b/part-0"])
    '; or pipeline.repair_ledger(last_epoch=3) goes back to epoch 3, and the epochs after it are run again'
    """
    epochs = [int(found[1]) for path in lost if (found := _EPOCH.search(path))]
    if not epochs:
        return ""
    last = min(epochs) - 1
    return f"; or pipeline.repair_ledger(last_epoch={last}) goes back to epoch {last}, and the epochs after it are run again"


def how_to_repair(dataset: str, *keep: str) -> str:
    """The calls that settle a table.

    >>> how_to_repair("tables/clean", "ours")
    'pipeline.repair("clean", keep="ours") puts the content of the last epoch back'
    """
    name = dataset.removeprefix("tables/")
    does = {"ours": "puts the content of the last epoch back", "theirs": "accepts what is there"}
    return ", ".join(f'pipeline.repair("{name}", keep="{one}") {does[one]}' for one in keep or does)


def sizes_of(changes: Iterable[Change]) -> dict[str, int]:
    """The size of each file that some changes bring, by its path below the root."""
    return {f"{change.dataset}/{file.path}": file.size for change in changes for file in (*change.adds, *change.feed)}
