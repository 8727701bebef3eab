"""Where nothing can be written is found out before the work, and leaves no trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.errors import SetupError
from headgate.formats.outputs import check_file, check_folder


@pytest.fixture
def blocked(tmp_path: Path) -> Path:
    """A place below a file, where not even root can write."""
    (tmp_path / "file").write_text("kept")
    return tmp_path / "file" / "below"


def test_a_folder_that_can_be_made_is_not_made_yet(tmp_path: Path) -> None:
    check_folder("--out", tmp_path / "a" / "b")
    check_file("--plot", tmp_path / "a" / "b.png")
    assert list(tmp_path.iterdir()) == []


def test_a_place_below_a_file_is_refused(blocked: Path) -> None:
    with pytest.raises(SetupError, match=f"^--out {blocked} cannot be written to: Not a directory$"):
        check_folder("--out", blocked)
    with pytest.raises(SetupError, match=r"^--plot .* cannot be written to: Not a directory$"):
        check_file("--plot", blocked / "b.png")


def test_a_file_that_exists_keeps_its_content_and_a_folder_is_no_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    check_file("--plot", file)
    assert file.read_text() == "kept"
    with pytest.raises(SetupError, match="Is a directory"):
        check_file("--plot", tmp_path)
