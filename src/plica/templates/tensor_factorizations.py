"""Builds factorizations of tensors as circuits: the entry of a tensor at an index is the circuit's value at that row.

>>> cp((3, 4, 5), rank=2)
Circuit(5 layers, 3 variables, 1 output(s) of 1 unit(s))
>>> tucker((3, 4, 5), rank=2).layers[-1].weight.shape
(1, 8)
>>> tensor_train((3, 4, 5), rank=2).input_layers[1].num_output_units
4

Factors may have any sign: compile the circuits in the semiring `sum-product`.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from plica.errors import ShapeError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import HadamardLayer, KroneckerLayer, Layer, SumLayer
from plica.symbolic.layers.base import positive
from plica.symbolic.parameters import ConstantParameter, KroneckerParameter, Parameter, normal
from plica.symbolic.scope import Scope
from plica.templates.inputs import input_factory
from plica.templates.parameterization import Parameterization, ones, parameterization_to_factory


def cp(
    shape: Sequence[int],
    rank: int,
    *,
    input_layer: str = "embedding",
    input_params: Mapping[str, Parameterization] | None = None,
    weight_param: Parameterization | None = None,
) -> Circuit:
    """A sum of tensors of rank one: of two variables, `T[i, j] = sum over r of w[r] A[r, i] B[r, j]`.

    Args:
        shape: The sizes of the tensor, a variable for each.
        rank: The number of terms.
        input_layer: The layer of the factors, one of `plica.symbolic.layers.DISTRIBUTIONS` that counts values.
        input_params: How to make the parameters of the factors, by name, such as `{"weight": Parameterization()}`.
        weight_param: How to make the weights of the terms, `(1, rank)`; without it they are one.

    Raises:
        ShapeError: A size or a rank below 1.
        InputError: A name that is not known.

    Source: Kolda and Bader, "Tensor decompositions and applications", 2009, section 3.
    """
    factors = _factors("cp", shape, rank, input_layer, input_params)
    weights = ones if weight_param is None else parameterization_to_factory(weight_param)
    product, total = HadamardLayer(rank, len(factors)), SumLayer(rank, 1, weight_factory=weights)
    return Circuit([*factors, product, total], {product: factors, total: [product]}, [total])


def tucker(
    shape: Sequence[int],
    rank: int,
    *,
    input_layer: str = "embedding",
    input_params: Mapping[str, Parameterization] | None = None,
    core_param: Parameterization | None = None,
) -> Circuit:
    """A core multiplied with a factor along each axis: `T[i, j] = sum over r, s of C[r, s] A[r, i] B[s, j]`, for two.

    Args:
        shape: The sizes of the tensor, a variable for each.
        rank: The size of each axis of the core.
        input_layer: The layer of the factors, one of `plica.symbolic.layers.DISTRIBUTIONS` that counts values.
        input_params: How to make the parameters of the factors, by name, such as `{"weight": Parameterization()}`.
        core_param: How to make the core, `(1, rank ** len(shape))`, the first axis slowest; normal draws by default.

    Raises:
        ShapeError: A size or a rank below 1, or a core of more entries than can be counted.
        InputError: A name that is not known.

    Source: Kolda and Bader, "Tensor decompositions and applications", 2009, section 4.
    """
    factors = _factors("tucker", shape, rank, input_layer, input_params)
    core = normal if core_param is None else parameterization_to_factory(core_param)
    product = KroneckerLayer(rank, len(factors))
    total = SumLayer(product.num_output_units, 1, weight_factory=core)
    return Circuit([*factors, product, total], {product: factors, total: [product]}, [total])


def tensor_train(shape: Sequence[int], rank: int, *, factor_param: Parameterization | None = None) -> Circuit:
    """A product of matrices, each chosen by one index: of three variables, `T[i, j, k] = a[i] B[j] z[k]`.

    Site v is an embedding layer: of `rank` units at both ends (a row and a column), of `rank ** 2` units between.
    There unit `r * rank + s` is entry `(r, s)` of the matrix. The circuit multiplies a row vector with one matrix after
    another. For `y[s] = sum over r of x[r] B[j][r, s]`, one sum spreads x over the entries of the matrix, a product
    multiplies, and another sum adds each column. The weights of both sums are Kronecker products with an identity;
    compiling makes of them operations that cost `rank ** 2` for each row of data.

    Args:
        shape: The sizes of the tensor, a variable for each.
        rank: The sizes of the matrices.
        factor_param: How to make the weights of the sites; normal draws by default.

    Raises:
        ShapeError: A size or a rank below 1.

    Source: Oseledets, "Tensor-train decomposition", 2011, equation 1.2.
    """
    sizes, units = _sizes("tensor_train", shape), positive("tensor_train", "rank", rank)
    params = {} if factor_param is None else {"weight": factor_param}
    last = len(sizes) - 1
    widths = [1] if last == 0 else [units if site in (0, last) else units * units for site in range(last + 1)]
    sites: list[Layer] = [
        input_factory("embedding", params=params, num_values=size)(Scope([site]), width)
        for site, (size, width) in enumerate(zip(sizes, widths, strict=True))
    ]
    inner: dict[Layer, Sequence[Layer]] = {}
    state = sites[0]
    for site in sites[1:-1]:
        # (I kron 1) x repeats each entry; (1^T kron I) adds the rows
        spread = SumLayer(units, units * units, weight=_kronecker(np.eye(units), np.ones((units, 1))))
        product = HadamardLayer(units * units, 2)
        added = SumLayer(units * units, units, weight=_kronecker(np.ones((1, units)), np.eye(units)))
        inner |= {spread: [state], product: [spread, site], added: [product]}
        state = added
    if last > 0:
        product, total = HadamardLayer(units, 2), SumLayer(units, 1, weight_factory=ones)
        inner |= {product: [state, sites[-1]], total: [product]}
        state = total
    return Circuit([*sites, *inner], inner, [state])


def _factors(
    owner: str, shape: Sequence[int], rank: int, name: str, params: Mapping[str, Parameterization] | None
) -> list[Layer]:
    """A layer of `rank` units for each axis."""
    units = positive(owner, "rank", rank)
    return [
        input_factory(name, params=params, num_values=size)(Scope([axis]), units)
        for axis, size in enumerate(_sizes(owner, shape))
    ]


def _sizes(owner: str, shape: Sequence[int]) -> list[int]:
    if np.ndim(shape) != 1 or len(shape) == 0:
        raise ShapeError(f"{owner}: expected the shape of a tensor of at least one axis, found {shape}")
    return [positive(owner, f"shape[{axis}]", size) for axis, size in enumerate(shape)]


def _kronecker(first: np.ndarray, second: np.ndarray) -> Parameter:
    """The Kronecker product of two constants."""
    factors = [ConstantParameter(*constant.shape, value=constant) for constant in (first, second)]
    return Parameter.from_binary(KroneckerParameter(first.shape, second.shape), *factors)
