-- A topic of JSON, decoded by Spark SQL. Spark needs its own package spark-sql-kafka-0-10.
--   headgate run examples/kafka.sql --checkpoint state/
CREATE STREAM orders (value BINARY, timestamp TIMESTAMP)
  FROM kafka OPTIONS (kafka.bootstrap.servers 'localhost:9092', subscribe 'orders', startingOffsets 'earliest',
                      timestamp 'timestamp', watermark '10 s');

CREATE QUERY large WITH (memory = '256 MB') AS
  SELECT get_json_object(CAST(value AS STRING), '$.customer') AS customer,
         CAST(get_json_object(CAST(value AS STRING), '$.amount') AS DOUBLE) AS amount
  FROM orders
  WHERE CAST(get_json_object(CAST(value AS STRING), '$.amount') AS DOUBLE) > 1000
  INTO parquet OPTIONS (path 'out/large');
