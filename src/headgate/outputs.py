"""Where results go is checked before the work, not after it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from headgate.errors import SetupError


def check_folder(what: str, folder: Path) -> None:
    """Refuse a folder in which no file can be created; one that does not exist yet is not created."""
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise SetupError(f"{what} {folder} cannot be written to: {error.strerror}") from None


def check_file(what: str, file: Path) -> None:
    """Refuse a file that cannot be written; nothing is changed."""
    if not file.exists():
        return check_folder(what, file)
    try:
        file.open("ab").close()
    except OSError as error:
        raise SetupError(f"{what} {file} cannot be written to: {error.strerror}") from None
