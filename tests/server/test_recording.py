"""What is kept of a run: ten minutes in memory, and a bounded record on disk."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from headgate.errors import SetupError
from headgate.server.hub import Hub, Message, Subscription
from headgate.server.recording import FOLDER, Recorded, Recording


def test_ten_minutes_are_kept() -> None:
    hub = Hub()
    for second in range(2_000):
        hub.publish("tick", {"tick": second}, float(second))
    kept = [tick["tick"] for tick in json.loads(hub.history())["ticks"]]
    assert kept == list(range(1_399, 2_000))


def test_a_state_replaces_the_one_before_and_notes_are_bounded() -> None:
    hub = Hub()
    for number in range(1_000):
        hub.publish("settings", {"strategy": f"s{number}"})
        hub.publish("warning", {"text": str(number)})
    found = json.loads(hub.history())
    assert found["settings"] == {"strategy": "s999"}
    assert [one["text"] for one in found["warnings"]] == [str(number) for number in range(500, 1_000)]
    assert len(hub.since(0)) == 501


def test_a_reader_that_does_not_read_is_ended_and_not_waited_for() -> None:
    async def read() -> list[Message | None]:
        subscription = Subscription()
        for number in range(1_000):
            subscription.put(Message(number, "tick", 0.0, "{}"))
        assert subscription.is_over
        found = []
        while not found or found[-1] is not None:
            found.append(await subscription.next(1.0))
        return found

    found = asyncio.run(read())
    assert len(found) == 256 and found[-1] is None


def test_a_record_has_the_states_that_hold_and_is_bounded(tmp_path: Path) -> None:
    recording = Recording(tmp_path / FOLDER, file_bytes=2_000, most_files=3)
    hub = Hub(recording)
    hub.publish("network", {"operators": []}, 0.0)
    for second in range(400):
        hub.publish("tick", {"tick": second, "filler": "x" * 50}, float(second))
    recording.close()
    files = sorted((tmp_path / FOLDER).iterdir())
    assert len(files) == 3 and sum(path.stat().st_size for path in files) < 8_000
    recorded = Recorded(tmp_path)
    found = json.loads(recorded.history())
    assert found["network"] == {"operators": []}
    assert found["ticks"][-1]["tick"] == 399
    half = (recorded.begin_s + recorded.end_s) // 2
    assert json.loads(recorded.history(half))["ticks"][-1]["tick"] == half


def test_a_server_that_starts_again_adds_to_the_record_and_a_torn_line_is_skipped(tmp_path: Path) -> None:
    for run in range(2):
        recording = Recording(tmp_path / FOLDER)
        hub = Hub(recording)
        hub.publish("tick", {"tick": run}, float(run))
        recording.close()
    with max((tmp_path / FOLDER).iterdir()).open("a") as file:
        file.write('{"kind":"tick","at_s":2.0,"mess')
    assert [tick["tick"] for tick in json.loads(Recorded(tmp_path).history())["ticks"]] == [0, 1]


def test_a_folder_without_a_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="has no record; pass the folder of headgate serve --checkpoint"):
        Recorded(tmp_path)
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "000000.jsonl").write_text("nonsense\n")
    with pytest.raises(SetupError, match="has no tick"):
        Recorded(tmp_path)


def test_a_disk_that_is_full_ends_the_record_and_not_the_run(tmp_path: Path) -> None:
    recording = Recording(tmp_path / FOLDER)
    hub = Hub(recording)
    hub.publish("tick", {"tick": 0}, 0.0)
    assert recording._file is not None
    recording._file.close()
    recording._file = Path("/dev/full").open("w")  # noqa: SIM115
    hub.publish("tick", {"tick": 1}, 1.0)
    assert "No space left" in recording.failure
    hub.publish("tick", {"tick": 2}, 2.0)
    assert len(json.loads(hub.history())["ticks"]) == 3
