"""Rules that compute the logarithm of an operation on parameters from the logarithms of its inputs.

A rule gets `add`, which adds an operation on nodes to the graph of logarithms, the operation, and its inputs as
logarithms. Numbers that are not negative have a logarithm alone, others a size and a sign
(`plica.symbolic.parameters.signed`).

>>> from plica.symbolic.parameters import HadamardParameter
>>> def add(op, *inputs):
...     return f"{type(op).__name__}({', '.join(inputs)})"
>>> product = HadamardParameter((2,), (2,))
>>> LOG_RULES[HadamardParameter](add, product, [SignedLog("a"), SignedLog("b")])
SignedLog(size='SumParameter(a, b)', sign=None)
>>> LOG_RULES[HadamardParameter](add, product, [SignedLog("a", "s"), SignedLog("b", "t")])
SignedLog(size='SumParameter(a, b)', sign='HadamardParameter(s, t)')
"""

from collections.abc import Callable, Sequence
from math import inf, log
from typing import Any, NamedTuple

import numpy as np

from plica.symbolic.layers.formula_parameters import (
    LogUnitsParameter,
    UnitsParameter,
    UnitsSignParameter,
    UnitsSizeParameter,
)
from plica.symbolic.parameters import (
    BlockKroneckerParameter,
    BlockKroneckerSumParameter,
    ClampParameter,
    ClampSignParameter,
    ClampSizeParameter,
    ConcatParameter,
    ConjugateParameter,
    ConstantParameter,
    CountedLogSoftmaxParameter,
    CountedSoftmaxParameter,
    EinsumParameter,
    ExpParameter,
    FlattenParameter,
    GaussianProductStddev,
    HadamardParameter,
    IndexParameter,
    KroneckerParameter,
    KroneckerSumParameter,
    LogAddExpParameter,
    LogEinsumExpParameter,
    LogGaussianProductStddev,
    LogMatMulExpParameter,
    LogSigmoidParameter,
    LogSoftmaxParameter,
    LogSoftplusParameter,
    MatMulParameter,
    MixingWeightParameter,
    OuterProductParameter,
    OuterSumParameter,
    ParameterOp,
    ReduceLSEParameter,
    ReduceProductParameter,
    ReduceSumParameter,
    ScaledSigmoidParameter,
    SigmoidParameter,
    SignedLogParameter,
    SoftmaxParameter,
    SoftplusParameter,
    SquareParameter,
    StackParameter,
    SumParameter,
    SumSignParameter,
    SumSizeParameter,
)

Node = Any
Add = Callable[..., Node]


class SignedLog(NamedTuple):
    """The logarithms of a node's numbers.

    Args:
        size: The logarithms of their absolute values.
        sign: Their signs; None if no number is negative.
    """

    size: Node
    sign: Node | None = None


Rule = Callable[[Add, Any, Sequence[SignedLog]], SignedLog]
OnLogs = Callable[[Any], ParameterOp]


def copied(op: ParameterOp) -> ParameterOp:
    """A copy of an operation: nodes are compared by identity."""
    return type(op)(*op.in_shapes, **op.config)


def is_derived(op: Any) -> bool:
    """Whether `OF_INPUT` computes the logarithm of an operation from its input itself."""
    return type(op) in OF_INPUT and not (isinstance(op, ScaledSigmoidParameter) and op.vmin != 0)


def _of_input(kind: type[ParameterOp]) -> Callable[[Add, Any, Node], Node]:
    return lambda add, op, source: add(kind(*op.in_shapes, **op.config), source)


def _of_scaled_sigmoid(add: Add, op: Any, source: Node) -> Node:
    log_vmax = ConstantParameter(*op.shape, value=log(op.vmax))
    return add(SumParameter(op.shape, op.shape), add(LogSigmoidParameter(op.shape), source), log_vmax)


OF_INPUT: dict[type[Any], Callable[[Add, Any, Node], Node]] = {
    SoftmaxParameter: _of_input(LogSoftmaxParameter),
    CountedSoftmaxParameter: _of_input(CountedLogSoftmaxParameter),
    ExpParameter: lambda add, op, source: source,  # noqa: ARG005
    SigmoidParameter: _of_input(LogSigmoidParameter),
    SoftplusParameter: _of_input(LogSoftplusParameter),
    ScaledSigmoidParameter: _of_scaled_sigmoid,
}
"""The logarithms of operations whose numbers are never negative, computed from their inputs."""

