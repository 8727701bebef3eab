-- Queries of all kinds over a few rows: what they load goes into the archive of classes (archive.py).
CREATE STREAM a (ts TIMESTAMP, k INT, v DOUBLE)
  FROM csv OPTIONS (path '{folder}/a', timestamp 'ts', watermark '1 s');

CREATE STREAM b (ts TIMESTAMP, k INT, v DOUBLE)
  FROM csv OPTIONS (path '{folder}/b', timestamp 'ts', watermark '1 s');

CREATE RELATION names (k INT, name STRING)
  FROM csv OPTIONS (path '{folder}/names.csv');

CREATE QUERY selected AS SELECT k, v * 2 AS twice FROM a WHERE v > 3;

CREATE QUERY named AS SELECT n.name, a.v FROM a, names AS n WHERE a.k = n.k;

CREATE QUERY joined AS
  SELECT x.k, x.v AS left_v, y.v AS right_v
  FROM a [RANGE 5 SECONDS] AS x, b [RANGE 5 SECONDS] AS y
  WHERE x.k = y.k;

CREATE QUERY grouped AS
  SELECT k, COUNT(*) AS n, AVG(v) AS mean FROM a [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k;

CREATE QUERY latest AS
  SELECT k, ROUND(AVG(v), 2) AS mean FROM a [PARTITION BY k ROWS 3] GROUP BY k;
