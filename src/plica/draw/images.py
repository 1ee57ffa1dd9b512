"""Draws samples of a model beside rows of real data, as images or as tables of colours.

>>> import tempfile, pathlib
>>> import numpy as np
>>> path = pathlib.Path(tempfile.mkdtemp()) / "samples.png"
>>> rows = np.random.default_rng(0).integers(0, 17, (25, 64))
>>> figure = sample_grid(rows, rows, path, image_shape=(1, 8, 8))
>>> path.read_bytes()[1:4]
b'PNG'
"""

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.draw.canvas import INK, MUTED, finished, new_figure
from plica.errors import ShapeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray[Any, np.dtype[Any]]
ImageShape = tuple[int, int, int]

# widths and heights in inches
_PANEL = 4.6
_MARGIN = 0.3
_HEADER = 0.62
_COLUMN_NAMES = 1.0  # below the panels

_MAX_NAMES = 40  # with more columns, no names are written
_MAX_LETTERS = 16  # of a name
_MAX_ROWS = 64  # rows of a table, or images, that one panel shows


def sample_grid(
    samples: Array,
    real: Array,
    path: str | os.PathLike[str] | None = None,
    *,
    image_shape: ImageShape | None = None,
    columns: Sequence[str] | None = None,
) -> "Figure":
    """Draw two panels of equal size, samples and real rows, and write them if there is a path.

    Both map values to colours by the range of the real rows.

    Args:
        samples: (N, D), rows that the model drew.
        real: (M, D), rows of data.
        path: The file, of which the ending chooses SVG, PNG or PDF.
        image_shape: (channels, height, width) of a row that is an image; None draws each row as a line of a heat map.
        columns: The names of the columns of a table. Then each column has a range of its own.

    Returns:
        The figure of matplotlib.

    Raises:
        UnsupportedError: The path has another ending.
        MissingExtraError: matplotlib is not installed.
    """
    if columns is not None:
        samples, real = _scaled_by_column(samples, real)
    panels = [_panel(rows, image_shape) for rows in (samples, real)]
    low, high = float(np.nanmin(real)), float(np.nanmax(real))
    aspect = max(panel.shape[0] / panel.shape[1] for panel in panels) if image_shape else 1.0  # height to width
    aspect = min(aspect, 3.0)
    below = _MARGIN if columns is None else _MARGIN + _COLUMN_NAMES
    width, height = 2 * _PANEL + 3 * _MARGIN, _PANEL * aspect + _HEADER + below
    figure = new_figure(width, height)
    unit = "rows" if image_shape is None else "images"
    titles = ("Samples from the model", f"Real {unit}, held out")
    for index, (panel, title) in enumerate(zip(panels, titles, strict=True)):
        left = _MARGIN + index * (_PANEL + _MARGIN)
        axes = figure.add_axes((left / width, below / height, _PANEL / width, _PANEL * aspect / height))
        _show(axes, panel, low, high, stretch=image_shape is None)
        if columns is not None and len(columns) <= _MAX_NAMES:
            names = [name if len(name) <= _MAX_LETTERS else f"{name[: _MAX_LETTERS - 3]}..." for name in columns]
            axes.set_xticks(range(len(names)), names, rotation=90, fontsize=8, color=MUTED)
            axes.tick_params(length=0)
        axes.set_title(title, loc="left", fontsize=13, color=INK, pad=8)
        count = min(len((samples, real)[index]), _MAX_ROWS)
        axes.set_title(f"{count} {unit}", loc="right", fontsize=9, color=MUTED, pad=8)
    return finished(figure, path)


def _scaled_by_column(samples: Array, real: Array) -> tuple[Array, Array]:
    """Samples and real rows, scaled so that the real values of each column go from 0 to 1."""
    real = real.astype(np.float64)
    finite = np.where(np.isfinite(real), real, np.nan)
    empty = np.isnan(finite).all(axis=0)
    low, high = (np.where(empty, 0.0, end(np.where(empty, 0.0, finite), axis=0)) for end in (np.nanmin, np.nanmax))
    width = np.where(high > low, high - low, 1.0)
    return np.clip((samples - low) / width, 0, 1), (real - low) / width


def _show(axes: "Axes", panel: Array, low: float, high: float, *, stretch: bool) -> None:
    colors = (panel - low) / max(high - low, 1e-12)
    if colors.ndim == 2:
        axes.imshow(colors, cmap="magma" if stretch else "gray", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    else:
        axes.imshow(np.clip(colors, 0, 1), aspect="auto", interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_frame_on(False)


def _panel(rows: Array, image_shape: ImageShape | None) -> Array:
    """Up to 64 rows as one array of pixels: (height, width) in grey, with NaN between images, or (height, width, 3)."""
    rows = np.asarray(rows[:_MAX_ROWS], dtype=np.float64)
    if image_shape is None:
        return rows
    C, H, W = image_shape
    if rows.shape[1] != C * H * W:
        raise ShapeError(f"rows of {rows.shape[1]} values cannot be drawn as images of shape {image_shape} (C, H, W)")
    images = rows.reshape(-1, C, H, W).transpose(0, 2, 3, 1)
    images = images if C == 3 else images[..., :1]  # with other numbers of channels, only the first is shown
    side = math.ceil(math.sqrt(len(images)))
    num_lines = math.ceil(len(images) / side)
    gap = max(1, H // 16)
    canvas = np.full((num_lines * (H + gap) - gap, side * (W + gap) - gap, images.shape[-1]), np.nan)
    for index, image in enumerate(images):
        top, left = (index // side) * (H + gap), (index % side) * (W + gap)
        canvas[top : top + H, left : left + W] = image
    return canvas[..., 0] if images.shape[-1] == 1 else np.nan_to_num(canvas, nan=float(rows.max()))
