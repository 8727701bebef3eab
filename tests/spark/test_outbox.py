"""The outbox of callbacks: a batch id always stands for the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headgate.errors import DamagedStateError, UserCodeError
from headgate.model.network import QueryDefinition
from headgate.spark.file_system import Files
from headgate.spark.outbox import KEEP_RATIO, CallbackSink, StagedSink, unsealed
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


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda stored: stored[:-1] + bytes([stored[-1] ^ 1]), "its checksum does not match its content"),
        # at the end of its schema, where Arrow would find a whole table without rows
        (lambda stored: stored[: len(stored) // 2], "its checksum does not match its content"),
        (lambda stored: b"", "Tried reading schema message"),
    ],
)
def test_damaged_results_that_wait_are_named_and_not_delivered(
    tmp_path: Path, damage: Callable[[bytes], bytes], reason: str
) -> None:
    outbox = tmp_path / "outbox"
    tick(CallbackSink("callback f", print, Files(), str(outbox)), 4, 1, 2)
    [place] = outbox.iterdir()
    place.write_bytes(damage(place.read_bytes()))
    seen: list[int] = []
    resumed = CallbackSink("callback f", lambda table, batch_id: seen.append(batch_id), Files(), str(outbox))
    resumed.discard_after(4)
    with pytest.raises(DamagedStateError) as refused:
        resumed.deliver()
    assert str(refused.value).startswith(f"{place} is damaged: {reason}")
    advice = f"these results of callback f were not delivered; remove {place} to go on without them"
    assert str(refused.value).endswith(f"; {advice}")
    assert not seen
    place.unlink()
    resumed.discard_after(4)
    resumed.deliver()


def test_results_that_an_earlier_version_has_staged_are_delivered(tmp_path: Path) -> None:
    outbox = tmp_path / "outbox"
    tick(CallbackSink("callback f", print, Files(), str(outbox)), 4, 1, 2)
    [place] = outbox.iterdir()
    place.write_bytes(unsealed(place.read_bytes()))
    seen: list[dict[str, list[int]]] = []
    resumed = CallbackSink(
        "callback f", lambda table, batch_id: seen.append(table.to_pydict()), Files(), str(outbox)
    )
    resumed.discard_after(4)
    resumed.deliver()
    assert seen == [{"v": [1, 2]}]


class _Sent(StagedSink):
    """Takes what is staged, without Spark."""

    def __init__(self, folder: Path, files: Files | None = None) -> None:
        query = cast(QueryDefinition, SimpleNamespace(name="q"))
        super().__init__(cast(SparkSession, None), query, files or Files(), str(folder), StructType())
        self.sent: list[int] = []

    def _send(self, batch_id: int) -> None:
        self.sent.append(batch_id)


def staged(folder: Path) -> Path:
    """The file of a tick whose results wait."""
    part = folder / "000000004/0/part-0.parquet"
    part.parent.mkdir(parents=True)
    part.write_text("rows")
    _Sent(folder).publish(4, 1, [0], 1.0)
    return part


def record_of(part: Path) -> Path:
    return part.parent.parent / "_staged.json"


def resumed(folder: Path) -> _Sent:
    sink = _Sent(folder)
    sink.discard_after(4)
    return sink


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (Path.unlink, "{place} is missing"),
        (lambda part: part.write_text("less"), "{part} has other content"),
        (lambda part: record_of(part).write_text("{"), "{place}/_staged.json is damaged: it ends"),
    ],
)
def test_staged_files_that_have_changed_are_named_and_not_sent(
    tmp_path: Path, damage: Callable[[Path], None], named: str
) -> None:
    part = staged(tmp_path)
    damage(part)
    sink, place = resumed(tmp_path), part.parent.parent
    with pytest.raises(DamagedStateError) as refused:
        sink.deliver()
    said = str(refused.value)
    assert said.startswith(named.format(part=part, place=place)) and f"remove {place} to go on" in said
    assert not sink.sent


def test_staged_files_that_are_whole_are_sent_also_those_of_an_earlier_version(tmp_path: Path) -> None:
    for is_earlier in (False, True):
        part = staged(tmp_path)
        if is_earlier:
            record_of(part).unlink()
        sink = resumed(tmp_path)
        sink.deliver()
        assert sink.sent == [4] and not part.exists()


class _Mortal(Files):
    """A process that is killed while it removes a folder, or before it begins."""

    def __init__(self, has_begun: bool) -> None:
        super().__init__()
        self._has_begun = has_begun

    def delete(self, path: str) -> None:
        if Path(path).is_dir():
            if self._has_begun:
                next(Path(path).rglob("*.parquet")).unlink()
            raise KeyboardInterrupt
        super().delete(path)


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_crash_while_delivered_results_are_removed_is_neither_damage_nor_a_second_delivery(
    tmp_path: Path, has_begun: bool
) -> None:
    part = staged(tmp_path)
    killed = _Sent(tmp_path, _Mortal(has_begun))
    killed.discard_after(4)
    with pytest.raises(KeyboardInterrupt):
        killed.deliver()
    assert killed.sent == [4] and part.exists() != has_begun
    sink = resumed(tmp_path)
    sink.deliver()
    assert not sink.sent and not list(tmp_path.iterdir())
