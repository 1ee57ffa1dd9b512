"""What random circuits are made of: tables of the kinds of weights and of input layers, mild and extreme.

WEIGHTS["zeros"](rng, (2, 3), scale=1.0, dtype=np.float32)
"""

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import CategoricalLayer, EmbeddingLayer, GaussianLayer, InputLayer
from plica.symbolic.parameters import (
    ClampParameter,
    ConcatParameter,
    ConstantParameter,
    EinsumParameter,
    ExpParameter,
    HadamardParameter,
    IndexParameter,
    KroneckerParameter,
    LogParameter,
    LogSoftmaxParameter,
    MatMulParameter,
    Parameter,
    ReduceProductParameter,
    ReduceSumParameter,
    SigmoidParameter,
    SoftmaxParameter,
    SoftplusParameter,
    SquareParameter,
    SumParameter,
    TensorParameter,
)
from plica.symbolic.parameters.nodes import UnaryOp
from tests.harness.layer_cases.joint import JointLayer

Array = Any
Shape = tuple[int, ...]

# Parameters: (rng, shape, scale, dtype) -> Parameter.


@final
class TwiceParameter(UnaryOp):
    """A parameter of one's own, whose logarithm no rule tells."""

    def infer_shape(self) -> Shape:
        return self.in_shape

    def evaluate(self, xp: Any, *arrays: Any) -> Any:  # noqa: ARG002
        return 2.0 * arrays[0]


def _leaf(values: Array) -> TensorParameter:
    return TensorParameter(*np.shape(values), initializer=ConstantTensorInitializer(np.asarray(values, float)))


