"""Runs several runs of the protocol on the model world in every possible order, with crashes, and checks every state it reaches.

A run is a generator; it is put back into any of its states by replaying the results it was sent. States are the same if the world
is the same and each run stands at the same place with the same local variables. The stages of an epoch may be prepared side by
side: each that is at work is then a generator of its own, a thread of the run's process or a process of its own, and the run
waits for them.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from dagster_operators.errors import FencedError, LedgerError, StorageError
from dagster_operators.runtime.side_by_side import ready
from dagster_operators.transactions import commit as commit_steps
from dagster_operators.transactions import effects as fx
from dagster_operators.transactions import protocol
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.plan import EpochHandle, PlanRecord, StageRecord
from dagster_operators.transactions.stage_keys import Rounds, StageKey, groups
from dagster_operators.transactions.view import LedgerView
from tests.transactions.invariants import check
from tests.transactions.model_world import Model, World, intern
from tests.transactions.places import number_of, place_of

LOCAL = (fx.MakeId, fx.Now, fx.Choose, fx.CheckOwner, fx.FindMissing, fx.ReadManifest, fx.WriteManifest)
"""Effects that need no turn of their own: what they see never changes, and nobody looks at a manifest before it is recorded."""

VISIBLE = (*fx.DURABLE, fx.RunStage)
"""Effects that change the world: a crash anywhere else is the same as one just before the next of these."""


@dataclass(frozen=True)
class SideBySide:
    """What a run yields to have the stages of an epoch prepared at the same time. Result: None, or the error of one of them."""

    run: commit_steps.RunContext
    handle: EpochHandle
    plan: PlanRecord
    owner: Owner


@dataclass(frozen=True)
class Run:
    """A run, or one of its stages at work beside it.

    Attributes:
        name: The run's name.
        incarnation: How often it was restarted.
        stage: The stage, when it is one.
        order: What the stage is to be prepared under.
        results: What it has been sent, errors as exceptions.
        lost: How many answers it did not get: what it is about to raise is in no local variable.
        effect: What it is about to perform.
        waits: For its stages, when it does.
    """

    name: str
    incarnation: int = 0
    stage: str = ""
    order: SideBySide | None = None
    results: tuple[Any, ...] = ()
    ids: int = 0
    lost: int = 0
    place: Any = None
    visible: bool = False
    ended: str = ""
    effect: Any = None
    waits: SideBySide | None = None


@dataclass(frozen=True)
class _Move:
    """What a run does on a result of its effect.

    Attributes:
        number: Of the run, where it then stands.
        performed: The effects in between, each with the run that performs it and the number of its result.
    """

    number: int
    performed: tuple[tuple[fx.Effect, Run, Any], ...]


@dataclass
class Exploration:
    """What to explore.

    Args:
        plans: The plan of each run; a run that is restarted keeps it.
        epochs: How many epochs the source has data for.
        crashes: How many crashes there may be in all.
        same_owner: Whether the runs are processes of one Dagster run.
        exact: Tell states apart by the whole history of results instead of local variables (many more states, for comparison).
        stages_run: One after another, or side by side: in threads, which die with their process, or in processes of their own,
            each of which is restarted alone.
        but: The name of a run whose stages go one after another all the same.
        lost_answers: Whether a crash may also be an effect that takes place and is reported as failed.
    """

    plans: tuple[PlanRecord, ...]
    epochs: int = 1
    crashes: int = 0
    same_owner: bool = False
    sink: bool = False
    exact: bool = False
    stages_run: Literal["in order", "in threads", "in processes"] = "in order"
    but: str = ""
    lost_answers: bool = False
    model: Callable[[int], Model] = Model
    states: int = 0
    worlds: dict[World, int] = field(default_factory=dict)

    def run(self, limit: int = 2_000_000) -> Exploration:
        """Reach every state; an assertion fails where a promise is broken."""
        collects = gc.isenabled()
        gc.disable()  # the many small objects are all kept anyway; looking for garbage takes longer than the rest
        try:
            return self._explore(limit)
        finally:
            if collects:
                gc.enable()

    def _explore(self, limit: int) -> Exploration:
        self._model = self.model(self.epochs)
        self._world_list: list[World] = []
        self._run_numbers: dict[Any, int] = {}
        self._run_list: list[Run] = []
        self._steps: dict[tuple[int, int], tuple[int, int]] = {}
        self._moves: dict[tuple[int, Any], _Move] = {}
        self._starts: dict[Any, int] = {}
        first = tuple(self._begun(Run(str(index))) for index in range(len(self.plans)))
        start = (self._world_number(World()), first, self.crashes)
        seen, stack = {start}, [start]
        while stack:
            for state in self._next(*stack.pop()):
                if state not in seen:
                    seen.add(state)
                    stack.append(state)
            assert len(seen) < limit, "too many states"
        self.states = len(seen)
        return self

    def _next(self, world: int, runs: tuple[int, ...], crashes: int) -> Iterator[tuple[int, tuple[int, ...], int]]:
        for index, number in enumerate(runs):
            run = self._run_list[number]
            if run.ended or run.waits:
                continue
            if (world, number) not in self._steps:
                after, moved = self._step(self._world_list[world], number)
                self._steps[world, number] = self._world_number(after), moved
            after_number, moved_number = self._steps[world, number]
            moved_runs = (*runs[:index], moved_number, *runs[index + 1 :])
            yield after_number, self._with_stages(after_number, moved_runs, run.name), crashes
            if crashes and run.visible:
                yield world, self._without(runs, index), crashes - 1
                if self.lost_answers:
                    yield *self._with_lost_answer(world, runs, index), crashes - 1

    def _with_lost_answer(self, world: int, runs: tuple[int, ...], index: int) -> tuple[int, tuple[int, ...]]:
        """Where it leads when a run's effect takes place and the run is told that it failed."""
        run = self._run_list[runs[index]]
        steps, effect = self._replayed(run), run.effect
        self._performed = []
        after, _ = self._perform(self._world_list[world], effect, run)
        told = dataclasses.replace(run, lost=run.lost + 1)
        moved = self._run_number(self._resume(after, told, steps, StorageError("the answer was lost"))[1])
        number = self._world_number(after)
        return number, self._with_stages(number, (*runs[:index], moved, *runs[index + 1 :]), run.name)

    def _without(self, runs: tuple[int, ...], index: int) -> tuple[int, ...]:
        """The runs after a crash of one: it is started again, and with a process go its threads."""
        run = self._run_list[runs[index]]
        if run.stage and self.stages_run == "in processes":
            again = self._begun(Run(run.name, run.incarnation + 1, run.stage, run.order))
            return (*runs[:index], again, *runs[index + 1 :])
        others = [number for number in runs if self._run_list[number].name != run.name]
        first = next(self._run_list[number] for number in runs if self._run_list[number].name == run.name)
        return self._in_order([*others, self._begun(Run(run.name, first.incarnation + 1))])

    def _begun(self, run: Run) -> int:
        """The number of a run that is about to perform its first effect."""
        key = (run.name, run.incarnation, run.stage, run.order and number_of(run.order.handle))
        if key not in self._starts:
            self._starts[key] = self._run_number(self._start(run, World()))
        return self._starts[key]

    def _in_order(self, runs: Iterable[int]) -> tuple[int, ...]:
        """Each run before its stages."""
        return tuple(sorted(runs, key=lambda number: (self._run_list[number].name, self._run_list[number].stage)))

    def _with_stages(self, world: int, runs: tuple[int, ...], name: str) -> tuple[int, ...]:
        """The runs after a step of one of a name: stages that are ready begin; with the last one's end their run goes on."""
        waiting = next((number for number in runs if self._run_list[number].name == name), 0)
        run = self._run_list[waiting]
        if run.waits is None:
            return runs
        stages = [self._run_list[number] for number in runs if self._run_list[number].name == name][1:]
        made = {stage.stage for stage in stages if stage.ended == "done"}
        failed = any(stage.ended == "fenced" for stage in stages)
        upstream = {stage.name: stage.upstream for stage in run.waits.plan.stages}
        begin = [] if failed else ready(upstream, {stage.stage for stage in stages}, made)
        if begin:
            return self._in_order([*runs, *(self._begun(Run(name, run.incarnation, stage, run.waits)) for stage in begin)])
        if not all(stage.ended for stage in stages):
            return runs
        moved = self._run_number(self._resumed(self._world_list[world], run, FencedError("a stage failed") if failed else None))
        return self._in_order([moved, *(number for number in runs if self._run_list[number].name != name)])

    def _world_number(self, world: World) -> int:
        number = self.worlds.setdefault(world, len(self.worlds))
        if number == len(self._world_list):
            self._world_list.append(world)
            self._check(world)
        return number

    def _run_number(self, run: Run) -> int:
        key = (run.name, run.incarnation, run.stage, run.ids, run.lost, run.place)
        number = self._run_numbers.setdefault(key, len(self._run_list))
        if number == len(self._run_list):
            self._run_list.append(run)
        return number

    def _check(self, world: World) -> None:
        check(world, sink=self.sink)
        world = self._finish(world)
        assert world.view().last_epoch == self.epochs, "a fresh run did not complete all epochs"
        assert world.view().open_begin is None
        check(world, sink=self.sink)

    def _finish(self, world: World) -> World:
        """Whatever state this is, a fresh run alone can bring the pipeline to its end; an error of its comes out here."""
        run = Run("fresh")
        steps = self._session_of(run, side_by_side=False)
        effect = next(steps)
        while True:
            run = dataclasses.replace(run, ids=run.ids + isinstance(effect, fx.MakeId))
            world, result = self._perform(world, effect, run)
            try:
                effect = steps.throw(result) if isinstance(result, Exception) else steps.send(result)
            except StopIteration:
                return world

    def _session(self, run: Run) -> Generator[Any, Any, None]:
        if run.order is not None:
            return self._stage_of(run, run.order)
        return self._session_of(run, side_by_side=self.stages_run != "in order" and run.name != self.but)

    def _stage_of(self, run: Run, order: SideBySide) -> Generator[fx.Effect, Any, None]:
        context, handle = order.run, order.handle
        if self.stages_run == "in processes":
            context, handle = yield from self._resumed_epoch(context, handle, order.owner)
        yield from protocol.prepare_stage(context, handle, run.stage)

    def _resumed_epoch(
        self, context: commit_steps.RunContext, handle: EpochHandle, owner: Owner
    ) -> Generator[fx.Effect, Any, tuple[commit_steps.RunContext, EpochHandle]]:
        """What a further process of a run begins with."""
        generation = yield from protocol.open_generation(owner, "model", context.participants)
        context = dataclasses.replace(context, generation=generation)
        return context, (yield from protocol.resume_epoch(context, handle.begin_id))

    def _session_of(self, run: Run, *, side_by_side: bool) -> Generator[Any, Any, None]:
        plan = self.plans[int(run.name)] if run.name != "fresh" else self.plans[0]
        identity = (
            "shared" if self.same_owner and run.name != "fresh" and not run.incarnation else f"{run.name}-{run.incarnation}"
        )
        owner = Owner("dagster", identity, "host", "boot", 1, 1.0)
        sinks = ("sink",) if self.sink else ()
        generation = yield from protocol.open_generation(owner, "model", sinks)
        context = commit_steps.RunContext("model", "root", generation, sinks)
        while True:
            handle = yield from protocol.begin_epoch(context, plan)
            if handle is None:
                return
            context = dataclasses.replace(context, generation=handle.generation)
            if side_by_side:
                yield SideBySide(context, handle, plan, owner)
            else:
                for part in groups(plan):
                    yield from self._part(context, handle, part, ())
            if side_by_side and self.stages_run == "in processes":
                context, handle = yield from self._resumed_epoch(context, handle, owner)
            yield from commit_steps.commit_epoch(context, handle)

    def _part(
        self, context: commit_steps.RunContext, handle: EpochHandle, part: StageRecord | Rounds, around: tuple[int, ...]
    ) -> Generator[fx.Effect, Any, bool]:
        """A stage, or a loop round by round until it has come to rest; whether rows of it go round to the next round."""
        if isinstance(part, StageRecord):
            manifest = yield from protocol.prepare_stage(context, handle, str(StageKey(part.name, around)))
            return bool(manifest.goes_round > 0)
        number, goes_round = 0, True
        while goes_round:
            goes_round = False
            for inner in part.parts:
                fed = yield from self._part(context, handle, inner, (*around, number))
                goes_round = goes_round or fed
            number += 1
        return False

    def _start(self, run: Run, world: World) -> Run:
        steps = self._session(run)
        self._performed = []
        return self._settle(world, run, steps, next(steps))[1]

    def _step(self, world: World, number: int) -> tuple[World, int]:
        """Let a run perform its pending effect and go on to the next one that others could notice.

        Where it then stands depends on the effect's result alone, and many worlds give the same one.
        """
        run = self._run_list[number]
        world, result = self._perform(world, run.effect, run)
        key = (number, number_of(result))
        if key in self._moves and (after := self._again(world, self._moves[key])):
            return after, self._moves[key].number
        self._performed: list[tuple[fx.Effect, Run, Any]] = []
        world, moved = self._resume(world, run, self._replayed(run), result)
        move = _Move(self._run_number(moved), tuple(self._performed))
        if moved.ended != "fenced":  # whether it may be depends on the world
            self._moves[key] = move
        return world, move.number

    def _again(self, world: World, move: _Move) -> World | None:
        """The world after a move that was made in another one before; None if this one answers otherwise."""
        for effect, run, before in move.performed:
            world, result = self._perform(world, effect, run)
            if number_of(result) != before:
                return None
        return world

    def _resumed(self, world: World, run: Run, result: Exception | None) -> Run:
        """Let a run that waited for its stages go on."""
        self._performed = []
        return self._resume(world, dataclasses.replace(run, waits=None), self._replayed(run), result)[1]

    def _replayed(self, run: Run) -> Any:
        """The run's generator where it stands."""
        steps = self._session(run)
        next(steps)
        for result in run.results:
            _ = steps.throw(result) if isinstance(result, Exception) else steps.send(result)
        return steps

    def _resume(self, world: World, run: Run, steps: Any, result: Any) -> tuple[World, Run]:
        run = dataclasses.replace(run, results=(*run.results, result))
        try:
            effect = steps.throw(result) if isinstance(result, Exception) else steps.send(result)
        except StopIteration:
            return world, dataclasses.replace(run, results=(), ended="done", place="done")
        except StorageError:
            return world, dataclasses.replace(run, results=(), ended="fenced", place="failed")
        except (FencedError, LedgerError) as error:
            assert self._was_fenced(world, steps, run), f"a run that was not fenced failed: {error!r}"  # noqa: PT017
            return world, dataclasses.replace(run, results=(), ended="fenced", place="fenced")
        return self._settle(world, run, steps, effect)

    def _settle(self, world: World, run: Run, steps: Any, effect: Any) -> tuple[World, Run]:
        if isinstance(effect, LOCAL):
            if isinstance(effect, fx.MakeId):
                run = dataclasses.replace(run, ids=run.ids + 1)
            world, result = self._perform(world, effect, run)
            self._performed.append((effect, run, number_of(result)))
            return self._resume(world, run, steps, result)
        order = run.order and number_of(run.order.handle)
        place = (order, *(number_of(result) for result in run.results)) if self.exact or run.lost else place_of(steps)
        waits = effect if isinstance(effect, SideBySide) else None
        return world, dataclasses.replace(run, place=place, visible=isinstance(effect, VISIBLE), effect=effect, waits=waits)

    def _perform(self, world: World, effect: fx.Effect, run: Run) -> tuple[World, Any]:
        who = f"run {run.name} {run.stage}"
        unique = f"{intern(who, who):04x}{run.incarnation:02x}{run.ids:02x}"
        try:
            return self._model.perform(world, effect, unique)
        except (FencedError, LedgerError) as error:
            return world, error

    def _was_fenced(self, world: World, steps: Any, run: Run) -> bool:
        """Whether another run has taken over since this one got its generation."""
        taken = [result.generation for result in run.results if isinstance(result, LedgerView)]
        if run.order:
            taken.append(run.order.handle.generation)
        owner = world.view().owner
        others = owner is not None and owner.run_id != f"{run.name}-{run.incarnation}"
        return others or world.view().generation > min((g for g in taken if g), default=0) or self.same_owner
