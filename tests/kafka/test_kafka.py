"""Kafka with a real broker: from topics into files and topics, through outages and crashes."""

from __future__ import annotations

import base64
import json
import signal
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from tests.cached_jars import cached_jars
from tests.kafka.broker import Broker
from tests.lengths import short_or_long

pytestmark = [pytest.mark.spark, pytest.mark.takes_minutes]

Eventually = Callable[[Callable[[], bool], float], None]
TIMEOUT_S = 900.0
PARTITIONS, APART_S = 3, 30
ROWS, KILLS, OUTAGE_S = short_or_long((1_500, 1, 8), (9_000, 5, 180))
SCRIPT = """
CREATE STREAM s (ts DOUBLE, n INT, k INT, key STRING, partition INT, offset BIGINT) FROM kafka OPTIONS (
  servers '{servers}', topic 'numbers', format 'json', timestamp 'ts', startingOffsets 'earliest',
  maxOffsetsPerTrigger '400', idle_after '4 s');
CREATE STREAM raw FROM kafka OPTIONS (
  servers '{servers}', topic 'numbers', startingOffsets 'earliest', maxOffsetsPerTrigger '400');
CREATE QUERY sent AS SELECT n, k FROM s WHERE n % 2 = 0
  INTO kafka OPTIONS (servers '{servers}', topic 'even', key 'k');
CREATE QUERY thirds AS SELECT n FROM s WHERE n % 3 = 0
  INTO kafka OPTIONS (servers '{servers}', topic 'thirds');
CREATE QUERY twice AS SELECT n FROM s WHERE n % 2 = 1
  INTO kafka OPTIONS (servers '{servers}', topic 'odd', transactions 'false');
CREATE QUERY kept AS SELECT n, key, partition, offset FROM s INTO parquet '{folder}/kept';
CREATE QUERY counted AS SELECT k, count(*) AS c FROM s [TUMBLE 10 SECONDS] GROUP BY k
  INTO parquet '{folder}/counted';
CREATE QUERY bytes AS SELECT CAST(value AS STRING) AS text FROM raw INTO parquet '{folder}/bytes';
"""


def is_bad(number: int) -> bool:
    return number % 100 == 7


def record(number: int) -> tuple[int, bytes, bytes]:
    """Partition, key and value; the last partition is a minute behind the first."""
    partition = number % PARTITIONS
    value = json.dumps(
        {"ts": 1_700_000_000 + number * 0.1 - APART_S * partition, "n": number, "k": number % 5}
    )
    return partition, f"key {number % 5}".encode(), (f"{{bad {number}" if is_bad(number) else value).encode()