FROM_OPERANDS: dict[type[Any], tuple[type[ParameterOp], type[ParameterOp], type[ParameterOp]]] = {
    UnitsParameter: (LogUnitsParameter, UnitsSizeParameter, UnitsSignParameter),
}
"""Operations whose numbers may be 0, with those that compute the logarithms, the sizes and the signs of their numbers.

All have the same operands and settings.
"""


def _signs(inputs: Sequence[SignedLog], op: ParameterOp) -> list[Node] | None:
    """The signs of all inputs of an operation; None if no input has one."""
    if all(logs.sign is None for logs in inputs):
        return None
    pairs = zip(inputs, op.in_shapes, strict=True)
    return [ConstantParameter(*shape, value=1.0) if logs.sign is None else logs.sign for logs, shape in pairs]


def _product(on_logs: OnLogs) -> Rule:
    """The rule of a product: an operation on logarithms gives the size, the product of the signs the sign."""

    def rule(add: Add, op: Any, inputs: Sequence[SignedLog]) -> SignedLog:
        signs = _signs(inputs, op)
        size = add(on_logs(op), *(logs.size for logs in inputs))
        return SignedLog(size, None if signs is None else add(copied(op), *signs))

    return rule


def _total(on_logs: OnLogs, terms: Callable[[Add, Any, list[Node], bool], tuple[Node, int]]) -> Rule:
    """The rule of a sum: an operation on logarithms; where terms have signs, a sum of signed terms along one axis.

    Args:
        on_logs: The operation on logarithms.
        terms: `(add, op, inputs, of_logs)` gives the signs of the terms from those of the inputs, or the sizes from the
            sizes if `of_logs`; and the axis of the terms.
    """

    def rule(add: Add, op: Any, inputs: Sequence[SignedLog]) -> SignedLog:
        signs, sizes = _signs(inputs, op), [logs.size for logs in inputs]
        if signs is None:
            return SignedLog(add(on_logs(op), *sizes))
        size, axis = terms(add, op, sizes, True)
        sign, _ = terms(add, op, signs, False)
        of_sum = (
            add(kind(size.shape, sign.shape, axis=axis), size, sign) for kind in (SumSizeParameter, SumSignParameter)
        )
        return SignedLog(*of_sum)

    return rule


def _stacked_terms(add: Add, op: Any, inputs: list[Node], of_logs: bool) -> tuple[Node, int]:  # noqa: ARG001
    return add(StackParameter(*op.in_shapes), *inputs), -1


def _unchanged_terms(add: Add, op: Any, inputs: list[Node], of_logs: bool) -> tuple[Node, int]:  # noqa: ARG001
    return inputs[0], op.axis


def _products(add: Add, op: Any, inputs: list[Node], of_logs: bool) -> tuple[Node, int]:
    """The products that an Einstein sum adds, along a last axis."""
    matrices = isinstance(op, MatMulParameter)
    einsum = EinsumParameter(*op.in_shapes, equation="mk,kn->mn") if matrices else op
    kind = LogEinsumExpParameter if of_logs else EinsumParameter
    products = add(kind(*op.in_shapes, equation=einsum.equation + einsum.summed), *inputs)
    axes = len(products.shape), len(einsum.summed)
    if axes[1] < 2:
        return products, -1
    return add(FlattenParameter(products.shape, start=axes[0] - axes[1], end=axes[0] - 1), products), -1


def _einsum(add: Add, op: Any, inputs: Sequence[SignedLog]) -> SignedLog:
    return (_EINSUM if op.summed else _EINSUM_OF_ONE)(add, op, inputs)


def _log_einsum(op: Any) -> ParameterOp:
    return LogEinsumExpParameter(*op.in_shapes, equation=op.equation)


_EINSUM = _total(_log_einsum, _products)
_EINSUM_OF_ONE = _product(_log_einsum)


