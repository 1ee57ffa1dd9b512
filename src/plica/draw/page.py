"""Writes a self-contained page of HTML: it embeds its pictures, and loads no script or style from elsewhere.

>>> page = Page("A run")
>>> page.section("Figures")
>>> page.table(("part", "bits"), [("test", "2.06")])
>>> "<td>2.06</td>" in page.text() and "http" not in page.text()
True
"""

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

_LONG = 30  # letters of a word

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #22272e; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-size: 14px; }
td, th { padding: 2px 14px 2px 0; text-align: left; vertical-align: top; }
th { color: #6b7480; font-weight: 500; border-bottom: 1px solid #d5dae0; }
.long { min-width: 14rem; overflow-wrap: anywhere; } .table { overflow-x: auto; }
h1, p { overflow-wrap: anywhere; } svg { max-width: 100%; height: auto; }
td.bar { width: 14rem; } td.bar div { background: #2f6f9f; height: 10px; margin-top: 6px; }
pre { background: #f5f6f8; padding: .8rem; overflow: auto; max-height: 30rem; font-size: 12.5px; }
img { max-width: 100%; max-height: 46rem; }
"""


class Page:
    """Parts of a page, in order.

    Args:
        title: The heading.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []

    def section(self, title: str) -> None:
        """Add a heading."""
        self._parts.append(f"<h2>{escape(title)}</h2>")

    def paragraph(self, text: str) -> None:
        """Add a paragraph of text."""
        self._parts.append(f"<p>{escape(text)}</p>")

    def table(self, names: Sequence[str], rows: Iterable[Sequence[str]], *, bars: Sequence[float] = ()) -> None:
        """Add rows of text; with `bars`, shares between 0 and 1, each row ends with a bar."""
        head = "".join(_cell("th", name) for name in (*names, *[""] * bool(bars)))
        lines = []
        for index, row in enumerate(rows):
            cells = "".join(_cell("td", cell) for cell in row)
            if bars:
                cells += f'<td class="bar"><div style="width:{100 * bars[index]:.1f}%"></div></td>'
            lines.append(f"<tr>{cells}</tr>")
        table = f"<table><tr>{head}</tr>{''.join(lines)}</table>"
        self._parts.append(f'<div class="table" tabindex="0" role="group" aria-label="table">{table}</div>')

    def text_block(self, text: str, summary: str | None = None) -> None:
        """Add preformatted lines; with a summary, they are collapsed behind it."""
        block = f'<pre tabindex="0">{escape(text)}</pre>'
        folded = f"<details><summary>{escape(summary or '')}</summary>{block}</details>"
        self._parts.append(block if summary is None else folded)

    def picture(self, path: Path, description: str) -> None:
        """Add a PNG file."""
        data = base64.b64encode(path.read_bytes()).decode("ascii")
        self._parts.append(f'<img alt="{escape(description)}" src="data:image/png;base64,{data}">')

    def part(self, html: str) -> None:
        """Add HTML as it is."""
        self._parts.append(html)

    def drawing(self, path: Path) -> None:
        """Add an SVG file."""
        text = path.read_text(encoding="utf-8")
        text = text[text.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        text = re.sub(r'\s(xmlns(:\w+)?|version)="[^"]*"', "", text)  # XML namespaces, which HTML does not need
        text = text.replace("xlink:href", "href")
        self._parts.append(text)

    def text(self) -> str:
        """The page."""
        title = escape(self._title)
        return (
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n" + "\n".join(self._parts) + "\n</body></html>\n"
        )


def _cell(tag: str, text: str) -> str:
    """A cell of a table, in which lines may break within words if some word is very long."""
    is_long = any(len(word) > _LONG for word in text.split())
    attribute = ' class="long"' if is_long else ""
    return f"<{tag}{attribute}>{escape(text)}</{tag}>"