@contextmanager
def running(folder: Path, connector: list[Path], *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run in a process of its own, which is killed at the end if it still lives."""
    jars = ",".join(map(str, connector))
    command = [sys.executable, "-m", "headgate", "run", str(folder / "q.sql"), "--jars", jars]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--checkpoint", str(folder / "checkpoint"), *arguments], stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def stored(folder: Path, query: str, columns: str = "*") -> list[tuple[object, ...]]:
    files = f"{folder}/{query}/part-*.parquet"
    if not list((folder / query).glob("part-*.parquet")):
        return []
    return duckdb.sql(f"SELECT {columns} FROM read_parquet('{files}')").fetchall()


def log_of(folder: Path) -> str:
    return (folder / "log").read_text()[-3000:]


def test_partitions_out_of_step_an_outage_and_kills_change_no_result(
    broker: Broker, connector: list[Path], tmp_path: Path, eventually: Eventually
) -> None:
    for topic, partitions in (("numbers", PARTITIONS), ("even", 2), ("thirds", 1), ("odd", 2)):
        broker.create(topic, partitions)
    (tmp_path / "q.sql").write_text(SCRIPT.format(servers=broker.servers, folder=tmp_path))

    def kept() -> int:
        return len(stored(tmp_path, "kept", "n"))

    def has(process: subprocess.Popen[bytes], rows: int) -> Callable[[], bool]:
        def check() -> bool:
            assert process.poll() is None, log_of(tmp_path)
            return kept() >= rows

        return check

    broker.produce("numbers", map(record, range(ROWS)))
    for kill in range(KILLS):
        with running(tmp_path, connector) as process:
            eventually(has(process, max(kept() + 1, kill * ROWS // (2 * KILLS))), TIMEOUT_S)
    with running(tmp_path, connector) as process:
        # without a broker it does not start: the outage begins once it has read something
        eventually(has(process, kept() + 1), TIMEOUT_S)
        broker.stop()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(OUTAGE_S)
        broker.start()
        good = [number for number in range(ROWS) if not is_bad(number)]
        eventually(has(process, len(good)), TIMEOUT_S)
        # all partitions fall silent, and windows up to the last timestamp are complete
        eventually(lambda: len(stored(tmp_path, "counted")) >= len(windows(good)), TIMEOUT_S)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0, log_of(tmp_path)
    found = stored(tmp_path, "kept", 'n, key, "partition", "offset"')
    assert sorted(found) == sorted(
        (number, f"key {number % 5}", number % PARTITIONS, number // PARTITIONS) for number in good
    )
    assert Counter(stored(tmp_path, "counted", "k, c, CAST(round(ts / 10) AS INT)")) == Counter(windows(good))
    texts = Counter(text for (text,) in stored(tmp_path, "bytes", "text"))
    assert texts == Counter(record(number)[2].decode() for number in range(ROWS))
    letters = stored(tmp_path, "checkpoint/dead-letters", "row, reason")
    assert sorted(row for row, _ in letters) == sorted(
        f"{{bad {number}" for number in range(ROWS) if is_bad(number)
    )
    assert all(str(reason).startswith("the row does not parse: it is not JSON") for _, reason in letters)
    sent = broker.committed("even")
    assert sorted(one["value"]["n"] for one in sent) == [number for number in good if number % 2 == 0]
    assert all(one["key"].decode() == str(one["value"]["k"]) for one in sent)
    thirds = broker.committed("thirds")
    assert sorted(one["value"]["n"] for one in thirds) == [number for number in good if number % 3 == 0]
    # without transactions a batch may come twice, but its rows have the same places then
    by_place = {
        (one["headgate.batch"], one["headgate.row"]): one["value"]["n"] for one in broker.committed("odd")
    }
    assert sorted(by_place.values()) == [number for number in good if number % 2 == 1]


def windows(numbers: list[int]) -> list[tuple[int, int, int]]:
    """Key, count and end in tens of seconds of every window that is complete with the last timestamp."""
    times = {number: json.loads(record(number)[2])["ts"] for number in numbers}
    last = max(times.values())
    counts = Counter((int(ts // 10) + 1, number % 5) for number, ts in times.items())
    return [(k, count, end) for (end, k), count in counts.items() if end * 10 <= last]


LIVE = """
CREATE STREAM s (ts DOUBLE, n INT) FROM kafka OPTIONS (
  servers '{servers}', topic 'live', format 'csv', timestamp 'ts', startingOffsets 'earliest');
CREATE QUERY kept AS SELECT n FROM s INTO parquet '{folder}/kept';
"""


@pytest.mark.long
def test_new_partitions_are_read_and_a_deleted_topic_is_named(
    broker: Broker, connector: list[Path], tmp_path: Path, eventually: Eventually
) -> None:
    broker.create("live", 1)
    (tmp_path / "q.sql").write_text(LIVE.format(servers=broker.servers, folder=tmp_path))
    admin = AdminClient({"bootstrap.servers": broker.servers})

    def rows_of(partition: int, numbers: range) -> Iterator[tuple[int, None, bytes]]:
        return ((partition, None, f"{1_700_000_000 + number},{number}".encode()) for number in numbers)

    broker.produce("live", rows_of(0, range(10)))
    with running(tmp_path, connector) as process:
        eventually(lambda: len(stored(tmp_path, "kept")) == 10, TIMEOUT_S)
        for done in admin.create_partitions([NewPartitions("live", 2)]).values():
            done.result(60)
        broker.produce("live", rows_of(1, range(100, 120)))
        eventually(lambda: len(stored(tmp_path, "kept")) == 30, TIMEOUT_S)
        for done in admin.delete_topics(["live"]).values():
            done.result(60)
        assert process.wait(TIMEOUT_S) == 1
    assert "stream s: topic live no longer exists" in log_of(tmp_path)


AVRO_SCHEMA = {
    "type": "record",
    "name": "measurement",
    "fields": [
        {"name": "celsius", "type": ["null", "double"]},
        {"name": "n", "type": "long"},
        {"name": "city", "type": ["null", "string"]},
    ],
}
AVRO = """
CREATE STREAM s (timestamp TIMESTAMP, celsius DOUBLE, n INT, city STRING, offset BIGINT) FROM kafka OPTIONS (
  servers '{servers}', topic 'avro', format 'avro', schema '{folder}/measurement.avsc',
  timestamp 'timestamp', metadata 'offset,timestamp', startingOffsets 'earliest');
CREATE QUERY kept AS SELECT celsius, n, city, offset FROM s INTO parquet '{folder}/kept';
"""
TOO_LARGE = 1 << 40


def zigzag(number: int) -> bytes:
    """An integer in the binary encoding of Avro."""
    rest, found = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def avro(celsius: float | None, number: int, city: str | None) -> bytes:
    """A record of AVRO_SCHEMA in the binary encoding; the branch of a union comes before its value."""
    degrees = b"\0" if celsius is None else b"\2" + struct.pack("<d", celsius)
    text = b"\0" if city is None else b"\2" + zigzag(len(city.encode())) + city.encode()
    return degrees + zigzag(number) + text


def test_values_in_avro_become_columns_and_bad_ones_dead_letters(
    broker: Broker, connector: list[Path], tmp_path: Path, eventually: Eventually
) -> None:
    broker.create("avro", 1)
    (tmp_path / "measurement.avsc").write_text(json.dumps(AVRO_SCHEMA))
    (tmp_path / "q.sql").write_text(AVRO.format(servers=broker.servers, folder=tmp_path))
    good = [
        (None if n % 7 == 0 else n / 4, n - 50, None if n % 5 == 0 else f"Orléans {n}") for n in range(100)
    ]
    # cut short, a branch that the union does not have, a number that does not fit INT
    bad = [avro(1.0, 1, "Paris")[:-1], b"\6", b"", avro(None, TOO_LARGE, None)]
    values = [*(avro(*row) for row in good), *bad, None]
    broker.produce("avro", ((0, None, value) for value in values))

    def arrived() -> int:
        letters = stored(tmp_path, "checkpoint/dead-letters", "row")
        return len(stored(tmp_path, "kept", "n")) + len(letters)

    with running(tmp_path, [*connector, *cached_jars("avro")]) as process:
        eventually(lambda: process.poll() is not None or arrived() >= len(values), TIMEOUT_S)
        assert process.poll() is None, log_of(tmp_path)
    rows = stored(tmp_path, "kept", 'celsius, n, city, "offset"')
    assert Counter(rows) == Counter((*row, place) for place, row in enumerate(good))
    letters = stored(tmp_path, "checkpoint/dead-letters", "row, reason")
    assert Counter(row for row, _ in letters) == Counter(
        [*(base64.b64encode(value).decode() for value in bad), "null"]
    )
    assert {reason for _, reason in letters} == {"the row does not parse"}
