-- A latency bound over packets that take their time, see docs/capacity.md:
--   headgate profile examples/capacity.sql && headgate advise examples/capacity.sql
CREATE STREAM packets (ts TIMESTAMP, src STRING, dst STRING, port INT, bytes INT)
  FROM burst OPTIONS (rate '1000', process 'poisson', seed '1', timestamp 'ts');

-- a thousand digests of every other packet
CREATE QUERY web WITH (latency = '10 s') AS
  SELECT src, dst, bytes
  FROM packets
  WHERE port = 443 AND aggregate(sequence(1, 1000), concat(src, dst, ts), (d, i) -> sha2(d, 256)) > '4'
  INTO noop;
