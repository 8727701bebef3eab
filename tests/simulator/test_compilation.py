"""Compiled code is never older than any of the sources that it is made of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.model import uniform_hash
from headgate.simulator import compilation

SOURCES = {
    "__init__.py": "",
    "simulator/__init__.py": "",
    "simulator/compilation.py": Path(compilation.__file__).read_text(encoding="utf-8"),
    "model/__init__.py": "FACTOR = 2\n",
    "model/uniform_hash.py": Path(uniform_hash.__file__).read_text(encoding="utf-8"),
    "simulator/inner.py": """
from headgate.model import FACTOR
from headgate.simulator.compilation import jit

@jit
def scaled(value):
    return FACTOR * value
""",
    "simulator/outer.py": """
from headgate.simulator.compilation import jit
from headgate.simulator.inner import scaled

@jit
def shifted(value):
    return scaled(value) + 1
""",
}
RUN = """
from headgate.simulator.outer import shifted
print(shifted(10), sum(shifted.stats.cache_hits.values()))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A small package of compiled functions over the project's own way to compile them."""
    for name, source in SOURCES.items():
        path = tmp_path / "headgate" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return tmp_path


def result_and_cache_hits(package: Path) -> tuple[int, int]:
    variables = {**os.environ, "PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(package / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", RUN], env=variables, check=True, capture_output=True, text=True
    )
    result, hits = done.stdout.split()
    return int(result), int(hits)


@pytest.mark.slow
def test_an_edit_behind_a_compiled_function_is_seen(package: Path) -> None:
    assert result_and_cache_hits(package) == (21, 0)
    assert result_and_cache_hits(package) == (21, 1)
    edit(package / "headgate" / "simulator" / "inner.py", "FACTOR * value", "FACTOR * value - 5")
    assert result_and_cache_hits(package) == (16, 0)
    edit(package / "headgate" / "model" / "__init__.py", "2", "3")
    assert result_and_cache_hits(package) == (26, 0)
    assert result_and_cache_hits(package) == (26, 1)


def edit(file: Path, before: str, after: str) -> None:
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))
