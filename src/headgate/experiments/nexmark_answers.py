"""What the NEXMark queries answer: each as one statement of DuckDB over the tables of a data set."""

from __future__ import annotations

_BUCKET = "time_bucket(INTERVAL 10 SECONDS, {})"
_WINNING = """
  SELECT id, category, seller, expires, max(price) AS price FROM auction JOIN bid
    ON id = auction AND bid.dateTime BETWEEN auction.dateTime AND expires
  GROUP BY ALL
"""
_DAY = "strftime(dateTime, '%Y-%m-%d')"
_PRICES = {
    "total": "TRUE",
    "rank1": "price < 10000",
    "rank2": "price BETWEEN 10000 AND 999999",
    "rank3": "price >= 1000000",
}
_BIDS = ", ".join(f"count(*) FILTER ({price})" for price in _PRICES.values())
_DISTINCT = ", ".join(
    f"count(DISTINCT {column}) FILTER ({price})"
    for column in ("bidder", "auction")
    for price in _PRICES.values()
)

ANSWERS = {
    0: "SELECT auction, bidder, price, dateTime, extra FROM bid",
    1: "SELECT auction, bidder, 0.908 * price, dateTime, extra FROM bid",
    2: "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    3: """
      SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
      WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
    """,
    4: f"SELECT category, avg(price) FROM ({_WINNING}) GROUP BY category",
    5: """
      WITH ends AS (
        SELECT unnest(generate_series(time_bucket(INTERVAL 2 SECONDS, min(dateTime)),
                                      max(dateTime) + INTERVAL 10 SECONDS, INTERVAL 2 SECONDS)) AS e FROM bid
      ), counts AS (
        SELECT auction, COUNT(*) AS num, e FROM bid, ends
        WHERE dateTime >= e - INTERVAL 10 SECONDS AND dateTime < e GROUP BY ALL
      ) SELECT auction, num, e FROM counts QUALIFY rank() OVER (PARTITION BY e ORDER BY num DESC) = 1
    """,
    6: f"""
      SELECT seller, avg(price) FROM (
        FROM ({_WINNING})
        QUALIFY row_number() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) <= 10
      ) GROUP BY seller
    """,
    7: f"""
      SELECT auction, price, bidder, dateTime, extra FROM bid
      QUALIFY price = max(price) OVER (PARTITION BY {_BUCKET.format("dateTime")})
    """,
    8: f"""
      SELECT DISTINCT p.id, p.name, {_BUCKET.format("p.dateTime")}
      FROM person p JOIN auction a ON p.id = a.seller
      WHERE {_BUCKET.format("p.dateTime")} = {_BUCKET.format("a.dateTime")}
    """,
    9: """
      SELECT id, seller, category, auction, bidder, price, bid.dateTime FROM auction JOIN bid
        ON id = auction AND bid.dateTime BETWEEN auction.dateTime AND expires
      QUALIFY row_number() OVER (PARTITION BY id ORDER BY price DESC, bid.dateTime) = 1
    """,
    10: f"SELECT auction, bidder, price, dateTime, extra, {_DAY}, strftime(dateTime, '%H:%M') FROM bid",
    11: """
      WITH marked AS (
        SELECT *, CASE WHEN dateTime - lag(dateTime) OVER w < INTERVAL 10 SECONDS THEN 0 ELSE 1 END AS starts
        FROM bid WINDOW w AS (PARTITION BY bidder ORDER BY dateTime)
      ), numbered AS (SELECT *, SUM(starts) OVER (PARTITION BY bidder ORDER BY dateTime) AS g FROM marked)
      SELECT bidder, COUNT(*), MIN(dateTime), MAX(dateTime) + INTERVAL 10 SECONDS
      FROM numbered GROUP BY bidder, g
    """,
    12: f"""
      SELECT bidder, COUNT(*), {_BUCKET.format("dateTime")} AS b, b + INTERVAL 10 SECONDS
      FROM bid GROUP BY ALL
    """,
    13: """
      SELECT auction, bidder, price, dateTime, value FROM bid JOIN side_input ON auction % 10000 = key
    """,
    14: """
      SELECT auction, bidder, 0.908 * price,
        CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
             WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END,
        dateTime, extra, length(extra) - length(replace(extra, 'c', ''))
      FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
    """,
    15: f"SELECT {_DAY} AS day, {_BIDS}, {_DISTINCT} FROM bid GROUP BY day",
    16: f"""
      SELECT channel, {_DAY} AS day, max(strftime(dateTime, '%H:%M')), {_BIDS}, {_DISTINCT}
      FROM bid GROUP BY channel, day
    """,
    17: f"""
      SELECT auction, {_DAY} AS day, {_BIDS}, min(price), max(price), avg(price), sum(price)
      FROM bid GROUP BY auction, day
    """,
    18: """
      SELECT auction, bidder, price, channel, url, dateTime, extra FROM bid
      QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) = 1
    """,
    19: """
      SELECT auction, bidder, price, channel, url, dateTime, extra,
        row_number() OVER (PARTITION BY auction ORDER BY price DESC, dateTime) AS rank_number
      FROM bid QUALIFY rank_number <= 10
    """,
    20: """
      SELECT auction, bidder, price, channel, url, bid.dateTime, itemName, seller, category
      FROM bid JOIN auction ON auction = id WHERE category = 10
    """,
    21: """
      WITH numbered AS (
        SELECT *, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
          WHEN 'baidu' THEN '3' ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS id FROM bid
      ) SELECT auction, bidder, price, channel, id FROM numbered WHERE id <> ''
    """,
    22: """
      SELECT auction, bidder, price, channel, split_part(url, '/', 4), split_part(url, '/', 5),
        split_part(url, '/', 6) FROM bid
    """,
    23: """
      SELECT bidder, price, channel, name, city, state, itemName, initialBid, category
      FROM bid JOIN person ON bidder = person.id JOIN auction ON seller = person.id
    """,
}
"""By the number of the query, with the columns in the order of its script."""
