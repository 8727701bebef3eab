"""How things show themselves in notebooks: as HTML, in which every text is escaped."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def html_table(headings: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table: names in the first column, numbers to the right of them."""
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    side = "left" if isinstance(value, str) else "right"
    return f'<td style="text-align: {side}">{escape(counted(value))}</td>'


def html_paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def html_link(address: str, text: str) -> str:
    """A link that opens a page beside this one."""
    return f'<p><a href="{escape(address)}" target="_blank" rel="noopener">{escape(text)}</a></p>'


def html_text(text: str) -> str:
    """Text whose lines and indents matter."""
    return f"<pre>{escape(text)}</pre>"


def html_drawing(draw: Callable[[Axes], None]) -> str:
    """What is drawn on axes, as an image inside the page."""
    # drawing is rare and importing it slow; a figure of its own needs no window system and no global state
    from matplotlib.figure import Figure

    figure, written = Figure(figsize=(6, 3.5), layout="constrained"), io.StringIO()
    draw(figure.subplots())
    figure.savefig(written, format="svg", metadata={"Date": None})
    image = written.getvalue()
    # without the declaration of a document of its own
    return image[image.index("<svg") :]


def counted(value: object) -> str:
    """A cell of a table: numbers to four digits or the last whole one, with commas; a dash for none."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def listed(names: Iterable[str], most: int = 5) -> str:
    """Names for one line; if there are many, the first few."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def plural(count: int, noun: str, several: str = "") -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {several or noun + 's'}"
