"""Pictures of circuits, training and samples, drawn by matplotlib without its global state.

>>> from plica.templates.pgms import fully_factorized
>>> figure = draw_circuit(fully_factorized(2, "embedding"), "circuit.png")
>>> figure = draw_curves({"train": [(0, 5.2), (1, 4.1)], "valid": [(0, 5.3), (1, 4.4)]}, best=1)
"""

from plica.draw.circuit import draw_circuit
from plica.draw.curves import draw_curves
from plica.draw.images import sample_grid
from plica.draw.inpainting import inpainting_grid

__all__ = ["draw_circuit", "draw_curves", "inpainting_grid", "sample_grid"]
