-- One burst, eight queries of different cost and selectivity: what runs first decides what waits.
CREATE STREAM packets (ts TIMESTAMP, flow INT, src STRING, dst STRING, port INT, bytes INT)
  FROM burst OPTIONS (rate '$QUIET, $BURST from 3 s, $QUIET from 8 s', flows '64', seed '$SEED', keys '500',
                      start '2024-05-01T12:00:00Z', duration '12 s', timestamp 'ts');
CREATE STREAM alarms (ts TIMESTAMP, flow INT, src STRING, dst STRING, port INT, bytes INT)
  FROM burst OPTIONS (rate '50', flows '8', seed '$SEED', keys '500', start '2024-05-01T12:00:00Z',
                      duration '12 s', timestamp 'ts');
-- a leaf that is quick, below six of them
CREATE STREAM halves AS
  SELECT src, dst, bytes FROM packets WHERE pmod(xxhash64(src, bytes), 2) = 0;

-- cheap: nearly all results are theirs
CREATE QUERY brief AS
  SELECT dst, aggregate(sequence(1, 24), concat(src, bytes), (digest, i) -> sha2(digest, 256)) AS digest
  FROM halves;
CREATE QUERY medium AS
  SELECT src, aggregate(sequence(1, 30), concat(dst, bytes), (digest, i) -> sha2(digest, 256)) AS digest
  FROM halves;
CREATE QUERY longer AS
  SELECT src, aggregate(sequence(1, 36), concat(src, dst), (digest, i) -> sha2(digest, 256)) AS digest
  FROM halves;
-- dear: the filter frees more for its time than a cheap query does, but less together with what is behind it
CREATE QUERY rare AS
  SELECT dst, aggregate(sequence(1, 1400), concat(src, bytes), (digest, i) -> sha2(digest, 256)) AS digest
  FROM halves
  WHERE aggregate(sequence(1, 20), concat(src, bytes), (digest, i) -> sha2(digest, 256)) < '05';
CREATE QUERY rarer AS
  SELECT src, aggregate(sequence(1, 1600), concat(dst, bytes), (digest, i) -> sha2(digest, 256)) AS digest
  FROM halves
  WHERE aggregate(sequence(1, 20), concat(dst, bytes), (digest, i) -> sha2(digest, 256)) < '05';
CREATE QUERY rarest AS
  SELECT src, aggregate(sequence(1, 1800), concat(src, dst), (digest, i) -> sha2(digest, 256)) AS digest
  FROM halves
  WHERE aggregate(sequence(1, 20), concat(src, dst, bytes), (digest, i) -> sha2(digest, 256)) < '05';
CREATE QUERY alarmed AS
  SELECT p.src, p.bytes, a.bytes AS alarm
  FROM packets [RANGE 1 SECOND] AS p, alarms [RANGE 1 SECOND] AS a WHERE p.src = a.src;
CREATE QUERY counted AS
  SELECT port, COUNT(*) AS packets, SUM(bytes) AS bytes FROM packets [TUMBLE 2 SECONDS] GROUP BY port;
