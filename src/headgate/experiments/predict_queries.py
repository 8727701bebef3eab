"""Four queries of different kinds over bursty traffic, each alone in a script."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.experiments.script import filled

_PACKETS = """\
CREATE STREAM packets (ts TIMESTAMP, flow INT, src STRING, dst STRING, port INT, bytes INT)
  FROM burst OPTIONS (rate '$RATE', flows '64', seed '$SEED', keys '5000', skew '0.5',
                      start '2024-05-01T12:00:00Z', duration '$DURATION s', timestamp 'ts');
"""
_ALERTS = """\
CREATE STREAM alerts (ts TIMESTAMP, src STRING, score DOUBLE)
  FROM burst OPTIONS (rate '$ALERTS', flows '64', seed '1$SEED', keys '5000', skew '0.5',
                      start '2024-05-01T12:00:00Z', duration '$DURATION s', timestamp 'ts');
"""


@dataclass(frozen=True)
class PredictedQuery:
    """A query, and a rate that is about all that two processors can do."""

    name: str
    text: str
    full_rate: float

    def script(self, rate: float, seconds: float, seed: int) -> str:
        """The query over traffic of some rate, length and seed."""
        values = {"$RATE": rate, "$ALERTS": rate / 20, "$DURATION": seconds, "$SEED": seed}
        return filled(self.text, {name: f"{value:.0f}" for name, value in values.items()})


QUERIES = (
    PredictedQuery(
        "filter",
        _PACKETS
        + """\
CREATE QUERY q AS
  SELECT src, dst, bytes FROM packets
  WHERE bytes > 60 AND aggregate(sequence(1, 60), concat(dst, bytes), (d, i) -> sha2(d, 256)) < '1';
""",
        100_000,
    ),
    PredictedQuery(
        "digest",
        _PACKETS
        + """\
CREATE QUERY q AS
  SELECT src, aggregate(sequence(1, 200), concat(src, bytes), (d, i) -> sha2(d, 256)) AS digest
  FROM packets WHERE port = 80;
""",
        60_000,
    ),
    PredictedQuery(
        "join",
        _PACKETS
        + _ALERTS
        + """\
CREATE QUERY q AS
  SELECT a.src, a.score, p.dst, p.bytes
  FROM alerts [RANGE 2 SECONDS] AS a, packets [RANGE 2 SECONDS] AS p
  WHERE a.src = p.src AND a.score > 0.5;
""",
        60_000,
    ),
    PredictedQuery(
        "aggregate",
        _PACKETS
        + """\
CREATE QUERY q AS
  SELECT src, COUNT(*) AS packets, SUM(bytes) AS volume, MAX(bytes) AS largest
  FROM packets [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY src;
""",
        250_000,
    ),
)
