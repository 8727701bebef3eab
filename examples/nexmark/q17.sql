-- NEXMark 17: bids on each auction and day by price, with the least, largest, mean and total price.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');

CREATE QUERY q17 AS
  SELECT auction, date_format(dateTime, 'yyyy-MM-dd') AS day,
    count(*) AS total_bids,
    count(*) FILTER (WHERE price < 10000) AS rank1_bids,
    count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
    count(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
    min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
  FROM bid
  GROUP BY auction, date_format(dateTime, 'yyyy-MM-dd')
  INTO parquet OPTIONS (path 'out/q17', mode 'latest', key 'auction, day', timestamp 'none');
