"""NEXMark events as folders of Parquet files."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headgate.errors import SetupError
from headgate.workload import nexmark_files
from headgate.workload.nexmark import EVENT_TABLES, EventSequence, side_input
from headgate.workload.nexmark_files import DataSet

SEQUENCE = EventSequence(seed=6)


def data_set(folder: Path, events: int = 1000, files: int = 4) -> DataSet:
    return DataSet(folder, SEQUENCE, events, files)


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


@pytest.mark.parametrize("events", [1, 49, 50, 175, 1234])
@pytest.mark.parametrize("files", [1, 4, 100])
def test_files_hold_the_tables_in_the_order_of_events(events: int, files: int, tmp_path: Path) -> None:
    written = data_set(tmp_path / "new" / "folder", events, files).write()
    for name in EVENT_TABLES:
        paths = files_of(tmp_path / "new" / "folder" / name)
        assert len(paths) == min(files, max(1, events // 50)) == written[name].files
        parts = [pq.read_table(path) for path in paths]
        table = SEQUENCE.table(name, 0, events)
        assert pa.concat_tables(parts).combine_chunks() == table.combine_chunks()
        assert written[name].rows == table.num_rows
        assert written[name].bytes == sum(path.stat().st_size for path in paths)


def test_file_n_of_every_table_covers_the_same_events_and_has_rows(tmp_path: Path) -> None:
    data_set(tmp_path, 1234, 7).write()
    bounds = []
    for number in range(7):
        tables = [pq.read_table(tmp_path / name / f"part-{number:05}.parquet") for name in EVENT_TABLES]
        assert all(table.num_rows for table in tables)
        times = [time for table in tables for time in table["dateTime"].to_pylist()]
        bounds.append((min(times), max(times)))
    assert all(last < first for (_, last), (first, _) in pairwise(bounds))


def test_modification_times_grow_with_event_time_and_are_past(tmp_path: Path) -> None:
    data_set(tmp_path, 2000, 20).write()
    for name in EVENT_TABLES:
        times_s = [path.stat().st_mtime for path in files_of(tmp_path / name)]
        assert [later - earlier for earlier, later in pairwise(times_s)] == [1.0] * 19
        assert times_s[-1] < time.time()


def test_times_are_utc_microseconds_in_the_files(tmp_path: Path) -> None:
    data_set(tmp_path).write()
    found = pq.ParquetFile(tmp_path / "auction" / "part-00000.parquet").schema
    kinds = {column.name: str(column.logical_type) for column in map(found.column, range(len(found)))}
    for column in ("dateTime", "expires"):
        assert kinds[column].startswith("Timestamp(isAdjustedToUTC=true, timeUnit=microseconds")


def test_the_side_input_is_one_file(tmp_path: Path) -> None:
    written = data_set(tmp_path).write()["side_input"]
    assert pq.read_table(tmp_path / "side_input" / "part-00000.parquet") == side_input()
    assert (written.rows, written.files) == (10_000, 1)


def test_long_files_are_written_in_parts_and_report_their_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nexmark_files, "_EVENTS_AT_ONCE", 300)
    seen: list[int] = []
    data_set(tmp_path, 1000, 2).write(seen.append)
    assert seen == [300, 500, 800, 1000]
    assert pq.ParquetFile(tmp_path / "bid" / "part-00000.parquet").num_row_groups == 2
    assert pq.read_table(tmp_path / "bid") == SEQUENCE.table("bid", 0, 1000).combine_chunks()


def test_a_folder_with_other_content_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(
        SetupError, match=r"has other content, such as mine\.txt; pass an empty or new folder"
    ):
        data_set(tmp_path).write()
    assert files_of(tmp_path) == [tmp_path / "mine.txt"]


def test_data_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    data_set(tmp_path, 100).write()
    with pytest.raises(SetupError, match="has other content"):
        data_set(tmp_path, 200).write()
    assert pq.read_table(tmp_path / "bid").num_rows == 92


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="file: Not a directory; pass an empty or new folder"):
        data_set(tmp_path / "file").write()


@pytest.mark.parametrize("is_new", [True, False])
def test_what_was_begun_is_removed_when_writing_is_interrupted(is_new: bool, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    if not is_new:
        folder.mkdir()

    def interrupt(events: int) -> None:
        if events > 500:
            assert len(files_of(folder / "bid")) >= 2
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data_set(folder).write(interrupt)
    assert folder.exists() != is_new
    assert is_new or files_of(folder) == []


def test_a_disk_that_is_full_is_reported_in_one_line(tmp_path: Path) -> None:
    def fill(events: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(SetupError, match="data cannot be written: No space left on device"):
        data_set(tmp_path / "data").write(fill)
    assert not (tmp_path / "data").exists()


def test_events_beyond_the_calendar_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="beyond the year 9999"):
        data_set(tmp_path / "data", 10**18).write()
    assert not (tmp_path / "data").exists()
