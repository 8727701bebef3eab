-- NEXMark 6: the mean winning price of the last ten auctions of each seller.
CREATE STREAM auction (id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
    dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING)
  FROM parquet OPTIONS (path 'nexmark/auction', timestamp 'dateTime');
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');

CREATE QUERY q6 AS
  SELECT seller, avg(price) AS price
  FROM (
    SELECT seller, price
    FROM (
      SELECT a.id, a.seller, a.expires, max(b.price) AS price
      FROM auction [UNBOUNDED] AS a JOIN bid [UNBOUNDED] AS b
        ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
      GROUP BY a.id, a.seller, a.expires
    ) AS winning
    QUALIFY ROW_NUMBER() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) <= 10
  ) AS recent
  GROUP BY seller
  INTO parquet OPTIONS (path 'out/q6', mode 'latest', key 'seller', timestamp 'none');
