"""The transpose layer."""

from functools import partial
from typing import Any

from plica.errors import InputError
from plica.symbolic.layers import LAYER_ROWS, TransposeLayer
from tests.harness.layer_cases.case import InnerCase, Params, Refused
from tests.harness.spaces import Space

Array = Any


def reference(space: Space, layer: Any, params: Params, inputs: list[Array]) -> Array:  # noqa: ARG001
    """The units on their axes, transposed."""
    (units,) = inputs
    laid_out = units.reshape(-1, *layer.sizes)
    return laid_out.transpose(0, *(axis + 1 for axis in layer.axes)).reshape(units.shape)


ROW = LAYER_ROWS[TransposeLayer]
FORMS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3), (1, 0)),
    ((2, 3, 2), (2, 0, 1)),
    ((2, 1, 3, 2), (0, 2, 1, 3)),
    ((3,), (0,)),
    ((1, 1), (1, 0)),
]
CASES = tuple(
    InnerCase(
        f"transpose of {sizes} to {axes}",
        ROW,
        partial(TransposeLayer, sizes, axes),
        reference,
        refused=(
            Refused(lambda: TransposeLayer((2, 3), (0, 0)), InputError, "a permutation of the 2 axis"),
            Refused(lambda: TransposeLayer((), ()), InputError, "a permutation of the 0 axis"),
        ),
        parameters={},
    )
    for sizes, axes in FORMS
)
