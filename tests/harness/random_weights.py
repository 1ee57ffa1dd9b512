"""Random graphs of parameters whose numbers leave every float, and what they compute.

The values are computed by the oracle's operations in long double, whose numbers reach from 1e-4932 to 1e4932;
derivatives along a direction `d` from the imaginary part at `x + i h d` for a tiny h (Squire and Trapp, "Using complex
variables to estimate derivatives of real functions", 1998). How far rounded numbers may be off, where sums cancel, is
seen by computing with each number rounded at random.

weight = Weights(seed=3).draw((2, 3))
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from plica.symbolic import parameters as of
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.parameters import ConstantParameter, Parameter, TensorParameter
from tests.harness.oracle import OPERATIONS

Shape = tuple[int, ...]
STEP = np.longdouble("1e-1000")


class Weights:
    """Draws graphs of parameters.

    Args:
        seed: By which everything is drawn.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 8])
        self.scale = float(self.rng.choice([1.0, 30.0, 200.0, 1000.0]))

    def draw(self, shape: Shape, depth: int | None = None) -> Parameter:
        """A parameter of numbers of any sign."""
        depth = int(self.rng.integers(1, 5)) if depth is None else depth
        if depth == 0:
            return self._leaf(shape)
        kinds = [one for one in _DRAWN if len(shape) == 2 or not one.__name__.startswith("_of_matrices")]
        return kinds[self.rng.integers(len(kinds))](self, shape, depth - 1)

    def one_of(self, *choices: Any) -> Any:
        """Any of the choices."""
        return choices[self.rng.integers(len(choices))]

    def _leaf(self, shape: Shape) -> Parameter:
        normal = self.rng.normal(size=shape)
        kind = self.rng.random()
        if kind < 0.5:
            op = self.one_of(of.SoftmaxParameter, of.SoftmaxParameter, of.SigmoidParameter, of.SoftplusParameter)
            return Parameter.from_unary(op(shape), _tensor(normal * self.scale))
        if kind < 0.55:
            logs = Parameter.from_unary(of.LogSoftmaxParameter(shape, axis=0), _tensor(normal * self.scale))
            return Parameter.from_unary(of.ExpParameter(shape), logs)
        if kind < 0.6:
            return Parameter.from_unary(of.ExpParameter(shape), _tensor(normal * min(self.scale, 60.0)))
        if kind < 0.7:
            value = np.exp(-np.abs(normal) * self.one_of(1.0, 100.0)) * self.one_of(np.ones(shape), np.sign(normal))
            return Parameter.from_input(ConstantParameter(*shape, value=self.one_of(value, -0.25, 1e-60)))
        values = normal * self.one_of(1.0, 1.0, 1e-8, 1e15)
        return Parameter.from_input(_tensor(np.where(self.rng.random(shape) < 0.1, 0.0, values)))


def _tensor(value: Any) -> TensorParameter:
    exact = np.asarray(value, np.float32).astype(np.float64)
    return TensorParameter(*exact.shape, initializer=ConstantTensorInitializer(exact))


def _pair(kind: type[Any]) -> Callable[..., Parameter]:
    def draw(weights: Weights, shape: Shape, depth: int) -> Parameter:
        return Parameter.from_binary(kind(shape, shape), weights.draw(shape, depth), weights.draw(shape, depth))

    return draw


def _unary(*ops: Callable[[Shape], Any]) -> Callable[..., Parameter]:
    def draw(weights: Weights, shape: Shape, depth: int) -> Parameter:
        return Parameter.from_sequence(weights.draw(shape, depth), *(op(shape) for op in ops))

    return draw


def _reduced(kind: type[Any]) -> Callable[..., Parameter]:
    def draw(weights: Weights, shape: Shape, depth: int) -> Parameter:
        axis = int(weights.rng.integers(len(shape) + 1))
        wide = (*shape[:axis], int(weights.rng.integers(1, 4)), *shape[axis:])
        return Parameter.from_unary(kind(wide, axis=axis), weights.draw(wide, depth))

    return draw


