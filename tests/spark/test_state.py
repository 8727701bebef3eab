"""State is bounded where the text of a query bounds it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.lengths import short_or_long

from headgate import Session
from headgate.model.event import Event, TickCommitted
from headgate.workload.nexmark import DEFAULT_START_US, EventSequence
from headgate.workload.nexmark_files import DataSet

pytestmark = pytest.mark.spark

HOURS = short_or_long(8, 24)
RATE = Fraction(1, 20)
QUERIES = """
CREATE STREAM auction (id BIGINT, dateTime TIMESTAMP)
  FROM parquet OPTIONS (path '{data}/auction', timestamp 'dateTime', maxFilesPerTrigger '1');
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, dateTime TIMESTAMP)
  FROM parquet OPTIONS (path '{data}/bid', timestamp 'dateTime', maxFilesPerTrigger '1');
CREATE QUERY soon AS
  SELECT a.id, b.price FROM auction AS a LEFT JOIN bid AS b
    ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.dateTime + INTERVAL 10 MINUTES;
CREATE QUERY sessions AS SELECT bidder, COUNT(*) AS bids FROM bid [SESSION 20 MINUTES] GROUP BY bidder;
CREATE QUERY most AS
  SELECT auction, COUNT(*) AS bids FROM bid [TUMBLE 30 MINUTES] GROUP BY auction ORDER BY bids DESC LIMIT 3;
CREATE QUERY highest AS
  SELECT price FROM bid ORDER BY price DESC LIMIT 5 INTO memory OPTIONS (mode 'latest');
"""


def test_hours_of_events_leave_no_more_state_than_the_second_hour(
    spark: SparkSession, tmp_path: Path
) -> None:
    sequence = EventSequence(3, RATE, DEFAULT_START_US)
    DataSet(tmp_path / "nexmark", sequence, round(HOURS * 3600 * RATE), files=HOURS).write()
    ticks: list[TickCommitted] = []

    def keep(event: Event) -> None:
        if isinstance(event, TickCommitted) and any(counts.rows_in for counts in event.streams.values()):
            ticks.append(event)

    session = Session(spark).execute(QUERIES.format(data=tmp_path / "nexmark"))
    run = session.start(until_done=True, observers=[keep])
    assert run.wait(600)
    assert len(ticks) >= HOURS - 1
    held = [tick.window_bytes for tick in ticks]
    assert 0 < max(held[-4:]) <= 1.5 * max(held[1:4]), held
