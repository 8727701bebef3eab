"""One page with the checks, tables and figures of several studies."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path

from headgate.experiments.study import Study, records_of, shown
from headgate.formats.html import html_paragraph, html_table, plural

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Claims of the papers, computed anew</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
  table { border-collapse: collapse; margin: 1rem 0; font-size: 0.9em; }
  caption { text-align: left; font-weight: 600; }
  th, td { border-bottom: 1px solid #8884; padding: 0.2rem 0.8rem 0.2rem 0; vertical-align: top; }
  th { text-align: left; }
  img { max-width: 100%; background: white; }
  @media (prefers-color-scheme: dark) { body { background: #16181c; color: #e4e6ea; } a { color: #8ab4f8; } }
</style></head><body>
"""


def write_page(studies: Sequence[Study], path: Path) -> None:
    """Write the page: a single file, with its figures inside."""
    body = "\n".join(_lines(studies))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{_HEAD}{body}\n</body></html>\n", encoding="utf-8")


def _lines(studies: Sequence[Study]) -> Iterator[str]:
    yield "<h1>Claims of the papers, computed anew</h1>"
    yield html_table(
        ["study", "checks", "hold", "known to disagree", "surprises"],
        [
            [
                study.name,
                len(study.checks),
                sum(check.ok for check in study.checks),
                sum(bool(check.disagreement) and not check.ok for check in study.checks),
                sum(check.is_surprise for check in study.checks),
            ]
            for study in studies
        ],
    )
    for study in studies:
        yield f'<h2 id="{study.name}">{study.name}</h2>'
        yield html_paragraph(f"{plural(len(study.checks), 'check')}, {plural(len(study.figures), 'figure')}.")
        yield html_table(
            ["", "check", "expected", "got", "reason"],
            [[c.verdict, c.name, str(c.expected), shown(c.got), c.disagreement] for c in study.checks],
        )
        for title, rows in study.tables.items():
            records, columns = records_of(rows)
            if records:
                cells = [[name, *(row.get(column) for column in columns)] for name, row in records.items()]
                yield html_table(["", *(column.replace("_", " ") for column in columns)], cells, title)
        for figure in study.figures:
            image = b64encode(figure.read_bytes()).decode()
            yield f'<p><img alt="{figure.stem}" src="data:image/png;base64,{image}"></p>'
