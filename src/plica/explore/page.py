"""The explorer as HTML: a whole page, a part of a report, or the display of a notebook.

A page holds its data, script, style and elkjs (compressed), and its policy forbids requests. The display of a notebook
has no elkjs: rows of layers, as figures have them, come with the data.

>>> from plica.symbolic.circuit import Circuit
>>> from plica.symbolic.layers import CategoricalLayer
>>> leaf = CategoricalLayer([0], 4, num_categories=2)
>>> text = page(explore_record(Circuit([leaf], {}, [leaf])))
>>> text.startswith("<!DOCTYPE html>"), "src=" in text
(True, False)
"""

import base64
import gzip
import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from plica.draw.layout import lay_out
from plica.explore.record import explore_record
from plica.paths import replacing

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; worker-src blob:; style-src 'unsafe-inline'; img-src data:"
)
_MOST_PLACES = 320  # layers of a stage that stand one by one; the script puts more into blocks
_HEIGHT = 560  # pixels in notebooks


def explore(subject: Any, path: str | os.PathLike[str], **options: Any) -> None:
    """Write the page of a circuit or a function to a file, whole or not at all.

    Args:
        subject: A circuit, a compiled circuit, a Program, or a function that was compiled.
        path: The file; by habit it ends in `.html`.
        options: As for `explore_record`: title, names, image_shape, rows, texts, seconds.

    Raises:
        DTypeError, InputError: As for `explore_record`.
        FileFormatError: The file cannot be written.
    """
    text = page(explore_record(subject, **options))
    with replacing(path) as temporary:
        Path(temporary).write_text(text, encoding="utf-8", errors="backslashreplace")


def page(record: Mapping[str, Any], *, has_elk: bool = True) -> str:
    """A page of HTML that shows a record.

    Args:
        record: The result of `explore_record`.
        has_elk: Whether elkjs lays it out; else layers stand in rows.
    """
    title = escape(str(record["title"]))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>html, body {{ height: 100%; margin: 0 }}</style></head>\n"
        f"<body>{fragment(record, has_elk=has_elk, theme='whole')}</body></html>\n"
    )


def fragment(record: Mapping[str, Any], *, has_elk: bool = True, theme: str = "") -> str:
    """The explorer as a part of a page; with elkjs, the address of the page keeps the selection.

    Args:
        record: The result of `explore_record`.
        has_elk: Whether elkjs lays it out.
        theme: `whole` where it fills the page, `light` on a page that is light in the dark, too.
    """
    elk = f'<script type="text/plain" class="elk">{_elk()}</script>' if has_elk else ""
    return (
        f"<style>{_static('explorer.css')}</style>\n"
        f'<main class="plica-explorer {theme}" data-address="{"kept" if has_elk else ""}">'
        f'<script type="application/json" class="record">{_as_json(record)}</script>{elk}</main>\n'
        f"<script>{_static('explorer.js')}</script>"
    )


def notebook_html(subject: Any) -> str:
    """The display of a circuit or a compiled circuit in a notebook: a frame that holds its page, without elkjs."""
    record = explore_record(subject)
    for stage in record["stages"]:
        if len(stage["kind"]) <= _MOST_PLACES:
            stage["places"] = _places(stage["inputs"], stage["outputs"])
    text = page(record, has_elk=False)
    return (
        f'<iframe srcdoc="{escape(text)}" title="{escape(record["title"])}" sandbox="allow-scripts" '
        f'style="width: 100%; height: {_HEIGHT}px; border: 1px solid #d5dae0"></iframe>'
    )


def _places(inputs: Sequence[Sequence[int]], outputs: Sequence[int]) -> list[list[float]]:
    """The column and the row of each layer."""
    layout = lay_out(inputs, outputs)
    row_of = {node: number for number, row in enumerate(layout.rows) for node in row}
    return [[round(x, 3), row_of[node]] for node, x in enumerate(layout.x)]


def _as_json(record: Mapping[str, Any]) -> str:
    """A record as JSON that cannot end the script element around it."""
    text = json.dumps(record, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


@cache
def _static(name: str) -> str:
    return files("plica.explore").joinpath("static", name).read_text(encoding="utf-8").replace("</script", "<\\/script")


@cache
def _elk() -> str:
    """The worker of elkjs, compressed, in base64."""
    content = files("plica.explore").joinpath("static", "elk-worker.min.js").read_bytes()
    return base64.b64encode(gzip.compress(content, mtime=0)).decode("ascii")
