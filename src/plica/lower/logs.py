"""Logarithms and exponentials of parameters, as parameters: `log(softmax(x))` is `log_softmax(x)`.

Linear weights underflow where their logarithms are ordinary numbers. What has no row here is the logarithm, or the
exponential, of the number itself.

>>> from plica.symbolic.parameters import softmax_normal
>>> [type(node).__name__ for node in log_form(softmax_normal((2, 3))).nodes]
['TensorParameter', 'LogSoftmaxParameter']
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from plica.graph.order import topological_order
from plica.lower.optimize.ranges import never_negative
from plica.symbolic.dtypes import DataType
from plica.symbolic.parameters import (
    ConcatParameter,
    ConstantParameter,
    ExpParameter,
    FlattenParameter,
    HadamardParameter,
    IndexParameter,
    KroneckerParameter,
    KroneckerSumParameter,
    LogAddExpParameter,
    LogMatMulExpParameter,
    LogParameter,
    LogSoftmaxParameter,
    MatMulParameter,
    OuterProductParameter,
    OuterSumParameter,
    Parameter,
    ParameterOp,
    ReduceLSEParameter,
    ReduceProductParameter,
    ReduceSumParameter,
    SoftmaxParameter,
    SumParameter,
    dereferenced,
)

_OF_INPUT: dict[type[Any], type[LogSoftmaxParameter] | None] = {
    SoftmaxParameter: LogSoftmaxParameter,
    ExpParameter: None,
}
"""The logarithm of an operation as an operation on its input; None where it is the input."""

Rule = Callable[[Any], ParameterOp]

_OF_LOGS: dict[type[ParameterOp], Rule] = {
    SumParameter: lambda op: LogAddExpParameter(*op.in_shapes),
    HadamardParameter: lambda op: SumParameter(*op.in_shapes),
    KroneckerParameter: lambda op: KroneckerSumParameter(*op.in_shapes),
    OuterProductParameter: lambda op: OuterSumParameter(*op.in_shapes, axis=op.axis),
    MatMulParameter: lambda op: LogMatMulExpParameter(*op.in_shapes),
    ReduceSumParameter: lambda op: ReduceLSEParameter(*op.in_shapes, axis=op.axis),
    ReduceProductParameter: lambda op: ReduceSumParameter(*op.in_shapes, axis=op.axis),
    IndexParameter: lambda op: op,
    ConcatParameter: lambda op: op,
    FlattenParameter: lambda op: op,
}
"""The logarithm of an operation on numbers that are not negative as an operation on their logarithms."""


def log_form(parameter: Parameter) -> Parameter:
    """The logarithms of a parameter's numbers, which are not negative."""
    return _Logs(parameter).run()


def exp_form(parameter: Parameter) -> Parameter:
    """The exponentials of a parameter's numbers."""
    output = parameter.output
    if isinstance(output, LogSoftmaxParameter):
        (source,) = parameter.node_inputs(output)
        op = SoftmaxParameter(output.in_shape, axis=output.axis)
        return Parameter.from_unary(op, parameter.subgraph(source))
    if isinstance(output, LogParameter) and never_negative(parameter.node_inputs(output)[0], parameter.node_inputs):
        return parameter.subgraph(parameter.node_inputs(output)[0])
    return Parameter.from_unary(ExpParameter(parameter.shape), parameter)


def is_better(logs: Parameter, parameter: Parameter) -> bool:
    """Whether `log_form(parameter)` may be right where the logarithm of the number itself is not."""
    output, own = logs.output, dereferenced(parameter.output)
    if isinstance(own, ConstantParameter) and isinstance(output, ConstantParameter):
        value = np.asarray(own.value, dtype=np.float64)
        return bool(((value > 0) & (value < _SMALL)).any())
    return not (isinstance(output, LogParameter) and logs.node_inputs(output)[0] is parameter.output)


_SMALL = 1e-30  # constants below are computed in logarithms: they, or what multiplies them, may leave float32


class _Logs:
    """The graph of logarithms under construction: nodes of the parameter as they are, and logarithms of nodes."""

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter
        self.edges: dict[Any, list[Any]] = {}

    def run(self) -> Parameter:
        """Logarithms of the nodes from which the output's can be told, the inputs' before the operations'."""
        logs: dict[Any, Any] = {}
        for node in topological_order([self.parameter.output], self._descended):
            logs[node] = self._log(node, logs)
        output = logs[self.parameter.output]
        nodes = topological_order([output], lambda node: self.edges.get(node, ()))
        return Parameter(nodes, {node: self.edges[node] for node in nodes if self.edges.get(node)}, [output])

    def _descended(self, node: Any) -> tuple[Any, ...]:
        """The inputs whose logarithms the logarithm of a node is computed from."""
        inputs = self.parameter.node_inputs(node)
        takes = type(node) in _OF_LOGS and all(never_negative(one, self.parameter.node_inputs) for one in inputs)
        return tuple(inputs) if takes else ()

    def _log(self, node: Any, logs: Mapping[Any, Any]) -> Any:
        descended = self._descended(node)
        if descended:
            new = _copied(_OF_LOGS[type(node)](node))
            self.edges[new] = [logs[one] for one in descended]
            return new
        if type(node) in _OF_INPUT:
            (source,) = self.parameter.node_inputs(node)
            self._keep(source)
            kind = _OF_INPUT[type(node)]
            return source if kind is None else self._add(kind(*node.in_shapes, **node.config), source)
        target = dereferenced(node)
        if isinstance(target, ConstantParameter) and target.dtype != DataType.COMPLEX:
            return self._constant(target)
        self._keep(node)
        return self._add(LogParameter(node.shape), node)

    def _add(self, op: ParameterOp, source: Any) -> ParameterOp:
        self.edges[op] = [source]
        return op

    def _keep(self, node: Any) -> None:
        for one in topological_order([node], self.parameter.node_inputs):
            self.edges[one] = list(self.parameter.node_inputs(one))

    def _constant(self, leaf: ConstantParameter) -> ConstantParameter:
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.log(np.asarray(leaf.value, dtype=np.float64))
        return ConstantParameter(*leaf.shape, value=value if value.ndim else value.item())


def _copied(op: ParameterOp) -> ParameterOp:
    """A node of its own: nodes are compared by identity."""
    return type(op)(*op.in_shapes, **op.config)
