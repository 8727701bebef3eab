"""Expected matches on Spark: keys in windows are counted by bucket, and tuples ranked by these counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from headgate.model.joins import WindowJoin
from headgate.model.productivity import KEY_BUCKETS, KeyMatch, KeyTables, equal_keys
from headgate.spark.samples import WindowContent, collect_numbered, own_sample

# enough to tell which buckets have the frequent keys
_KEY_ROWS = 20_000


@dataclass(frozen=True)
class KeySample:
    """The table of a key, and a frame that counts it: a row for each bucket that occurs."""

    table: str
    counted: DataFrame


def key_samples(join: WindowJoin, contents: Sequence[WindowContent | None]) -> list[KeySample]:
    """A sample of every key that an equality of the join compares."""
    samples = []
    for key, _ in equal_keys(join):
        content = contents[key.side]
        if content is not None:
            items = [f"{_bucket(key.text)} AS bucket"]
            counted = own_sample(content, _KEY_ROWS).where(f"({key.text}) IS NOT NULL").selectExpr(*items)
            samples.append(KeySample(key.table, counted.groupBy("bucket").count()))
    return samples


def count_keys(samples: Sequence[KeySample]) -> dict[str, list[int]]:
    """Rows of each table by bucket, by one job."""
    found = {sample.table: [0] * KEY_BUCKETS for sample in samples}
    for number, bucket, rows in collect_numbered([sample.counted for sample in samples]):
        found[samples[number].table][bucket] = rows
    return found


def productivity(sides: Sequence[Sequence[KeyMatch]], tables: KeyTables) -> str | None:
    """The matches expected of a tuple, relative to others of its stream; None until all keys were counted."""
    if any(match.table not in tables for matches in sides for match in matches):
        return None
    products = (" * ".join(_meets(m.text, tables[m.table]) for m in matches) for matches in sides)
    return " + ".join(products)


def _meets(key: str, table: Sequence[float]) -> str:
    # generated code has the array by reference, so that other counts do not compile it anew
    counts = ", ".join(f"{count!r}D" for count in table)
    return f"CASE WHEN ({key}) IS NULL THEN 0D ELSE array({counts})[{_bucket(key)}] END"


def _bucket(key: str) -> str:
    # as text, so that keys of different types that are equal share a bucket
    return f"CAST(pmod(xxhash64(CAST(({key}) AS STRING)), {KEY_BUCKETS}L) AS INT)"
