-- Which order to join three streams in, and what to shed when they do not fit:
-- headgate explain examples/three_streams.sql --profile examples/three_streams.profile.toml
CREATE STREAM A (a INT) FROM rate;
CREATE STREAM B (a INT, b INT) FROM rate;
CREATE STREAM C (b INT, c INT) FROM rate;

CREATE QUERY abc WITH (overload = 'shed') AS
  SELECT A.a, B.b, C.c
  FROM A [ROWS 10], B [ROWS 10], C [ROWS 10]
  WHERE A.a = B.a AND B.b = C.b;
