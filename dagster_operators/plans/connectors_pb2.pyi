from dagster_operators.plans import values_pb2 as _values_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Connector(_message.Message):
    __slots__ = ("files", "delta", "memory", "operator", "pipeline_source", "snapshot", "kafka", "other")
    FILES_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_SOURCE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    KAFKA_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    files: FileSource
    delta: DeltaSource
    memory: MemorySource
    operator: OperatorSource
    pipeline_source: PipelineSource
    snapshot: SnapshotSource
    kafka: KafkaSource
    other: _values_pb2.Record
    def __init__(self, files: _Optional[_Union[FileSource, _Mapping]] = ..., delta: _Optional[_Union[DeltaSource, _Mapping]] = ..., memory: _Optional[_Union[MemorySource, _Mapping]] = ..., operator: _Optional[_Union[OperatorSource, _Mapping]] = ..., pipeline_source: _Optional[_Union[PipelineSource, _Mapping]] = ..., snapshot: _Optional[_Union[SnapshotSource, _Mapping]] = ..., kafka: _Optional[_Union[KafkaSource, _Mapping]] = ..., other: _Optional[_Union[_values_pb2.Record, _Mapping]] = ...) -> None: ...

class FileSource(_message.Message):
    __slots__ = ("path", "format", "schema", "options", "max_files", "max_bytes", "max_rows", "corrupt", "left_out", "key", "unknown", "order_by", "missing_columns")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_FILES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_ROWS_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    MISSING_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    path: str
    format: str
    schema: str
    options: _values_pb2.Value
    max_files: int
    max_bytes: int
    max_rows: int
    corrupt: str
    left_out: _containers.RepeatedScalarFieldContainer[str]
    key: _values_pb2.Value
    unknown: str
    order_by: str
    missing_columns: str
    def __init__(self, path: _Optional[str] = ..., format: _Optional[str] = ..., schema: _Optional[str] = ..., options: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., max_files: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_rows: _Optional[int] = ..., corrupt: _Optional[str] = ..., left_out: _Optional[_Iterable[str]] = ..., key: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., unknown: _Optional[str] = ..., order_by: _Optional[str] = ..., missing_columns: _Optional[str] = ...) -> None: ...

class DeltaSource(_message.Message):
    __slots__ = ("path", "changes", "starting_version", "max_versions", "left_out")
    PATH_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    STARTING_VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    path: str
    changes: bool
    starting_version: int
    max_versions: int
    left_out: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, path: _Optional[str] = ..., changes: _Optional[bool] = ..., starting_version: _Optional[int] = ..., max_versions: _Optional[int] = ..., left_out: _Optional[_Iterable[str]] = ...) -> None: ...

class MemorySource(_message.Message):
    __slots__ = ("batches", "schema", "left_out")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    batches: _values_pb2.Value
    schema: str
    left_out: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, batches: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., schema: _Optional[str] = ..., left_out: _Optional[_Iterable[str]] = ...) -> None: ...

class OperatorSource(_message.Message):
    __slots__ = ("operator",)
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    operator: _values_pb2.Code
    def __init__(self, operator: _Optional[_Union[_values_pb2.Code, _Mapping]] = ...) -> None: ...

class SnapshotSource(_message.Message):
    __slots__ = ("source", "key", "max_deleted")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_DELETED_FIELD_NUMBER: _ClassVar[int]
    source: Connector
    key: _values_pb2.Names
    max_deleted: float
    def __init__(self, source: _Optional[_Union[Connector, _Mapping]] = ..., key: _Optional[_Union[_values_pb2.Names, _Mapping]] = ..., max_deleted: _Optional[float] = ...) -> None: ...

