"""A picture of images with a part hidden, and of what fills it in.

>>> import tempfile, pathlib
>>> path = pathlib.Path(tempfile.mkdtemp()) / "inpainting.png"
>>> images = np.random.default_rng(0).integers(0, 17, (4, 64))
>>> hidden = np.arange(64) >= 32
>>> inpainting_grid({"truth": images, "sample": images}, images, hidden, path, image_shape=(1, 8, 8))
>>> path.read_bytes()[1:4]
b'PNG'
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from plica.draw.canvas import INK, MUTED, new_figure, save_figure

Array = np.ndarray[Any, np.dtype[Any]]
ImageShape = tuple[int, int, int]

_CELL = 0.95  # inches
_HEADER, _MARGIN = 0.8, 0.2
_HIDDEN = 0.78  # the grey of what is hidden


def inpainting_grid(
    columns: Mapping[str, Array],
    real: Array,
    hidden: Array,
    path: str | os.PathLike[str],
    *,
    image_shape: ImageShape,
) -> None:
    """Draw a line for each image: what is given of it, then each column.

    Args:
        columns: Rows `(N, D)` by what stands above them.
        real: The images `(N, D)`.
        hidden: `(D,)`, which values were hidden.
        path: Where to write; the ending chooses PNG or SVG.
        image_shape: (channels, height, width).
    """
    low, high = float(real.min()), float(real.max())
    scale = max(high - low, 1e-12)
    given = np.where(hidden, np.nan, real.astype(np.float64))
    shown = {"given": given, **columns}
    C, H, W = image_shape
    width = len(shown) * _CELL * 1.08 + 2 * _MARGIN
    cell = (width - 2 * _MARGIN) / len(shown)
    height = len(real) * cell * H / W + _HEADER + _MARGIN
    figure = new_figure(width, height)
    figure.text(_MARGIN / width, 1 - 0.28 / height, "Filled in from what is given", fontsize=12, color=INK)
    tall = cell * H / W
    for place, (title, rows) in enumerate(shown.items()):
        for line in range(len(real)):
            left, bottom = _MARGIN + place * cell, height - _HEADER - (line + 1) * tall
            axes = figure.add_axes((left / width, bottom / height, 0.93 * cell / width, 0.93 * tall / height))
            pixels = (rows[line].astype(np.float64) - low) / scale
            image = np.clip(np.nan_to_num(pixels, nan=_HIDDEN), 0, 1).reshape(C, H, W).transpose(1, 2, 0)
            axes.imshow(image if C == 3 else image[..., 0], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axes.axis("off")
            if line == 0:
                axes.set_title(title, fontsize=9, color=MUTED, pad=4)
    save_figure(figure, path)
