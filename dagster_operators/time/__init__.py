"""Event time: microseconds since 1970 in UTC, watermarks, and their general form: frontiers over partially ordered times.

The algebra is that of timely dataflow (https://github.com/TimelyDataflow/timely-dataflow), in plain Python.
"""

from dagster_operators.time.antichain import Antichain
from dagster_operators.time.change_batch import ChangeBatch
from dagster_operators.time.codec import decode_time, encode_time
from dagster_operators.time.frontier import FINISHED, Frontier, meet
from dagster_operators.time.kinds import Times
from dagster_operators.time.mutable_antichain import MutableAntichain
from dagster_operators.time.product import Product
from dagster_operators.time.reachability import InputOf, Location, OutputOf, Reachability
from dagster_operators.time.scopes import Enter, Leave
from dagster_operators.time.summary import IDENTITY, Direction, Summary, direction, followed_by, results_in
from dagster_operators.time.timestamp import EventTime, Time, Timestamp, less_equal, less_than
from dagster_operators.time.tracker import Tracker

__all__ = [
    "FINISHED",
    "IDENTITY",
    "Antichain",
    "ChangeBatch",
    "Direction",
    "Enter",
    "EventTime",
    "Frontier",
    "InputOf",
    "Leave",
    "Location",
    "MutableAntichain",
    "OutputOf",
    "Product",
    "Reachability",
    "Summary",
    "Time",
    "Times",
    "Timestamp",
    "Tracker",
    "decode_time",
    "direction",
    "encode_time",
    "followed_by",
    "less_equal",
    "less_than",
    "meet",
    "results_in",
]
