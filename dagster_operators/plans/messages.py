"""Settings to Protocol Buffers messages and back, by the messages' own descriptors.

The fields of a message are named as the settings. What a setting holds decides how it is written:

- an object of a registered kind: a message with a oneof ``kind`` that has a field of that name, or ``other``, a ``Record``;
- a tuple: a repeated field, a message with nothing but a repeated field, or a message whose fields are taken in order;
- anything: a ``Value``;
- None: a field that is not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from dagster_operators.catalog.loading import catalog
from dagster_operators.errors import PlanError
from dagster_operators.graph.values import Encodable, Fields
from dagster_operators.plans import values_pb2

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_SCALARS: Final = {bool: "truth", int: "integer", float: "number", str: "text", bytes: "data"}
_VALUE: Final = values_pb2.Value.DESCRIPTOR.full_name
_RECORD: Final = values_pb2.Record.DESCRIPTOR.full_name


# --- writing ---------------------------------------------------------------------------------------------------------


def write_settings(message: Message, settings: Fields) -> None:
    """Put settings into a message.

    Raises:
        PlanError: The message has no field for a setting, or a value does not fit it.
    """
    known = message.DESCRIPTOR.fields_by_name
    for name in sorted(settings):
        try:
            if isinstance(message, values_pb2.Settings):
                _write_field(message.fields.add(), name, settings[name])
            elif name in known:
                _write(message, known[name], settings[name])
            else:
                raise PlanError(
                    f"the message {message.DESCRIPTOR.full_name} has no field {name!r}", field=name, remedy="add it to the .proto"
                )
        except (TypeError, ValueError) as error:
            raise PlanError(f"the setting {name!r} cannot be written: {error}", field=name, remedy="correct its value") from None


def _write(message: Any, field: FieldDescriptor, value: Any) -> None:
    if field.is_repeated and field.message_type is not None:
        for item in value:
            _write_message(getattr(message, field.name).add(), item)
    elif field.is_repeated:
        getattr(message, field.name).extend(value)
    elif value is not None and field.message_type is not None:
        inner = getattr(message, field.name)
        inner.SetInParent()
        _write_message(inner, value)
    elif value is not None:
        setattr(message, field.name, value)
    elif not field.has_presence:
        raise TypeError("None, and the message needs a value")


def _write_message(message: Any, value: Any) -> None:
    descriptor = message.DESCRIPTOR
    if descriptor.full_name == _VALUE:
        write_value(message, value)
    elif "kind" in descriptor.oneofs_by_name:
        _write_object(message, value)
    else:
        fields = descriptor.fields
        parts = (value,) if len(fields) == 1 and fields[0].is_repeated else value
        if not isinstance(value, tuple) or len(parts) != len(fields):
            raise TypeError(f"{value!r} is no {descriptor.name}")
        for field, part in zip(fields, parts, strict=True):
            _write(message, field, part)


def _write_object(message: Any, value: Any) -> None:
    choices = {field.name: field for field in message.DESCRIPTOR.oneofs_by_name["kind"].fields}
    kind = value.kind if isinstance(value, Encodable) else None
    if kind is not None and kind in choices:
        inner = getattr(message, kind)
        inner.SetInParent()
        write_settings(inner, value.encode())
    elif kind is not None and "other" in choices:
        _write_record(message.other, value)
    else:
        raise TypeError(f"{value!r} is none of {', '.join(choices)}")


def _write_record(record: values_pb2.Record, value: Encodable) -> None:
    if catalog().value(value.kind) is None:
        raise PlanError(
            f"{value!r} is of the kind {value.kind!r}, which is not registered", kind=value.kind,
            remedy="register its class: catalog.add_value(...)",
        )  # fmt: skip
    record.kind = value.kind
    for name, part in sorted(value.encode().items()):
        _write_field(record.fields.add(), name, part)


def _write_field(field: values_pb2.Field, name: str, value: Any) -> None:
    field.name = name
    write_value(field.value, value)


def write_value(message: values_pb2.Value, value: Any) -> None:
    """Put any value into a message for values."""
    field = _SCALARS.get(type(value))
    if field == "integer" and not _SMALLEST <= value <= _LARGEST:
        message.big_integer = str(value)
    elif field is not None:
        setattr(message, field, value)
    elif isinstance(value, tuple):
        message.tuple.SetInParent()
        for item in value:
            write_value(message.tuple.items.add(), item)
    elif isinstance(value, Encodable):
        _write_record(message.record, value)
    elif value is not None:
        raise TypeError(f"{value!r} is no setting that a plan can hold")


# --- reading ---------------------------------------------------------------------------------------------------------


def parse(kind: type[Message], data: bytes, what: str, **where: Any) -> Any:
    """A message of bytes, refused if there is anything in it that its class does not know.

    Raises:
        PlanError: The bytes are none, or a field is unknown.
    """
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise PlanError(f"{what} cannot be read: {error}", **where, remedy="give the bytes as to_plan() made them") from None
    for place, number in _unknown(message):
        raise PlanError(
            f"{what} has the field {number} in {place}, which is not known here", **where, field=number,
            remedy="read it with the version of the package that wrote it, or a newer one",
        )  # fmt: skip
    return message


def _unknown(message: Any) -> Iterator[tuple[str, int]]:
    for field in UnknownFieldSet(message):
        yield message.DESCRIPTOR.full_name, field.field_number
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for inner in value if descriptor.is_repeated else (value,):
                yield from _unknown(inner)


def read_settings(message: Any) -> dict[str, Any]:
    """The settings in a message.

    Raises:
        PlanError: A kind of value is not known.
    """
    if isinstance(message, values_pb2.Settings):
        return {field.name: read_value(field.value) for field in message.fields}
    return {field.name: _read(message, field) for field in message.DESCRIPTOR.fields}


def _read(message: Any, field: FieldDescriptor) -> Any:
    value = getattr(message, field.name)
    if field.is_repeated:
        return tuple(map(_read_message, value)) if field.message_type is not None else tuple(value)
    if field.has_presence and not message.HasField(field.name):
        return None
    return _read_message(value) if field.message_type is not None else value


def _read_message(message: Any) -> Any:
    descriptor = message.DESCRIPTOR
    if descriptor.full_name == _VALUE:
        return read_value(message)
    if "kind" in descriptor.oneofs_by_name:
        return _read_object(message)
    parts = tuple(_read(message, field) for field in descriptor.fields)
    return parts[0] if len(parts) == 1 and descriptor.fields[0].is_repeated else parts


def _read_object(message: Any) -> Any:
    kind = message.WhichOneof("kind")
    if kind is None:
        raise PlanError(f"a {message.DESCRIPTOR.name} is empty", remedy="read the plan with the version that wrote it")
    inner = getattr(message, kind)
    return _read_record(inner) if inner.DESCRIPTOR.full_name == _RECORD else made(kind, read_settings(inner))


def _read_record(record: values_pb2.Record) -> Any:
    return made(record.kind, {field.name: read_value(field.value) for field in record.fields})


def made(kind: str, fields: Mapping[str, Any]) -> Any:
    """The object of a registered kind that is made of these values.

    Raises:
        PlanError: The kind is not registered, or the values do not fit it.
    """
    registered = catalog().value(kind)
    if registered is None:
        raise PlanError(
            f"there is a value of the kind {kind!r}, which no installed package knows", kind=kind,
            remedy="install the package that the plan was written with",
        )  # fmt: skip
    return registered.type.decode(fields)


def read_value(message: values_pb2.Value) -> Any:
    """The value in a message for values."""
    kind = message.WhichOneof("kind")
    match kind:
        case None:
            return None
        case "tuple":
            return tuple(map(read_value, message.tuple.items))
        case "record":
            return _read_record(message.record)
        case "big_integer":
            return int(message.big_integer)
        case _:
            return getattr(message, kind)
