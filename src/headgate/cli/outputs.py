"""Where a command writes is checked before its work, not after it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from headgate.errors import SetupError


def check_folder(option: str, folder: Path) -> None:
    """Refuse a folder that cannot be written to, before the work whose results go there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SetupError(f"{option} {folder} cannot be written to: {error.strerror}") from None


def check_file(option: str, file: Path) -> None:
    """Refuse a file that cannot be written, before the work whose results go there."""
    if not file.parent.is_dir():
        raise SetupError(f"{option} {file} cannot be written: there is no folder {file.parent}")
    is_new = not file.exists()
    try:
        file.open("ab").close()
        if is_new:
            file.unlink()
    except OSError as error:
        raise SetupError(f"{option} {file} cannot be written: {error.strerror}") from None
