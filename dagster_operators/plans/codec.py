"""A logical plan as bytes, and back: the contract is plan.proto. Equal plans have equal bytes."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from dagster_operators.catalog.loading import catalog
from dagster_operators.catalog.registration import Registration, loaded
from dagster_operators.errors import OperatorsError, PlanError
from dagster_operators.functions.references import Reference
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.outputs import Check, Table
from dagster_operators.graph.ports import StreamRef
from dagster_operators.plans import plan_pb2, values_pb2
from dagster_operators.plans.logical_plan import LogicalPlan, PlanLoop, PlanNode, PlanSink
from dagster_operators.plans.messages import parse, read_settings, write_settings
from dagster_operators.plans.unknown import UnknownOperator, UnknownSink

if TYPE_CHECKING:
    from google.protobuf.message import Message

FORMAT: Final = 1
"""The version of the contract that this package writes, and the newest it reads."""

_MOST_BYTES: Final = 256 << 20
"""So large may a plan be when it is unpacked; a few megabytes would else fill the memory."""

_COMPRESSED: Final = b"\x78"
"""What compressed bytes begin with; a plan begins with the number of its field for the format."""


def to_bytes(plan: LogicalPlan) -> bytes:
    """The plan in Protocol Buffers.

    Raises:
        PlanError: Something in it cannot be written.
    """
    message = plan_pb2.Plan(format=FORMAT, pipeline=plan.pipeline)
    for package, version in sorted(plan.packages.items()):
        message.packages.add(name=package, version=version)
    for node in plan.nodes:
        _write_node(message.nodes.add(), node)
    for stream, name in plan.side_streams:
        message.side_streams.add(stream=_stream(stream), name=name)
    for table in plan.tables:
        _write_table(message.tables.add(), table)
    for sink in plan.sinks:
        _write_sink(message.sinks.add(), sink)
    for loop in plan.loops:
        written_loop = message.loops.add(
            name=loop.name, limit=loop.limit, within_subtask=loop.within_subtask, parent=loop.parent, ends=loop.ends
        )
        for variable, stream in loop.feedback:
            written_loop.feedback.add(variable=variable, stream=_stream(stream))
    for name, reference in sorted(plan.functions.items()):
        function = message.functions.add(name=name)
        write_settings(function.reference, reference.encode())
    message.automatic.extend(sorted(plan.automatic))
    for name, before in sorted(plan.renamed.items()):
        message.renamed.add(name=name, value=before)
    return message.SerializeToString(deterministic=True)


def from_bytes(data: bytes, *, to_run: bool = True) -> LogicalPlan:
    """The plan that ``to_bytes`` wrote, compressed or not. Nothing of the user's is imported or run.

    Args:
        data: What was written.
        to_run: Whether a pipeline is to be made of it. If not, operators and sinks that no installed package knows are
            an :class:`UnknownOperator` or :class:`UnknownSink`, which can be shown and compared.

    Raises:
        PlanError: The bytes are no plan, of a newer format, or hold an operator or a field that no installed package knows.
    """
    data = unpacked(data)
    _check_format(data)
    message = parse(plan_pb2.Plan, data, "the plan")
    packages = {package.name: package.version for package in message.packages}
    plan = LogicalPlan(
        message.pipeline,
        tuple(_read_node(node, packages, to_run=to_run) for node in message.nodes),
        tuple((_ref(side.stream), side.name) for side in message.side_streams),
        tuple(map(_read_table, message.tables)),
        tuple(_read_sink(sink, to_run=to_run) for sink in message.sinks),
        {function.name: Reference.decode(read_settings(function.reference)) for function in message.functions},
        packages,
        tuple(
            PlanLoop(
                loop.name,
                loop.limit,
                tuple((back.variable, _ref(back.stream)) for back in loop.feedback),
                loop.within_subtask,
                loop.parent,
                loop.ends,
            )
            for loop in message.loops
        ),
        frozenset(message.automatic),
        {pair.name: pair.value for pair in message.renamed},
    )
    plan.check_streams()
    return plan


def packed(data: bytes) -> bytes:
    """A plan's bytes compressed, as storage roots keep them."""
    return zlib.compress(data)


def unpacked(data: bytes) -> bytes:
    """A plan's bytes, which may be compressed.

    >>> unpacked(packed(b"plan")), unpacked(b"plan")
    (b'plan', b'plan')
    """
    if not data.startswith(_COMPRESSED):
        return data
    unpacking = zlib.decompressobj()
    try:
        whole = unpacking.decompress(data, _MOST_BYTES)
    except zlib.error as error:
        raise PlanError(f"the plan is damaged: {error}", remedy="take another copy of it") from None
    if unpacking.unconsumed_tail:
        raise PlanError(
            f"the plan unpacks to more than {_MOST_BYTES >> 20} MB",
            remedy="trust it not; if it is yours, keep its rows in files: a MemorySource keeps them in the plan",
        )
    if not unpacking.eof:
        raise PlanError("the plan is damaged: its end is missing", remedy="take another copy of it")
    return whole


