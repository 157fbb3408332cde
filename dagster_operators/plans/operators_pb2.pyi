from dagster_operators.plans import connectors_pb2 as _connectors_pb2
from dagster_operators.plans import values_pb2 as _values_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Windows(_message.Message):
    __slots__ = ("window", "session", "input_window", "other")
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    INPUT_WINDOW_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    window: Window
    session: Session
    input_window: InputWindow
    other: _values_pb2.Record
    def __init__(self, window: _Optional[_Union[Window, _Mapping]] = ..., session: _Optional[_Union[Session, _Mapping]] = ..., input_window: _Optional[_Union[InputWindow, _Mapping]] = ..., other: _Optional[_Union[_values_pb2.Record, _Mapping]] = ...) -> None: ...

class Window(_message.Message):
    __slots__ = ("size", "slide", "offset")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SLIDE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    size: int
    slide: int
    offset: int
    def __init__(self, size: _Optional[int] = ..., slide: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class Session(_message.Message):
    __slots__ = ("gap",)
    GAP_FIELD_NUMBER: _ClassVar[int]
    gap: int
    def __init__(self, gap: _Optional[int] = ...) -> None: ...

class InputWindow(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Source(_message.Message):
    __slots__ = ("connector", "event_time", "lateness", "finished", "asset_key", "ahead")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    LATENESS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    ASSET_KEY_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    connector: _connectors_pb2.Connector
    event_time: str
    lateness: int
    finished: bool
    asset_key: _containers.RepeatedScalarFieldContainer[str]
    ahead: int
    def __init__(self, connector: _Optional[_Union[_connectors_pb2.Connector, _Mapping]] = ..., event_time: _Optional[str] = ..., lateness: _Optional[int] = ..., finished: _Optional[bool] = ..., asset_key: _Optional[_Iterable[str]] = ..., ahead: _Optional[int] = ...) -> None: ...

class Filter(_message.Message):
    __slots__ = ("condition",)
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    condition: str
    def __init__(self, condition: _Optional[str] = ...) -> None: ...

class Select(_message.Message):
    __slots__ = ("expressions",)
    EXPRESSIONS_FIELD_NUMBER: _ClassVar[int]
    expressions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, expressions: _Optional[_Iterable[str]] = ...) -> None: ...

class WithColumns(_message.Message):
    __slots__ = ("expressions", "only_new")
    EXPRESSIONS_FIELD_NUMBER: _ClassVar[int]
    ONLY_NEW_FIELD_NUMBER: _ClassVar[int]
    expressions: _containers.RepeatedCompositeFieldContainer[_values_pb2.Pair]
    only_new: bool
    def __init__(self, expressions: _Optional[_Iterable[_Union[_values_pb2.Pair, _Mapping]]] = ..., only_new: _Optional[bool] = ...) -> None: ...

class Rename(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedCompositeFieldContainer[_values_pb2.Pair]
    def __init__(self, names: _Optional[_Iterable[_Union[_values_pb2.Pair, _Mapping]]] = ...) -> None: ...

class Drop(_message.Message):
    __slots__ = ("columns",)
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, columns: _Optional[_Iterable[str]] = ...) -> None: ...

class FlatMap(_message.Message):
    __slots__ = ("call", "outer")
    CALL_FIELD_NUMBER: _ClassVar[int]
    OUTER_FIELD_NUMBER: _ClassVar[int]
    call: str
    outer: bool
    def __init__(self, call: _Optional[str] = ..., outer: _Optional[bool] = ...) -> None: ...

class MapAsync(_message.Message):
    __slots__ = ("call",)
    CALL_FIELD_NUMBER: _ClassVar[int]
    call: str
    def __init__(self, call: _Optional[str] = ...) -> None: ...

class Transform(_message.Message):
    __slots__ = ("function", "columns")
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    function: _values_pb2.Code
    columns: _values_pb2.Names
    def __init__(self, function: _Optional[_Union[_values_pb2.Code, _Mapping]] = ..., columns: _Optional[_Union[_values_pb2.Names, _Mapping]] = ...) -> None: ...

class Union(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AsChanges(_message.Message):
    __slots__ = ("change",)
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    change: str
    def __init__(self, change: _Optional[str] = ...) -> None: ...

class ChangeEvents(_message.Message):
    __slots__ = ("column", "schema", "keys", "order")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    column: str
    schema: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    order: str
    def __init__(self, column: _Optional[str] = ..., schema: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., order: _Optional[str] = ...) -> None: ...

class ToChanges(_message.Message):
    __slots__ = ("keys", "order", "deleted", "unknown", "max_deleted")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    MAX_DELETED_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    order: str
    deleted: str
    unknown: str
    max_deleted: float
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., order: _Optional[str] = ..., deleted: _Optional[str] = ..., unknown: _Optional[str] = ..., max_deleted: _Optional[float] = ...) -> None: ...

class Latest(_message.Message):
    __slots__ = ("keys", "remembers")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    REMEMBERS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    remembers: bool
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., remembers: _Optional[bool] = ...) -> None: ...

