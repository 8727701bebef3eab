"""Computed columns, nested values and views in all clauses, against what Python computes from the rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.files import stamp

from headgate import Session
from headgate.session.handle import Run

pytestmark = pytest.mark.spark

COLUMNS = """
  ts BIGINT, price DOUBLE, n INT, note STRING,
  item STRUCT<name: STRING, made: STRUCT<year: INT>, tags: ARRAY<STRING>>,
  total DOUBLE AS (price * n), Twice DOUBLE AS (TOTAL * 2), first STRING AS (item.tags[0]), PRIMARY KEY (ts)
"""
CITY = "from_json(note, 'shop STRUCT<city: STRING>').shop.city"
DECLARED = f"""
CREATE VIEW dear AS SELECT item, total, {CITY} AS city FROM sales WHERE total > 20;
CREATE QUERY every_clause AS
  SELECT item.made.year AS year, {CITY} AS city, SUM(twice) AS twice, COUNT(DISTINCT item.tags[0]) AS firsts
  FROM sales [TUMBLE 1000 SECONDS]
  WHERE total > 10 AND array_contains(item.tags, 'x') AND {CITY} IS NOT NULL
  GROUP BY item.made.year, {CITY}
  HAVING SUM(total) > 30 AND item.made.year < 2003;
CREATE QUERY everything AS SELECT * FROM sales WHERE first = 'x';
CREATE QUERY fields AS SELECT item.*, n FROM sales WHERE first <> 'x';
CREATE QUERY by_view AS SELECT city, MAX(total) AS most FROM dear [TUMBLE 1000 SECONDS] GROUP BY city;
CREATE QUERY of_both AS
  SELECT d.city, s.first FROM dear [NOW] AS d JOIN sales [NOW] AS s ON d.item.name = s.item.name;
"""


def random_rows(rng: Random) -> list[dict[str, Any]]:
    rows = []
    for ts in range(1000, 1060):
        tags = rng.sample("xyz", rng.randint(1, 3))
        item = {"name": rng.choice("abc"), "made": {"year": rng.randint(2000, 2005)}, "tags": tags}
        note = rng.choice((json.dumps({"shop": {"city": rng.choice(("Rome", "Oslo"))}}), "{}"))
        row = {"ts": ts, "price": rng.randint(1, 9) / 2, "n": rng.randint(1, 9), "item": item, "note": note}
        rows.append(row)
    return rows


def run_of(spark: SparkSession, folder: Path, rows: list[dict[str, Any]], text: str) -> Run:
    folder.mkdir()
    for number in range(3):
        path = folder / f"{number}.json"
        path.write_text("\n".join(json.dumps(row) for row in rows[number * 20 : number * 20 + 20]))
        stamp(path)
    options = f"path '{folder}', timestamp 'ts', idle_after '1 h', maxFilesPerTrigger '1'"
    session = Session(spark).execute(f"CREATE STREAM sales ({COLUMNS}) FROM json OPTIONS ({options}); {text}")
    run = session.start(until_done=True)
    assert run.wait(180)
    return run


def city_of(row: dict[str, Any]) -> str | None:
    found: str | None = json.loads(row["note"]).get("shop", {}).get("city")
    return found


def total_of(row: dict[str, Any]) -> float:
    return float(row["price"] * row["n"])


def grouped(
    rows: list[dict[str, Any]], key: Callable[[dict[str, Any]], Any]
) -> dict[Any, list[dict[str, Any]]]:
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def test_computed_columns_nested_values_and_views_work_in_every_clause(
    spark: SparkSession, tmp_path: Path, run_seed: int
) -> None:
    rows = random_rows(Random(run_seed))
    run = run_of(spark, tmp_path / "sales", rows, DECLARED)

    def found(query: str) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(row)[1:] for row in run.results(query).collect())

    chosen = [r for r in rows if total_of(r) > 10 and "x" in r["item"]["tags"] and city_of(r)]
    expected: Counter[tuple[Any, ...]] = Counter()
    for (year, city), members in grouped(chosen, lambda r: (r["item"]["made"]["year"], city_of(r))).items():
        total = sum(map(total_of, members))
        if total > 30 and year < 2003:
            expected[year, city, 2 * total, len({r["item"]["tags"][0] for r in members})] += 1
    assert found("every_clause") == expected
    first_x = [r for r in rows if r["item"]["tags"][0] == "x"]
    assert [(r.total, r.Twice, r.first) for r in run.results("everything").orderBy("ts").collect()] == [
        (total_of(r), 2 * total_of(r), "x") for r in first_x
    ]
    others = Counter((r["item"]["name"], r["item"]["tags"][0], r["n"]) for r in rows if r not in first_x)
    assert Counter((r.name, r.tags[0], r.n) for r in run.results("fields").collect()) == others
    dear = [r for r in rows if total_of(r) > 20]
    most = {city: max(map(total_of, members)) for city, members in grouped(dear, city_of).items()}
    assert found("by_view") == Counter(most.items())
    assert found("of_both") == Counter((city_of(r), r["item"]["tags"][0]) for r in dear)
