"""Draws a circuit with a mark for every layer; over an image, the mark shows the pixels of the layer's scope.

Coordinates are inches from the bottom left corner of the figure.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from plica.draw.canvas import FAINT, INK, LINE, MUTED, PAPER, new_figure
from plica.draw.layout import Layout, lay_out
from plica.draw.marks import (
    Heading,
    ImageShape,
    colours,
    draw_kind,
    draw_mark,
    draw_symbol,
    draw_tiles,
    links_path,
    scope_rectangles,
)
from plica.draw.view import CircuitView, LayerView, describe_kinds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARGIN = 0.45
_LABELS = 2.15  # width of the column that describes each row
_CELL = 0.27  # distance of neighbours in the widest row
_MIN_WIDTH = 7.0
_TILE = (0.2, 0.62)  # smallest and largest side of a mark
_ROW_GAP = 0.34
_CAPTION = 0.16
_NAMED = 0.8  # distance of neighbours from which each layer has its own caption


_Mark = tuple[float, float, float]  # x, y and the side of a mark


@dataclass(frozen=True, slots=True)
class _Grid:
    """The coordinates of rows and columns on the page."""

    left: float
    step: float
    row_y: tuple[float, ...]
    row_size: tuple[float, ...]
    captions: tuple[float, ...]  # height of the captions below the marks of each row, 0 if there is no room
    width: float
    height: float


def draw_detail(view: CircuitView, title: str, subtitle: str, image_shape: ImageShape | None) -> "Figure":
    """A figure with one mark per layer, outputs on top."""
    layout = lay_out(view.inputs, view.outputs)
    step = _step(layout)
    width = _MARGIN + _LABELS + step * (max(layout.width, 1.0) + 1) + _MARGIN
    heading = Heading.of(title, subtitle, view.kinds, width - 2 * _MARGIN)
    grid = _grid(layout, step, width, heading.height)
    figure = new_figure(grid.width, grid.height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, grid.width)
    axes.set_ylim(0, grid.height)
    axes.axis("off")
    heading.draw(axes, _MARGIN, grid.height)
    at = _positions(view, layout, grid)
    _draw_links(axes, view, layout, grid, at)
    _draw_row_labels(axes, view, layout, grid)
    if image_shape is None:
        chosen = colours(view.kinds)
        for layer, (x, y, size) in zip(view.layers, at, strict=True):
            text = str(layer.variables[0]) if layer.role == "input" and len(layer.variables) == 1 else ""
            draw_mark(axes, layer.role, x, y, size, chosen[layer.kind], text)
    else:
        _draw_tiles(axes, view, at, image_shape)
    _draw_captions(axes, view, layout, grid, at)
    return figure


def _step(layout: Layout) -> float:
    """The distance of neighbours in the widest row."""
    columns = max(layout.width, 1.0)
    return min(max(_MIN_WIDTH, columns * _CELL) / columns, 1.6)


def _grid(layout: Layout, step: float, width: float, header: float) -> _Grid:
    sizes = tuple(min(_TILE[1], max(_TILE[0], 0.74 * step * layout.gap(row))) for row in range(len(layout.rows)))
    captions = tuple(_CAPTION if step * layout.gap(row) >= _NAMED else 0.0 for row in range(len(layout.rows)))
    height = header + sum(sizes) + sum(captions) + _ROW_GAP * len(sizes) + _MARGIN
    row_y, y = [], height - header
    for size, caption in zip(sizes, captions, strict=True):
        row_y.append(y - size / 2)
        y -= size + caption + _ROW_GAP
    left = _MARGIN + _LABELS + step * 0.5
    return _Grid(left, step, tuple(row_y), sizes, captions, width, height)


def _positions(view: CircuitView, layout: Layout, grid: _Grid) -> list[_Mark]:
    """The x, the y and the side of the mark of each layer."""
    at = [(0.0, 0.0, 0.0)] * len(view.layers)
    for row, nodes in enumerate(layout.rows):
        for node in nodes:
            at[node] = (grid.left + grid.step * layout.x[node], grid.row_y[row], grid.row_size[row])
    return at


def _draw_links(axes: "Axes", view: CircuitView, layout: Layout, grid: _Grid, at: list[_Mark]) -> None:
    """Draw curves from below each mark and its caption to the tops of the layers that it reads."""
    from matplotlib.patches import PathPatch

    links = []
    for row, nodes in enumerate(layout.rows):
        for node in nodes:
            x, y, size = at[node]
            start = (x, y - size / 2 - grid.captions[row])
            links += [(start, (at[child][0], at[child][1] + at[child][2] / 2)) for child in view.inputs[node]]
    axes.add_patch(PathPatch(links_path(links), facecolor="none", edgecolor=LINE, linewidth=0.7, zorder=0.5))


def _draw_tiles(axes: "Axes", view: CircuitView, at: list[_Mark], shape: ImageShape) -> None:
    """Draw a tile for each layer that shows the pixels of its scope."""
    shown = {scope: scope_rectangles(scope, shape) for scope in {layer.variables: None for layer in view.layers}}
    for kind, colour in colours(view.kinds).items():
        tiles = [
            (x - size / 2, y - size / 2, size, shown[layer.variables])
            for layer, (x, y, size) in zip(view.layers, at, strict=True)
            if layer.kind == kind
        ]
        draw_tiles(axes, colour, tiles)
    for layer, (x, y, size) in zip(view.layers, at, strict=True):
        if size >= 0.4 and len(layer.variables) == view.num_variables:
            draw_symbol(axes, layer.role, x, y, size, PAPER)


def _draw_row_labels(axes: "Axes", view: CircuitView, layout: Layout, grid: _Grid) -> None:
    """Draw the kinds of layers of each row at the left, with a faint line to the row."""
    chosen = colours(view.kinds)
    for y, nodes in zip(grid.row_y, layout.rows, strict=True):
        members: list[LayerView] = [view.layers[node] for node in nodes]
        rows = describe_kinds(members)
        for line, (kind, _, count, units) in enumerate(rows):
            base = y - 0.17 * (line - (len(rows) - 1) / 2)
            axes.text(_MARGIN, base, f"{count}", fontsize=9, color=MUTED, va="center")
            draw_kind(axes, kind, units, chosen[kind], (_MARGIN + 0.38, _MARGIN + _LABELS - 0.1), base)
        start, first = _MARGIN + _LABELS, grid.left + grid.step * layout.x[nodes[0]]
        axes.plot((start, first), (y, y), color=FAINT, linewidth=0.6, linestyle=(0, (1, 3)), zorder=0.4)


def _draw_captions(axes: "Axes", view: CircuitView, layout: Layout, grid: _Grid, at: list[_Mark]) -> None:
    for row, nodes in enumerate(layout.rows):
        if not grid.captions[row]:
            continue
        for node in nodes:
            x, y, size = at[node]
            text = f"{view.layers[node].kind} {view.layers[node].units}"
            axes.text(x, y - size / 2 - 0.045, text, fontsize=6.5, color=INK, ha="center", va="top")