class DeduplicateFirst(_message.Message):
    __slots__ = ("keys", "event_time", "within")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    event_time: str
    within: int
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., event_time: _Optional[str] = ..., within: _Optional[int] = ...) -> None: ...

class DeduplicateLast(_message.Message):
    __slots__ = ("keys", "event_time")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    event_time: str
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., event_time: _Optional[str] = ...) -> None: ...

class DeduplicateChanges(_message.Message):
    __slots__ = ("keys", "keep", "order_by", "event_time", "forget_after")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    FORGET_AFTER_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    keep: str
    order_by: _containers.RepeatedScalarFieldContainer[str]
    event_time: str
    forget_after: int
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., keep: _Optional[str] = ..., order_by: _Optional[_Iterable[str]] = ..., event_time: _Optional[str] = ..., forget_after: _Optional[int] = ...) -> None: ...

class TopPerKey(_message.Message):
    __slots__ = ("keys", "n", "by", "event_time", "rank", "forget_after")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    FORGET_AFTER_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    n: int
    by: _containers.RepeatedScalarFieldContainer[str]
    event_time: str
    rank: str
    forget_after: int
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., n: _Optional[int] = ..., by: _Optional[_Iterable[str]] = ..., event_time: _Optional[str] = ..., rank: _Optional[str] = ..., forget_after: _Optional[int] = ...) -> None: ...

class Over(_message.Message):
    __slots__ = ("keys", "order_by", "functions", "frame", "event_time", "forget_after")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    FORGET_AFTER_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    order_by: _containers.RepeatedScalarFieldContainer[str]
    functions: _containers.RepeatedCompositeFieldContainer[_values_pb2.Pair]
    frame: str
    event_time: str
    forget_after: int
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., order_by: _Optional[_Iterable[str]] = ..., functions: _Optional[_Iterable[_Union[_values_pb2.Pair, _Mapping]]] = ..., frame: _Optional[str] = ..., event_time: _Optional[str] = ..., forget_after: _Optional[int] = ...) -> None: ...

class FinalRows(_message.Message):
    __slots__ = ("event_time",)
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    event_time: str
    def __init__(self, event_time: _Optional[str] = ...) -> None: ...

class WithinLast(_message.Message):
    __slots__ = ("event_time", "age")
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    event_time: str
    age: int
    def __init__(self, event_time: _Optional[str] = ..., age: _Optional[int] = ...) -> None: ...

class KeyedAggregate(_message.Message):
    __slots__ = ("keys", "event_time", "aggregates", "forget_after")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    AGGREGATES_FIELD_NUMBER: _ClassVar[int]
    FORGET_AFTER_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    event_time: str
    aggregates: _containers.RepeatedCompositeFieldContainer[_values_pb2.Pair]
    forget_after: int
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., event_time: _Optional[str] = ..., aggregates: _Optional[_Iterable[_Union[_values_pb2.Pair, _Mapping]]] = ..., forget_after: _Optional[int] = ...) -> None: ...

