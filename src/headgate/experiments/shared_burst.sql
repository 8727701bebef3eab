-- One burst, eight queries of different cost and selectivity: what runs first decides what waits.
CREATE STREAM packets (ts TIMESTAMP, flow INT, src STRING, dst STRING, port INT, bytes INT)
  FROM burst OPTIONS (rate '$QUIET, $BURST from 3 s, $QUIET from 9 s', flows '64', seed '$SEED', keys '500',
                      start '2024-05-01T12:00:00Z', duration '13 s', timestamp 'ts');
CREATE STREAM alarms (ts TIMESTAMP, flow INT, src STRING, dst STRING, port INT, bytes INT)
  FROM burst OPTIONS (rate '50', flows '8', seed '$SEED', keys '500', start '2024-05-01T12:00:00Z',
                      duration '13 s', timestamp 'ts');

-- cheap to decide, and little is left
CREATE QUERY small AS SELECT src, dst FROM packets WHERE bytes < 60;
-- a dear filter, and what passes it is dearer still
CREATE QUERY hashed AS
  SELECT src, aggregate(sequence(1, 400), concat(src, bytes), (digest, i) -> sha2(digest, 256)) AS digest
  FROM packets
  WHERE aggregate(sequence(1, 20), concat(dst, bytes), (digest, i) -> sha2(digest, 256)) < '2';
-- half of all pass a cheap filter to a dear last step
CREATE QUERY halved AS
  SELECT dst, aggregate(sequence(1, 60), concat(src, bytes), (digest, i) -> sha2(digest, 256)) AS digest
  FROM packets WHERE pmod(xxhash64(src, bytes), 2) = 0;
-- a dear filter that passes nearly all
CREATE QUERY most AS
  SELECT src, bytes FROM packets
  WHERE aggregate(sequence(1, 20), concat(src, bytes), (digest, i) -> sha2(digest, 256)) < 'f';
CREATE QUERY every AS SELECT src, dst, bytes * 8 AS bits FROM packets;
CREATE QUERY long_way AS
  SELECT upper(dst) AS dst, sha2(concat(src, dst), 512) AS digest FROM packets
  WHERE pmod(xxhash64(dst), 4) = 0 AND sha2(src, 256) < '8';
CREATE QUERY alarmed AS
  SELECT p.src, p.bytes, a.bytes AS alarm
  FROM packets [RANGE 1 SECOND] AS p, alarms [RANGE 1 SECOND] AS a WHERE p.src = a.src;
CREATE QUERY counted AS
  SELECT port, COUNT(*) AS packets, SUM(bytes) AS bytes FROM packets [TUMBLE 2 SECONDS] GROUP BY port;
