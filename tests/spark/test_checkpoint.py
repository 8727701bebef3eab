"""State that knows itself: fingerprints, manifests that are kept, damage that is named, stepping back."""

from __future__ import annotations

import json
import os
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.cli.support import invoke
from tests.spark.ticks import OWNER, State

from headgate import Session
from headgate.errors import DamagedStateError, SetupError
from headgate.model.event import Event, TickCommitted
from headgate.model.join_order import JoinOrder
from headgate.model.shedding import TickSettings
from headgate.spark import held_rows
from headgate.spark.checkpoint import Checkpoint, roll_back
from headgate.spark.file_system import Files, FileStatus
from headgate.spark.history import KEPT_MANIFESTS, compare, take_fingerprint, verify_blocks
from headgate.spark.lock import RunLock
from headgate.spark.manifest import BlockRef, Manifest, OperatorState, Owner
from headgate.spark.sinks import FileSink


class Remote(Files):
    """A file system whose listings are requests, which are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.listings = 0

    def is_local(self, path: str) -> bool:
        return False

    def data_files(self, path: str) -> list[FileStatus]:
        self.listings += 1
        return super().data_files(path)


@pytest.fixture
def state(tmp_path: Path) -> State:
    """After eight ticks."""
    made = State(tmp_path / "state")
    for _ in range(8):
        made.tick()
    return made


def refusal(state: State) -> str:
    """What a restart says."""
    with pytest.raises(DamagedStateError) as refused:
        state.reopened().last_manifest(TickSettings())
    assert "\n" not in str(refused.value)
    return str(refused.value)


def rollback_hint(state: State, tick: int) -> str:
    return f"; tick {tick} is good: step back to it with headgate checkpoint rollback {state.root}"


def test_a_restart_goes_on_from_the_last_manifest_if_all_is_there(state: State) -> None:
    found = state.reopened().last_manifest(TickSettings())
    assert replace(found, files={}, owner=None, written_s=0.0) == state.manifest
    assert found.owner == OWNER
    logs = {"spark/offsets/7", *(f"spark/sources/s/{batch}" for batch in range(8))}
    assert found.files.keys() == state.manifest.block_paths() | logs
    assert all(
        [part.name for part in found.files[path]] == ["part-0.parquet", "part-1.parquet"]
        for path in state.manifest.block_paths()
    )


def test_the_last_few_manifests_are_kept_with_what_they_need(state: State) -> None:
    assert state.checkpoint.history.ticks() == list(range(8 - KEPT_MANIFESTS, 8))
    # that of tick 3 needs the block of tick 2
    assert sorted(path.name for path in (state.root / "blocks").iterdir()) == [
        f"{n:09d}" for n in range(2, 8)
    ]
    assert all(kept.is_good for kept in state.checkpoint.history.states())


def test_a_lost_part_file_is_named_before_the_first_tick(state: State) -> None:
    state.part(7).unlink()
    assert refusal(state) == f"{state.part(7)} is missing" + rollback_hint(state, 6)


def test_a_lost_block_is_named_and_the_last_tick_that_does_without_is_good(state: State) -> None:
    state.part(6, 0).unlink()
    state.part(6, 1).unlink()
    assert refusal(state) == f"{state.root}/blocks/000000006/q-in0 is missing" + rollback_hint(state, 5)


def test_other_sizes_contents_and_files_are_named(state: State) -> None:
    part = state.part(7)
    text = part.read_text()
    part.write_text(text + "more")
    assert refusal(state).startswith(f"{part} has {len(text) + 4} bytes instead of {len(text)}; ")
    part.write_text("x" * len(text))
    assert refusal(state).startswith(f"{part} has other content; ")
    part.write_text(text)
    part.with_name("part-2.parquet").write_text("left over")
    assert refusal(state).startswith(f"{part.with_name('part-2.parquet')} does not belong there; ")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text[: len(text) // 2], "it ends too early"),
        (lambda text: "", "it ends too early"),
        (lambda text: text.replace('"rows": 3', '"rows": 4', 1), "its checksum does not match its content"),
        (lambda text: "[1]}", "not JSON"),
        (lambda text: "null", "it is not a JSON object"),
    ],
)
def test_a_damaged_manifest_is_named_with_the_tick_before_it(
    state: State, damage: Callable[[str], str], reason: str
) -> None:
    path = state.manifest_file(7)
    path.write_text(damage(path.read_text()))
    said = refusal(state)
    assert said.startswith(f"{path} is damaged: {reason}")
    assert said.endswith(rollback_hint(state, 6))


def test_bytes_that_are_no_text_are_a_damaged_manifest(state: State) -> None:
    state.manifest_file(7).write_bytes(b"\xff\xfe{}")
    assert refusal(state).startswith(f"{state.manifest_file(7)} is damaged: 'utf-8' codec")


def test_without_a_good_tick_starting_anew_is_what_is_left(state: State) -> None:
    for tick in state.checkpoint.history.ticks():
        state.manifest_file(tick).write_text("")
    assert refusal(state).endswith(f"; no earlier tick is good: remove {state.root} to start anew")


def test_a_manifest_of_a_later_version_is_refused_and_not_called_damaged(state: State) -> None:
    path = state.manifest_file(7)
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))
    with pytest.raises(SetupError, match=f"{path}: it has format 99, of a later version of Headgate"):
        state.reopened().last_manifest(TickSettings())


def test_unknown_fields_of_nested_values_speak_of_the_version(state: State) -> None:
    raw = json.loads(state.manifest_file(7).read_text())
    raw["blocks"][0]["colour"] = "red"
    del raw["checksum"], raw["version"]
    with pytest.raises(
        SetupError, match=r"BlockRef has an unknown field colour; it was written by another version"
    ):
        Manifest.from_json(json.dumps(raw))


def test_a_manifest_of_the_first_format_is_read(state: State) -> None:
    raw = json.loads(state.manifest_file(7).read_text())
    for name in ("version", "checksum", "files", "owner", "written_s"):
        del raw[name]
    state.manifest_file(7).write_text(json.dumps(raw))
    opened = state.reopened()
    assert opened.last_manifest(TickSettings()) == state.manifest
    state.part(7).unlink()
    with pytest.raises(DamagedStateError, match="is missing"):
        opened.check_block(state.manifest.operators["q"].blocks[0][-1])


def test_a_manifest_survives_the_way_to_json_and_back(state: State) -> None:
    order, tables = JoinOrder.of(["a", ["b", "c"]]), {"q.0: k": (0.5, 1.5)}
    settings = TickSettings({"s": 0.5}, 7, {"q": order}, key_tables=tables)
    full = replace(state.manifest, settings=settings, owner=OWNER, written_s=1.5)
    assert Manifest.from_json(full.to_json()) == full


def test_spark_must_not_be_further_than_the_last_manifest(state: State) -> None:
    state.manifest_file(7).unlink()
    assert refusal(state) == (
        f"{state.root}/spark/commits has an entry 7, but the last manifest is of tick 6"
        + rollback_hint(state, 6)
    )
    state.checkpoint.history.remove(6)
    roll_back(state.files, str(state.root))
    assert state.reopened().last_manifest(TickSettings()).batch_id == 5


def test_a_manifest_without_offsets_of_its_tick_is_refused(state: State) -> None:
    (state.root / "spark/offsets/7").unlink()
    assert refusal(state).startswith(f"{state.root}/spark/offsets has no entry 7")


@pytest.mark.parametrize("content", [b"", b"v2", b"v2\n{}\ns:{oops", b"\xff\xfe", b"v9\n{}\n-"])
def test_damaged_offsets_of_the_last_tick_are_named_with_the_tick_before_it(
    state: State, content: bytes
) -> None:
    (state.root / "spark/offsets/7").write_bytes(content)
    said = refusal(state)
    assert said.startswith(f"{state.root}/spark/offsets/7 is damaged: ")
    assert said.endswith(rollback_hint(state, 6))


def other_entry(path: Path) -> None:
    path.write_bytes(path.with_name(str(int(path.name) - 1)).read_bytes())


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("entry", ["offsets/7", "sources/s/7"])
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (other_entry, "has other content"),
        (Path.unlink, "has no entry 7"),
        (folder_instead, "is damaged: "),
        (lambda path: path.write_bytes(b"v1\n{oops"), "is damaged: "),
        (lambda path: path.write_bytes(b"\xff"), "is damaged: "),
    ],
)
def test_entries_of_sparks_logs_that_a_tick_needs_are_those_that_it_was_written_with(
    state: State, entry: str, damage: Callable[[Path], None], reason: str
) -> None:
    path = state.root / "spark" / entry
    damage(path)
    said = refusal(state)
    shown = path.parent if "no entry" in reason else path
    assert said.startswith(f"{shown} {reason}") and said.endswith(rollback_hint(state, 6))
    assert roll_back(state.files, str(state.root)).to_tick == 6
    assert state.reopened().last_manifest(TickSettings()).batch_id == 6
    # it is one of a later tick now, and might name files that were read before
    assert not path.exists()


def tick_with_clock(state: State) -> None:
    """A tick of a run with a source that is none of files."""
    state.note_spark("offsets", 8)
    state.note("spark/sources/clock/0", f"v1\n{'7' * 1000}")
    state.note("spark/offsets/8", 'v2\n{}\ns:{"logOffset":8}\nclock:5')
    state.checkpoint.commit(replace(state.manifest, batch_id=8))


def hadoop_checksum(path: Path, content: bytes) -> None:
    sums = b"".join(
        zlib.crc32(content[at : at + 512]).to_bytes(4, "big") for at in range(0, len(content), 512)
    )
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + sums)


@pytest.mark.parametrize(
    "name", ["spark/commits/7", "spark/sources/clock/0", "blocks/000000007/q-in0/part-0.parquet"]
)
def test_files_on_which_hadoop_would_fail_are_damaged(state: State, name: str) -> None:
    tick_with_clock(state)
    path = state.root / name
    hadoop_checksum(path, path.read_bytes())
    assert state.reopened().last_manifest(TickSettings()).batch_id == 8
    hadoop_checksum(path, path.read_bytes() + b"more")
    said = refusal(state)
    assert said.startswith(f"{path} ") and "does not match Hadoop's checksum beside it" in said


def test_the_entry_with_which_a_source_of_another_kind_began_is_needed(state: State) -> None:
    tick_with_clock(state)
    (state.root / "spark/sources/clock/0").unlink()
    assert refusal(state).startswith(f"{state.root}/spark/sources/clock/0 is missing; ")


def test_a_merged_entry_of_a_source_may_go(state: State) -> None:
    merged = "\n".join(f'{{"path":"file:///{batch}.csv"}}' for batch in range(10))
    state.note("spark/sources/s/9.compact", f"v1\n{merged}")
    for batch in range(8):
        (state.root / f"spark/sources/s/{batch}").unlink()
    assert state.reopened().last_manifest(TickSettings()).batch_id == 7
    (state.root / "spark/sources/s/9.compact").unlink()
    assert "spark/sources/s has no entry 7, which the offsets of tick 7 name" in refusal(state)


@pytest.mark.parametrize("entry", ["commits/7", "offsets/8", "sources/s/8", "metadata"])
def test_entries_that_are_no_state_of_their_own_are_repaired_by_a_rollback_to_the_same_tick(
    state: State, entry: str
) -> None:
    state.note_spark("offsets", 8)
    state.note("spark/sources/s/9", 'v1\n{"path":"file:///9.csv"}')
    path = state.root / "spark" / entry
    path.write_text("")
    assert refusal(state) == f"{path} is damaged: " + {
        "offsets/8": "it begins with ''",
        "metadata": "it ends too early",
    }.get(entry, "it begins with ''") + rollback_hint(state, 7)
    done = roll_back(state.files, str(state.root))
    assert (done.to_tick, done.changed) == (7, True)
    assert state.reopened().last_manifest(TickSettings()).batch_id == 7
    if entry == "metadata":
        assert json.loads(path.read_text()).keys() == {"id"}
    else:
        assert not path.exists()
    # Spark would miss the entry in between
    assert (state.root / "spark/sources/s/9").exists() == (entry != "sources/s/8")


def test_a_folder_in_place_of_a_file_that_is_replaced_is_named(tmp_path: Path) -> None:
    target, draft = tmp_path / "table.parquet", tmp_path / "part.parquet"
    (target / "x").mkdir(parents=True)
    draft.write_text("rows")
    with pytest.raises(OSError, match="Is a directory") as failed:
        Files().replace(str(draft), str(target))
    assert failed.value.filename == str(target)


def test_names_of_others_in_a_checkpoint_are_left_alone(state: State) -> None:
    for name in ("blocks/lost+found", "manifests/--5.json", "spark/offsets/notes", "spark/sources/s/notes"):
        state.note(name, "not ours")
    state.tick()
    assert state.reopened().last_manifest(TickSettings()).batch_id == 8
    assert roll_back(state.files, str(state.root), 7).to_tick == 7


# a block while a run goes on


def last_block(state: State) -> BlockRef:
    return state.manifest.operators["q"].blocks[0][-1]


def test_a_read_in_a_tick_notices_a_file_that_is_gone(state: State) -> None:
    state.checkpoint.check_block(last_block(state))
    state.part(7).unlink()
    with pytest.raises(DamagedStateError) as refused:
        state.checkpoint.check_block(last_block(state))
    assert str(refused.value).startswith(f"{state.part(7)} is missing; step back to the last good tick with ")


def test_content_is_compared_once_a_run(state: State) -> None:
    opened = state.reopened()
    opened.last_manifest(TickSettings())
    part = state.part(7)
    part.write_text("x" * len(part.read_text()))
    opened.check_block(last_block(state))
    part.write_text("short")
    with pytest.raises(DamagedStateError, match="has 5 bytes instead of"):
        opened.check_block(last_block(state))


def test_far_away_blocks_are_not_listed_at_every_read(tmp_path: Path) -> None:
    files = Remote()
    state = State(tmp_path, files)
    state.tick()
    before = files.listings
    for _ in range(3):
        state.checkpoint.check_block(last_block(state))
    assert files.listings == before


def test_a_block_of_the_tick_under_way_is_not_known_yet(state: State) -> None:
    state.checkpoint.check_block(state.write("blocks/000000008/q-in0"))


def test_a_tick_whose_block_is_lost_does_not_happen(state: State) -> None:
    gone = BlockRef("blocks/000000008/q-in0", 1, 1, 0, 1)
    with pytest.raises(DamagedStateError, match="blocks/000000008/q-in0 is missing"):
        state.checkpoint.commit(Manifest(8, operators={"q": OperatorState(blocks=((gone,),))}))
    assert state.checkpoint.history.ticks()[-1] == 7


def test_a_file_in_place_is_known_by_length_time_and_footer_and_never_removed(tmp_path: Path) -> None:
    state, source = State(tmp_path / "state"), tmp_path / "given.parquet"
    source.write_text("rows and a footer")
    state.note_spark("offsets", 0)
    ref = BlockRef(str(source), 3, 30, 0, 1)
    state.checkpoint.commit(Manifest(0, operators={"q": OperatorState(blocks=((ref,),))}))
    found = state.reopened().last_manifest(TickSettings())
    [part] = found.files[str(source)]
    assert (part.name, part.size_bytes) == ("", 17)
    assert part.modified_ms == source.stat().st_mtime_ns // 1_000_000
    state.checkpoint.drop(str(source))
    state.checkpoint.sweep(Manifest(0))
    assert source.exists()
    os.utime(source, (1, 1))
    [damage] = verify_blocks(state.files, str(state.root), found)
    assert str(damage) == f"{source} was modified"
    with pytest.raises(DamagedStateError, match="was modified"):
        state.checkpoint.check_block(ref)


def test_of_large_files_length_and_end_are_compared(tmp_path: Path) -> None:
    block, files = tmp_path / "block", Files()
    block.mkdir()
    part = block / "part-0.parquet"
    part.write_bytes(b"a" * (3 << 20))
    known = take_fingerprint(files, str(block), ours=True)
    assert compare(files, str(block), "block", known) == []
    with part.open("r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(b"b")
    assert [str(damage) for damage in compare(files, str(block), "block", known)] == [
        "block/part-0.parquet has other content"
    ]


def test_blocks_of_eddies_go_when_no_kept_manifest_needs_them(state: State) -> None:
    ref = state.write(state.checkpoint.eddy_block("job-1"))
    state.note_spark("offsets", 8)
    state.manifest = Manifest(8, operators={"q": OperatorState(blocks=((ref,),))})
    state.checkpoint.commit(state.manifest)
    state.checkpoint.drop(ref.path)
    state.reopened().sweep_eddies(set())
    for _ in range(KEPT_MANIFESTS - 1):
        state.tick()
        assert (state.root / ref.path).exists()
    state.tick()
    assert (state.root / ref.path).exists() == (state.checkpoint.history.ticks()[0] <= 9)
    state.tick()
    assert not (state.root / ref.path).exists()


# whose it is


@pytest.mark.parametrize("damage", ["", '{"uid": "a', "{}", None])
def test_a_damaged_headgate_json_is_restored_from_a_manifest(state: State, damage: str | None) -> None:
    path = state.root / "headgate.json"
    if damage is None:
        path.unlink()
    else:
        path.write_text(damage)
    with pytest.raises((DamagedStateError, SetupError), match=f"^{path}"):
        state.reopened().check_owner()
    if damage != "{}":
        done = roll_back(state.files, str(state.root))
        assert (done.to_tick, done.restored_owner) == (7, True)
        assert Owner.from_json(path.read_text()) == OWNER


def test_a_headgate_json_of_another_checkpoint_is_restored(state: State) -> None:
    path = state.root / "headgate.json"
    path.write_text(replace(OWNER, uid="9999aaaa").to_json())
    with pytest.raises(DamagedStateError, match=f"^{path} is of another checkpoint; headgate checkpoint"):
        state.reopened().check_owner()
    assert roll_back(state.files, str(state.root)).restored_owner
    assert Owner.from_json(path.read_text()) == OWNER


def test_a_folder_in_place_of_headgate_json_is_replaced(state: State) -> None:
    folder_instead(state.root / "headgate.json")
    with pytest.raises(DamagedStateError, match="Is a directory"):
        state.reopened().check_owner()
    assert roll_back(state.files, str(state.root)).restored_owner
    assert state.reopened().check_owner() == OWNER


# stepping back


def spark_entries(state: State) -> tuple[list[int], list[int]]:
    history = state.checkpoint.history
    return history.logs.batches("offsets"), history.logs.batches("commits")


def test_rollback_steps_to_the_last_good_tick_and_spark_follows(state: State) -> None:
    state.part(6).unlink()
    state.note("spark/sources/s/9.compact", 'v1\n{"path":"file:///9.csv"}')
    done = roll_back(state.files, str(state.root))
    assert (done.from_tick, done.to_tick, done.batches_again) == (7, 5, (6, 7))
    assert state.checkpoint.history.ticks() == [3, 4, 5]
    assert spark_entries(state) == (list(range(6)), list(range(6)))
    # checksums that Hadoop keeps beside go too
    assert not list((state.root / "spark").glob("*/.[67].crc"))
    assert (state.root / "spark/sources/s/9.compact").exists()
    assert not (state.root / "blocks/000000006").exists()
    assert not (state.root / "headgate.lock").exists()
    assert state.reopened().last_manifest(TickSettings()).batch_id == 5


def test_rollback_to_a_named_tick(state: State) -> None:
    assert roll_back(state.files, str(state.root), 4).to_tick == 4
    assert state.reopened().last_manifest(TickSettings()).batch_id == 4


def test_rollback_refuses_ticks_that_are_damaged_or_not_kept(state: State) -> None:
    state.part(5).unlink()
    with pytest.raises(SetupError, match=r"keeps no manifest of tick 1; it has 3, 4, 5, 6, 7"):
        roll_back(state.files, str(state.root), 1)
    with pytest.raises(SetupError, match=r"tick 5 of .* is damaged: blocks/000000005/q-in0/part-1.parquet"):
        roll_back(state.files, str(state.root), 5)
    assert state.checkpoint.history.ticks()[-1] == 7


def test_rollback_of_a_good_checkpoint_changes_nothing(state: State) -> None:
    done = roll_back(state.files, str(state.root))
    assert not done.changed
    assert spark_entries(state) == (list(range(8)), list(range(8)))


def test_rollback_is_refused_while_a_run_goes_on(state: State) -> None:
    lock = RunLock(state.files, str(state.root))
    lock.acquire()
    with pytest.raises(SetupError, match="is in use by another run of this process"):
        roll_back(state.files, str(state.root))
    lock.release()
    roll_back(state.files, str(state.root))


def test_an_interrupted_rollback_is_noticed_and_mended_by_another_one(state: State) -> None:
    for tick in (7, 6):
        state.checkpoint.history.remove(tick)
    assert "has an entry 7, but the last manifest is of tick 5; tick 5 is good" in refusal(state)
    assert roll_back(state.files, str(state.root)).to_tick == 5
    assert state.reopened().last_manifest(TickSettings()).batch_id == 5


class _Killed(BaseException):
    pass


class _Mortal(Files):
    """A process that is killed at one of its deletions."""

    def __init__(self, deletions: int) -> None:
        super().__init__()
        self._left = deletions

    def delete(self, path: str) -> None:
        if not path.endswith(".lock"):
            if self._left == 0:
                raise _Killed
            self._left -= 1
        super().delete(path)


@pytest.mark.slow
def test_a_rollback_that_is_killed_anywhere_is_refused_until_it_is_repeated(tmp_path: Path) -> None:
    refused = 0
    for deletions in range(50):
        state = State(tmp_path / str(deletions))
        for _ in range(8):
            state.tick()
        try:
            roll_back(_Mortal(deletions), str(state.root), 4)
        except _Killed:
            # that of which only blocks are left over is as good as complete
            if spark_entries(state) != (list(range(5)), list(range(5))) and deletions:
                assert "step back to it with" in refusal(state)
                refused += 1
        else:
            break
        roll_back(state.files, str(state.root), 4)
        assert state.reopened().last_manifest(TickSettings()).batch_id == 4
        assert spark_entries(state) == (list(range(5)), list(range(5)))
    assert refused >= 8


def test_spark_must_not_have_planned_more_than_one_tick_ahead(state: State) -> None:
    for entry in (8, 9):
        state.note(f"spark/offsets/{entry}", (state.root / "spark/offsets/7").read_text())
        if entry == 8:
            assert state.reopened().last_manifest(TickSettings()).batch_id == 7
    assert "spark/offsets has an entry 9, but the last manifest is of tick 7; tick 7 is good" in refusal(
        state
    )
    roll_back(state.files, str(state.root))
    assert state.reopened().last_manifest(TickSettings()).batch_id == 7


def test_results_of_ticks_that_come_again_are_removed(tmp_path: Path) -> None:
    names = [f"part-abcd-{batch:09d}-000.parquet" for batch in range(4)]
    others = ["part-other-000000003-000.parquet", "notes.txt"]
    for name in names + others:
        (tmp_path / name).write_text(name)
    FileSink(Files(), "parquet", str(tmp_path), {}, "abcd").discard_after(1)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[:2] + others)


# on Spark


# Spark merges the log of files at the tenth: going back two ticks goes back behind that
FILES = 11


@pytest.fixture
def script(tmp_path: Path) -> str:
    """A join, a row window and a selection over files that come one a tick; one row is late."""
    folder = tmp_path / "in"
    folder.mkdir()
    for file in range(FILES):
        rows = [f"{10 * file + row},{(7 * file + 3 * row) % 4},{row * file}" for row in range(10)]
        if file == FILES - 1:
            rows.append("0,1,99")
        path = folder / f"{file}.csv"
        path.write_text("\n".join(rows) + "\n")
        os.utime(path, (1000 + file, 1000 + file))
    return f"""
        CREATE STREAM s (ts BIGINT, k INT, v INT)
          FROM csv OPTIONS (path '{folder}', timestamp 'ts', maxFilesPerTrigger '1', idle_after '1 h');
        CREATE QUERY pairs AS SELECT a.k, a.v AS av, b.v AS bv
          FROM s [RANGE 15 SECONDS] AS a, s [RANGE 15 SECONDS] AS b WHERE a.k = b.k
          INTO parquet OPTIONS (path '{tmp_path}/out/pairs');
        CREATE QUERY counts AS SELECT k, COUNT(*) AS n FROM s [ROWS 30] GROUP BY k
          INTO parquet OPTIONS (path '{tmp_path}/out/counts');
        CREATE QUERY some AS SELECT k, v FROM s WHERE v > 5;
    """


def run_to_end(spark: SparkSession, script: str, root: Path) -> None:
    Session(spark).execute(script).start(until_done=True, checkpoint=root).wait()


def all_results(tmp_path: Path) -> dict[str, Counter[str]]:
    folders = [tmp_path / "out/pairs", tmp_path / "out/counts", tmp_path / "ck/results/some"]
    found = {
        f.name: [row for p in sorted(f.glob("*.parquet")) for row in pq.read_table(p).to_pylist()]
        for f in folders
    }
    letters = [
        row for p in (tmp_path / "ck/dead-letters").glob("*.parquet") for row in pq.read_table(p).to_pylist()
    ]
    # of rows set aside, the batch may be another one
    found["late"] = [{key: value for key, value in row.items() if key != "batch"} for row in letters]
    return {name: Counter(map(str, rows)) for name, rows in found.items()}


@pytest.mark.spark
def test_a_run_after_a_rollback_gives_the_results_of_a_clean_one(
    spark: SparkSession, script: str, tmp_path: Path
) -> None:
    root = tmp_path / "ck"
    run_to_end(spark, script, root)
    clean = all_results(tmp_path)
    assert all(clean.values())
    assert invoke("checkpoint", "verify", root).exit_code == 0
    assert (root / "spark/sources/s/9.compact").exists()
    last = Checkpoint(Files(), str(root)).history.ticks()[-1]
    # the newest state is lost, and another tick is given up
    newest = root / f"manifests/{last:09d}.json"
    newest.write_text(newest.read_text()[:100])
    with pytest.raises(DamagedStateError, match=f"tick {last - 1} is good"):
        run_to_end(spark, script, root)
    assert invoke("checkpoint", "rollback", root, "--to", last - 2).exit_code == 0
    run_to_end(spark, script, root)
    assert all_results(tmp_path) == clean
    assert not (root / "headgate.lock").exists()


@pytest.mark.spark
def test_a_run_refuses_a_checkpoint_in_use_and_a_lost_part_file(
    spark: SparkSession, script: str, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    root = tmp_path / "ck"
    session = Session(spark).execute(script)
    run = session.start(checkpoint=root)
    try:
        with pytest.raises(SetupError, match="is in use by another run of this process"):
            Session(spark).execute(script).start(checkpoint=root)
        eventually(lambda: any(root.glob("manifests/*.json")))
    finally:
        run.stop()
    assert not (root / "headgate.lock").exists()
    [*_, manifest] = sorted(root.glob("manifests/*.json"))
    [path, *_] = json.loads(manifest.read_text())["files"]
    [part] = (root / path).glob("*.parquet")
    part.unlink()
    with pytest.raises(DamagedStateError, match="is missing"):
        session.start(checkpoint=root)
    assert not (root / "headgate.lock").exists()


@pytest.mark.spark
def test_a_part_file_lost_between_two_ticks_ends_the_run(
    spark: SparkSession, script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what memory holds is not read from files
    monkeypatch.setattr(held_rows, "MOST_CACHED_ROWS", 0)
    root = tmp_path / "ck"
    lost: list[Path] = []

    def lose_a_part(event: Event) -> None:
        if isinstance(event, TickCommitted) and event.batch_id == 1:
            lost.extend(root.glob("blocks/000000001/*/*.parquet"))
            lost[0].unlink()

    run = Session(spark).execute(script).start(until_done=True, checkpoint=root, observers=[lose_a_part])
    with pytest.raises(DamagedStateError) as failed:
        run.wait()
    assert str(failed.value).startswith(str(lost[0].parent))
    assert "is missing" in str(failed.value)
    assert Checkpoint(Files(), str(root)).history.ticks()[-1] == 1
    assert not (root / "headgate.lock").exists()


@pytest.mark.spark
def test_files_of_hadoop_and_of_the_local_disk_agree(spark: SparkSession, tmp_path: Path) -> None:
    block = tmp_path / "block"
    spark.range(1000).repartition(2).write.parquet(str(block))
    (block / "large").mkdir()
    (block / "large/part-9.parquet").write_bytes(os.urandom(2 << 20))
    hadoop = Files(spark)
    local = take_fingerprint(hadoop, str(block), ours=False)
    hadoop._default_is_local = False
    far = take_fingerprint(hadoop, str(block), ours=False)
    assert far == local
    assert len(far) == 3
    assert compare(hadoop, str(block), "block", local) == []
    lock = tmp_path / "lock"
    assert hadoop.create_text(str(lock), "a")
    assert not hadoop.create_text(str(lock), "b")
    assert hadoop.read_text(str(lock)) == "a"
