"""The outbox of callbacks: a batch id always stands for the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from headgate.errors import UserCodeError
from headgate.spark.file_system import Files
from headgate.spark.outbox import KEEP_RATIO, CallbackSink
from headgate.spark.physical_plans import MeasuredQuery


class _Results:
    """Results of a query, which are handed over as an Arrow table."""

    def __init__(self, *values: int) -> None:
        self._table = pa.table({"v": pa.array(values, pa.int32())})

    @contextmanager
    def observed(self) -> Iterator[Any]:
        yield self

    def toArrow(self) -> pa.Table:
        return self._table


def tick(sink: CallbackSink, batch_id: int, *values: int, keep_ratio: float = 1.0) -> None:
    sink.write(cast(MeasuredQuery, _Results(*values)), batch_id, 0)
    sink.publish(batch_id, len(values), [0] if values else [], keep_ratio)


def test_a_callback_gets_each_committed_batch_that_has_rows_with_its_number_and_share(tmp_path: Path) -> None:
    seen: list[tuple[pa.Table, int]] = []

    def note(table: pa.Table, batch_id: int) -> None:
        seen.append((table, batch_id))

    sink = CallbackSink("callback f", note, Files(), f"{tmp_path}/outbox")
    tick(sink, 0, 1, 2, keep_ratio=0.25)
    assert seen == []
    sink.deliver()
    tick(sink, 1)
    sink.deliver()
    [(table, batch_id)] = seen
    assert (table.to_pydict(), batch_id) == ({"v": [1, 2]}, 0)
    assert table.schema.metadata == {KEEP_RATIO.encode(): b"0.25"}
    assert list((tmp_path / "outbox").iterdir()) == []


def test_after_a_crash_it_gets_what_was_staged_but_nothing_of_ticks_that_did_not_happen(
    tmp_path: Path,
) -> None:
    def fail(table: pa.Table, batch_id: int) -> None:
        raise OSError("no room")

    crashed = CallbackSink("callback f", fail, Files(), f"{tmp_path}/outbox")
    tick(crashed, 4, 1, 2)
    tick(crashed, 5, 3)
    with pytest.raises(UserCodeError, match="no room"):
        crashed.deliver()
    seen: list[tuple[dict[str, list[int]], int]] = []

    def note(table: pa.Table, batch_id: int) -> None:
        seen.append((table.to_pydict(), batch_id))

    # tick 4 was committed, and tick 5 is tried again with other tuples
    resumed = CallbackSink("callback f", note, Files(), f"{tmp_path}/outbox")
    resumed.discard_after(4)
    tick(resumed, 5, 7, 8, 9)
    resumed.deliver()
    assert seen == [({"v": [1, 2]}, 4), ({"v": [7, 8, 9]}, 5)]
