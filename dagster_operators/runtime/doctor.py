"""Looking a storage root and this machine over for what keeps epochs from running, each finding with its way out."""

from __future__ import annotations

import shlex
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Final, Literal

from dagster_operators.connectors.connector import Connector
from dagster_operators.errors import DamagedLedgerError, OperatorsError, call_of
from dagster_operators.operators.relational.source import Source
from dagster_operators.runtime.engine import check_java, default_engine
from dagster_operators.runtime.kept_plans import KeptPlans
from dagster_operators.runtime.stages.unreadable import undecodable
from dagster_operators.storage.log_damage import damage
from dagster_operators.storage.object_marks import written_anew
from dagster_operators.storage.presence import lost_files, other_content
from dagster_operators.transactions.ledger_files import damaged_ledger
from dagster_operators.transactions.ledger_repair import LEDGER
from dagster_operators.transactions.lost import computed_anew, repair_command, ways_out, written_files

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root
    from dagster_operators.transactions.coordinator import Coordinator

_PACKAGES: Final = ("dagster_operators", "pyspark", "delta-spark", "deltalake", "pyarrow", "pysail", "dagster")
_BY_LEDGER: Final = ("tables", "files", "sources", "owner")
"""What only the ledger tells."""

_MOST_SKEW: Final = 10.0
_LEAST_FREE: Final = 1 << 30


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: What.
        verdict: ``ok``, ``warning``: epochs run all the same, or ``error``: they do not.
        told: What was found.
        remedy: What to do about it.

    >>> print(Finding("clock", "warning", "it is 20 s behind the storage", "set it"))
    warning  clock: it is 20 s behind the storage. To do: set it
    """

    check: str
    verdict: Literal["ok", "warning", "error"]
    told: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.verdict:<8} {self.check}: {self.told}{self.remedy and f'. To do: {self.remedy}'}"


def examine(coordinator: Coordinator, *, start_engine: bool = False, deep: bool = False) -> Iterator[Finding]:
    """Look at everything, one thing after another; what goes wrong in one look is its finding.

    Args:
        coordinator: For the storage root.
        start_engine: Whether to start the engine and have it count to one.
        deep: Whether to read all files through, and compare what logs say of them with what epochs wrote.
    """
    root = coordinator.root
    wrong = cache(lambda: sorted({*coordinator.wrong_tables(by_content=True), *_damaged(coordinator)}))
    looks: dict[str, Callable[[], Finding]] = {
        "writing": lambda: _writing(root),
        "conditions": lambda: _conditions(root),
        "links": lambda: _links(root),
        "space": lambda: _space(root),
        "clock": lambda: _clock(root),
        "ledger": lambda: _ledger(coordinator),
        "tables": lambda: _tables(coordinator, wrong()),
        "files": lambda: _files(coordinator, wrong(), deep=deep),
        **({"sources": lambda: _sources(coordinator)} if deep else {}),
        "owner": lambda: _owner(coordinator),
        "engine": lambda: _engine(start=start_engine),
        "versions": _versions,
    }
    unreadable = False
    for name, look in looks.items():
        if unreadable and name in _BY_LEDGER:
            yield Finding(name, "warning", "not looked at, as the ledger cannot be read")
            continue
        try:
            yield look()
        except OperatorsError as error:
            unreadable = unreadable or isinstance(error, DamagedLedgerError)
            yield Finding(name, "error", str(error.at()).partition(". To do: ")[0], error.remedy)
        except OSError as error:
            yield Finding(name, "error", f"{type(error).__name__}: {error}", "see that the storage root can be reached")


def _writing(root: Root) -> Finding:
    probe = f"owners/probe-{uuid.uuid4().hex}"
    root.write(probe, b"probe")
    try:
        whole = root.read(probe) == b"probe"
    finally:
        root.delete_file(probe)
    if not whole:
        return Finding("writing", "error", "what is written cannot be read back", "see that no cache lies before the storage")
    return Finding("writing", "ok", f"files can be written, read and deleted in {root.uri}")


def _conditions(root: Root) -> Finding:
    """Whether a file that is there is left as it is by a write on the condition that there be none: the ledger rests on it."""
    probe = f"owners/probe-{uuid.uuid4().hex}"
    first, second = b"first", b"second"
    try:
        refused_none = root.create(probe, first) is not None
        kept = root.create(probe, second) is None and root.read(probe) == first
    finally:
        root.delete_file(probe)
    if not (refused_none and kept):
        remedy = (
            "use a store, or a version of this server, that honours If-None-Match in PutObject: without it two runs at once "
            "write over each other's ledger and lose epochs"
        )
        return Finding("conditions", "error", "the store writes over a file that it is asked to leave", remedy)
    return Finding("conditions", "ok", "a file that is there is not written over where that is asked")


def _links(root: Root) -> Finding:
    if not root.is_local:
        return Finding("links", "ok", "an object store needs none")
    name = f"owners/probe-{uuid.uuid4().hex}"
    root.write(name, b"")
    probe = Path(root.path(name))
    try:
        link = probe.with_suffix(".link")
        link.hardlink_to(probe)
        link.unlink()
    except OSError as error:
        remedy = "put the root on a file system with hard links"
        return Finding("links", "error", f"the file system makes no hard links ({error.strerror})", remedy)
    finally:
        probe.unlink()
    return Finding("links", "ok", "the file system makes hard links, which the ledger needs")


def _space(root: Root) -> Finding:
    if not root.is_local:
        return Finding("space", "ok", "an object store has no end")
    free = shutil.disk_usage(root.path("")).free
    if free < _LEAST_FREE:
        clean = shlex.join(["dagster-operators", "clean", root.uri])
        return Finding("space", "warning", f"{free >> 20} MiB are free", f"free some: {clean}  # or a larger disk")
    return Finding("space", "ok", f"{free >> 30} GiB are free")


def _clock(root: Root) -> Finding:
    probe = f"owners/probe-{uuid.uuid4().hex}"
    before = time.time()
    root.write(probe, b"")
    after, written = time.time(), root.modified(probe)
    root.delete_file(probe)
    skew = 0.0 if written is None else max(before - written - 1, written - after, 0.0)  # stores may stamp whole seconds
    if skew > _MOST_SKEW:
        return Finding("clock", "warning", f"this machine's clock differs from the storage's by {skew:.0f} s", "set it (NTP)")
    return Finding("clock", "ok", "this machine and the storage have the same time")


def _ledger(coordinator: Coordinator) -> Finding:
    if problem := damage(coordinator.root, LEDGER):
        raise damaged_ledger(coordinator.root, problem)
    view = coordinator.view()
    past = len(coordinator.history())
    return Finding("ledger", "ok", f"whole, with {past} completed epochs up to {view.last_epoch}")


def _tables(coordinator: Coordinator, wrong: list[str]) -> Finding:
    if wrong:
        told = "; ".join(f"{dataset} ({coordinator.tell(dataset) or 'its log is gone'})" for dataset in wrong)
        return Finding("tables", "error", f"not as the ledger says: {told}", _repair(coordinator, wrong))
    return Finding("tables", "ok", "all as the ledger says")


def _damaged(coordinator: Coordinator) -> list[str]:
    """The tables whose log is damaged anywhere, also where a checkpoint sums it up."""
    return [dataset for dataset in coordinator.view().versions if damage(coordinator.root, dataset)]


def _repair(coordinator: Coordinator, wrong: list[str]) -> str:
    """The commands, one a table: one that only its content tells is not found by a repair of all."""
    return "\n".join(repair_command(coordinator.root.uri, dataset) for dataset in wrong)


def _files(coordinator: Coordinator, wrong: list[str], *, deep: bool) -> Finding:
    if coordinator.last_complete() is None:
        return Finding("files", "ok", "there are none yet")
    versions = {name: at for name, at in coordinator.versions().versions.items() if name not in wrong}
    files = {
        path: file for name, at in versions.items() for path, file in written_files(name, coordinator.files(name, at)).items()
    }
    lost = lost_files(coordinator.root, files)
    if deep:
        lost |= other_content(coordinator.root, {path: file.digest for path, file in files.items() if path not in lost})
        left = {path: file.size for path, file in files.items() if path not in lost}
        lost |= undecodable(coordinator.root, left, at_most=None)
        lost |= coordinator.misread(versions)
    if lost:
        path, problem = next(iter(lost.items()))
        remedy = ways_out(lost, coordinator.view())
        return Finding("files", "error", f"{len(lost)} of {len(files)} are lost or damaged: {path} {problem}", remedy)
    anew = written_anew(coordinator.root, coordinator.root.known_digests(files)) if deep and not coordinator.root.is_local else []
    if anew:
        told = f"{len(anew)} of {len(files)} were written anew since their epochs, with as many bytes: {anew[0]}"
        remedy = f"if nobody copied the storage root, see who wrote them; {computed_anew(anew, coordinator.view())}"
        return Finding("files", "warning", told, remedy)
    return Finding("files", "ok", f"all {len(files)} are there{' and can be read' if deep else ''}")


def _sources(coordinator: Coordinator) -> Finding:
    """Whether the files that sources have read, as far as they are there, have the content that was read."""
    last = coordinator.last_complete()
    plan = KeptPlans(coordinator.root).find(last.logical_plan) if last and last.logical_plan else None
    others: dict[str, str] = {}
    for node in plan.nodes if plan else ():
        connector = node.operator.connector if isinstance(node.operator, Source) else None
        if not isinstance(connector, Connector):
            continue
        for _, piece in coordinator.slices(node.name):
            others |= dict.fromkeys(connector.other_content(piece.items), node.name) if piece.items is not None else {}
    if others:
        path, name = next(iter(others.items()))
        remedy = "put back what was read, from a backup; or read what there is now, into tables that begin anew: " + call_of(
            "reset", name, 0, tables="restart"
        )
        told = f"{len(others)} files have other content than was read, in as many bytes: {path} of the source {name!r}"
        return Finding("sources", "error", told, remedy)
    return Finding("sources", "ok", "no file that is there has other content than was read")


def _owner(coordinator: Coordinator) -> Finding:
    owner = coordinator.owner_at_work()
    return Finding("owner", "ok", f"{owner} is at work" if owner else "nobody is at work")


def _engine(*, start: bool) -> Finding:
    engine = default_engine()
    if engine.name == "spark":
        check_java()
    if start:
        engine.session().sql("SELECT 1 AS one").collect()
    return Finding(
        "engine", "ok", f"{engine.name} {'answers' if start else 'is what stages run on, unless the pipeline says other'}"
    )


def _versions() -> Finding:
    found = {name: _version(name) for name in _PACKAGES}
    told = ", ".join(f"{name} {number}" for name, number in found.items() if number)
    return Finding("versions", "ok", f"Python {python_version()}, {told}")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
