"""What there is to do in a pipeline, as its sensors see it, and what of it Dagster was told. It needs no engine."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from dagster_operators.orchestration.materialisation import DATA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dagster_operators.orchestration.steps import PipelineSteps
    from dagster_operators.runtime.epochs import Epochs

_PATIENCE: Final = 120.0
"""For so many seconds a source that is somebody else's asset is left to them to tell of: automation looks every 30 s."""

_REMINDED_AFTER: Final = (_PATIENCE, 300.0, 1800.0)
"""How long after what waits to be carried out was told it is told again, if it still waits; the last one over and over."""


@dataclass(frozen=True)
class News:
    """What there is to do.

    Attributes:
        epoch: The last completed epoch.
        sources: What has something new, with what it offers: sources, and operators with work left.
        decided: Whether an epoch waits to be carried out.
        changes: What was decided about changes of the pipeline.
        inputs: The assets of the sources and lookups that are nobody else's, who would tell of them.
        others: The sources and lookups that are somebody else's assets.
        backlog: Counts what is unread of a source, by unit.
    """

    epoch: int
    sources: Mapping[str, Any]
    decided: bool
    changes: Mapping[str, str]
    inputs: Mapping[str, dg.AssetKey]
    others: frozenset[str]
    backlog: Callable[[str], Mapping[str, int]] = field(default=lambda _: {}, compare=False, repr=False)

    @classmethod
    def of(cls, steps: PipelineSteps, epochs: Epochs) -> News:
        """What there is to do in a pipeline."""
        view = epochs.coordinator.view()
        return cls(
            view.last_epoch, epochs.has_news(), view.decision is not None, dict(epochs.waiting()), cls.own(steps),
            frozenset(steps.keys.theirs), epochs.backlog,
        )  # fmt: skip

    @staticmethod
    def own(steps: PipelineSteps) -> dict[str, dg.AssetKey]:
        """The assets of a pipeline's sources and lookups that are nobody else's."""
        return {name: key for name, key in steps.keys.inputs.items() if name not in steps.keys.theirs}

    def __bool__(self) -> bool:
        return bool(self.sources or self.decided or self.changes)

    def as_json(self) -> dict[str, Any]:
        """What a run is asked for."""
        found = {"epoch": self.epoch, "sources": self.sources, "decided": self.decided}
        return {**found, "changes": self.changes} if self.changes else found

    def digest(self, root: str) -> str:
        """A short name of it, as the news of the pipeline in a root."""
        return _digest({**self.as_json(), "root": root})

    def in_words(self) -> str:
        """It for a person."""
        sources = [f"{name} up to {json.dumps(end)}" for name, end in self.sources.items()]
        changes = [f"{subject}: {choice}" for subject, choice in self.changes.items()]
        return ", ".join([*sources, *changes, *(["an epoch that is decided and not complete"] if self.decided else [])])


