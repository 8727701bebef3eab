-- NEXMark 7: the highest bids of every ten seconds.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');

CREATE QUERY q7 AS
  SELECT auction, price, bidder, dateTime, extra
  FROM bid [TUMBLE 10 SECONDS]
  ORDER BY price DESC LIMIT 1 WITH TIES
  INTO parquet OPTIONS (path 'out/q7', timestamp 'none');
