"""Layers as one operation, and data read where it lies, change no result: by the interpreter."""

from typing import Any

import numpy as np
import pytest

from plica.backend.native.circuits.layers import join_layers
from plica.backend.native.circuits.operations import SUM_OF_PRODUCTS
from plica.backend.native.circuits.with_constants import ProgramWithConstants, with_constants
from plica.errors import ShapeError
from plica.frontend.native import entry_programs_of
from plica.ir.dtypes import DType
from plica.ir.types import ShapedArray
from plica.lower.leaves import Constant, owners_of
from plica.lower.queries.score import lower_score
from plica.symbolic.circuit import Circuit
from plica.symbolic.semirings import LSE_SUM, Semiring
from plica.symbolic.semirings.bounded import BOUNDED
from plica.symbolic.semirings.scaled import SCALED
from plica.templates.data_modalities import image_data
from tests.harness.circuits import CIRCUITS, data
from tests.harness.native_circuits import compiled

_CARRIERS: dict[str, Semiring] = {"exact": LSE_SUM, "scaled": SCALED, "bounded": BOUNDED}


def image(side: int = 5, layer: str = "cp") -> Circuit:
    """A quad tree of pixels, whose layers read folds of several others."""
    settings: dict[str, Any] = {"num_values": 4, "num_input_units": 4, "num_sum_units": 4, "sum_product_layer": layer}
    return image_data((1, side, side), "quad-tree-2", input_layer="categorical", **settings)


def _closed(model: Any, carrier: Semiring, dtype: DType) -> ProgramWithConstants:
    leaves = {leaf: tensor.detach().numpy() for leaf, tensor in model.leaves.items()}
    made = lower_score(model.folded, carrier, DType.FLOAT32, dtype, owners_of(leaves))
    return with_constants(
        made.program, [one.value if isinstance(one, Constant) else leaves[one] for one in made.captured]
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "carrier"),
    [
        # carriers take turns, but for the image
        pytest.param(name, carrier, marks=pytest.mark.full if name != "image" and place % 3 != turn else [])
        for place, name in enumerate([*CIRCUITS, "image"])
        for turn, carrier in enumerate(_CARRIERS)
    ],
)
def test_layers_joined(name: str, carrier: str) -> None:
    """Joined layers give what the Program gave: states, real numbers, entries that are missing or wrong."""
    circuit = image() if name == "image" else CIRCUITS[name]()
    model = compiled(circuit)
    x = data(circuit, 5)
    for dtype in (DType.INT64, DType.FLOAT32):
        rows = x.astype(dtype.numpy)
        if rows.dtype.kind == "f" and circuit.is_smooth and circuit.is_decomposable:
            rows[1] = np.nan
        rows[2, 0] = -7 if x.dtype.kind == "i" else rows[2, 0]
        before = _closed(model, _CARRIERS[carrier], dtype)
        after = join_layers(before)
        for one, other in zip(after(rows), before(rows), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-6, atol=2e-6)


def test_image_is_layers_alone() -> None:
    """Nothing of an image is copied to be multiplied: columns, joins and looked-up rows are read where they lie."""
    after = join_layers(_closed(compiled(image()), _CARRIERS["bounded"], DType.INT64))
    names = [one.op.name for one in after.program.equations]
    assert "sum_of_products" in names
    assert not {"take", "einsum", "multiply", "log2", "rescale"} & set(names[: names.index("log")])


@pytest.mark.parametrize("updatable", [False, True])
def test_weights_of_other_sums_have_their_outputs_last(updatable: bool) -> None:
    """Transposed once, and after each update; code would do so at each call."""
    circuit = image(3, "tucker")
    [entry_program, *_] = entry_programs_of(compiled(circuit), ["log-likelihood"], updatable)
    body = entry_program.body
    sums = [one for one in body.program.equations if one.op.name == "einsum"]
    assert sums
    for one in sums:
        terms, result = one.params["equation"].split("->")
        constants = zip(terms.split(","), one.inputs, strict=True)
        known = [term for term, operand in constants if operand in {*body.constants, *body.updatable}]
        assert [term[-1] for term in known] == [result[-1]]
    x = data(circuit, 5)
    before = _closed(compiled(circuit), _CARRIERS["scaled"], DType.INT64)
    np.testing.assert_allclose(body(x)[0], before(x)[0], rtol=2e-6)


def test_sum_of_products_refused() -> None:
    """Runs that are no folds of their source are refused."""
    one = next(iter(SUM_OF_PRODUCTS.samples()))
    types = [ShapedArray(x.shape, DType(x.dtype.name)) for x in one.inputs]
    with pytest.raises(ShapeError, match="source 0 has no folds 2 to 3"):
        SUM_OF_PRODUCTS.types(types, {**one.params, "factors": (((0, 2, 2),),)})
    with pytest.raises(ShapeError, match="must have 2 folds in all"):
        SUM_OF_PRODUCTS.types(types, {**one.params, "factors": (((0, 0, 1),),)})
