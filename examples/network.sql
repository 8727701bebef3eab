-- Synthetic traffic that never ends:
--   headgate run examples/network.sql --for 30s
CREATE STREAM packets (ts TIMESTAMP, src STRING, dst STRING, port INT, bytes INT)
  FROM burst OPTIONS (rate '2000', seed '1', timestamp 'ts');

CREATE STREAM flows (ts TIMESTAMP, src STRING, flow INT)
  FROM burst OPTIONS (rate '100', seed '2', timestamp 'ts');

-- results that fit on a screen are kept and shown at the end
CREATE QUERY top_talkers AS
  SELECT src, COUNT(*) AS packets, SUM(bytes) AS volume
  FROM packets [RANGE 10 SECONDS SLIDE 5 SECONDS]
  GROUP BY src
  HAVING COUNT(*) > 500;

-- the others go to files
CREATE QUERY heavy WITH (memory = '64 MB') AS
  SELECT p.src, p.dst, p.bytes, f.flow
  FROM packets [RANGE 2 SECONDS] AS p, flows [ROWS 1000] AS f
  WHERE p.src = f.src AND p.bytes > 1000
  INTO parquet OPTIONS (path 'out/heavy');
