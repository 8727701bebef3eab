-- A latency bound over packets that take their time, see docs/capacity.md:
--   headgate profile examples/capacity.sql && headgate advise examples/capacity.sql
CREATE STREAM packets (ts TIMESTAMP, src STRING, dst STRING, port INT, bytes INT)
  FROM burst OPTIONS (rate '1000', process 'poisson', seed '1', timestamp 'ts');

-- the digest of a long text for every other packet
CREATE QUERY web WITH (latency = '5 s') AS
  SELECT src, dst, bytes
  FROM packets
  WHERE port = 443 AND sha2(repeat(concat(src, ts), 9999), 256) > '4'
  INTO noop;
