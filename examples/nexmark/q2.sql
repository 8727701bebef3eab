-- NEXMark 2: bids on some of the auctions.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');

CREATE QUERY q2 AS
  SELECT auction, price FROM bid WHERE auction % 123 = 0
  INTO parquet OPTIONS (path 'out/q2', timestamp 'none');
