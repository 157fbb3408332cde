"""The output that each input reads, and circles of operators that read each other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from dagster_operators.api.events.noted import Noted
from dagster_operators.api.events.written import WrittenInput, WrittenOperator
from dagster_operators.api.queries.located import Located
from dagster_operators.catalog.catalog import near
from dagster_operators.errors import PipelineError
from dagster_operators.operators.events.routes import ALL, is_of_logs, log_reading
from dagster_operators.operators.events.wiring import TIMER, EventInput, EventOperator, EventSource, timer_interval


def connected(
    written: Sequence[WrittenOperator],
    sources: Sequence[EventSource],
    nodes: Iterable[str],
    tables: Mapping[str, Located],
    noted: Noted,
    *,
    unsure: Collection[str] = (),
) -> tuple[EventOperator, ...]:
    """The operators with the addresses of what their inputs read; what is wrong with them is noted.

    Args:
        written: The operators as they are written.
        sources: The nodes that are sources.
        nodes: The ids of all nodes, also of those that something is wrong with.
        tables: The nodes that are tables, by their ids.
        noted: Collects what is wrong.
        unsure: The nodes whose outputs are not known, as something is wrong with them.
    """
    made = [EventOperator(one.node, one.id, one.alone, one.file, outputs=one.outputs) for one in written]
    known = {operator.address(output) for operator in made for output in operator.outputs}
    known |= {address for source in sources for address, _ in source.addresses()}
    lost = (set(nodes) - {one.node for one in written} - {source.node for source in sources}) | set(unsure)
    finder = _Finder(known, {one.node: one.id if one.alone else None for one in written}, lost, tables, noted)
    found = tuple(
        EventOperator(
            one.node,
            one.id,
            one.alone,
            one.file,
            finder.inputs(one),
            one.outputs,
            one.types,
            one.env,
            one.state,
            one.language,
            one.time_limit,
            one.restart,
            one.args,
            one.routes,
        )
        for one in written
    )
    if any(is_of_logs(one.source) for operator in found for one in operator.inputs):
        found = tuple(_with_logs_read(operator) for operator in found)
    _check_circles({operator.path: operator for operator in found}, {f"{one.node}/{one.id}": one for one in written}, noted)
    return found


def _with_logs_read(operator: EventOperator) -> EventOperator:
    """An operator whose log entries are read, unless it reads those of others."""
    reads = any(is_of_logs(one.source) for one in operator.inputs)
    return operator if reads else replace(operator, routes=(*operator.routes, (ALL, "")))


class _Finder:
    """Finds the outputs that inputs read."""

    def __init__(
        self, known: set[str], nodes: Mapping[str, str | None], lost: set[str], tables: Mapping[str, Located], noted: Noted
    ) -> None:
        self._known = known
        self._nodes = nodes
        self._lost = lost
        self._tables = tables
        self._noted = noted

    def inputs(self, operator: WrittenOperator) -> tuple[EventInput, ...]:
        """The inputs of an operator that read something."""
        pairs = [(one, self._address(operator, one)) for one in operator.inputs]
        return tuple(EventInput(one.id, address, one.queue_size, one.delay) for one, address in pairs if address is not None)

    def _address(self, operator: WrittenOperator, one: WrittenInput) -> str | None:
        source: str = one.source.data
        if source.startswith(TIMER):
            try:
                timer_interval(source)
            except PipelineError as error:
                self._noted.wrong(one.source, error.problem, error.remedy)
                return None
            return source
        if is_of_logs(source):
            return self._of_logs(one)
        node, _, rest = source.partition("/")
        for address in (source, f"{operator.node}/{source}", self._without_operator(source)):
            if address in self._known:
                return address
        if node in self._tables:
            self._tell_of_table(operator, one, node)
        elif node not in self._lost:
            self._tell(operator, one, node, rest)
        return None

    def _of_logs(self, one: WrittenInput) -> str | None:
        """What an input of log entries reads."""
        source: str = one.source.data
        try:
            _, node = log_reading(source)
        except PipelineError as error:
            self._noted.wrong(one.source, error.problem, error.remedy)
            return None
        if node and node not in self._nodes and node not in self._lost:
            known = ", ".join(sorted(self._nodes))
            self._noted.wrong(one.source, f"{source!r} names no node with operators or a script", f"there are: {known}")
        return source

    def _without_operator(self, source: str) -> str:
        """``node/op/output`` of a node with one operator, without its id; else as it is."""
        node, _, rest = source.partition("/")
        own, _, output = rest.partition("/")
        return f"{node}/{output}" if own and own == self._nodes.get(node) else source

    def _tell_of_table(self, operator: WrittenOperator, one: WrittenInput, node: str) -> None:
        """Tell of an input that reads a table, which sends no messages."""
        own = self._tables[node].data["table"]
        reads = own.data.get("input") if isinstance(own.data, dict) else None
        known = reads is not None and isinstance(reads.data, str) and reads.data in self._known
        what = f"the input `{_target(operator, one)}` reads {one.source.data!r}"
        remedy = f"read what the table reads: {reads.data}" if reads and known else "read an output of an operator: node/output"
        self._noted.wrong(one.source, f"{what}, and the node `{node}` is a table, which sends no messages", remedy)

    def _tell(self, operator: WrittenOperator, one: WrittenInput, node: str, rest: str) -> None:
        target = _target(operator, one)
        source = one.source.data
        within = sorted(one for one in self._known if one.startswith(f"{operator.node}/{node}/"))
        names = {address.partition("/")[0] for address in self._known} | self._nodes.keys()
        if node == "dora":
            problem, remedy = (
                f"there is no input {source!r}",
                "of dora's own there are timers and logs: dora/timer/millis/100, dora/logs",
            )
        elif not rest:
            problem, remedy = f"the input `{target}` reads {source!r}, which names no output", "write node/output"
        elif node not in names and not within:
            problem = f"source node `{node}` mapped to input `{target}` does not exist"
            remedy = near(node, names) or f"there are: {', '.join(sorted(names)) or 'none'}"
        else:
            problem = f"output `{source}` mapped to input `{target}` does not exist"
            own = within or sorted(address for address in self._known if address.startswith(f"{node}/"))
            remedy = near(source, own) or f"there are: {', '.join(own) or 'none'}"
        self._noted.wrong(one.source, problem, remedy)


def _target(operator: WrittenOperator, one: WrittenInput) -> str:
    """What errors call an input."""
    return f"{operator.path}/{one.id}"


def _check_circles(operators: Mapping[str, EventOperator], written: Mapping[str, WrittenOperator], noted: Noted) -> None:
    """Remark on operators that read each other: each message may lead to another one at once."""
    made = {operator.address(output): path for path, operator in operators.items() for output in operator.outputs}
    before = {
        path: [made[one.source] for one in operator.inputs if one.source in made and not one.delay]
        for path, operator in operators.items()
    }
    done: set[str] = set()
    for start in operators:
        while circle := _circle(before, start, done):
            done.update(circle)  # of circles that share an operator one is remarked on
            operator = operators[circle[0]]
            name = next(one.id for one in operator.inputs if made.get(one.source) == circle[-1] and not one.delay)
            at = written[f"{operator.node}/{operator.id}"]
            text = " -> ".join((*circle, circle[0]))
            noted.remark(
                next(one.source for one in at.inputs if one.id == name),
                f"operators read each other in a circle without a delay: {text}; messages go round within an event until none is "
                "sent, and an event that leads to more than a million fails the epoch",
            )


def _circle(before: Mapping[str, list[str]], start: str, done: set[str]) -> list[str] | None:
    """A circle that can be reached going back from an operator."""
    way: list[str] = []
    open_: list[list[str]] = [[start]]
    while open_:
        if not open_[-1]:
            open_.pop()
            if way:
                done.add(way.pop())
            continue
        path = open_[-1].pop()
        if path in way:
            return way[way.index(path) :][::-1]
        if path not in done:
            way.append(path)
            open_.append(list(before.get(path, ())))
    return None
