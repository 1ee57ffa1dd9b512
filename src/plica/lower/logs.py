"""Logarithms and exponentials of parameters, as parameters: `log(softmax(x))` is `log_softmax(x)`.

Linear weights underflow where their logarithms are ordinary numbers. What has no row here is the logarithm, or the
exponential, of the number itself. A product of factors of any sign has the sum of the logarithms of their sizes, and is
looked at itself for its sign alone.

>>> from plica.symbolic.parameters import softmax_normal
>>> [type(node).__name__ for node in log_form(softmax_normal((2, 3))).nodes]
['TensorParameter', 'LogSoftmaxParameter']
"""

from collections.abc import Callable, Mapping
from math import inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.graph.order import from_inputs, topological_order
from plica.ir.ranges import excludes_negative
from plica.lower.optimize.ranges import known_range, never_negative, numbers
from plica.symbolic.dtypes import DataType
from plica.symbolic.parameters import (
    ClampParameter,
    ConcatParameter,
    ConstantParameter,
    ExpParameter,
    FlattenParameter,
    HadamardParameter,
    IndexParameter,
    KroneckerParameter,
    KroneckerSumParameter,
    LogAbsParameter,
    LogAddExpParameter,
    LogMatMulExpParameter,
    LogParameter,
    LogSigmoidParameter,
    LogSoftmaxParameter,
    LogSoftplusParameter,
    MatMulParameter,
    OuterProductParameter,
    OuterSumParameter,
    Parameter,
    ParameterOp,
    ReduceLSEParameter,
    ReduceProductParameter,
    ReduceSumParameter,
    Shape,
    SigmoidParameter,
    SignedLogParameter,
    SoftmaxParameter,
    SoftplusParameter,
    SumParameter,
    dereferenced,
)

_OF_INPUT: dict[type[Any], type[ParameterOp] | None] = {
    SoftmaxParameter: LogSoftmaxParameter,
    ExpParameter: None,
    SigmoidParameter: LogSigmoidParameter,
    SoftplusParameter: LogSoftplusParameter,
}
"""The logarithm of an operation as an operation on its input; None where it is the input."""

_MOVED = (IndexParameter, ConcatParameter, FlattenParameter)
"""Operations that change no number."""

Rule = Callable[[Any], ParameterOp]

_OF_LOGS: dict[type[ParameterOp], Rule] = {
    SumParameter: lambda op: LogAddExpParameter(*op.in_shapes),
    HadamardParameter: lambda op: SumParameter(*op.in_shapes),
    KroneckerParameter: lambda op: KroneckerSumParameter(*op.in_shapes),
    OuterProductParameter: lambda op: OuterSumParameter(*op.in_shapes, axis=op.axis),
    MatMulParameter: lambda op: LogMatMulExpParameter(*op.in_shapes),
    ReduceSumParameter: lambda op: ReduceLSEParameter(*op.in_shapes, axis=op.axis),
    ReduceProductParameter: lambda op: ReduceSumParameter(*op.in_shapes, axis=op.axis),
    **dict.fromkeys(_MOVED, lambda op: op),
    ClampParameter: lambda op: ClampParameter(*op.in_shapes, vmin=_log_bound(op.vmin), vmax=_log_bound(op.vmax)),
}
"""The logarithm of an operation as one on logarithms; but for those that only move them, of numbers that are not
negative."""

_PRODUCTS = (HadamardParameter, KroneckerParameter, OuterProductParameter, ReduceProductParameter)
"""Operations whose result has the product of the sizes of numbers of any sign."""


def log_form(parameter: Parameter) -> Parameter:
    """The logarithms of a parameter's numbers: NaN where one is negative."""
    output = parameter.output
    kind = _OF_INPUT.get(type(output))
    if kind is not None and isinstance(output, ParameterOp):  # most weights are a softmax
        (source,) = parameter.node_inputs(output)
        return Parameter.from_unary(kind(*output.in_shapes, **output.config), parameter.subgraph(source))
    if isinstance(output, ExpParameter) and _is_log(parameter.node_inputs(output)[0]):
        return right_logs(parameter.subgraph(parameter.node_inputs(output)[0]))
    return _Logs(parameter).run()


def as_it_is(parameter: Parameter) -> Parameter:
    """The parameter."""
    return parameter


def right_logs(parameter: Parameter) -> Parameter:
    """The numbers of a parameter of logarithms, right where that of which one is taken underflows."""
    output = parameter.output
    return log_form(parameter.subgraph(parameter.node_inputs(output)[0])) if _is_log(output) else parameter


def exp_form(parameter: Parameter) -> Parameter:
    """The exponentials of a parameter's numbers."""
    output = parameter.output
    if isinstance(output, LogSoftmaxParameter):
        (source,) = parameter.node_inputs(output)
        op = SoftmaxParameter(output.in_shape, axis=output.axis)
        return Parameter.from_unary(op, parameter.subgraph(source))
    if _is_log(output) and never_negative(parameter.node_inputs(output)[0], parameter.node_inputs):
        return parameter.subgraph(parameter.node_inputs(output)[0])
    return Parameter.from_unary(ExpParameter(parameter.shape), parameter)


def is_better(logs: Parameter) -> bool:
    """Whether a `log_form` may be right where the logarithm of the number itself is not."""
    moved = topological_order([logs.output], lambda node: logs.node_inputs(node) if isinstance(node, _MOVED) else ())
    return any(map(_is_other, moved))


