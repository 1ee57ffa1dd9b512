"""Draws the parts of a circuit's picture: marks of layers, tiles of scopes, links, the heading and the legend."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.draw.canvas import INK, MUTED, PAPER
from plica.draw.view import Role
from plica.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path

Rectangle = tuple[float, float, float, float]  # left, bottom, width, height
ImageShape = tuple[int, int, int]

# Colours of the kinds of one role in order of appearance; all further kinds have the last.
_COLOURS: dict[Role, tuple[str, ...]] = {
    "input": ("#2f8f6b", "#7d5ba6", "#5b8c2a", "#8a7a3b", "#4d7c8a"),
    "sum": ("#2f6db5", "#1f4e86"),
    "product": ("#d9772b", "#b8403d", "#a8641f"),
}
_TINT = 0.84  # the share of white in the background of a tile
_HEADER = 1.15  # inches of a title and a subtitle
_TITLE, _LEGEND, _LABEL = 15, 9.5, 9  # points
_GAP = 0.1  # inches between the name of a kind and its units
_BOLD = 1.16  # the most that bold text is wider than `text_width` says
_NARROWEST = 0.2  # width of the narrowest letter, as a share of its size
_LEGEND_LINE = 0.3
_BEFORE_NAME, _BETWEEN = 0.17, 0.36  # from a name to the middle of its mark, and from there to the previous name
_SYMBOLS: dict[Role, str] = {"input": "", "sum": "+", "product": "\N{MULTIPLICATION SIGN}"}


def colours(kinds: Iterable[tuple[str, Role]]) -> dict[str, str]:
    """A colour for each kind."""
    chosen: dict[str, str] = {}
    used: dict[Role, int] = {"input": 0, "sum": 0, "product": 0}
    for kind, role in kinds:
        palette = _COLOURS[role]
        chosen[kind] = palette[min(used[role], len(palette) - 1)]
        used[role] += 1
    return chosen


def tint(colour: str, amount: float = _TINT) -> str:
    """The colour mixed with white.

    >>> tint("#000000", 0.5)
    '#808080'
    """
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(part + (255 - part) * amount):02x}" for part in parts)


def scope_rectangles(variables: Sequence[int], shape: ImageShape) -> tuple[Rectangle, ...]:
    """Rectangles in the unit square, bottom-left origin, that cover the pixels of a scope in an image.

    >>> scope_rectangles((0, 1, 4, 5), (1, 4, 4))
    ((0.0, 0.5, 0.5, 0.5),)
    """
    _, H, W = shape
    mask = np.zeros((H, W), dtype=bool)
    pixels = np.asarray(variables, dtype=np.int64) % (H * W)
    mask[pixels // W, pixels % W] = True
    open_runs: dict[tuple[int, int], int] = {}  # columns (start, stop) -> first row
    rectangles: list[Rectangle] = []
    for row in range(H + 1):
        runs = _runs(mask[row]) if row < H else ()
        for run in [run for run in open_runs if run not in runs]:
            top = open_runs.pop(run)
            rectangles.append((run[0] / W, 1 - row / H, (run[1] - run[0]) / W, (row - top) / H))
        for run in runs:
            open_runs.setdefault(run, row)
    return tuple(rectangles)


def place_rectangles(
    rectangles: Iterable[Rectangle], left: float, bottom: float, size: float, least: float = 0.042
) -> list[Rectangle]:
    """Rectangles of the unit square moved into a square on the page, none narrower than `least` inches."""
    placed = []
    for x, y, w, h in rectangles:
        wide, tall = min(max(w * size, least), size), min(max(h * size, least), size)
        right_most, top_most = left + size - wide, bottom + size - tall
        x0 = left + (x + w / 2) * size - wide / 2
        y0 = bottom + (y + h / 2) * size - tall / 2
        placed.append((min(max(x0, left), right_most), min(max(y0, bottom), top_most), wide, tall))
    return placed


def draw_tiles(axes: "Axes", colour: str, tiles: Iterable[tuple[float, float, float, Sequence[Rectangle]]]) -> None:
    """Draw tinted squares (left, bottom, side, scope) with the scope in full colour, as three paths in all."""
    from matplotlib.patches import PathPatch

    grounds: list[Rectangle] = []
    pixels: list[Rectangle] = []
    for left, bottom, size, scope in tiles:
        grounds.append((left, bottom, size, size))
        pixels += place_rectangles(scope, left, bottom, size)
    axes.add_patch(PathPatch(rectangles_path(grounds), facecolor=tint(colour), edgecolor="none"))
    axes.add_patch(PathPatch(rectangles_path(pixels), facecolor=colour, edgecolor="none"))
    axes.add_patch(PathPatch(rectangles_path(grounds), facecolor="none", edgecolor=colour, linewidth=0.7))


def _runs(row: "np.ndarray[Any, np.dtype[np.bool_]]") -> tuple[tuple[int, int], ...]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], row, [False])).astype(np.int8)))
    return tuple((int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True))


def rectangles_path(rectangles: Iterable[Rectangle]) -> "Path":
    """One path of many rectangles, so that a picture of thousands of tiles stays small."""
    from matplotlib.path import Path

    vertices: list[tuple[float, float]] = []
    codes: list[Any] = []
    for x, y, w, h in rectangles:
        vertices += [(x, y), (x + w, y), (x + w, y + h), (x, y + h), (x, y)]
        codes += [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    return Path(vertices, codes) if vertices else Path(np.zeros((0, 2)))


def links_path(links: Iterable[tuple[tuple[float, float], tuple[float, float]]]) -> "Path":
    """One path of many curves, each leaving its upper end and reaching its lower end vertically."""
    from matplotlib.path import Path

    vertices: list[tuple[float, float]] = []
    codes: list[Any] = []
    for (x0, y0), (x1, y1) in links:
        middle = (y0 + y1) / 2
        vertices += [(x0, y0), (x0, middle), (x1, middle), (x1, y1)]
        codes += [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    return Path(vertices, codes) if vertices else Path(np.zeros((0, 2)))


def draw_mark(axes: "Axes", role: Role, x: float, y: float, size: float, colour: str, text: str = "") -> None:
    """Draw the mark of a layer without its scope: a disc for a sum, a square for a product, a pill for an input.

    The text is written on the mark if it fits.
    """
    from matplotlib.patches import Circle, FancyBboxPatch

    if role == "sum":
        axes.add_patch(Circle((x, y), size / 2, facecolor=colour, edgecolor="none"))
    else:
        rounding = size * (0.18 if role == "product" else 0.42)
        height = size if role == "product" else size * 0.84
        box = f"round,pad=0,rounding_size={rounding}"
        axes.add_patch(
            FancyBboxPatch(
                (x - size / 2, y - height / 2), size, height, boxstyle=box, facecolor=colour, edgecolor="none"
            )
        )
    if size >= 0.16:
        draw_symbol(axes, role, x, y, size, PAPER)
    points = min(size * 26, 10.0)
    if text and text_width(text, points) < 0.9 * size:
        axes.text(x, y, text, fontsize=points, color=PAPER, ha="center", va="center_baseline")


def draw_symbol(axes: "Axes", role: Role, x: float, y: float, size: float, colour: str) -> None:
    """Draw the operator sign of a sum or product, its size in inches, as strokes, which are exactly centred."""
    from matplotlib.collections import LineCollection

    if not _SYMBOLS[role]:
        return
    arm = size * 0.22
    diagonal = arm * 0.76
    strokes = (
        [[(x - arm, y), (x + arm, y)], [(x, y - arm), (x, y + arm)]]
        if role == "sum"
        else [
            [(x - diagonal, y - diagonal), (x + diagonal, y + diagonal)],
            [(x - diagonal, y + diagonal), (x + diagonal, y - diagonal)],
        ]
    )
    axes.add_collection(LineCollection(strokes, colors=colour, linewidths=max(0.8, size * 6), capstyle="round"))


@dataclass(frozen=True, slots=True)
class Heading:
    """Title, subtitle and legend; the legend is beside the title if there is room, else in lines below the subtitle.

    Attributes:
        title: The title, cut to the width.
        subtitle: The line below the title.
        lines: The kinds of the legend, line by line.
        beside: Whether the legend has one line, beside the title.
        width: The width of the heading.
    """

    title: str
    subtitle: str
    lines: tuple[tuple[tuple[str, Role], ...], ...]
    beside: bool
    width: float

    @staticmethod
    def of(title: str, subtitle: str, kinds: Iterable[tuple[str, Role]], width: float) -> "Heading":
        """The heading of a picture of that width in inches, its margins left out."""
        lines: list[list[tuple[str, Role]]] = [[]]
        for kind in kinds:
            if lines[-1] and _legend_width([*lines[-1], kind]) > width:
                lines.append([])
            lines[-1].append(kind)
        shown, several = _shortened(title, width), tuple(map(tuple, lines))
        needed = text_width(shown, _TITLE) * _BOLD + 0.3 + _legend_width(several[0])
        return Heading(shown, subtitle, several, len(several) == 1 and needed <= width, width)

    @property
    def height(self) -> float:
        """The height of the heading."""
        return _HEADER + (0.0 if self.beside else _LEGEND_LINE * len(self.lines))

    def draw(self, axes: "Axes", left: float, top: float) -> None:
        """Draw the heading below the top of the picture."""
        draw_title(axes, left, top - 0.55, self.title, self.subtitle)
        for number, kinds in enumerate(self.lines):
            right = left + (self.width if self.beside else _legend_width(kinds))
            draw_legend(
                axes,
                colours(chain(*self.lines)),
                kinds,
                right,
                top - 0.5 - (not self.beside) * (0.62 + number * _LEGEND_LINE),
            )


def draw_legend(
    axes: "Axes", chosen: Mapping[str, str], kinds: Sequence[tuple[str, Role]], right: float, y: float
) -> None:
    """Draw the marks of kinds with their names in one line that ends at `right`."""
    for kind, role in reversed(tuple(kinds)):
        right -= text_width(kind, _LEGEND)
        axes.text(right, y, kind, fontsize=_LEGEND, color=INK, va="center")
        right -= _BEFORE_NAME
        draw_mark(axes, role, right, y, 0.2, chosen[kind])
        right -= _BETWEEN


def draw_kind(axes: "Axes", kind: str, units: str, colour: str, ends: tuple[float, float], y: float) -> None:
    """Draw the name of a kind at the left end and its units at the right end; a long name has smaller letters."""
    words = f"{units} unit{'' if units == '1' else 's'}"
    axes.text(ends[1], y, words, fontsize=_LABEL, color=MUTED, va="center", ha="right")
    room = ends[1] - ends[0] - text_width(words, _LABEL) - _GAP
    size = _LABEL * min(1.0, room / (text_width(kind, _LABEL) * _BOLD))
    axes.text(ends[0], y, kind, fontsize=size, color=colour, va="center", fontweight="bold")


def _shortened(title: str, width: float) -> str:
    """A title, or the part of its beginning that fits into a width."""

    def fits(text: str) -> bool:
        return text_width(text, _TITLE) * _BOLD <= width

    most = int(width * 72 / (_TITLE * _NARROWEST))
    if len(title) <= most and fits(title):
        return title
    letters = bisect_left(range(min(most, len(title))), True, key=lambda count: not fits(f"{title[: count + 1]}..."))
    return f"{title[:letters]}..."


def _legend_width(kinds: Iterable[tuple[str, Role]]) -> float:
    return sum(text_width(kind, _LEGEND) + _BEFORE_NAME + _BETWEEN for kind, _ in kinds) - _BETWEEN + 0.1


def text_width(text: str, points: float) -> float:
    """The width in inches of a text in the standard font."""
    fonts = require("matplotlib.font_manager")
    font = fonts.findfont(fonts.FontProperties())
    return _text_width(text, points, font, str(require("matplotlib").rcParams["mathtext.fontset"]))


@lru_cache(maxsize=1024)
def _text_width(text: str, points: float, font: str, mathematics: str) -> float:  # noqa: ARG001 - a key of the cache
    """The width of a text, cached for each font, since every picture measures the same names of layers."""
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), text, size=points).get_extents().width) / 72


def draw_title(axes: "Axes", left: float, y: float, title: str, subtitle: str) -> None:
    """Draw the title and the subtitle of a picture."""
    axes.text(left, y, title, fontsize=_TITLE, color=INK, va="baseline", fontweight="bold")
    axes.text(left, y - 0.27, subtitle, fontsize=10, color=MUTED, va="baseline")