class WindowAggregate(_message.Message):
    __slots__ = ("keys", "event_time", "aggregates", "window")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    AGGREGATES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    event_time: str
    aggregates: _containers.RepeatedCompositeFieldContainer[_values_pb2.Pair]
    window: Windows
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., event_time: _Optional[str] = ..., aggregates: _Optional[_Iterable[_Union[_values_pb2.Pair, _Mapping]]] = ..., window: _Optional[_Union[Windows, _Mapping]] = ...) -> None: ...

class WindowAggregateChanges(_message.Message):
    __slots__ = ("keys", "event_time", "aggregates", "window")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    AGGREGATES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    event_time: str
    aggregates: _containers.RepeatedCompositeFieldContainer[_values_pb2.Pair]
    window: Windows
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., event_time: _Optional[str] = ..., aggregates: _Optional[_Iterable[_Union[_values_pb2.Pair, _Mapping]]] = ..., window: _Optional[_Union[Windows, _Mapping]] = ...) -> None: ...

class FinalWindowAggregate(_message.Message):
    __slots__ = ("keys", "event_time", "aggregates", "window")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    AGGREGATES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    event_time: str
    aggregates: _containers.RepeatedCompositeFieldContainer[_values_pb2.Pair]
    window: Windows
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., event_time: _Optional[str] = ..., aggregates: _Optional[_Iterable[_Union[_values_pb2.Pair, _Mapping]]] = ..., window: _Optional[_Union[Windows, _Mapping]] = ...) -> None: ...

class FinalSessionAggregate(_message.Message):
    __slots__ = ("keys", "event_time", "aggregates", "window")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    AGGREGATES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    event_time: str
    aggregates: _containers.RepeatedCompositeFieldContainer[_values_pb2.Pair]
    window: Windows
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., event_time: _Optional[str] = ..., aggregates: _Optional[_Iterable[_Union[_values_pb2.Pair, _Mapping]]] = ..., window: _Optional[_Union[Windows, _Mapping]] = ...) -> None: ...

class SessionAggregate(_message.Message):
    __slots__ = ("keys", "event_time", "aggregates", "window")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    AGGREGATES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    event_time: str
    aggregates: _containers.RepeatedCompositeFieldContainer[_values_pb2.Pair]
    window: Windows
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., event_time: _Optional[str] = ..., aggregates: _Optional[_Iterable[_Union[_values_pb2.Pair, _Mapping]]] = ..., window: _Optional[_Union[Windows, _Mapping]] = ...) -> None: ...

class SessionAggregateChanges(_message.Message):
    __slots__ = ("keys", "event_time", "aggregates", "window")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    AGGREGATES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    event_time: str
    aggregates: _containers.RepeatedCompositeFieldContainer[_values_pb2.Pair]
    window: Windows
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., event_time: _Optional[str] = ..., aggregates: _Optional[_Iterable[_Union[_values_pb2.Pair, _Mapping]]] = ..., window: _Optional[_Union[Windows, _Mapping]] = ...) -> None: ...

class InputWindowAggregate(_message.Message):
    __slots__ = ("keys", "event_time", "aggregates", "window")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    AGGREGATES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    event_time: str
    aggregates: _containers.RepeatedCompositeFieldContainer[_values_pb2.Pair]
    window: Windows
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., event_time: _Optional[str] = ..., aggregates: _Optional[_Iterable[_Union[_values_pb2.Pair, _Mapping]]] = ..., window: _Optional[_Union[Windows, _Mapping]] = ...) -> None: ...