def is_ordinary(parameter: Parameter) -> bool:
    """Whether the logarithm of the number itself is right: it does not underflow, and no exponential overflows."""
    least, _ = known_range(parameter.output, parameter.node_inputs)
    return least >= _LEAST and not any(isinstance(node, ExpParameter) for node in parameter.nodes)


def _is_other(logs: Any) -> bool:
    """Whether a node computes other logarithms than of a number that is there."""
    if isinstance(logs, ConstantParameter):
        value = np.asarray(logs.value, dtype=np.float64)
        return bool(((value > -inf) & (value < _SMALL)).any())
    return not isinstance(logs, (LogParameter, *_MOVED))


_LEAST = 1e-30
_SMALL = log(_LEAST)  # constants below are computed in logarithms: they, or what multiplies them, may leave float32


class _Logs:
    """The graph of logarithms under construction: nodes of the parameter as they are, and logarithms of sizes."""

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter
        self.edges: dict[Any, list[Any]] = {}
        self.numbers = numbers(parameter.node_inputs)
        self.takes = from_inputs(parameter.node_inputs, self._takes)

    def run(self) -> Parameter:
        """Logarithms of the nodes from which the output's can be told, the inputs' before the operations'."""
        output, logs = self.parameter.output, dict[Any, Any]()
        if not self.takes(output) and type(output) not in _OF_INPUT:
            return self._graph(self._of_leaf(output, LogParameter))
        for node in topological_order([output], self._descended):
            logs[node] = self._log(node, logs)
        if excludes_negative(self.numbers(output).range):
            return self._graph(logs[output])
        self._keep(output)
        signed = SignedLogParameter(output.shape, output.shape)
        self.edges[signed] = [output, logs[output]]
        return self._graph(signed)

    def _graph(self, output: Any) -> Parameter:
        nodes = topological_order([output], lambda node: self.edges.get(node, ()))
        return Parameter(nodes, {node: self.edges[node] for node in nodes if self.edges.get(node)}, [output])

    def _takes(self, node: Any, inputs: list[bool]) -> bool:
        """Whether the logarithm of a node's size is computed from those of its inputs."""
        sources = self.parameter.node_inputs(node)
        kind, ranges = type(node), [self.numbers(one).range for one in sources]
        if kind is ExpParameter:  # of the logarithm of a number
            (source,) = sources
            return _is_log(source) and excludes_negative(self.numbers(self.parameter.node_inputs(source)[0]).range)
        if all(map(excludes_negative, ranges)):
            return kind in _OF_LOGS
        if None in ranges:
            return False  # maybe complex
        return kind in _PRODUCTS or (kind in _MOVED and (any(inputs) or any(type(one) in _OF_INPUT for one in sources)))

    def _descended(self, node: Any) -> tuple[Any, ...]:
        """The inputs of whose sizes the logarithm of a node is computed from."""
        if not self.takes(node):
            return ()
        inputs = tuple(self.parameter.node_inputs(node))
        return tuple(self.parameter.node_inputs(inputs[0])) if type(node) is ExpParameter else inputs

    def _log(self, node: Any, logs: Mapping[Any, Any]) -> Any:
        """The logarithm of the size of a node."""
        if self.takes(node):
            if type(node) is ExpParameter:
                return logs[self._descended(node)[0]]
            new = _copied(_OF_LOGS[type(node)](node))
            self.edges[new] = [logs[one] for one in self._descended(node)]
            return new
        if type(node) in _OF_INPUT:
            (source,) = self.parameter.node_inputs(node)
            self._keep(source)
            kind = _OF_INPUT[type(node)]
            return source if kind is None else self._add(kind(*node.in_shapes, **node.config), source)
        return self._of_leaf(node, LogParameter if excludes_negative(self.numbers(node).range) else LogAbsParameter)

    def _of_leaf(self, node: Any, kind: type[LogParameter] | type[LogAbsParameter]) -> Any:
        """The logarithm of a number, or of its size, where it is computed from the number itself."""
        target = dereferenced(node)
        if isinstance(target, ConstantParameter) and target.dtype != DataType.COMPLEX:
            value = np.asarray(target.value, dtype=np.float64)
            return _log_constant(target.shape, value if kind is LogParameter else np.abs(value))
        self._keep(node)
        return self._add(kind(node.shape), node)

    def _add(self, op: ParameterOp, source: Any) -> ParameterOp:
        self.edges[op] = [source]
        return op

    def _keep(self, node: Any) -> None:
        for one in topological_order([node], self.parameter.node_inputs):
            self.edges[one] = list(self.parameter.node_inputs(one))


def _log_constant(shape: Shape, value: NDArray[Any]) -> ConstantParameter:
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(value)
    return ConstantParameter(*shape, value=logs if logs.ndim else logs.item())


def _log_bound(bound: float | None) -> float | None:
    """The logarithm of a bound of numbers that are not negative."""
    return None if bound is None else log(bound) if bound > 0 else -inf


def _is_log(node: Any) -> bool:
    return isinstance(node, LogParameter)


def _copied(op: ParameterOp) -> ParameterOp:
    """A node of its own: nodes are compared by identity."""
    return type(op)(*op.in_shapes, **op.config)