def _clamp(add: Add, op: Any, inputs: Sequence[SignedLog]) -> SignedLog:
    """A clamp around 0, or to positive numbers; the latter maps every negative number to the lower bound."""
    (number,) = inputs
    logs = number.size
    if number.sign is not None:
        if op.vmin is None or op.vmin <= 0:
            below, above = (inf if bound is None else _log_of(abs(bound)) for bound in (op.vmin, op.vmax))
            kinds = (ClampSizeParameter, ClampSignParameter)
            return SignedLog(*(add(kind(op.shape, op.shape, below=below, above=above), *number) for kind in kinds))
        logs = add(SignedLogParameter(op.shape, op.shape, positive_part=True), *number)
    clamp = ClampParameter(op.shape, vmin=_log_bound(op.vmin), vmax=_log_bound(op.vmax))
    return SignedLog(add(clamp, logs))


def _log_bound(bound: float | None) -> float | None:
    """The logarithm of a bound of numbers that are not negative."""
    return None if bound is None else _log_of(max(bound, 0.0))


def _log_of(number: float) -> float:
    return log(number) if number > 0 else -inf


def _square(add: Add, op: Any, inputs: Sequence[SignedLog]) -> SignedLog:
    (number,) = inputs
    size = add(SumParameter(op.shape, op.shape), number.size, number.size)
    return SignedLog(size, None if number.sign is None else add(copied(op), number.sign))


def _deviation(add: Add, op: Any, inputs: Sequence[SignedLog]) -> SignedLog:
    """The rule of deviations, which are positive: a negative one has no logarithm."""
    signed = [SignedLogParameter(shape, shape) for shape in op.in_shapes]
    logs = [logs.size if logs.sign is None else add(log, *logs) for logs, log in zip(inputs, signed, strict=True)]
    return SignedLog(add(LogGaussianProductStddev(*op.in_shapes), *logs))


def _mixing(add: Add, op: Any, inputs: Sequence[SignedLog]) -> SignedLog:
    """The rule of mixing weights: zeros off the diagonals have the logarithm -inf."""
    size, sign = _moved(add, op, inputs)
    units, arity = op.in_shape
    zeros = np.where(np.tile(np.eye(units, dtype=bool), arity), 0.0, -inf)
    return SignedLog(add(SumParameter(op.shape, op.shape), size, ConstantParameter(*op.shape, value=zeros)), sign)


MOVED = (IndexParameter, ConcatParameter, FlattenParameter, ConjugateParameter)
"""Operations that change no real number."""

_moved = _product(copied)

LOG_RULES: dict[type[Any], Rule] = {
    BlockKroneckerParameter: _product(
        lambda op: BlockKroneckerSumParameter(*op.in_shapes, blocks1=op.blocks1, blocks2=op.blocks2)
    ),
    HadamardParameter: _product(lambda op: SumParameter(*op.in_shapes)),
    KroneckerParameter: _product(lambda op: KroneckerSumParameter(*op.in_shapes)),
    OuterProductParameter: _product(lambda op: OuterSumParameter(*op.in_shapes, axis=op.axis)),
    GaussianProductStddev: _deviation,
    ReduceProductParameter: _product(lambda op: ReduceSumParameter(*op.in_shapes, axis=op.axis)),
    SquareParameter: _square,
    SumParameter: _total(lambda op: LogAddExpParameter(*op.in_shapes), _stacked_terms),
    ReduceSumParameter: _total(lambda op: ReduceLSEParameter(*op.in_shapes, axis=op.axis), _unchanged_terms),
    MatMulParameter: _total(lambda op: LogMatMulExpParameter(*op.in_shapes), _products),
    EinsumParameter: _einsum,
    ClampParameter: _clamp,
    MixingWeightParameter: _mixing,
    **dict.fromkeys(MOVED, _moved),
}

PRODUCTS = (
    BlockKroneckerParameter,
    HadamardParameter,
    KroneckerParameter,
    OuterProductParameter,
    ReduceProductParameter,
    SquareParameter,
)
"""Operations that may underflow for any inputs."""

SUMS = (EinsumParameter, MatMulParameter, ReduceSumParameter, SumParameter)
"""Operations that add numbers, of which some may be 0."""
