"""Word count, as several tests have it: running counts, changed when a time is complete."""

from __future__ import annotations

import pyarrow as pa


def count_complete(incoming, output, stash, counts):
    """Let what came wait, and count the words of times that are complete, in the order of time."""
    for time, batches in incoming.by_time():
        stash.add(time, batches)
    for time, rows in stash.complete(incoming.frontier):
        sums = rows.group_by("word").aggregate([("n", "sum")])
        before = counts.get(sums)["n"].to_pylist()
        now = [change + (old or 0) for change, old in zip(sums["n_sum"].to_pylist(), before, strict=True)]
        counted = pa.table({"word": sums["word"], "n": pa.array(now, pa.int64())})
        counts.put(counted)
        output.session(time).give_batch(counted)
