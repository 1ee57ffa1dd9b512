"""A picture of a training run: bits per dimension by epoch.

>>> import tempfile, pathlib
>>> path = pathlib.Path(tempfile.mkdtemp()) / "curves.svg"
>>> figure = draw_curves({"train": [(1, 3.0), (2, 2.5)], "valid": [(0, 4.0), (1, 3.1), (2, 2.8)]}, path, best=2)
>>> "svg" in path.read_text()
True
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plica.draw.canvas import FAINT, INK, MUTED, finished, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = ("#2f6f9f", "#c4572e", "#5b8c3a")


def draw_curves(
    curves: Mapping[str, Sequence[tuple[int, float]]],
    path: str | os.PathLike[str] | None = None,
    *,
    best: int | None = None,
) -> "Figure":
    """Draw figures by epoch, each curve with its last figure, and write the picture if there is a path.

    Args:
        curves: (epoch, bits per dimension) by name, all finite.
        path: The file, of which the ending chooses SVG, PNG or PDF.
        best: The epoch of the best model.

    Returns:
        The figure of matplotlib.

    Raises:
        UnsupportedError: The path has another ending.
        MissingExtraError: matplotlib is not installed.
    """
    figure = new_figure(7.2, 3.4)
    axes = figure.add_axes((0.09, 0.14, 0.88, 0.8))
    for (name, points), colour in zip(curves.items(), _COLOURS, strict=False):
        if points:
            epochs, values = zip(*points, strict=True)
            mark = "o" if len(points) == 1 else None  # a line of one point is invisible
            label = f"{name} {values[-1]:.3f}"
            axes.plot(epochs, values, color=colour, linewidth=1.6, marker=mark, markersize=4, label=label)
    if best is not None:
        axes.axvline(best, color=FAINT, linewidth=1, zorder=0)
        axes.text(best, axes.get_ylim()[1], "kept ", color=MUTED, fontsize=8, va="top", ha="right")
    locator: Any = axes.xaxis.get_major_locator()
    locator.set_params(integer=True)
    axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    axes.set_xlabel("epoch", color=MUTED, fontsize=9)
    axes.set_ylabel("bits per dimension", color=MUTED, fontsize=9)
    axes.tick_params(colors=INK, labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return finished(figure, path)
