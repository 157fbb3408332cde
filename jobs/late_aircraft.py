"""How delays travel with an aircraft through its days: an operator with state by tail number and time of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import dagster_operators as do

_HOUR = 3_600_000_000
_FIRST = -(2**63)


class LateAircraft(do.ArrowOperator):
    """Each flight with the flight that the same aircraft made before it, and the delay that it took over from that one.

    Flights come in no particular order, so they wait until the watermark has passed them and are then taken in the order of their
    departure; what an aircraft did last is kept for as long as it may matter. Midnight and the end of an epoch play no part.

    Input: ``tailnum``, ``sched_dep``, ``carrier``, ``flight``, ``origin``, ``dest``, ``dep_delay``, ``arr_delay`` (minutes, may
        be null).

    Args:
        turnaround_hours: A flight that was to leave later than this after the previous one takes no delay over from it.
    """

    name = "late_aircraft"
    event_time = "sched_dep"

    def __init__(self, turnaround_hours: float = 12) -> None:
        self.turnaround_hours = turnaround_hours
        flight = "sched_dep timestamp, carrier string, flight int, origin string, dest string, dep_delay int, arr_delay int"
        self.state = {
            "waiting": do.TimeState(f"tailnum string, {flight}", time="sched_dep", key="tailnum"),
            "last": do.KeyedState("tailnum string, sched_dep timestamp, dest string, arr_delay int", key="tailnum"),
        }

    def output_schema(self, _rows: pa.Schema) -> str:
        """The flight, and what it has from the one before."""
        return (
            "tailnum string, sched_dep timestamp, carrier string, flight int, origin string, dest string, dep_delay int, "
            "previous_dep timestamp, previous_dest string, previous_arr_delay int, inherited_delay int"
        )

    def process_batch(self, batch: pa.RecordBatch, ctx: do.OperatorContext, _out: do.Collector) -> None:
        """Let the flights wait; those that should have been taken already are late."""
        known = batch.filter(pc.is_valid(batch["tailnum"]))
        late = pc.less(known["sched_dep"].cast(pa.int64()), ctx.watermark)
        ctx.late(known.filter(late))
        ctx.state["waiting"].append(known.filter(pc.invert(late)))

    def handle_watermark(self, watermark: int, ctx: do.OperatorContext, out: do.Collector) -> int:
        """Take the flights that no other can come before."""
        waiting = ctx.state["waiting"]
        flights = waiting.range(_FIRST, watermark)
        if flights.num_rows:
            flights = flights.sort_by([(name, "ascending") for name in ("tailnum", "sched_dep", "carrier", "flight")])
            self._take(flights, ctx.state["last"], out)
            waiting.delete_before(watermark)
        return watermark

    def _take(self, flights: pa.Table, last: Any, out: do.Collector) -> None:
        tails = flights["tailnum"].combine_chunks().dictionary_encode().indices.to_numpy()
        begins = np.concatenate(([True], tails[1:] != tails[:-1]))
        ends = np.concatenate((begins[1:], [True]))
        stored = last.get(flights.filter(pa.array(begins)).select(["tailnum"]))
        which = np.cumsum(begins) - 1
        previous = {
            name: pc.if_else(pa.array(begins), stored[name].take(pa.array(which)), _shifted(flights[name]))
            for name in ("sched_dep", "dest", "arr_delay")
        }
        gap = pc.subtract(flights["sched_dep"].cast(pa.int64()), previous["sched_dep"].cast(pa.int64()))
        near = pc.less_equal(gap, int(self.turnaround_hours * _HOUR))
        carried = pc.min_element_wise(previous["arr_delay"], flights["dep_delay"], skip_nulls=False)
        inherited = pc.if_else(pc.and_(near, pc.greater(carried, 0)), carried, pa.scalar(0, pa.int32()))
        out.collect(
            flights.drop_columns(["arr_delay"])
            .append_column("previous_dep", previous["sched_dep"])
            .append_column("previous_dest", previous["dest"])
            .append_column("previous_arr_delay", previous["arr_delay"])
            .append_column("inherited_delay", pc.fill_null(inherited, 0))
        )
        last.put(flights.filter(pa.array(ends)).select(["tailnum", "sched_dep", "dest", "arr_delay"]))


def _shifted(column: pa.ChunkedArray) -> pa.Array:
    """Each row's value in the row before it."""
    array = column.combine_chunks()
    return pa.concat_arrays([pa.nulls(1, array.type), array.slice(0, max(len(array) - 1, 0))])
