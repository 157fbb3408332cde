"""What the Nexmark queries come to, computed by DuckDB over all events at once: the other side of the tests and benchmarks.

The SQL is that of https://github.com/nexmark/nexmark in DuckDB's dialect; :mod:`jobs.nexmark.queries` says what is other.
Sliding and tumbling windows are written as a join with the windows' starts. DuckDB belongs to the development tools, so it is
imported where it is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from jobs.nexmark import SIDE_INPUT, SIDE_KEYS

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_EVENTS: Final = """
CREATE VIEW {kind} AS SELECT * REPLACE ({times}) FROM read_parquet('{files}')
"""
_TIMES: Final = {"person": ("dateTime",), "auction": ("dateTime", "expires"), "bid": ("dateTime",)}

_START: Final = "make_timestamp(epoch_us(dateTime) // 10000000 * 10000000)"
_TUMBLE: Final = f"{_START} AS window_start, {_START} + INTERVAL 10 SECOND AS window_end"
_SLIDES: Final = "range(epoch_us(dateTime) // 2000000 * 2000000 - 8000000, epoch_us(dateTime) + 1, 2000000)"
_HOP: Final = f"make_timestamp(unnest({_SLIDES})) AS window_start"
_DAY: Final = "strftime(dateTime, '%Y-%m-%d')"
_RANKS: Final = {"rank1": "price < 10000", "rank2": "price >= 10000 AND price < 1000000", "rank3": "price >= 1000000"}


def _by_rank(name: str, aggregate: str) -> str:
    ranks = (f"{aggregate} FILTER (WHERE {condition}) AS {rank}_{name}" for rank, condition in _RANKS.items())
    return ", ".join((f"{aggregate} AS total_{name}", *ranks))


_BIDS: Final = _by_rank("bids", "count(*)")
_STATISTICS: Final = ", ".join(
    (_BIDS, _by_rank("bidders", "count(DISTINCT bidder)"), _by_rank("auctions", "count(DISTINCT auction)"))
)
_CHANNEL_ID: Final = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
_EUROS: Final = "CAST(0.908 * price AS DECIMAL(23,3))"

SQL: Final = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": f"SELECT auction, bidder, {_EUROS} AS price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """
        SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": """
        SELECT category, CAST(sum(final) // count(final) AS BIGINT) AS final
        FROM (
            SELECT a.category, max(b.price) AS final FROM auction a
            JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires GROUP BY a.id, a.category
        )
        GROUP BY category""",
    "q5": f"""
        WITH counts AS (
            SELECT auction, count(*) AS num, window_start FROM (SELECT auction, {_HOP} FROM bid) GROUP BY auction, window_start
        )
        SELECT auction, num, window_start, window_start + INTERVAL 10 SECOND AS window_end
        FROM (SELECT *, max(num) OVER (PARTITION BY window_start) AS most FROM counts) WHERE num >= most""",
    "q6": """
        SELECT id, seller, CAST(sum(price) OVER last_sold // count(*) OVER last_sold AS BIGINT) AS avg_price
        FROM (
            SELECT a.id, a.seller, b.price, b.dateTime,
                row_number() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC, b.dateTime) AS rownum
            FROM auction a JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
        )
        WHERE rownum <= 1
        WINDOW last_sold AS (PARTITION BY seller ORDER BY dateTime, id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)""",
    "q7": f"""
        SELECT auction, price, bidder, dateTime, extra, window_start, window_end
        FROM (SELECT *, max(price) OVER (PARTITION BY window_start) AS highest FROM (SELECT *, {_TUMBLE} FROM bid))
        WHERE price = highest""",
    "q8": f"""
        SELECT DISTINCT id, name, window_start, window_end
        FROM (SELECT id, name, {_TUMBLE} FROM person) p
        JOIN (SELECT seller, {_TUMBLE} FROM auction) a USING (window_start, window_end) WHERE id = seller""",
    "q9": """
        SELECT *
        FROM (
            SELECT a.*, b.auction, b.bidder, b.price, b.dateTime AS bid_dateTime, b.extra AS bid_extra, row_number() OVER (
                PARTITION BY a.id ORDER BY b.price DESC, b.dateTime, b.bidder, b.extra) AS rownum
            FROM auction a JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
        )
        WHERE rownum <= 1""",
    "q10": f"""
        SELECT auction, bidder, price, dateTime, extra, {_DAY} AS dt, strftime(dateTime, '%H:%M') AS hm FROM bid""",
    "q11": """
        SELECT bidder, count(*) AS bid_count, min(dateTime) AS window_start, max(dateTime) + INTERVAL 10 SECOND AS window_end
        FROM (
            SELECT *, sum(begins) OVER (PARTITION BY bidder ORDER BY dateTime ROWS UNBOUNDED PRECEDING) AS session
            FROM (
                SELECT *, coalesce(dateTime - lag(dateTime) OVER by_bidder >= INTERVAL 10 SECOND, true)::INT AS begins
                FROM bid WINDOW by_bidder AS (PARTITION BY bidder ORDER BY dateTime)
            )
        )
        GROUP BY bidder, session""",
    "q12": f"""
        SELECT bidder, count(*) AS bid_count, window_start, window_end
        FROM (SELECT bidder, {_TUMBLE} FROM bid) GROUP BY bidder, window_start, window_end""",
    "q13": f"""
        SELECT auction, bidder, price, dateTime, value FROM bid JOIN side_input ON auction % {SIDE_KEYS} = key""",
    "q14": f"""
        SELECT auction, bidder, {_EUROS} AS price,
            CASE WHEN hour(dateTime) >= 8 AND hour(dateTime) <= 18 THEN 'dayTime'
                WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType,
            dateTime, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"SELECT {_DAY} AS day, {_STATISTICS} FROM bid GROUP BY day",
    "q16": f"""
        SELECT channel, {_DAY} AS day, max(strftime(dateTime, '%H:%M')) AS minute, {_STATISTICS}
        FROM bid GROUP BY channel, day""",
    "q17": f"""
        SELECT auction, {_DAY} AS day, {_BIDS}, min(price) AS min_price, max(price) AS max_price,
            sum(price) // count(price) AS avg_price, sum(price) AS sum_price
        FROM bid GROUP BY auction, day""",
    "q18": """
        SELECT auction, bidder, price, channel, url, dateTime, extra
        FROM (
            SELECT *, row_number() OVER (
                PARTITION BY bidder, auction ORDER BY dateTime DESC, price, channel, url, extra) AS place
            FROM bid
        )
        WHERE place <= 1""",
    "q19": """
        SELECT *
        FROM (
            SELECT *, row_number() OVER (PARTITION BY auction
                ORDER BY price DESC, dateTime, bidder, channel, url, extra) AS rank_number
            FROM bid
        )
        WHERE rank_number <= 10""",
    "q20": """
        SELECT b.* RENAME (dateTime AS bid_dateTime, extra AS bid_extra),
            a.* EXCLUDE id RENAME (dateTime AS auction_dateTime, extra AS auction_extra)
        FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10""",
    "q21": f"""
        SELECT auction, bidder, price, channel,
            CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
                WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
                ELSE {_CHANNEL_ID} END AS channel_id
        FROM bid WHERE {_CHANNEL_ID} <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """
        SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
            split_part(url, '/', 6) AS dir3 FROM bid""",
    "q23": """
        SELECT bidder, price, channel, url, b.extra AS bid_extra, name, emailAddress, creditCard, city, state,
            p.extra AS person_extra, a.* EXCLUDE (id, seller) RENAME (dateTime AS auction_dateTime, extra AS auction_extra)
        FROM bid b JOIN person p ON p.id = b.bidder JOIN auction a ON a.seller = b.bidder""",
}
"""Each query in DuckDB's SQL over the views ``person``, ``auction``, ``bid`` and ``side_input``."""


def connect(folder: Path, *, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """DuckDB with the events that :meth:`~jobs.nexmark.generator.Nexmark.write` has written as views; times are in UTC."""
    import duckdb

    connection = duckdb.connect(config={"threads": threads} if threads else {})
    for kind, times in _TIMES.items():
        plain = ", ".join(f"make_timestamp(epoch_us({time})) AS {time}" for time in times)
        connection.execute(_EVENTS.format(kind=kind, times=plain, files=folder / kind / "*.parquet"))
    side = f"read_csv('{folder / SIDE_INPUT}', columns = {{key: 'BIGINT', value: 'VARCHAR'}})"
    connection.execute(f"CREATE VIEW side_input AS SELECT * FROM {side}")
    return connection


def answer(query: str, folder: Path) -> pa.Table:
    """All rows that a query has over all events."""
    with connect(folder) as connection:
        return connection.sql(SQL[query]).to_arrow_table()


def rows_of_delta(table: str | Path) -> pa.Table:
    """All rows of a Delta table, without any engine but DuckDB's neighbour deltalake."""
    from deltalake import DeltaTable

    return DeltaTable(str(table)).to_pyarrow_table()


def difference(found: pa.Table, expected: pa.Table) -> str:
    """What is different between rows that were found and those that are expected, in any order; empty if nothing is.

    Columns are compared by name, and values after a cast to the expected type.
    """
    import duckdb

    if sorted(found.column_names) != sorted(expected.column_names):
        return f"columns {sorted(found.column_names)} instead of {sorted(expected.column_names)}"
    found = _comparable(found.select(expected.column_names))
    expected = _comparable(expected)
    with duckdb.connect() as connection:
        connection.register("found", found.cast(expected.schema))
        connection.register("expected", expected)
        more = connection.sql("SELECT * FROM found EXCEPT ALL SELECT * FROM expected").to_arrow_table()
        less = connection.sql("SELECT * FROM expected EXCEPT ALL SELECT * FROM found").to_arrow_table()
    if not more.num_rows and not less.num_rows:
        return ""
    return (
        f"{more.num_rows} rows too many, {less.num_rows} missing of {expected.num_rows}; such as {more.slice(0, 3).to_pylist()} "
        f"and {less.slice(0, 3).to_pylist()}"
    )


def _comparable(rows: pa.Table) -> pa.Table:
    """The same rows with times as plain microseconds in UTC."""
    import pyarrow as pa

    for place, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            plain = rows.column(place).cast(pa.timestamp("us", field.type.tz)).cast(pa.int64())
            rows = rows.set_column(place, field.name, plain)
    return rows.replace_schema_metadata()
