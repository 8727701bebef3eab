-- NEXMark 18: the last bid of each bidder on each auction.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');

CREATE QUERY q18 AS
  SELECT auction, bidder, price, channel, url, dateTime, extra
  FROM bid
  INTO parquet OPTIONS (path 'out/q18', mode 'latest', key 'bidder, auction', timestamp 'none');
