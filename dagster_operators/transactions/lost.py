"""Files of the pipeline's own that are gone, and tables that others wrote: what is told, and what can be done."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import LostFileError
from dagster_operators.storage.uri import public_uri
from dagster_operators.transactions.manifest import Change, FileEntry

if TYPE_CHECKING:
    from dagster_operators.storage.presence import Written
    from dagster_operators.transactions.view import LedgerView

RUN_AGAIN: Final = "run again: the epoch is not decided, so that its stages are run anew"

PUT_BACK: Final = "put the file back from a backup"

_COMPUTES: Final = "computes anew, from what the sources gave, what the lost files belong to"

_EPOCH: Final = re.compile(r"/e(\d+)-g\d+-")


def lost_error(
    lost: Mapping[str, str], so: str, remedy: str, *, view: LedgerView | None = None, anew: bool = True, **where: Any
) -> LostFileError:
    """The error for lost files.

    Args:
        lost: What is wrong with each, by its path below the root; not empty.
        so: What does not go because of it.
        remedy: What can be done.
        view: The ledger, which says how far back one can go, and what operators are called.
        anew: Whether computing anew what they belong to helps.
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
        remedy=ways_out(lost, view, anew=anew) if remedy == PUT_BACK else remedy,
        **where,
    )


def ways_out(lost: Iterable[str], view: LedgerView | None = None, *, anew: bool = True) -> str:
    """All that helps against lost files: a backup, back to before the first of them was written, or all of it anew.

    Args:
        lost: Their paths below the root.
        view: The ledger; without it both ways are told, as it is not known how far back one can go.
        anew: Whether computing anew what they belong to helps.

    >>> lost = ["tables/clean/e7-g1-0a/part-0", "state/sums.totals/e4-g1-0b/part-0"]
    >>> back, last, anew = ways_out(lost).split("; or ")
    >>> last  # doctest: +ELLIPSIS
    'pipeline.repair_ledger(last_epoch=3) goes back to epoch 3, and the epochs after it are run again, unless files ...'
    >>> anew.startswith("pipeline.rebuild('clean', operators='sums') computes anew")
    True
    """
    ways = [PUT_BACK, _back(lost, view), computed_anew(lost, view) if anew else ""]
    return "; or ".join(filter(None, ways))


def _back(lost: Iterable[str], view: LedgerView | None) -> str:
    """Back to before the first of the files was written, if the files of that epoch were not cleaned away."""
    epochs = [int(found[1]) for path in lost if (found := _EPOCH.search(path))]
    last = min(epochs, default=0) - 1
    if last < 0 or (view and last < view.horizon and view.horizon > 1):
        return ""
    unless = "" if view else ", unless files of then were cleaned away"
    return f"pipeline.repair_ledger(last_epoch={last}) goes back to epoch {last}, and the epochs after it are run again{unless}"


def computed_anew(lost: Iterable[str], view: LedgerView | None = None) -> str:
    """The rebuild of the tables and operators that files belong to; rejected records belong to a source, so to all tables.

    >>> computed_anew(["state/sums.totals/e4-g1-0b/part-0"])
    "pipeline.rebuild(operators='sums') computes anew, from what the sources gave, what the lost files belong to"
    >>> computed_anew(["tables/clean", "tables/rows_rejects"])
    'pipeline.rebuild() computes anew, from what the sources gave, what the lost files belong to'
    """
    complete = view.last_complete if view else None
    identities = {identity: name for name, identity in complete.identities.items()} if complete else {}
    parts = complete.parts if complete else {}
    tables, operators = set[str](), set[str]()
    for path in lost:
        kind, name = path.split("/")[:2]
        if kind == "state":
            owner = name.rpartition(".")[0]
            owner = parts.get(owner, owner)
            operators.add(identities.get(owner, owner))
        elif name.endswith("_rejects"):
            return f"pipeline.rebuild() {_COMPUTES}"
        else:
            tables.add(name)
    named = [_argument(tables), _argument(operators, "operators=")]
    return f"pipeline.rebuild({', '.join(filter(None, named))}) {_COMPUTES}"


def lost_table(datasets: Iterable[str], view: LedgerView | None = None) -> str:
    """All that helps where whole tables are gone, or their logs.

    >>> lost_table(["tables/clean"]).split("; or ")[1]
    'pipeline.repair("clean", keep="ours") puts the content of the last epoch back, if its files are there'
    """
    gone = list(datasets)
    repair = f"{how_to_repair(gone[0], 'ours')}, if its files are there"
    return f"put its folder back from a backup; or {repair}; or {computed_anew(gone, view)}"


def _argument(names: Collection[str], keyword: str = "") -> str:
    found = sorted(names)
    return f"{keyword}{found if found[1:] else repr(found[0])}" if found else ""


def how_to_repair(dataset: str, *keep: str) -> str:
    """The calls that settle a table.

    >>> how_to_repair("tables/clean", "ours")
    'pipeline.repair("clean", keep="ours") puts the content of the last epoch back'
    """
    name = dataset.removeprefix("tables/")
    does = {"ours": "puts the content of the last epoch back", "theirs": "accepts what is there"}
    return ", ".join(f'pipeline.repair("{name}", keep="{one}") {does[one]}' for one in keep or does)


def repair_command(root: str, dataset: str = "") -> str:
    """The command that settles a table, or all of them, as it can be typed.

    >>> repair_command("s3://me:secret@bucket/flights", "tables/clean")
    'dagster-operators repair s3://bucket/flights clean --keep ours  # or: --keep theirs'
    """
    words = ["dagster-operators", "repair", public_uri(root), *filter(None, [dataset.removeprefix("tables/")])]
    return f"{shlex.join(words)} --keep ours  # or: --keep theirs"


def files_of(changes: Iterable[Change]) -> dict[str, Written]:
    """The files that some changes bring as they were written, by their paths below the root."""
    return {path: file for one in changes for path, file in written_files(one.dataset, (*one.adds, *one.feed)).items()}


def written_files(dataset: str, files: Iterable[FileEntry]) -> dict[str, Written]:
    """Files of a dataset as they were written, by their paths below the root."""
    return {f"{dataset}/{file.path}": file.as_written for file in files}
