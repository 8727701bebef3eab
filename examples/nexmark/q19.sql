-- NEXMark 19: the ten highest bids on each auction.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');

CREATE QUERY q19 AS
  SELECT auction, bidder, price, channel, url, dateTime, extra, rank_number
  FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
    FROM bid
  ) AS ranked
  WHERE rank_number <= 10
  INTO parquet OPTIONS (path 'out/q19', mode 'latest', key 'auction, rank_number', timestamp 'none');
