"""The common parts of all pictures: colours, figures without global state, and files that are the same each time."""

import io
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from plica.errors import UnsupportedError
from plica.extras import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI_OF_NOTEBOOKS = 96
INK = "#22272e"
MUTED = "#6b7480"
LINE = "#aab3bd"
FAINT = "#d5dae0"
PAPER = "#ffffff"

_SALT = "plica"  # matplotlib derives the names of SVG elements from it, at random by default


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of a size in inches."""
    require("matplotlib.figure")
    return _figure_of_notebooks()(figsize=(width, height), facecolor=PAPER)


@cache
def _figure_of_notebooks() -> "type[Figure]":
    """A figure that is shown as the last line of a cell, also where `pyplot` was never imported."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            content = io.BytesIO()
            self.savefig(content, format="png", dpi=_DPI_OF_NOTEBOOKS)
            return content.getvalue()

    return ShownFigure


def finished(figure: "Figure", path: str | os.PathLike[str] | None, *, dpi: int = 160) -> "Figure":
    """The figure, after it was written in the format of the ending of `path` (.svg, .png or .pdf), without a date.

    Raises:
        UnsupportedError: The path has another ending.
    """
    if path is None:
        return figure
    from matplotlib import rc_context

    kind = Path(path).suffix.lower().lstrip(".")
    undated: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    if kind not in ("svg", "png", "pdf"):
        raise UnsupportedError(f"{path}: pictures are written as .svg, .png or .pdf, not {kind or '(no ending)'!r}")
    with rc_context({"svg.hashsalt": _SALT, "svg.fonttype": "path"}):
        figure.savefig(path, format=kind, dpi=dpi, metadata=undated.get(kind))
    return figure
