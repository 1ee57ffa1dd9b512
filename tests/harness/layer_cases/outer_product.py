"""The outer product of inputs of unequal widths."""

from functools import partial

from plica.errors import ShapeError
from plica.symbolic.layers import LAYER_ROWS, OuterProductLayer
from tests.harness.layer_cases import kronecker
from tests.harness.layer_cases.case import InnerCase, Refused

ROW = LAYER_ROWS[OuterProductLayer]
CASES = tuple(
    InnerCase(
        f"outer product of {sizes}",
        ROW,
        partial(OuterProductLayer, sizes),
        kronecker.reference,
        refused=(
            Refused(lambda: OuterProductLayer(()), ShapeError, "there are no sizes"),
            Refused(lambda: OuterProductLayer((2**31, 2**31, 4)), ShapeError, "more than can be counted"),
        ),
        parameters={},
    )
    for sizes in ((3, 2), (2, 3, 4), (1, 4), (3,))
)
