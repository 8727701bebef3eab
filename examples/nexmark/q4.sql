-- NEXMark 4: the mean winning price of the auctions of each category; an auction without a bid does not count.
CREATE STREAM auction (id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
    dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING)
  FROM parquet OPTIONS (path 'nexmark/auction', timestamp 'dateTime');
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');

CREATE QUERY q4 AS
  SELECT category, avg(price) AS final
  FROM (
    SELECT a.id, a.category, max(b.price) AS price
    FROM auction [UNBOUNDED] AS a JOIN bid [UNBOUNDED] AS b
      ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
    GROUP BY a.id, a.category
  ) AS winning
  GROUP BY category
  INTO parquet OPTIONS (path 'out/q4', mode 'latest', key 'category', timestamp 'none');
