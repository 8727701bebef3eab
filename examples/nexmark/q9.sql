-- NEXMark 9: the winning bid of every auction: the highest, and of equal ones the earliest.
CREATE STREAM auction (id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
    dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING)
  FROM parquet OPTIONS (path 'nexmark/auction', timestamp 'dateTime');
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');

CREATE QUERY q9 AS
  SELECT a.id, a.seller, a.category, b.auction, b.bidder, b.price, b.dateTime AS bid_dateTime
  FROM auction [UNBOUNDED] AS a JOIN bid [UNBOUNDED] AS b
    ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
  QUALIFY ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime) <= 1
  INTO parquet OPTIONS (path 'out/q9', mode 'latest', key 'id', timestamp 'none');
