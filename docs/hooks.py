"""Pages of the site that are in the repository's root, and links between them and those of ``docs/``."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_ROOT = Path(__file__).parents[1]
_PAGES = {
    "README.md": "index.md",
    **{name: name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")},
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root, their links into ``docs/`` made relative to it."""
    for name, page in _PAGES.items():
        text = (_ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files
