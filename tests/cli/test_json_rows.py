"""Result rows as JSON: one line each, whatever their values are."""

from __future__ import annotations

import io
import json
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headgate.cli.json_rows import RowLines
from headgate.formats.arrow_rows import plain_rows
from headgate.formats.plain_json import json_text
from headgate.model.event import QueryCounts, TickCommitted


class OneRowATick:
    """Stands in for a run."""

    def results_of_tick(self, query: str, batch_id: int) -> Any:
        return pa.table({"ts": [batch_id], "name": [f'"{query}"\n']})


def tick(batch_id: int, **rows_out: int) -> TickCommitted:
    queries = {name: QueryCounts(rows) for name, rows in rows_out.items()}
    return TickCommitted(0.0, batch_id, 0.0, {}, queries, 0, 0, 0)


def test_rows_of_the_queries_that_are_wanted_are_printed_tick_by_tick() -> None:
    file = io.StringIO()
    lines = RowLines(("a", "b"), file)
    for event in (tick(1, a=1, other=1), tick(2, a=0, b=1), tick(3)):
        lines(event)
    lines.print_from(OneRowATick())  # type: ignore[arg-type]
    assert [json.loads(line) for line in file.getvalue().splitlines()] == [
        {"query": "a", "row": {"ts": 1, "name": '"a"\n'}},
        {"query": "b", "row": {"ts": 2, "name": '"b"\n'}},
    ]
    lines.print_from(OneRowATick())  # type: ignore[arg-type]
    assert len(file.getvalue().splitlines()) == 2


def test_values_that_json_has_no_form_of_are_text() -> None:
    table = pa.table(
        {
            "at": pa.array([datetime(2024, 5, 1, 12, tzinfo=timezone.utc)], pa.timestamp("us", tz="UTC")),
            "day": [date(2024, 5, 1)],
            "price": [Decimal("1.10")],
            "odd": [[float("nan"), float("-inf"), 0.5]],
            "raw": [b"\x00\xff"],
            "deep": [{"x": [None, True]}],
        }
    )
    [row] = plain_rows(table)
    assert json.loads(json_text(row)) == {
        "at": "2024-05-01T12:00:00+00:00",
        "day": "2024-05-01",
        "price": "1.10",
        "odd": [None, None, 0.5],
        "raw": "AP8=",
        "deep": {"x": [None, True]},
    }
    assert plain_rows(None) == []
