"""Draws a circuit as a picture: each layer, or for large circuits each row of layers as one bar.

The same circuit gives the same file, byte for byte.
"""

import os
from collections import Counter
from typing import TYPE_CHECKING

from plica.draw.canvas import finished
from plica.draw.detail import draw_detail
from plica.draw.layout import depths
from plica.draw.marks import ImageShape
from plica.draw.overview import draw_overview
from plica.draw.view import view_circuit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from plica.symbolic.circuit import Circuit

_MOST_LAYERS = 1000
_MOST_IN_A_ROW = 130
_MOST_ROWS = 60


def draw_circuit(
    circuit: "Circuit",
    path: str | os.PathLike[str] | None = None,
    image_shape: ImageShape | None = None,
    *,
    title: str = "Circuit",
) -> "Figure":
    """Draw a circuit, and write the picture if there is a path.

    Args:
        circuit: Any circuit.
        path: The file, of which the ending chooses SVG, PNG or PDF.
        image_shape: (channels, height, width) if variable v is entry v of an image; layers then show their pixels.
        title: The heading.

    Returns:
        The figure of matplotlib.

    Raises:
        UnsupportedError: The path has another ending.
        MissingExtraError: matplotlib is not installed.

    >>> from pathlib import Path
    >>> from plica.templates.pgms import fully_factorized
    >>> figure = draw_circuit(fully_factorized(2, "embedding"), "circuit.svg")
    >>> "3 layers, 2 edges, 2 variables" in Path("circuit.svg").read_text()
    True
    """
    view = view_circuit(circuit)
    rows = Counter(depths(view.inputs))
    small = len(view.layers) <= _MOST_LAYERS and max(rows.values()) <= _MOST_IN_A_ROW and len(rows) <= _MOST_ROWS
    edges = sum(map(len, view.inputs))
    subtitle = f"{len(view.layers):,} layers, {edges:,} edges, {view.num_variables:,} variables"
    draw = draw_detail if small else draw_overview
    return finished(draw(view, title, subtitle, image_shape), path)