class TopPerWindow(_message.Message):
    __slots__ = ("keys", "window", "event_time", "n", "by", "rank", "ties")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    TIES_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    window: Windows
    event_time: str
    n: int
    by: _containers.RepeatedScalarFieldContainer[str]
    rank: str
    ties: bool
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., window: _Optional[_Union[Windows, _Mapping]] = ..., event_time: _Optional[str] = ..., n: _Optional[int] = ..., by: _Optional[_Iterable[str]] = ..., rank: _Optional[str] = ..., ties: _Optional[bool] = ...) -> None: ...

class FinalTopPerWindow(_message.Message):
    __slots__ = ("keys", "window", "event_time", "n", "by", "rank", "ties")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    TIES_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    window: Windows
    event_time: str
    n: int
    by: _containers.RepeatedScalarFieldContainer[str]
    rank: str
    ties: bool
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., window: _Optional[_Union[Windows, _Mapping]] = ..., event_time: _Optional[str] = ..., n: _Optional[int] = ..., by: _Optional[_Iterable[str]] = ..., rank: _Optional[str] = ..., ties: _Optional[bool] = ...) -> None: ...

class WindowJoin(_message.Message):
    __slots__ = ("keys", "right_keys", "window", "event_times", "how", "columns")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    RIGHT_KEYS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIMES_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    right_keys: _containers.RepeatedScalarFieldContainer[str]
    window: Windows
    event_times: _containers.RepeatedScalarFieldContainer[str]
    how: str
    columns: _values_pb2.Names
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., right_keys: _Optional[_Iterable[str]] = ..., window: _Optional[_Union[Windows, _Mapping]] = ..., event_times: _Optional[_Iterable[str]] = ..., how: _Optional[str] = ..., columns: _Optional[_Union[_values_pb2.Names, _Mapping]] = ...) -> None: ...

class IntervalJoin(_message.Message):
    __slots__ = ("keys", "right_keys", "event_times", "low", "high", "how", "columns")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    RIGHT_KEYS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIMES_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    right_keys: _containers.RepeatedScalarFieldContainer[str]
    event_times: _containers.RepeatedScalarFieldContainer[str]
    low: int
    high: int
    how: str
    columns: _values_pb2.Names
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., right_keys: _Optional[_Iterable[str]] = ..., event_times: _Optional[_Iterable[str]] = ..., low: _Optional[int] = ..., high: _Optional[int] = ..., how: _Optional[str] = ..., columns: _Optional[_Union[_values_pb2.Names, _Mapping]] = ...) -> None: ...

class Join(_message.Message):
    __slots__ = ("keys", "right_keys", "how", "condition", "columns", "event_times", "forget_after")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    RIGHT_KEYS_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIMES_FIELD_NUMBER: _ClassVar[int]
    FORGET_AFTER_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    right_keys: _containers.RepeatedScalarFieldContainer[str]
    how: str
    condition: str
    columns: _values_pb2.Names
    event_times: _containers.RepeatedScalarFieldContainer[str]
    forget_after: int
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., right_keys: _Optional[_Iterable[str]] = ..., how: _Optional[str] = ..., condition: _Optional[str] = ..., columns: _Optional[_Union[_values_pb2.Names, _Mapping]] = ..., event_times: _Optional[_Iterable[str]] = ..., forget_after: _Optional[int] = ...) -> None: ...

class AsOfJoin(_message.Message):
    __slots__ = ("keys", "right_keys", "event_times", "how", "corrections", "keep", "columns")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    RIGHT_KEYS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIMES_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    CORRECTIONS_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    right_keys: _containers.RepeatedScalarFieldContainer[str]
    event_times: _containers.RepeatedScalarFieldContainer[str]
    how: str
    corrections: bool
    keep: int
    columns: _values_pb2.Names
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., right_keys: _Optional[_Iterable[str]] = ..., event_times: _Optional[_Iterable[str]] = ..., how: _Optional[str] = ..., corrections: _Optional[bool] = ..., keep: _Optional[int] = ..., columns: _Optional[_Union[_values_pb2.Names, _Mapping]] = ...) -> None: ...