@dataclass
class Told:
    """What Dagster was told, as a sensor's cursor keeps it.

    Attributes:
        sources: What each source offered when Dagster was told of it last, and after which epoch: where an epoch left some of it
            unread, or the pipeline went back, it is news again.
        seen: The same of what is somebody else's asset, and since when.
        rest: What was left to do beside that.
        rest_told: When that was told last, and how many times before.
        asked: The unread rows that the sources were told for last, by a short name; how many times they were told for these;
            and Dagster's number of the newest run at that time: a run with a higher one came after it.
    """

    sources: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)
    rest: Any = None
    rest_told: tuple[float, int] = (0.0, 0)
    asked: tuple[str, int, int] = ("", 0, 0)

    @classmethod
    def of(cls, cursor: str | None) -> Told:
        """What a cursor says."""
        found = json.loads(cursor) if cursor else {}
        return cls(
            found.get("told_of", {}), found.get("seen", {}), found.get("rest"), tuple(found.get("rest_told", (0.0, 0))),
            tuple(found.get("asked", ("", 0, 0))),
        )  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        """It as a part of a cursor."""
        told = {"told_of": self.sources, "seen": self.seen, "rest": self.rest, "rest_told": self.rest_told}
        return {**told, "asked": self.asked}

    def as_cursor(self) -> str:
        """It as the whole cursor."""
        return json.dumps(self.as_json(), sort_keys=True)

    def tell(self, news: News, now: float, *, left: bool = True) -> list[dg.AssetMaterialization]:
        """The sources that hold something new that Dagster was not told of; from now on it was.

        Of an external asset that is a materialization: of what is merely observed Dagster's automation conditions see nothing.

        Args:
            news: What there is to do.
            now: The time.
            left: Whether to tell one of the sources, too, if something is left that none has told.
        """
        found = []
        for name, offered in news.sources.items():
            if name in news.inputs and self.sources.get(name) != [news.epoch, offered]:
                self.sources[name] = [news.epoch, offered]
                position = dg.MetadataValue.json({"position": offered})
                unread = {f"unread {unit}": dg.MetadataValue.int(count) for unit, count in news.backlog(name).items()}
                found.append(_event(news, name, offered, {"offers rows up to": position, **unread}))
        rest = self.left(news, now) if left else None
        if rest and news.inputs and self._is_due(rest, news, now):
            times = self.rest_told[1] + 1 if rest == self.rest else 0
            self.rest, self.rest_told = rest, (now, times)
            if not found:
                found.append(self.reminder(news))
        return found

    def reminder(self, news: News) -> dg.AssetMaterialization:
        """Tells of one of the sources for what is left to do."""
        name = next(iter(news.inputs))
        _, offered = self.sources.get(name, (None, None))  # as it was told: no table is behind it
        return _event(news, name, offered, {"left to do": dg.MetadataValue.text(news.in_words())})

    def unread(self, news: News, now: float) -> str:
        """A short name of the rows that were told, for as long as no run has decided to read them; empty if there are none."""
        own = {name: [news.epoch, offered] for name, offered in news.sources.items() if name in news.inputs}
        rest = self.left(news, now) if news.inputs else None
        return "" if news.decided or news.changes or not (own or rest) else _digest({"sources": own, "rest": rest})

    def _is_due(self, rest: Mapping[str, Any], news: News, now: float) -> bool:
        """Whether what is left is to be told: the run that was asked for may have failed, and nobody else asks for another one.

        Of rows that are left, and no epoch's yet, that depends on the run, as of what the sources newly hold.
        """
        if rest != self.rest:
            return True
        at, times = self.rest_told
        return (news.decided or bool(news.changes)) and now - at >= _REMINDED_AFTER[min(times, len(_REMINDED_AFTER) - 1)]

    def left(self, news: News, now: float) -> dict[str, Any] | None:
        """What begins an epoch and is no news of the pipeline's own sources; None if nothing is.

        With sources that are others' assets of whom nothing came for a while: an epoch may have left some of their rows unread.
        """
        self.seen = {name: self._seen(news, name, now) for name in news.sources if name in news.others}
        others = {name: [epoch, offered] for name, (epoch, offered, since) in self.seen.items() if now - since >= _PATIENCE}
        work = {name: what for name, what in news.sources.items() if name not in news.inputs and name not in news.others}
        found = {"decided": news.decided, "changes": dict(news.changes), "sources": {**work, **others}}
        return {"epoch": news.epoch, **found} if any(found.values()) else None

    def _seen(self, news: News, name: str, now: float) -> list[Any]:
        before, at = self.seen.get(name), [news.epoch, news.sources[name]]
        return before if before and before[:2] == at else [*at, now]


def _event(news: News, name: str, offered: Any, said: Mapping[str, dg.MetadataValue[Any]]) -> dg.AssetMaterialization:
    metadata = {**said, "after epoch": dg.MetadataValue.int(news.epoch)}
    return dg.AssetMaterialization(news.inputs[name], metadata=metadata, tags={DATA_VERSION: _digest({"position": offered})})


def _digest(news: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(news, sort_keys=True).encode()).hexdigest()[:16]
