-- Files as a stream, joined with a stored relation; ends by itself:
--   headgate run examples/sensors.sql --until-done
CREATE STREAM readings (ts TIMESTAMP, sensor STRING, celsius DOUBLE)
  FROM csv OPTIONS (path 'examples/readings', timestamp 'ts', watermark '1 min');

CREATE RELATION sensors (sensor STRING, room STRING, most DOUBLE)
  FROM csv OPTIONS (path 'examples/sensors.csv');

CREATE QUERY too_warm AS
  SELECT s.room, r.celsius, s.most
  FROM readings AS r, sensors AS s
  WHERE r.sensor = s.sensor AND r.celsius > s.most;

-- the mean of the last three readings of every sensor
CREATE QUERY smooth AS
  SELECT sensor, ROUND(AVG(celsius), 2) AS celsius
  FROM readings [PARTITION BY sensor ROWS 3]
  GROUP BY sensor;
