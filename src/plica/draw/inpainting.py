"""Draws a picture of images with a part hidden, and of several completions.

>>> import tempfile, pathlib
>>> path = pathlib.Path(tempfile.mkdtemp()) / "inpainting.png"
>>> images = np.random.default_rng(0).integers(0, 17, (4, 64))
>>> hidden = np.arange(64) >= 32
>>> figure = inpainting_grid({"truth": images, "sample": images}, images, hidden, path, image_shape=(1, 8, 8))
>>> path.read_bytes()[1:4]
b'PNG'
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.draw.canvas import INK, MUTED, finished, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray[Any, np.dtype[Any]]
ImageShape = tuple[int, int, int]

_CELL = 0.98  # inches
_HEADER, _MARGIN = 0.7, 0.2
_HIDDEN = 0.78  # the grey of hidden pixels, as a share of white


def inpainting_grid(
    columns: Mapping[str, Array],
    real: Array,
    hidden: Array,
    path: str | os.PathLike[str] | None = None,
    *,
    image_shape: ImageShape,
) -> "Figure":
    """Draw a line for each image: its visible part, then each column. Write the picture if there is a path.

    Args:
        columns: Rows `(N, D)` by the title of their column.
        real: The images `(N, D)`.
        hidden: `(D,)`, which values were hidden.
        path: The file, of which the ending chooses SVG, PNG or PDF.
        image_shape: (channels, height, width).

    Returns:
        The figure of matplotlib.

    Raises:
        UnsupportedError: The path has another ending.
        MissingExtraError: matplotlib is not installed.
    """
    shown = {"given": np.where(hidden, np.nan, real.astype(np.float64)), **columns}
    canvas = np.concatenate([_column(rows, image_shape) for rows in shown.values()], axis=1)
    low, high = float(real.min()), float(real.max())
    canvas = np.clip((canvas - low) / max(high - low, 1e-12), 0, 1)
    tall, wide = canvas.shape[:2]
    width = len(shown) * _CELL
    height = width * tall / wide
    full = (width + 2 * _MARGIN, height + _HEADER + _MARGIN)
    figure = new_figure(*full)
    axes = figure.add_axes((_MARGIN / full[0], _MARGIN / full[1], width / full[0], height / full[1]))
    alpha = np.isfinite(canvas).all(axis=-1)  # transparent between images
    colours = np.repeat(np.nan_to_num(canvas), 3 // canvas.shape[-1], axis=-1)
    axes.imshow(np.dstack([colours, alpha]), interpolation="nearest")
    axes.axis("off")
    for index, title in enumerate(shown):
        left, bottom = _MARGIN + index * _CELL, full[1] - _HEADER + 0.07
        figure.text(left / full[0], bottom / full[1], title, fontsize=9, color=MUTED)
    figure.text(_MARGIN / full[0], 1 - 0.28 / full[1], "Filled in from what is given", fontsize=12, color=INK)
    return finished(figure, path)


def _column(rows: Array, image_shape: ImageShape) -> Array:
    """Images below each other, `(height, width, 1 or 3)`, with hidden pixels in grey and NaN between images."""
    C, H, W = image_shape
    rows = np.where(np.isnan(rows), _HIDDEN * np.nanmax(rows), rows.astype(np.float64))
    images = rows.reshape(-1, C, H, W).transpose(0, 2, 3, 1)
    images = images if C == 3 else images[..., :1]  # with other numbers of channels, only the first is shown
    gap = max(1, H // 16)
    padded = np.pad(images, ((0, 0), (0, gap), (0, gap), (0, 0)), constant_values=np.nan)
    return padded.reshape(-1, W + gap, images.shape[-1])
