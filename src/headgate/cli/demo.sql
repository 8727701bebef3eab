-- Two links of a network are watched at once. Traffic comes in bursts on all time scales, and once in a flood
-- that two processors cannot keep up with: what has to wait waits on disk, and is caught up with afterwards.
CREATE STREAM packets (ts TIMESTAMP, flow INT, src STRING, dst STRING, port INT, bytes INT)
  FROM burst OPTIONS (rate '2000, 8000 from 20 s, 2000 from 32 s', flows '24', seed '11', keys '500', start '2024-05-01T12:00:00Z',
                      duration '60 s', timestamp 'ts');

CREATE STREAM alerts (ts TIMESTAMP, src STRING, port INT, score DOUBLE)
  FROM burst OPTIONS (rate '40', flows '16', seed '5', keys '500', start '2024-05-01T12:00:00Z',
                      duration '60 s', timestamp 'ts');

-- An expensive predicate: a fingerprint of every packet, hashed 600 times.
CREATE QUERY suspicious AS
  SELECT src, dst, port, bytes
  FROM packets
  WHERE bytes > 60
    AND aggregate(sequence(1, 600), concat_ws('|', src, dst, port, bytes), (digest, i) -> sha2(digest, 256))
        RLIKE '^(0[0-9a-f]|f0).*[0-7]$';

-- A window join: packets from a source that an alert named less than two seconds ago, or the other way round.
CREATE QUERY alerted AS
  SELECT a.src, a.score, p.dst, p.bytes
  FROM alerts [RANGE 2 SECONDS] AS a, packets [RANGE 2 SECONDS] AS p
  WHERE a.src = p.src AND a.port = p.port AND a.score > 0.9;

-- A windowed aggregate: who sends most.
CREATE QUERY top_talkers AS
  SELECT src, COUNT(*) AS packets, SUM(bytes) AS volume
  FROM packets [RANGE 10 SECONDS SLIDE 5 SECONDS]
  GROUP BY src
  HAVING COUNT(*) > 1000;
