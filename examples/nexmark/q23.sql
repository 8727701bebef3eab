-- NEXMark 23: bids with their bidder, and with the auctions that the bidder sells.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');
CREATE STREAM auction (id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
    dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING)
  FROM parquet OPTIONS (path 'nexmark/auction', timestamp 'dateTime');
CREATE STREAM person (id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,
    dateTime TIMESTAMP, extra STRING)
  FROM parquet OPTIONS (path 'nexmark/person', timestamp 'dateTime');

CREATE QUERY q23 AS
  SELECT b.bidder, b.price, b.channel, p.name, p.city, p.state, a.itemName, a.initialBid, a.category
  FROM bid [UNBOUNDED] AS b
  JOIN person [UNBOUNDED] AS p ON b.bidder = p.id
  JOIN auction [UNBOUNDED] AS a ON a.seller = p.id
  INTO parquet OPTIONS (path 'out/q23', timestamp 'none');
