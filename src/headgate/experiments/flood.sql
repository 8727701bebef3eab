-- Packets of a network, and once a flood of them that the processors cannot keep up with.
CREATE STREAM packets (ts TIMESTAMP, flow INT, src STRING, dst STRING, port INT, bytes INT)
  FROM burst OPTIONS ($OPTIONS);

-- One packet in eight passes an expensive filter, and gets a fingerprint that is more expensive still.
CREATE QUERY fingerprints$SETTINGS AS
  SELECT src, $FINGERPRINT AS fingerprint
  FROM packets
  WHERE aggregate(sequence(1, 45), concat(dst, bytes), (digest, i) -> sha2(digest, 256)) < '2';
