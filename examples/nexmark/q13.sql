-- NEXMark 13: bids with a value from a stored relation.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');
CREATE RELATION side_input (key BIGINT, value STRING) FROM parquet OPTIONS (path 'nexmark/side_input');

CREATE QUERY q13 AS
  SELECT b.auction, b.bidder, b.price, b.dateTime, s.value
  FROM bid AS b JOIN side_input AS s ON b.auction % 10000 = s.key
  INTO parquet OPTIONS (path 'out/q13', timestamp 'none');
