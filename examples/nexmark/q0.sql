-- NEXMark 0: bids as they are.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');

CREATE QUERY q0 AS
  SELECT auction, bidder, price, dateTime, extra FROM bid
  INTO parquet OPTIONS (path 'out/q0', timestamp 'none');
