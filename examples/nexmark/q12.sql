-- NEXMark 12: bids of every bidder in every ten seconds.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');

CREATE QUERY q12 AS
  SELECT bidder, COUNT(*) AS bid_count, window_start, window_end
  FROM bid [TUMBLE 10 SECONDS] GROUP BY bidder
  INTO parquet OPTIONS (path 'out/q12', timestamp 'none');
