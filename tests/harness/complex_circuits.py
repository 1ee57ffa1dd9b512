"""A circuit of complex parameters, in layers of every kind that takes them."""

import math
from typing import Any

import numpy as np
import torch

from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import (
    CategoricalLayer,
    ConstantValueLayer,
    EmbeddingLayer,
    EvidenceLayer,
    HadamardLayer,
    KroneckerLayer,
    PolynomialLayer,
    SumLayer,
)
from plica.symbolic.parameters import (
    ConjugateParameter,
    ConstantParameter,
    Parameter,
    TensorParameter,
    mixing_weight_factory,
    normal,
    softmax_normal,
)


def complex_(shape: tuple[int, ...]) -> TensorParameter:
    """Learned complex numbers."""
    return TensorParameter(*shape, initializer=NormalInitializer(), dtype=DataType.COMPLEX)


def conjugate(shape: tuple[int, ...]) -> Parameter:
    """The conjugates of learned complex numbers."""
    return Parameter.from_unary(ConjugateParameter(shape), complex_(shape))


def mixing(shape: tuple[int, ...]) -> Parameter:
    """Complex weights of a mixing layer."""
    return mixing_weight_factory(shape, param_factory=complex_)


def circuit() -> Circuit:
    """Real and complex layers of every kind that takes complex numbers, over four variables."""
    tables: list[Any] = [EmbeddingLayer([0], 3, num_states=4, weight_factory=complex_)]
    tables += [EmbeddingLayer([1], 3, num_states=3, weight_factory=normal)]
    tables += [CategoricalLayer([2], 3, num_categories=4, probs_factory=conjugate)]
    tables += [CategoricalLayer([3], 3, num_categories=2)]
    sums = [SumLayer(3, 3, weight_factory=one) for one in (complex_, softmax_normal, normal, complex_)]
    hadamard, kronecker = HadamardLayer(3, 2), KroneckerLayer(3, 2)
    left, right = SumLayer(3, 3, 2, weight_factory=mixing), SumLayer(9, 3, weight_factory=complex_)
    constant = ConstantValueLayer(3, value=ConstantParameter(3, value=[1j, -2.0, 0.5 - 1j]))
    seen = EvidenceLayer(PolynomialLayer([9], 3, degree=2, coeff_factory=complex_), observation=0.5)
    top, total = HadamardLayer(3, 4), SumLayer(3, 2, weight_factory=complex_)
    edges: Any = dict(zip(sums, ([one] for one in tables), strict=True))
    edges |= {hadamard: sums[:2], kronecker: sums[2:], left: [hadamard, hadamard], right: [kronecker]}
    edges |= {top: [left, right, constant, seen], total: [top]}
    return Circuit([*tables, constant, seen, *edges], edges, [total])


def data(rows: int = 6) -> torch.Tensor:
    """Rows for it, of some of which a part is missing."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(np.stack([rng.integers(0, size, rows) for size in (4, 3, 4, 2)], axis=1).astype(float))
    x[0, 0] = x[1, 2] = math.nan
    x[2] = math.nan
    return x