def _check_format(data: bytes) -> None:
    """Look at the format before anything else: a newer one may have fields that are not known here."""
    message = plan_pb2.Plan()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise PlanError(f"this is no plan: {error}", remedy="give the bytes as to_plan() made them") from None
    if message.format == 0:
        raise PlanError("this is no plan: it says no format", remedy="give the bytes as to_plan() made them")
    if message.format > FORMAT:
        written = next((package.version for package in message.packages if package.name == "dagster_operators"), "")
        raise PlanError(
            f"the plan has the format {message.format}, and this version reads up to {FORMAT}", pipeline=message.pipeline,
            remedy=f"upgrade dagster_operators, to {written} or newer" if written else "upgrade dagster_operators",
        )  # fmt: skip


def _write_node(message: plan_pb2.Node, node: PlanNode) -> None:
    operator = node.operator
    settings = {name: value for name, value in operator.encode().items() if name not in ("name", "chain")}
    message.name, message.kind, message.package, message.chain = operator.name, operator.kind, node.package, operator.chain
    message.inputs.extend(map(_stream, node.inputs))
    if isinstance(operator, UnknownOperator):
        message.settings = operator.data
        return
    registration = catalog().operator(operator.kind)
    body = _message_class(registration)()
    try:
        write_settings(body, settings)
    except OperatorsError as error:
        raise error.at(operator=operator.name, kind=operator.kind) from None
    message.settings = body.SerializeToString(deterministic=True)


def _message_class(registration: Registration | None) -> type[Message]:
    """The class of the message for a kind's settings."""
    found: type[Message] = loaded(registration.message) if registration and registration.message else values_pb2.Settings
    return found


def _read_node(message: plan_pb2.Node, packages: dict[str, str], *, to_run: bool) -> PlanNode:
    version = packages.get(message.package, "")
    needed = f"{message.package} {version}".strip()
    try:
        operator = _read_operator(message, needed)
    except OperatorsError as error:
        if to_run:
            raise
        operator = UnknownOperator(
            name=message.name, chain=message.chain, kind=message.kind, package=message.package, data=message.settings,
            problem=error.problem, needed=needed,
        )  # fmt: skip
    return PlanNode(operator, tuple(map(_ref, message.inputs)), message.package)


def _read_operator(message: plan_pb2.Node, needed: str) -> LogicalOperator:
    registration = catalog().operator(message.kind)
    if registration is None:
        raise PlanError(
            f"the plan has an operator of the kind {message.kind!r}, which no installed package knows", operator=message.name,
            kind=message.kind, package=message.package, remedy=f"install {needed}",
        )  # fmt: skip
    where = {"operator": message.name, "kind": message.kind, "package": message.package}
    try:
        body = parse(_message_class(registration), message.settings, f"the operator {message.name!r}")
        operator: LogicalOperator = registration.operator.decode(
            {"name": message.name, "chain": message.chain, **read_settings(body)}
        )
    except OperatorsError as error:
        raise type(error)(error.problem, remedy=f"install {needed}, or a newer version", **{**where, **error.where}) from None
    return operator


def _write_table(message: plan_pb2.Table, table: Table) -> None:
    message.name, message.description = table.name, table.description
    message.stream.CopyFrom(_stream(table.stream))
    for name, check in table.checks.items():
        message.checks.add(name=name, expression=check.expression, blocking=check.blocking)
    for tag, value in table.tags.items():
        message.tags.add(name=tag, value=value)
    message.owners.extend(table.owners)
    for column, said in table.columns.items():
        message.columns.add(name=column, value=said)
    message.asset_key.extend(table.asset_key)
    message.change_feed = table.change_feed
    message.partition_by.extend(table.partition_by)
    message.renamed_from = table.renamed_from
    message.cluster_by.extend(table.cluster_by)
    message.target_file_size = table.target_file_size
    message.replaced = table.replaced


def _read_table(message: plan_pb2.Table) -> Table:
    checks = {check.name: Check(check.expression, check.blocking) for check in message.checks}
    tags = {tag.name: tag.value for tag in message.tags}
    columns, key = {column.name: column.value for column in message.columns}, tuple(message.asset_key)
    return Table(
        message.name, _ref(message.stream), message.description, checks, tags, tuple(message.owners), columns, key,
        message.change_feed, tuple(message.partition_by), message.renamed_from, tuple(message.cluster_by),
        message.target_file_size, message.replaced,
    )  # fmt: skip


def _write_sink(message: plan_pb2.Sink, sink: PlanSink) -> None:
    message.name, message.description = sink.name, sink.description
    message.asset_key.extend(sink.asset_key)
    message.stream.CopyFrom(_stream(sink.stream))
    if isinstance(sink.sink, UnknownSink):
        message.target.ParseFromString(sink.sink.data)
    else:
        write_settings(message, {"target": sink.sink})


def _read_sink(message: plan_pb2.Sink, *, to_run: bool) -> PlanSink:
    try:
        target = read_settings(message)["target"]
    except OperatorsError as error:
        if to_run:
            raise error.at(sink=message.name) from None
        kind = message.target.other.kind if message.target.HasField("other") else str(message.target.WhichOneof("kind"))
        target = UnknownSink(kind, message.target.SerializeToString(deterministic=True))
    return PlanSink(message.name, _ref(message.stream), target, message.description, tuple(message.asset_key))


def _stream(stream: StreamRef) -> plan_pb2.Stream:
    return plan_pb2.Stream(operator=stream.operator, port=stream.port)


def _ref(message: plan_pb2.Stream) -> StreamRef:
    return StreamRef(message.operator, message.port)
