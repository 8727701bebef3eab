"""Where results go is checked before the work, not after it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.errors import SetupError


def check_folder(what: str, folder: Path) -> None:
    """Refuse a folder in which no file can be created; one that does not exist yet is not created."""
    with _refusing(what, folder):
        existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        tempfile.TemporaryFile(dir=existing).close()


def check_file(what: str, file: Path) -> None:
    """Refuse a file that cannot be written; nothing is changed."""
    with _refusing(what, file):
        if file.exists():
            file.open("ab").close()
            return
    check_folder(what, file)


@contextmanager
def _refusing(what: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SetupError(f"{what} {path} cannot be written to: {error.strerror}") from None
