-- NEXMark 1: bids with their price in euro.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');

CREATE QUERY q1 AS
  SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid
  INTO parquet OPTIONS (path 'out/q1', timestamp 'none');
