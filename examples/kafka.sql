-- A topic of JSON, with results in another one. Spark's package for Kafka is fetched when it is first needed.
--   headgate run examples/kafka.sql --checkpoint state/
CREATE STREAM orders (placed TIMESTAMP, customer STRING, amount DOUBLE, partition INT)
  FROM kafka OPTIONS (servers 'localhost:9092', topic 'orders', format 'json', startingOffsets 'earliest',
                      timestamp 'placed', watermark '10 s');

CREATE QUERY large WITH (memory = '256 MB') AS
  SELECT customer, amount
  FROM orders
  WHERE amount > 1000
  INTO parquet OPTIONS (path 'out/large');

CREATE QUERY per_customer AS
  SELECT customer, SUM(amount) AS amount
  FROM orders [TUMBLE 1 MINUTE]
  GROUP BY customer
  INTO kafka OPTIONS (servers 'localhost:9092', topic 'amounts', key 'customer');
