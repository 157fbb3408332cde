"""Days and moments as the text that PostgreSQL reads, in years that Python's and Arrow's text does not reach."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

_CYCLE_DAYS: Final = 146_097
_CYCLE_YEARS: Final = 400
"""The Gregorian calendar repeats itself after so many days and years."""

_DAY: Final = 86_400_000_000
_FIRST: Final = dt.date.min.toordinal() - dt.date(1970, 1, 1).toordinal()
_LAST: Final = dt.date.max.toordinal() - dt.date(1970, 1, 1).toordinal()


def is_time(kind: pa.DataType) -> bool:
    """Whether values of the type are days or moments."""
    import pyarrow.types as pt

    return bool(pt.is_date(kind) or pt.is_timestamp(kind))


def as_whole_numbers(kind: pa.DataType) -> pa.DataType:
    """The type with whole numbers in place of days and moments, at any depth.

    >>> import pyarrow as pa
    >>> as_whole_numbers(pa.list_(pa.struct({"at": pa.timestamp("us"), "day": pa.date32()})))
    ListType(list<item: struct<at: int64, day: int32>>)
    """
    import pyarrow as pa
    import pyarrow.types as pt

    if pt.is_map(kind):
        return pa.map_(as_whole_numbers(kind.key_type), as_whole_numbers(kind.item_type))
    if pt.is_struct(kind):
        return pa.struct([field.with_type(as_whole_numbers(field.type)) for field in kind])
    if pt.is_list(kind):
        return pa.list_(kind.value_field.with_type(as_whole_numbers(kind.value_type)))
    if pt.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(as_whole_numbers(kind.value_type)))
    return pa.int64() if pt.is_timestamp(kind) else pa.int32() if pt.is_date(kind) else kind


def far_times(values: pa.Array) -> pa.Array:
    """A column of days or moments as it is, or as text where one of its years has not four digits.

    >>> import pyarrow as pa
    >>> far_times(pa.array([11_000_000, None], pa.int32()).cast(pa.date32())).to_pylist()
    ['32086-12-23', None]
    >>> far_times(pa.array([0], pa.int32()).cast(pa.date32())).to_pylist()
    [datetime.date(1970, 1, 1)]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = values.cast(as_whole_numbers(values.type))
    bounds = pc.min_max(numbers)
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    day = 1 if numbers.type == pa.int32() else _DAY
    if least is None or (least >= _FIRST * day and most < (_LAST + 1) * day):
        return values
    return pa.array([None if number is None else time_text(number, values.type) for number in numbers.to_pylist()], pa.string())


def time_text(number: int, kind: pa.DataType) -> str:
    """A day or moment, of which the number of days or microseconds since 1970 is given, as text.

    >>> import pyarrow as pa
    >>> time_text(0, pa.timestamp("us", "UTC")), time_text(1, pa.timestamp("us"))
    ('1970-01-01 00:00:00+00:00', '1970-01-01 00:00:00.000001')
    >>> time_text(9223372036854775807, pa.timestamp("us")), time_text(-735_160, pa.date32())
    ('294247-01-10 04:00:54.775807', '0044-03-15 BC')
    """
    import pyarrow.types as pt

    if pt.is_date(kind):
        date, era = _day_text(number)
        return date + era
    days, micros = divmod(number, _DAY)
    date, era = _day_text(days)
    time = (dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=micros)).time()
    return f"{date} {time}{'' if kind.tz is None else '+00:00'}{era}"


def _day_text(days: int) -> tuple[str, str]:
    cycles, rest = divmod(days - _FIRST, _CYCLE_DAYS)
    day = dt.date.fromordinal(rest + 1)
    year = day.year + cycles * _CYCLE_YEARS
    return f"{year if year > 0 else 1 - year:04d}-{day:%m-%d}", "" if year > 0 else " BC"
