-- NEXMark 8: people who opened an auction in the ten seconds in which they came.
CREATE STREAM auction (id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
    dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING)
  FROM parquet OPTIONS (path 'nexmark/auction', timestamp 'dateTime');
CREATE STREAM person (id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,
    dateTime TIMESTAMP, extra STRING)
  FROM parquet OPTIONS (path 'nexmark/person', timestamp 'dateTime');

CREATE QUERY q8 AS
  SELECT p.id, p.name, window_start
  FROM person [TUMBLE 10 SECONDS] AS p JOIN auction [TUMBLE 10 SECONDS] AS a ON p.id = a.seller
  GROUP BY p.id, p.name
  INTO parquet OPTIONS (path 'out/q8', timestamp 'none');
