"""Circuits that are made of squares, and what they are by definition, from the values of their parts in numpy.

compiled, values = SQUARES["psd"].compile()    # values (2, 3, 2, 3), not normalized
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler
from plica.symbolic.circuit import Circuit
from plica.symbolic.functional import multiply, normalize, power, rename
from plica.symbolic.layers import EmbeddingLayer, HadamardLayer, Layer, SumLayer
from plica.symbolic.parameters import TensorParameter, normal
from plica.templates import psd_mixture, squared, sum_of_squares
from plica.templates.data_modalities import image_data
from plica.templates.pgms import hmm
from plica.templates.tensor_factorizations import cp, tensor_train, tucker
from plica.templates.utils import Parameterization
from tests.harness.operator_circuits import values
from tests.harness.oracle import keys
from tests.harness.oracle import numbers as tensors_of

Array = Any
SIZES = (2, 3, 2, 3)
SIGNED = Parameterization(initialization="normal")
COMPLEX = Parameterization(initialization="normal", dtype="complex")


@dataclass(frozen=True, eq=False)
class Square:
    """A circuit made of squares.

    Args:
        parts: The circuits that it is made of.
        make: Makes it of them.
        formula: Its values `(B,)` from the values `(B,)` of the parts.
        parameters: Parameters that it has besides.
    """

    parts: tuple[Circuit, ...]
    make: Callable[..., Circuit]
    formula: Callable[..., Array]
    sizes: tuple[int, ...] = SIZES
    circuit: Circuit = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "circuit", self.make(*self.parts))

    def compile(self, semiring: str = "complex-lse-sum", dtype: str = "float64") -> tuple[TorchCircuit, Array]:
        """The compiled circuit, and its values at all states `(*sizes)`."""
        compiler = TorchCompiler(semiring=semiring, dtype=dtype)
        torch.manual_seed(0)
        compiled = compiler.compile(self.circuit)
        leaves: dict[TensorParameter, Array] = {}
        for part in self.parts:
            arrays = tensors_of(compiler.compile(part))
            leaves |= {leaf: arrays[key] for leaf, key in keys(part).items()}
        return compiled, self.values(leaves, self.states).reshape(self.sizes)

    def values(self, leaves: dict[TensorParameter, Array], x: Array) -> Array:
        """The values `(B,)`, from those of the parts."""
        parts = (values(part, leaves, x)[:, 0, 0] for part in self.parts)
        return np.asarray(self.formula(*parts)).real.astype(np.float64)

    @property
    def states(self) -> Array:
        """All rows `(N, D)`, the last variable fastest."""
        return np.stack([axis.ravel() for axis in np.indices(self.sizes)], 1)


def _of(value: Array) -> Array:
    return np.abs(value) ** 2


def _square(part: Circuit, sizes: tuple[int, ...] = SIZES) -> Square:
    return Square((part,), squared, _of, sizes)


def _chain() -> Circuit:
    return hmm([1, 3, 0, 2], "embedding", 3, input_layer_kwargs={"num_states": 3}, weight_param=SIGNED)


def _image(sum_product: str) -> Circuit:
    return image_data(
        (1, 2, 2),
        "quad-tree-2",
        input_layer="embedding",
        num_values=3,
        num_input_units=2,
        sum_product_layer=sum_product,
        num_sum_units=2,
        sum_weight_param=SIGNED,
        input_params={"weight": SIGNED},
    )


def _two_splits() -> Circuit:
    """A circuit whose products split alike, and of which one layer is read by two sums."""
    leaves: list[Layer] = [EmbeddingLayer([variable], 2, num_states=size) for variable, size in enumerate(SIZES)]
    left, right = HadamardLayer(2), HadamardLayer(2)
    sums: list[Layer] = [SumLayer(2, 2, weight_factory=normal) for _ in range(3)]
    products: list[Layer] = [HadamardLayer(2), HadamardLayer(2)]
    total = SumLayer(2, 1, 2, weight_factory=normal)
    edges: dict[Layer, list[Layer]] = {
        left: leaves[:2],
        right: leaves[2:],
        sums[0]: [left],
        sums[1]: [left],
        sums[2]: [right],
    }
    edges |= {products[0]: [sums[0], sums[2]], products[1]: [right, sums[1]], total: products}
    return Circuit([*leaves, *edges], edges, [total])


def _cp(rank: int = 3, weight: Parameterization | None = SIGNED) -> Circuit:
    return cp(SIZES, rank, weight_param=weight)


_MATRIX = np.array([[1.0, -2.0], [0.3, 1.0]])
_COMPLEX_CP = cp(SIZES, 2, input_params={"weight": COMPLEX}, weight_param=COMPLEX)
_MONOTONE = hmm([0, 1, 2, 3], num_latent_states=2, input_layer_kwargs=[{"num_categories": size} for size in SIZES])

SQUARES: dict[str, Square] = {
    "chain": _square(_chain(), (3,) * 4),
    "tree": _square(_image("cp"), (3,) * 4),
    "tree-tucker": _square(_image("tucker"), (3,) * 4),
    "tucker": _square(tucker(SIZES, 2)),
    "tensor-train": _square(tensor_train(SIZES, 2)),
    "shared": _square(_two_splits()),
    "complex": _square(_COMPLEX_CP),
    "sum": Square(
        (_cp(), _cp(2), _COMPLEX_CP),
        lambda *parts: sum_of_squares(parts, [0.5, 2.0, 0.25]),
        lambda a, b, c: 0.5 * _of(a) + 2.0 * _of(b) + 0.25 * _of(c),
    ),
    "psd": Square(
        (_cp(), _cp(2)),
        lambda *parts: psd_mixture(parts, weight=_MATRIX),
        lambda *parts: (np.abs(np.stack(parts, 1) @ _MATRIX.T) ** 2).sum(1),
    ),
    "monotone": Square(
        (_MONOTONE, _cp(), _cp(2)),
        lambda first, *parts: multiply(first, sum_of_squares(parts)),
        lambda a, b, c: a * (_of(b) + _of(c)),
    ),
    "power": Square((_cp(2),), partial(power, n=4), lambda a: a**4),
    "normalized": Square((_cp(2),), lambda part: rename(normalize(squared(part)), {}), _of),
}
