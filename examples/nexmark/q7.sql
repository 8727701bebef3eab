-- NEXMark 7: the highest bids of every ten seconds.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');

CREATE STREAM highest AS
  SELECT MAX(price) AS price, window_start, window_end FROM bid [TUMBLE 10 SECONDS];

CREATE QUERY q7 AS
  SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra
  FROM bid [RANGE 10 SECONDS] AS b JOIN highest [NOW] AS h
    ON b.price = h.price AND b.dateTime >= h.window_start AND b.dateTime < h.window_end
  INTO parquet OPTIONS (path 'out/q7', timestamp 'none');