class Lookup(_message.Message):
    __slots__ = ("connector", "on", "columns", "how", "asset_key")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    ON_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    ASSET_KEY_FIELD_NUMBER: _ClassVar[int]
    connector: _connectors_pb2.Connector
    on: _containers.RepeatedCompositeFieldContainer[_values_pb2.Pair]
    columns: _values_pb2.Names
    how: str
    asset_key: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, connector: _Optional[_Union[_connectors_pb2.Connector, _Mapping]] = ..., on: _Optional[_Iterable[_Union[_values_pb2.Pair, _Mapping]]] = ..., columns: _Optional[_Union[_values_pb2.Names, _Mapping]] = ..., how: _Optional[str] = ..., asset_key: _Optional[_Iterable[str]] = ...) -> None: ...

class Enter(_message.Message):
    __slots__ = ("scope",)
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    scope: str
    def __init__(self, scope: _Optional[str] = ...) -> None: ...

class LoopVariable(_message.Message):
    __slots__ = ("scope", "schema", "retracting")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    RETRACTING_FIELD_NUMBER: _ClassVar[int]
    scope: str
    schema: str
    retracting: bool
    def __init__(self, scope: _Optional[str] = ..., schema: _Optional[str] = ..., retracting: _Optional[bool] = ...) -> None: ...

class Leave(_message.Message):
    __slots__ = ("scope",)
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    scope: str
    def __init__(self, scope: _Optional[str] = ...) -> None: ...

class Apply(_message.Message):
    __slots__ = ("arrow", "keys")
    ARROW_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    arrow: _values_pb2.Code
    keys: _containers.RepeatedCompositeFieldContainer[_values_pb2.Names]
    def __init__(self, arrow: _Optional[_Union[_values_pb2.Code, _Mapping]] = ..., keys: _Optional[_Iterable[_Union[_values_pb2.Names, _Mapping]]] = ...) -> None: ...

class EventOperators(_message.Message):
    __slots__ = ("sources", "operators", "files", "descriptor", "partition_by", "order", "closes")
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    OPERATORS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    PARTITION_BY_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    CLOSES_FIELD_NUMBER: _ClassVar[int]
    sources: _containers.RepeatedCompositeFieldContainer[_values_pb2.Value]
    operators: _containers.RepeatedCompositeFieldContainer[_values_pb2.Value]
    files: _containers.RepeatedCompositeFieldContainer[_values_pb2.Pair]
    descriptor: str
    partition_by: str
    order: str
    closes: str
    def __init__(self, sources: _Optional[_Iterable[_Union[_values_pb2.Value, _Mapping]]] = ..., operators: _Optional[_Iterable[_Union[_values_pb2.Value, _Mapping]]] = ..., files: _Optional[_Iterable[_Union[_values_pb2.Pair, _Mapping]]] = ..., descriptor: _Optional[str] = ..., partition_by: _Optional[str] = ..., order: _Optional[str] = ..., closes: _Optional[str] = ...) -> None: ...

class Frontier(_message.Message):
    __slots__ = ("definition",)
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    definition: _values_pb2.Code
    def __init__(self, definition: _Optional[_Union[_values_pb2.Code, _Mapping]] = ...) -> None: ...

class Upsert(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keys: _Optional[_Iterable[str]] = ...) -> None: ...

class WholeTable(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DataSets(_message.Message):
    __slots__ = ("program",)
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    program: _values_pb2.Code
    def __init__(self, program: _Optional[_Union[_values_pb2.Code, _Mapping]] = ...) -> None: ...

class DataSetsWithState(_message.Message):
    __slots__ = ("program",)
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    program: _values_pb2.Code
    def __init__(self, program: _Optional[_Union[_values_pb2.Code, _Mapping]] = ...) -> None: ...

class GroupsOverEpochs(_message.Message):
    __slots__ = ("merge", "keys")
    MERGE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    merge: _values_pb2.Code
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, merge: _Optional[_Union[_values_pb2.Code, _Mapping]] = ..., keys: _Optional[_Iterable[str]] = ...) -> None: ...
