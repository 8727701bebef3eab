-- NEXMark 11: bids of every bidder by session: a pause of ten seconds ends it.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');

CREATE QUERY q11 AS
  SELECT bidder, COUNT(*) AS bid_count, window_start, window_end
  FROM bid [SESSION 10 SECONDS] GROUP BY bidder
  INTO parquet OPTIONS (path 'out/q11', timestamp 'none');
