"""What notebooks show of a value: the explorer of circuits and Programs, and tables of what others hold.

>>> print(table_html(("name", "kind"), [("a < b", 3)]))
<table><tr><th>name</th><th>kind</th></tr><tr><td>a &lt; b</td><td>3</td></tr></table>
"""

import importlib
from collections.abc import Iterable
from html import escape
from typing import Any

_EXPLORER = "plica.explore.page"  # which stands above all that it shows, and is found by its name when it is needed


def explorer_html(subject: Any) -> str:
    """The explorer of a circuit, a compiled circuit or a Program, as HTML."""
    html: str = importlib.import_module(_EXPLORER).notebook_html(subject)
    return html


def table_html(heads: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """A table as HTML; cells are text, or what `str` makes of them."""
    return f"<table>{_row('th', heads)}{''.join(_row('td', cells) for cells in rows)}</table>"


def folded_html(summary: str, content: str) -> str:
    """A line of text, and HTML that a click on it shows."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def _row(tag: str, cells: Iterable[Any]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"
