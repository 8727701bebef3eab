-- NEXMark 3: who sells in category 10, in three states; a seller may come after the auction.
CREATE STREAM auction (id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
    dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING)
  FROM parquet OPTIONS (path 'nexmark/auction', timestamp 'dateTime');
CREATE STREAM person (id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,
    dateTime TIMESTAMP, extra STRING)
  FROM parquet OPTIONS (path 'nexmark/person', timestamp 'dateTime');

CREATE QUERY q3 AS
  SELECT p.name, p.city, p.state, a.id
  FROM auction [UNBOUNDED] AS a JOIN person [UNBOUNDED] AS p ON a.seller = p.id
  WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
  INTO parquet OPTIONS (path 'out/q3', timestamp 'none');
