-- Three streams, one of them fast and dear to select from: which pair to join first depends on what is shed.
CREATE STREAM a (timestamp TIMESTAMP, value BIGINT) FROM rate OPTIONS (rowsPerSecond '$SLOW', timestamp 'timestamp');
CREATE STREAM b (timestamp TIMESTAMP, value BIGINT) FROM rate OPTIONS (rowsPerSecond '$SLOW', timestamp 'timestamp');
CREATE STREAM c (timestamp TIMESTAMP, value BIGINT) FROM rate OPTIONS (rowsPerSecond '$FAST', timestamp 'timestamp');

CREATE QUERY abc WITH (overload = 'shed', latency = '$LATENCY', memory = '$MEMORY') AS
  SELECT a.value AS va, b.value AS vb, c.value AS vc
  FROM a [RANGE 1500 MILLISECONDS], b [RANGE 1500 MILLISECONDS], c [RANGE 1500 MILLISECONDS]
  WHERE pmod(xxhash64(a.value, 1), 4) = pmod(xxhash64(b.value, 2), 4)
    AND pmod(xxhash64(a.value, 3), 13) = pmod(xxhash64(c.value, 4), 13)
    -- one condition written twice: either way of joining finds it by hash
    AND pmod(xxhash64(a.value, 5), 50000) + pmod(xxhash64(b.value, 6), 50000) = pmod(xxhash64(c.value, 7), 50000)
    AND pmod(xxhash64(b.value, 6), 50000) = pmod(xxhash64(c.value, 7), 50000) - pmod(xxhash64(a.value, 5), 50000)
    AND length(sha2(repeat(CAST(c.value AS STRING), $REPEAT), 512)) > 0
  INTO noop;