def _of_matrices_kronecker(weights: Weights, shape: Shape, depth: int) -> Parameter:
    first = tuple(int(weights.one_of(1, size)) for size in shape)
    second = tuple(size // one for size, one in zip(shape, first, strict=True))
    return Parameter.from_binary(
        of.KroneckerParameter(first, second), weights.draw(first, depth), weights.draw(second, depth)
    )


def _of_matrices_product(weights: Weights, shape: Shape, depth: int) -> Parameter:
    first, second = (shape[0], 3), (3, shape[1])
    return Parameter.from_binary(
        of.MatMulParameter(first, second), weights.draw(first, depth), weights.draw(second, depth)
    )


def _of_matrices_einsum(weights: Weights, shape: Shape, depth: int) -> Parameter:
    (rows, columns), equation = shape, weights.one_of("rm,rn->mn", "mn,mr->mn", "mrs,nrs->mn", "mr,mn->mn")
    sizes = {"m": rows, "n": columns, "r": 2, "s": 2}
    shapes = [tuple(sizes[one] for one in term) for term in equation[: equation.index("-")].split(",")]
    op = of.EinsumParameter(*shapes, equation=equation)
    return Parameter.from_binary(op, *(weights.draw(one, depth) for one in shapes))


def _of_matrices_outer(weights: Weights, shape: Shape, depth: int) -> Parameter:
    """The sum of outer products over another axis."""
    first, second = (2, shape[0], 1), (2, shape[0], shape[1])
    outer = Parameter.from_binary(
        of.OuterProductParameter(first, second), weights.draw(first, depth), weights.draw(second, depth)
    )
    return Parameter.from_unary(of.ReduceSumParameter((2, *shape), axis=0), outer)


def _of_matrices_moved(weights: Weights, shape: Shape, depth: int) -> Parameter:
    rows, columns = shape
    parts = [weights.draw(one, depth) for one in ((rows, 2, columns), (rows, 1, columns))]
    joined = Parameter.from_binary(of.ConcatParameter((rows, 2, columns), (rows, 1, columns), axis=1), *parts)
    flat = Parameter.from_unary(of.FlattenParameter((rows, 3, columns), start=1, end=2), joined)
    indices = [int(one) for one in weights.rng.integers(0, 3 * columns, columns)]
    return Parameter.from_unary(of.IndexParameter((rows, 3 * columns), indices=indices), flat)


def _of_matrices_mixing(weights: Weights, shape: Shape, depth: int) -> Parameter:
    """Diagonals, less what does not fit."""
    units, arity = shape[0], -(-shape[1] // shape[0])
    mixing = Parameter.from_unary(of.MixingWeightParameter((units, arity)), weights.draw((units, arity), depth))
    kept = of.IndexParameter((units, arity * units), indices=range(shape[1]))
    return Parameter.from_unary(kept, mixing)


_DRAWN: tuple[Callable[..., Parameter], ...] = (
    *(_pair(of.SumParameter),) * 3,
    *(_pair(of.HadamardParameter),) * 3,
    *(_reduced(of.ReduceSumParameter),) * 2,
    _reduced(of.ReduceProductParameter),
    _unary(of.SquareParameter),
    _unary(lambda shape: of.ClampParameter(shape, vmin=0.0)),
    _unary(lambda shape: of.ClampParameter(shape, vmin=-1.0, vmax=0.5)),
    _unary(lambda shape: of.ClampParameter(shape, vmin=0.0, vmax=2.0), of.LogParameter, of.ExpParameter),
    *(_of_matrices_kronecker, _of_matrices_product, _of_matrices_einsum, _of_matrices_outer),
    *(_of_matrices_moved, _of_matrices_mixing),
)


def logarithms(
    weight: Parameter, directions: Mapping[Any, Any], precision: float = 0.0, seed: int = 0
) -> tuple[Any, Any, Any]:
    """Signs, logarithms of the sizes, and their derivatives along directions; in long double.

    Args:
        weight: The parameter.
        directions: By leaf.
        precision: How far each number is off, relative to itself and, where it is far from 1, to its logarithm.
        seed: By which errors are drawn.
    """
    rng = np.random.default_rng(seed)
    values: dict[Any, Any] = {}
    with np.errstate(all="ignore"):
        for node in weight.nodes:
            inputs = [values[one] for one in weight.node_inputs(node)]
            if inputs:
                value = OPERATIONS[type(node).__name__](node, *inputs)
                logs = np.nan_to_num(np.log(np.abs(value.real)), neginf=0.0)
                value = value * (1 + precision * rng.uniform(-1, 1, value.shape) * (1 + np.abs(logs)))
            elif isinstance(node, ConstantParameter):
                value = np.broadcast_to(np.asarray(node.value, np.clongdouble), node.shape)
            else:
                start = np.asarray(node.config["initializer"].value, np.longdouble)
                value = start + 1j * STEP * directions[node]
            values[node] = value
        found = values[weight.output]
        return np.sign(found.real), np.log(np.abs(found.real)), found.imag / STEP / found.real
