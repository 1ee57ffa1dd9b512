"""Draws a large circuit: one row for each level, one bar for each kind of layer in it.

Coordinates are inches from the bottom left corner of the figure.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plica.draw.canvas import INK, LINE, MUTED, PAPER, new_figure
from plica.draw.layout import depths
from plica.draw.marks import (
    Heading,
    ImageShape,
    colours,
    draw_kind,
    draw_symbol,
    draw_tiles,
    scope_rectangles,
)
from plica.draw.view import CircuitView, Role, describe_kinds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARGIN = 0.45
_LABELS = 2.3
_BARS = 8.0  # width of the longest bar
_TILES = 2.2  # width of the column of example scopes
_TILE = 0.4
_FEWEST = 10.0  # the least square root of a count that fills the width: it keeps bars of few layers short
_ROW = 0.62
_BAR = 0.34
_SHOWN_ROWS = 44
_ENDS = 20  # rows shown at each end if there are more


@dataclass(frozen=True, slots=True)
class _Bar:
    """The layers of one kind in one row."""

    kind: str
    role: Role
    count: int
    units: str
    left: float
    width: float
    y: float


def draw_overview(view: CircuitView, title: str, subtitle: str, image_shape: ImageShape | None) -> "Figure":
    """A figure with one bar for each kind in each level, outputs on top; bars grow as the square root of the count."""
    levels: list[list[int]] = []
    depth = depths(view.inputs)
    for node, level in enumerate(depth):
        levels.extend([] for _ in range(level + 1 - len(levels)))
        levels[level].append(node)
    shown = _shown_rows(len(levels))
    width = _MARGIN + _LABELS + _BARS + (_TILES if image_shape else 0.0) + _MARGIN
    heading = Heading.of(title, f"{subtitle}, {len(levels)} levels", view.kinds, width - 2 * _MARGIN)
    height = heading.height + _ROW * len(shown) + _MARGIN
    figure = new_figure(width, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.axis("off")
    heading.draw(axes, _MARGIN, height)
    centre = {level: height - heading.height - _ROW * (i + 0.4) for i, level in enumerate(shown) if level is not None}
    bars = _bars(view, levels, centre)
    _draw_bands(axes, view, depth, bars)
    _draw_bars(axes, view, bars)
    if None in shown:
        _draw_omission(axes, height - heading.height - _ROW * (shown.index(None) + 0.4), len(levels) - len(centre))
    if image_shape is not None:
        for level, y in centre.items():
            _draw_examples(axes, view, levels[level], y, image_shape)
    return figure


def _shown_rows(count: int) -> list[int | None]:
    """All levels, or the first and last with None for the omitted ones between."""
    if count <= _SHOWN_ROWS:
        return list(range(count))
    return [*range(_ENDS), None, *range(count - _ENDS, count)]


def _bars(view: CircuitView, levels: list[list[int]], centre: dict[int, float]) -> dict[tuple[int, str], _Bar]:
    """Bars by level and kind; bars of one level are side by side, centred."""
    rows = {level: describe_kinds(view.layers[node] for node in levels[level]) for level in centre}
    longest = max(_FEWEST, *(sum(math.sqrt(count) for _, _, count, _ in kinds) for kinds in rows.values()))
    middle = _MARGIN + _LABELS + _BARS / 2
    bars = {}
    for level, kinds in rows.items():
        widths = [max(_BAR, _BARS * math.sqrt(count) / longest) for _, _, count, _ in kinds]
        left = middle - (sum(widths) + 0.08 * (len(widths) - 1)) / 2
        for (kind, role, count, units), width in zip(kinds, widths, strict=True):
            bars[level, kind] = _Bar(kind, role, count, units, left, width, centre[level])
            left += width + 0.08
    return bars


def _draw_bands(axes: "Axes", view: CircuitView, depth: list[int], bars: dict[tuple[int, str], _Bar]) -> None:
    """Draw a pale band from each bar to each bar that it reads, over the whole widths of both."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    links = Counter(
        ((depth[node], view.layers[node].kind), (depth[child], view.layers[child].kind))
        for node, children in enumerate(view.inputs)
        for child in children
    )
    for upper, lower in links:
        if upper not in bars or lower not in bars:
            continue
        top, end = bars[upper], bars[lower]
        y0, y1 = top.y - _BAR / 2, end.y + _BAR / 2
        middle = (y0 + y1) / 2
        far = lower[0] - upper[0] > 1  # over other rows: a narrow band, so that it hides little
        inset = (0.47 if far else 0.0) * min(top.width, end.width)
        a, b = top.left + inset, top.left + top.width - inset
        c, d = end.left + inset, end.left + end.width - inset
        vertices = [(a, y0), (a, middle), (c, middle), (c, y1), (d, y1), (d, middle), (b, middle), (b, y0), (a, y0)]
        codes = [Path.MOVETO, *[Path.CURVE4] * 3, Path.LINETO, *[Path.CURVE4] * 3, Path.CLOSEPOLY]
        axes.add_patch(PathPatch(Path(vertices, codes), facecolor=LINE, edgecolor="none", alpha=0.3, zorder=0.5))


def _draw_bars(axes: "Axes", view: CircuitView, bars: dict[tuple[int, str], _Bar]) -> None:
    from matplotlib.patches import FancyBboxPatch

    chosen = colours(view.kinds)
    lines: Counter[int] = Counter()
    totals = Counter(level for level, _ in bars)
    for (level, kind), bar in bars.items():
        box = f"round,pad=0,rounding_size={0.07}"
        corner = (bar.left, bar.y - _BAR / 2)
        axes.add_patch(FancyBboxPatch(corner, bar.width, _BAR, boxstyle=box, facecolor=chosen[kind], edgecolor="none"))
        words = f"{bar.count:,}"
        if bar.width >= 0.09 * len(words) + 0.7:
            draw_symbol(axes, bar.role, bar.left + 0.2, bar.y, 0.26, PAPER)
            axes.text(bar.left + bar.width / 2, bar.y, words, fontsize=9.5, color=PAPER, ha="center", va="center")
        else:
            draw_symbol(axes, bar.role, bar.left + bar.width / 2, bar.y, 0.26, PAPER)
        y = bar.y - 0.17 * (lines[level] - (totals[level] - 1) / 2)
        lines[level] += 1
        axes.text(_MARGIN + 0.42, y, f"{bar.count:,}", fontsize=9, color=MUTED, va="center", ha="right")
        draw_kind(axes, kind, bar.units, chosen[kind], (_MARGIN + 0.52, _MARGIN + _LABELS - 0.1), y)


def _draw_omission(axes: "Axes", y: float, count: int) -> None:
    middle = _MARGIN + _LABELS + _BARS / 2
    axes.text(middle, y, f"{count:,} more levels", fontsize=10, color=INK, ha="center", va="center", style="italic")


def _draw_examples(axes: "Axes", view: CircuitView, nodes: list[int], y: float, shape: ImageShape) -> None:
    """Draw up to four scopes of the level, evenly picked, as tiles at the right."""
    chosen = colours(view.kinds)
    picked = nodes if len(nodes) <= 4 else [nodes[i * (len(nodes) - 1) // 3] for i in range(4)]
    for index, node in enumerate(picked):
        layer = view.layers[node]
        left = _MARGIN + _LABELS + _BARS + 0.3 + index * (_TILE + 0.07)
        scope = scope_rectangles(layer.variables, shape)
        draw_tiles(axes, chosen[layer.kind], [(left, y - _TILE / 2, _TILE, scope)])
