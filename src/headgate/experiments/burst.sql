-- One burst, an expensive last operator: what survives a dear filter, one tuple in eight, is hashed 800 times.
CREATE STREAM packets (ts TIMESTAMP, flow INT, src STRING, dst STRING, port INT, bytes INT)
  FROM burst OPTIONS (rate '$QUIET, $BURST from 3 s, $QUIET from 11 s', flows '64', seed '$SEED', keys '500',
                      start '2024-05-01T12:00:00Z', duration '16 s', timestamp 'ts');

CREATE QUERY heavy AS
  SELECT src, aggregate(sequence(1, 800), concat(src, bytes), (digest, i) -> sha2(digest, 256)) AS digest
  FROM packets
  WHERE aggregate(sequence(1, 45), concat(dst, bytes), (digest, i) -> sha2(digest, 256)) < '2';
