from dagster_operators.plans import connectors_pb2 as _connectors_pb2
from dagster_operators.plans import values_pb2 as _values_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Plan(_message.Message):
    __slots__ = ("format", "packages", "pipeline", "nodes", "side_streams", "tables", "sinks", "functions", "loops", "automatic", "renamed")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    PACKAGES_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    SIDE_STREAMS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    LOOPS_FIELD_NUMBER: _ClassVar[int]
    AUTOMATIC_FIELD_NUMBER: _ClassVar[int]
    RENAMED_FIELD_NUMBER: _ClassVar[int]
    format: int
    packages: _containers.RepeatedCompositeFieldContainer[Package]
    pipeline: str
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    side_streams: _containers.RepeatedCompositeFieldContainer[SideStream]
    tables: _containers.RepeatedCompositeFieldContainer[Table]
    sinks: _containers.RepeatedCompositeFieldContainer[Sink]
    functions: _containers.RepeatedCompositeFieldContainer[Function]
    loops: _containers.RepeatedCompositeFieldContainer[Loop]
    automatic: _containers.RepeatedScalarFieldContainer[str]
    renamed: _containers.RepeatedCompositeFieldContainer[_values_pb2.Pair]
    def __init__(self, format: _Optional[int] = ..., packages: _Optional[_Iterable[_Union[Package, _Mapping]]] = ..., pipeline: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., side_streams: _Optional[_Iterable[_Union[SideStream, _Mapping]]] = ..., tables: _Optional[_Iterable[_Union[Table, _Mapping]]] = ..., sinks: _Optional[_Iterable[_Union[Sink, _Mapping]]] = ..., functions: _Optional[_Iterable[_Union[Function, _Mapping]]] = ..., loops: _Optional[_Iterable[_Union[Loop, _Mapping]]] = ..., automatic: _Optional[_Iterable[str]] = ..., renamed: _Optional[_Iterable[_Union[_values_pb2.Pair, _Mapping]]] = ...) -> None: ...

class Loop(_message.Message):
    __slots__ = ("name", "limit", "feedback", "within_subtask", "parent", "ends")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    FEEDBACK_FIELD_NUMBER: _ClassVar[int]
    WITHIN_SUBTASK_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    limit: int
    feedback: _containers.RepeatedCompositeFieldContainer[Feedback]
    within_subtask: bool
    parent: str
    ends: bool
    def __init__(self, name: _Optional[str] = ..., limit: _Optional[int] = ..., feedback: _Optional[_Iterable[_Union[Feedback, _Mapping]]] = ..., within_subtask: _Optional[bool] = ..., parent: _Optional[str] = ..., ends: _Optional[bool] = ...) -> None: ...

class Feedback(_message.Message):
    __slots__ = ("variable", "stream")
    VARIABLE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    variable: str
    stream: Stream
    def __init__(self, variable: _Optional[str] = ..., stream: _Optional[_Union[Stream, _Mapping]] = ...) -> None: ...

class Package(_message.Message):
    __slots__ = ("name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class Stream(_message.Message):
    __slots__ = ("operator", "port")
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    operator: str
    port: str
    def __init__(self, operator: _Optional[str] = ..., port: _Optional[str] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("name", "kind", "package", "chain", "inputs", "settings")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PACKAGE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: str
    package: str
    chain: bool
    inputs: _containers.RepeatedCompositeFieldContainer[Stream]
    settings: bytes
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., package: _Optional[str] = ..., chain: _Optional[bool] = ..., inputs: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ..., settings: _Optional[bytes] = ...) -> None: ...

class SideStream(_message.Message):
    __slots__ = ("stream", "name")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    stream: Stream
    name: str
    def __init__(self, stream: _Optional[_Union[Stream, _Mapping]] = ..., name: _Optional[str] = ...) -> None: ...

class Table(_message.Message):
    __slots__ = ("name", "stream", "description", "checks", "tags", "owners", "columns", "asset_key", "change_feed", "partition_by", "renamed_from", "cluster_by", "target_file_size", "replaced")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ASSET_KEY_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FEED_FIELD_NUMBER: _ClassVar[int]
    PARTITION_BY_FIELD_NUMBER: _ClassVar[int]
    RENAMED_FROM_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_BY_FIELD_NUMBER: _ClassVar[int]
    TARGET_FILE_SIZE_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    name: str
    stream: Stream
    description: str
    checks: _containers.RepeatedCompositeFieldContainer[Check]
    tags: _containers.RepeatedCompositeFieldContainer[_values_pb2.Pair]
    owners: _containers.RepeatedScalarFieldContainer[str]
    columns: _containers.RepeatedCompositeFieldContainer[_values_pb2.Pair]
    asset_key: _containers.RepeatedScalarFieldContainer[str]
    change_feed: bool
    partition_by: _containers.RepeatedScalarFieldContainer[str]
    renamed_from: str
    cluster_by: _containers.RepeatedScalarFieldContainer[str]
    target_file_size: int
    replaced: bool
    def __init__(self, name: _Optional[str] = ..., stream: _Optional[_Union[Stream, _Mapping]] = ..., description: _Optional[str] = ..., checks: _Optional[_Iterable[_Union[Check, _Mapping]]] = ..., tags: _Optional[_Iterable[_Union[_values_pb2.Pair, _Mapping]]] = ..., owners: _Optional[_Iterable[str]] = ..., columns: _Optional[_Iterable[_Union[_values_pb2.Pair, _Mapping]]] = ..., asset_key: _Optional[_Iterable[str]] = ..., change_feed: _Optional[bool] = ..., partition_by: _Optional[_Iterable[str]] = ..., renamed_from: _Optional[str] = ..., cluster_by: _Optional[_Iterable[str]] = ..., target_file_size: _Optional[int] = ..., replaced: _Optional[bool] = ...) -> None: ...

class Check(_message.Message):
    __slots__ = ("name", "expression", "blocking")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    BLOCKING_FIELD_NUMBER: _ClassVar[int]
    name: str
    expression: str
    blocking: bool
    def __init__(self, name: _Optional[str] = ..., expression: _Optional[str] = ..., blocking: _Optional[bool] = ...) -> None: ...

class Sink(_message.Message):
    __slots__ = ("name", "stream", "description", "target", "asset_key")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ASSET_KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    stream: Stream
    description: str
    target: _connectors_pb2.Target
    asset_key: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., stream: _Optional[_Union[Stream, _Mapping]] = ..., description: _Optional[str] = ..., target: _Optional[_Union[_connectors_pb2.Target, _Mapping]] = ..., asset_key: _Optional[_Iterable[str]] = ...) -> None: ...

class Function(_message.Message):
    __slots__ = ("name", "reference")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    reference: _values_pb2.Reference
    def __init__(self, name: _Optional[str] = ..., reference: _Optional[_Union[_values_pb2.Reference, _Mapping]] = ...) -> None: ...