def _unary(op: Callable[[Shape], Any], *more: Callable[[Shape], Any]) -> Callable[..., Parameter]:
    def make(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:  # noqa: ARG001
        return Parameter.from_sequence(_leaf(rng.normal(size=shape) * scale), op(shape), *(one(shape) for one in more))

    return make


def _among(values: Callable[[Any], Sequence[float]], learnable: bool = True) -> Callable[..., Parameter]:
    """Entries of a few values."""

    def make(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:  # noqa: ARG001
        array = rng.choice(np.asarray(values(dtype), float), size=shape)
        return Parameter.from_input(_leaf(array) if learnable else ConstantParameter(*shape, value=array))

    return make


def _uniform(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:  # noqa: ARG001
    return Parameter.from_input(_leaf(rng.uniform(0.1, 1, shape)))


def _constant(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:  # noqa: ARG001
    return Parameter.from_input(ConstantParameter(*shape, value=rng.uniform(0.1, 1, shape)))


def _signed(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:  # noqa: ARG001
    return Parameter.from_input(_leaf(rng.normal(size=shape)))


def _identity(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:
    if len(shape) != 2 or shape[0] != shape[1]:
        return _uniform(rng, shape, scale, dtype)
    return Parameter.from_input(ConstantParameter(*shape, value=np.eye(shape[0])))


def _kronecker(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:
    first = tuple(int(rng.choice([one for one in range(1, size + 1) if size % one == 0])) for size in shape)
    second = tuple(size // one for size, one in zip(shape, first, strict=True))
    factors = [WEIGHTS["softmax"](rng, one, scale, dtype) for one in (first, second)]
    return Parameter.from_binary(KroneckerParameter(first, second), *factors)


def _mixed(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:
    sides = [WEIGHTS["softmax"](rng, shape, scale, dtype) for _ in range(2)]
    return Parameter.from_binary(SumParameter(shape, shape), *sides)


def _clamped(weight: Parameter) -> Parameter:
    bounds = ClampParameter(weight.shape, vmin=0.0, vmax=50.0), ClampParameter(weight.shape, vmin=-1.0)
    return Parameter.from_sequence(weight, *bounds)


def _with_constant(op: Any, value: float) -> Callable[[Parameter], Parameter]:
    return lambda weight: Parameter.from_binary(
        op(weight.shape, weight.shape), weight, ConstantParameter(*weight.shape, value=value)
    )


WRAPPERS: tuple[Callable[[Parameter], Parameter], ...] = (
    lambda weight: Parameter.from_sequence(weight, LogParameter(weight.shape), ExpParameter(weight.shape)),
    _clamped,
    _with_constant(HadamardParameter, 1.0),
    _with_constant(SumParameter, 0.0),
    _with_constant(HadamardParameter, 0.5),
)


def _wrapped(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:
    """Another weight under operations that change nothing, or almost nothing."""
    weight = WEIGHTS[str(rng.choice(["softmax", "direct", "exp"]))](rng, shape, scale, dtype)
    for _ in range(rng.integers(1, 3)):
        weight = WRAPPERS[rng.integers(len(WRAPPERS))](weight)
    return weight


WEIGHTS: dict[str, Callable[..., Parameter]] = {
    "softmax": _unary(SoftmaxParameter),
    "log-softmax": _unary(LogSoftmaxParameter, ExpParameter),
    "mixed softmax": _mixed,
    "exp": lambda rng, shape, scale, dtype: _unary(ExpParameter)(rng, shape, min(scale, 4.0), dtype),
    "softplus": _unary(SoftplusParameter),
    "sigmoid": _unary(SigmoidParameter),
    "square": _unary(SquareParameter),
    "wrapped": _wrapped,
    "direct": _uniform,
    "constant": _constant,
    "kronecker": _kronecker,
    "identity": _identity,
    "signed": _signed,
    "tiny": _among(lambda _: (1e-30, 3e-30, 1e-20, 1.0)),
    "tiny constant": _among(lambda _: (1e-30, 3e-30, 1e-20), learnable=False),
    "zeros": _among(lambda _: (0.0, 0.0, 0.5, 2.0)),
    "subnormal": _among(lambda dtype: np.finfo(dtype).smallest_subnormal * np.array([1.0, 3e3, 2e6])),
}


# Weights of leaves that are 0 in some entries, under operations. `ZEROS` names them.


def _zeros(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:  # noqa: ARG001
    return Parameter.from_input(_leaf(rng.choice([0.0, 0.0, -0.0, 0.5, 2.0], size=shape)))


def _under(op: Callable[[Shape], Any], more: Shape = ()) -> Callable[..., Parameter]:
    """Zeros, with more axes in front, under an operation."""

    def make(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:
        return Parameter.from_unary(op((*more, *shape)), _zeros(rng, (*more, *shape), scale, dtype))

    return make


def _beside(op: Any, *kinds: str) -> Callable[..., Parameter]:
    """Zeros and another weight under an operation of two."""

    def make(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:
        other = WEIGHTS[str(rng.choice(kinds))](rng, shape, scale, dtype)
        return Parameter.from_binary(op(shape, shape), _zeros(rng, shape, scale, dtype), other)

    return make


def _zeros_of_matrices(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:
    sides = (shape[0], 2), (2, shape[1])
    return Parameter.from_binary(MatMulParameter(*sides), *(_zeros(rng, one, scale, dtype) for one in sides))


def _kronecker_zeros(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:
    first, second = (1, shape[1]), (shape[0], 1)
    squares = _under(SquareParameter)(rng, second, scale, dtype)
    return Parameter.from_binary(KroneckerParameter(first, second), _zeros(rng, first, scale, dtype), squares)


def _clamp_times_square(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:
    clamped = Parameter.from_unary(ClampParameter(shape, vmin=0.0, vmax=50.0), _leaf(rng.choice([0.5, -1.0], shape)))
    return Parameter.from_binary(
        HadamardParameter(shape, shape), clamped, _under(SquareParameter)(rng, shape, scale, dtype)
    )


def _einsum_of_zeros(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:
    sides = (shape[0], 2, 2), (2, 2, shape[1])
    op = EinsumParameter(*sides, equation="oij,ijn->on")
    return Parameter.from_binary(op, *(_zeros(rng, one, scale, dtype) for one in sides))


def _zeros_chosen(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:
    indices = tuple(int(one) for one in rng.integers(0, shape[1], shape[1]))
    return Parameter.from_unary(
        IndexParameter(shape, indices=indices, axis=1), ZEROS["zeros times exp"](rng, shape, scale, dtype)
    )


def _zeros_joined(rng: Any, shape: Shape, scale: float, dtype: Any) -> Parameter:
    """Zeros in the first column, a softmax in the others."""
    if shape[1] == 1:
        return _zeros(rng, shape, scale, dtype)
    sides = (shape[0], 1), (shape[0], shape[1] - 1)
    parts = _zeros(rng, sides[0], scale, dtype), WEIGHTS["softmax"](rng, sides[1], scale, dtype)
    return Parameter.from_binary(ConcatParameter(*sides, axis=1), *parts)


ZEROS: dict[str, Callable[..., Parameter]] = {
    "zeros as they are": _zeros,
    "zeros times exp": _beside(HadamardParameter, "exp"),
    "zeros times a square": _beside(HadamardParameter, "square"),
    "zeros times a softmax": _beside(HadamardParameter, "softmax"),
    "zeros times zeros": _beside(HadamardParameter, "zeros"),
    "zeros and another": _beside(SumParameter, "softmax", "direct", "exp", "zeros"),
    "a product of zeros": _under(lambda shape: ReduceProductParameter(shape, axis=0), (2,)),
    "a sum of zeros": _under(lambda shape: ReduceSumParameter(shape, axis=0), (2,)),
    "squares of zeros": _under(SquareParameter),
    "zeros that are clamped": _under(lambda shape: ClampParameter(shape, vmin=-1.0, vmax=1.5)),
    "matrices of zeros": _zeros_of_matrices,
    "zeros times squares of zeros": _kronecker_zeros,
    "clamped times squares of zeros": _clamp_times_square,
    "an Einstein sum of zeros": _einsum_of_zeros,
    "zeros times exp, chosen": _zeros_chosen,
    "zeros and a softmax side by side": _zeros_joined,
    "zeros of one's own": _under(TwiceParameter),
}
WEIGHTS.update(ZEROS)


# Input layers: (rng, scope, units, states, scale, dtype) -> layer.


def _categorical(name: str, weight: str) -> Callable[..., InputLayer]:
    def make(rng: Any, scope: Sequence[int], units: int, states: int, scale: float, dtype: Any) -> InputLayer:
        table = WEIGHTS[weight](rng, (units, states), scale, dtype)
        given: dict[str, Any] = {name: table}
        return CategoricalLayer(scope, units, num_categories=states, **given)

    return make


def _logits(*ops: Callable[[Shape], Any]) -> Callable[..., InputLayer]:
    def make(rng: Any, scope: Sequence[int], units: int, states: int, scale: float, dtype: Any) -> InputLayer:  # noqa: ARG001
        shape = (units, states)
        logits = Parameter.from_sequence(_leaf(rng.normal(size=shape) * scale), *(op(shape) for op in ops))
        return CategoricalLayer(scope, units, num_categories=states, logits=logits)

    return make


def _gaussian(partition: bool = False, mean: float | None = None) -> Callable[..., InputLayer]:
    def make(rng: Any, scope: Sequence[int], units: int, states: int, scale: float, dtype: Any) -> InputLayer:  # noqa: ARG001
        means = rng.normal(size=units) * scale
        if mean is not None:
            means[rng.integers(units)] = mean
        more: dict[str, Any] = {"log_partition": _leaf(rng.normal(size=units) * scale)} if partition else {}
        stddev = WEIGHTS["exp"](rng, (units,), 1.0, dtype) if rng.random() < 0.5 else _leaf(rng.uniform(0.2, 2, units))
        return GaussianLayer(scope, units, mean=_leaf(means), stddev=stddev, **more)

    return make


def _embedding(rng: Any, scope: Sequence[int], units: int, states: int, scale: float, dtype: Any) -> InputLayer:
    weight = ZEROS[str(rng.choice(list(ZEROS)))](rng, (units, states), scale, dtype)
    return EmbeddingLayer(scope, units, num_states=states, weight=weight)


def _joint_zeros(rng: Any, scope: Sequence[int], units: int, states: int, scale: float, dtype: Any) -> InputLayer:
    weight = ZEROS[str(rng.choice(list(ZEROS)))](rng, (units, states ** len(scope)), scale, dtype)
    return JointLayer(scope, units, num_states=states, weight=weight)


def _joint(rng: Any, scope: Sequence[int], units: int, states: int, scale: float, dtype: Any) -> InputLayer:
    weight = WEIGHTS[str(rng.choice(["softmax", "direct"]))](rng, (units, states ** len(scope)), scale, dtype)
    return JointLayer(scope, units, num_states=states, weight=weight)


INPUTS: dict[str, Callable[..., InputLayer]] = {
    "logits": _logits(),
    "log-softmax logits": _logits(LogSoftmaxParameter),
    "log logits": _logits(SoftmaxParameter, LogParameter),
    "probs": _categorical("probs", "direct"),
    "softmax probs": _categorical("probs", "softmax"),
    "exp probs": _categorical("probs", "exp"),
    "tiny probs": _categorical("probs", "tiny"),
    "zero probs": _categorical("probs", "zeros"),
    "subnormal probs": _categorical("probs", "subnormal"),
    "gaussian": _gaussian(),
    "gaussian with log_partition": _gaussian(partition=True),
    "infinite mean": _gaussian(mean=-np.inf),
    "joint": _joint,
    **{f"probs, {name}": _categorical("probs", name) for name in ZEROS},
    "embedding of zeros": _embedding,
    "joint of zeros": _joint_zeros,
}
REAL = ("gaussian", "gaussian with log_partition", "infinite mean")
