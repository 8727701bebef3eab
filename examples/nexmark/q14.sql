-- NEXMark 14: bids of a million to fifty million euro cents, by time of day.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');

CREATE FUNCTION count_c AS 'functions.py:count_c' RETURNS BIGINT;

CREATE QUERY q14 AS
  SELECT auction, bidder, 0.908 * price AS price,
    CASE
      WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
      WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime'
      ELSE 'otherTime'
    END AS bidTimeType,
    dateTime, extra, count_c(extra) AS c_counts
  FROM bid
  WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
  INTO parquet OPTIONS (path 'out/q14', timestamp 'none');