class KafkaSource(_message.Message):
    __slots__ = ("servers", "topic", "format", "schema", "start", "max_records", "corrupt", "key", "unknown", "timeout", "left_out", "idle_after", "order_by")
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    MAX_RECORDS_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    IDLE_AFTER_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    servers: str
    topic: str
    format: str
    schema: str
    start: str
    max_records: int
    corrupt: str
    key: _values_pb2.Value
    unknown: str
    timeout: float
    left_out: _containers.RepeatedScalarFieldContainer[str]
    idle_after: str
    order_by: str
    def __init__(self, servers: _Optional[str] = ..., topic: _Optional[str] = ..., format: _Optional[str] = ..., schema: _Optional[str] = ..., start: _Optional[str] = ..., max_records: _Optional[int] = ..., corrupt: _Optional[str] = ..., key: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., unknown: _Optional[str] = ..., timeout: _Optional[float] = ..., left_out: _Optional[_Iterable[str]] = ..., idle_after: _Optional[str] = ..., order_by: _Optional[str] = ...) -> None: ...

class Target(_message.Message):
    __slots__ = ("postgres", "object", "file_sink", "kafka_sink", "other")
    POSTGRES_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    FILE_SINK_FIELD_NUMBER: _ClassVar[int]
    KAFKA_SINK_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    postgres: PostgresSink
    object: _values_pb2.ObjectReference
    file_sink: FileSink
    kafka_sink: KafkaSink
    other: _values_pb2.Record
    def __init__(self, postgres: _Optional[_Union[PostgresSink, _Mapping]] = ..., object: _Optional[_Union[_values_pb2.ObjectReference, _Mapping]] = ..., file_sink: _Optional[_Union[FileSink, _Mapping]] = ..., kafka_sink: _Optional[_Union[KafkaSink, _Mapping]] = ..., other: _Optional[_Union[_values_pb2.Record, _Mapping]] = ...) -> None: ...

class PipelineSource(_message.Message):
    __slots__ = ("root", "tables", "changes", "max_epochs", "pipeline", "left_out")
    ROOT_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    MAX_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    root: str
    tables: _containers.RepeatedScalarFieldContainer[str]
    changes: bool
    max_epochs: int
    pipeline: str
    left_out: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, root: _Optional[str] = ..., tables: _Optional[_Iterable[str]] = ..., changes: _Optional[bool] = ..., max_epochs: _Optional[int] = ..., pipeline: _Optional[str] = ..., left_out: _Optional[_Iterable[str]] = ...) -> None: ...

class PostgresSink(_message.Message):
    __slots__ = ("dsn", "table", "columns", "mode", "key", "book", "connect_timeout", "lock_timeout", "left_out")
    DSN_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    BOOK_FIELD_NUMBER: _ClassVar[int]
    CONNECT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    LOCK_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    dsn: _values_pb2.Value
    table: str
    columns: _values_pb2.Value
    mode: str
    key: _values_pb2.Names
    book: str
    connect_timeout: int
    lock_timeout: float
    left_out: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, dsn: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., table: _Optional[str] = ..., columns: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., mode: _Optional[str] = ..., key: _Optional[_Union[_values_pb2.Names, _Mapping]] = ..., book: _Optional[str] = ..., connect_timeout: _Optional[int] = ..., lock_timeout: _Optional[float] = ..., left_out: _Optional[_Iterable[str]] = ...) -> None: ...

class KafkaSink(_message.Message):
    __slots__ = ("servers", "topic", "format", "key", "book", "timeout", "transaction_timeout", "left_out")
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    BOOK_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    servers: str
    topic: str
    format: str
    key: _values_pb2.Names
    book: str
    timeout: float
    transaction_timeout: float
    left_out: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, servers: _Optional[str] = ..., topic: _Optional[str] = ..., format: _Optional[str] = ..., key: _Optional[_Union[_values_pb2.Names, _Mapping]] = ..., book: _Optional[str] = ..., timeout: _Optional[float] = ..., transaction_timeout: _Optional[float] = ..., left_out: _Optional[_Iterable[str]] = ...) -> None: ...

class FileSink(_message.Message):
    __slots__ = ("path", "format", "key")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    path: str
    format: str
    key: _values_pb2.Names
    def __init__(self, path: _Optional[str] = ..., format: _Optional[str] = ..., key: _Optional[_Union[_values_pb2.Names, _Mapping]] = ...) -> None: ...
