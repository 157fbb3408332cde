"""A sketch that counts distinct values approximately, in plain Spark SQL, the same however the rows were cut.

A value's hash picks one of ``m`` buckets by its low bits and a rank by the number of trailing zeros of the rest, as in
HyperLogLog (Flajolet, Fusy, Gandouet, Meunier: HyperLogLog, 2007). The sketch is the set of (bucket, rank) pairs seen, each
packed into one integer, as in probabilistic counting (Flajolet, Martin, 1985); two sketches merge by set union. It holds about
``m * log2(n / m)`` integers for n distinct values above m, and never more than n.

Spark's own sketches will not do: ``hll_union_agg`` estimates 997, 999 or 1011 for the same 1,000 values by how they were cut into
partial sketches, because an unmerged sketch knows the order of its values and a merged one does not.
"""

from __future__ import annotations

import math

_RANK_BITS = 6
_MAX_RANK = 50
_DEFAULT_ERROR = 0.025


def buckets_for(relative_error: float = _DEFAULT_ERROR) -> int:
    """The smallest power of two of buckets whose standard error, ``1.04 / sqrt(m)``, is no larger than the one asked for.

    >>> buckets_for(0.05), buckets_for()
    (512, 2048)
    """
    return max(16, 1 << math.ceil(2 * math.log2(1.04 / relative_error)))


def pair_of(value: str, buckets: int) -> str:
    """The packed (bucket, rank) of a value, a Spark SQL int; null for null.

    The rank is the number of trailing zeros of the hash above its bucket's bits: ``bit_count((h & -h) - 1)``. A bit set at
    position 50 bounds it.
    """
    rest = f"(shiftright(xxhash64({value}), {buckets.bit_length() - 1}) | {2**_MAX_RANK}L)"
    bucket = f"(xxhash64({value}) & {buckets - 1}L)"
    return f"CAST({bucket} * {2**_RANK_BITS} + bit_count(({rest} & -{rest}) - 1) AS INT)"


def estimate_of(pairs: str, buckets: int) -> str:
    """The estimated number of distinct values behind a sketch, a Spark SQL bigint.

    Walks the pairs from the largest down, so that the first pair of each bucket has its highest rank, and sums ``2^-rank`` as
    HyperLogLog does; for few values it counts the empty buckets instead (linear counting), as the paper says.
    """
    step = (
        f"(a, v) -> CASE WHEN a.bucket = shiftright(v, {_RANK_BITS}) THEN a ELSE named_struct("
        f"'bucket', shiftright(v, {_RANK_BITS}), 'sum', a.sum + pow(2D, -CAST((v & {2**_RANK_BITS - 1}) + 1 AS DOUBLE)), "
        f"'used', a.used + 1) END"
    )
    alpha = 0.7213 / (1 + 1.079 / buckets)
    raw = f"({alpha * buckets * buckets!r}D / (a.sum + {buckets} - a.used))"
    linear = f"{buckets}D * ln({buckets}D / ({buckets} - a.used))"
    end = f"a -> CAST(round(CASE WHEN a.used < {buckets} AND {raw} < {2.5 * buckets!r}D THEN {linear} ELSE {raw} END) AS BIGINT)"
    return f"aggregate(sort_array({pairs}, false), named_struct('bucket', -1, 'sum', 0D, 'used', 0), {step}, {end})"
