"""Logarithms and exponentials of parameters, as parameters: `log(softmax(x))` is `log_softmax(x)`.

Linear weights underflow where their logarithms are ordinary numbers. Operations without a rule in `log_rules.py` are
computed as the logarithm, or the exponential, of the number itself.

>>> from plica.symbolic.parameters import softmax_normal
>>> [type(node).__name__ for node in log_form(softmax_normal((2, 3))).nodes]
['TensorParameter', 'LogSoftmaxParameter']
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.graph.order import from_inputs, topological_order
from plica.ir.ranges import ANYTHING, excludes_negative
from plica.lower.log_rules import LOG_RULES, MOVED, OF_INPUT, PRODUCTS, SignedLog, copied, is_derived
from plica.lower.optimize.ranges import known_range, never_negative, numbers
from plica.symbolic.dtypes import DataType
from plica.symbolic.parameters import (
    ClampParameter,
    ConstantParameter,
    EinsumParameter,
    ExpParameter,
    LogParameter,
    LogSizeParameter,
    LogSoftmaxParameter,
    Parameter,
    ParameterOp,
    SignedLogParameter,
    SignParameter,
    SoftmaxParameter,
    dereferenced,
)


def log_form(parameter: Parameter) -> Parameter:
    """The logarithms of a parameter's numbers: NaN where one is negative."""
    output = parameter.output
    if type(output) is SoftmaxParameter and numbers(parameter.node_inputs)(output).range is not None:
        (source,) = parameter.node_inputs(output)  # a fast path for most weights
        op = LogSoftmaxParameter(output.in_shape, axis=output.axis)
        return Parameter.from_unary(op, parameter.subgraph(source))
    if type(output) is ExpParameter and _is_log(parameter.node_inputs(output)[0]):
        return right_logs(parameter.subgraph(parameter.node_inputs(output)[0]))
    return _Logs(parameter).run()


def directed_form(parameter: Parameter) -> tuple[Parameter, Parameter] | None:
    """Directions and sizes of a parameter's numbers: `direction * exp(size)`.

    A number that is 0 has a direction of 0, with the derivative that it has in ordinary arithmetic. None where
    numbers may be complex.
    """
    return _Logs(parameter, directed=True).directions()


def learns(parameter: Parameter, is_learned: Callable[[Any], bool]) -> bool:
    """Whether a leaf of a parameter may have a gradient."""
    return any(is_learned(dereferenced(node)) for node in parameter.nodes if not isinstance(node, ParameterOp))


def may_be_zero(logs: Parameter, is_learned: Callable[[Any], bool]) -> bool:
    """Whether a number may be 0 for some values of its leaves, not only by underflow as a softmax may.

    Args:
        logs: The `log_form` of the parameter.
        is_learned: Whether a leaf may have a gradient.
    """
    known = numbers(logs.node_inputs)

    def reaches_zero(node: Any, inputs: list[bool]) -> bool:
        if not isinstance(node, ParameterOp):
            return is_learned(dereferenced(node))
        return any(inputs) and not is_derived(node)

    reaches = from_inputs(logs.node_inputs, reaches_zero)

    def is_of_zero(node: Any) -> bool:
        if not _is_log(node):
            return type(node) is SignedLogParameter
        (number,) = logs.node_inputs(node)
        least, _ = known(number).range or ANYTHING
        return least <= 0 and reaches(number)

    return any(map(is_of_zero, logs.nodes))


def as_it_is(parameter: Parameter) -> Parameter:
    """The parameter unchanged."""
    return parameter


def right_logs(parameter: Parameter) -> Parameter:
    """The numbers of a parameter of logarithms, right also where the argument of the logarithm underflows."""
    output = parameter.output
    return log_form(parameter.subgraph(parameter.node_inputs(output)[0])) if _is_log(output) else parameter


def with_right_logs(parameter: Parameter) -> Parameter:
    """The parameter with all its logarithms right, also where the argument of a logarithm underflows."""
    return _with_right_logs(parameter, ())


def with_right_logs_within(parameter: Parameter) -> Parameter:
    """The same, but for a logarithm that is the parameter itself: its readers may need the number instead."""
    return _with_right_logs(parameter, parameter.outputs)


def _with_right_logs(parameter: Parameter, but: Sequence[Any]) -> Parameter:
    if not any(_is_log(node) and node not in but for node in parameter.nodes):  # most have none
        return parameter
    edges: dict[Any, tuple[Any, ...]] = {}
    now: dict[Any, Any] = {}
    for node in parameter.nodes:
        inputs = parameter.node_inputs(node)
        sources = tuple(now[node_input] for node_input in inputs)
        if _is_log(node) and node not in but:
            logs = log_form(Parameter(edges, edges, sources))
            if is_better(logs):
                edges.update((log_node, logs.node_inputs(log_node)) for log_node in logs.nodes)
                now[node] = logs.output
                continue
        now[node] = copied(node) if isinstance(node, ParameterOp) and sources != inputs else node
        edges[now[node]] = sources
    return Parameter(edges, edges, [now[output] for output in parameter.outputs])


def exp_form(parameter: Parameter) -> Parameter:
    """The exponentials of a parameter's numbers."""
    output = parameter.output
    if type(output) is LogSoftmaxParameter:
        (source,) = parameter.node_inputs(output)
        op = SoftmaxParameter(output.in_shape, axis=output.axis)
        return Parameter.from_unary(op, parameter.subgraph(source))
    if _is_log(output) and never_negative(parameter.node_inputs(output)[0], parameter.node_inputs):
        return parameter.subgraph(parameter.node_inputs(output)[0])
    return Parameter.from_unary(ExpParameter(parameter.shape), parameter)


def is_better(logs: Parameter) -> bool:
    """Whether a `log_form` may be right where the logarithm of the number itself is not."""
    moved = topological_order([logs.output], lambda node: logs.node_inputs(node) if isinstance(node, MOVED) else ())
    return any(map(_is_other, moved))


def is_ordinary(parameter: Parameter) -> bool:
    """Whether the logarithm of the number itself is right: no number underflows, and no exponential overflows."""
    least, _ = known_range(parameter.output, parameter.node_inputs)
    return least >= _LEAST and not any(isinstance(node, ExpParameter) for node in parameter.nodes)


def _is_other(logs: Any) -> bool:
    """Whether a node computes logarithms in another way than from the number itself."""
    if isinstance(logs, ConstantParameter):
        value = np.asarray(logs.value, dtype=np.float64)
        return bool(((value > -inf) & (value < log(_LEAST))).any())
    return not isinstance(logs, (LogParameter, *MOVED))


_LEAST = 1e-30
"""Smaller constants are computed in logarithms: they, or products with them, may leave float32."""


def _is_small(node: Any) -> bool:
    """Whether a node is a constant with an entry below `_LEAST`."""
    value = _known(node)
    return value is not None and bool(((value != 0) & (np.abs(value) < _LEAST)).any())


class _Logs:
    """The graph of logarithms under construction: nodes of the parameter, and logarithms of sizes."""

    def __init__(self, parameter: Parameter, *, directed: bool = False) -> None:
        self.parameter = parameter
        self.directed = directed
        self.edges: dict[Any, list[Any]] = {}
        self.numbers = numbers(parameter.node_inputs)
        self.takes = from_inputs(parameter.node_inputs, self._takes)

    def run(self) -> Parameter:
        """The logarithms of the output, by rules from those of the nodes before it where there are rules."""
        output = self.parameter.output
        if not self._is_known(output):
            return self._graph(self._of_number(output))
        logs = self._logs()
        signed = logs.sign is not None
        return self._graph(self._add(SignedLogParameter(output.shape, output.shape), *logs) if signed else logs.size)

    def directions(self) -> tuple[Parameter, Parameter] | None:
        """Directions and sizes of the output, from the number itself where no rule applies; None if complex."""
        output = self.parameter.output
        if self.numbers(output).range is None:
            return None
        logs = self._logs() if self._is_known(output) else self._of_signed(output)
        sign = ConstantParameter(*output.shape, value=1.0) if logs.sign is None else logs.sign
        return self._graph(sign), self._graph(logs.size)

    def _is_known(self, output: Any) -> bool:
        return bool(self.takes(output)) or self._is_derived(output)

    def _logs(self) -> SignedLog:
        """The logarithm of the output, from those of the nodes before it."""
        output, logs = self.parameter.output, dict[Any, SignedLog]()
        for node in topological_order([output], self._descended):
            logs[node] = self._log(node, logs)
        return logs[output]

    def _graph(self, output: Any) -> Parameter:
        nodes = topological_order([output], lambda node: self.edges.get(node, ()))
        return Parameter(nodes, {node: self.edges[node] for node in nodes if self.edges.get(node)}, [output])

    def _takes(self, node: Any, inputs: list[bool]) -> bool:
        """Whether the logarithm of a node's size is computed from those of its inputs."""
        sources = self.parameter.node_inputs(node)
        kind, ranges = type(node), [self.numbers(source).range for source in sources]
        if kind is ExpParameter:  # of the logarithm of a number
            (source,) = sources
            return _is_log(source) and excludes_negative(self.numbers(self.parameter.node_inputs(source)[0]).range)
        if kind not in LOG_RULES or None in ranges:  # maybe complex
            return False
        if kind is ClampParameter and node.vmax is not None and node.vmax < 0:
            return False  # far from 0
        is_product = kind in PRODUCTS or (kind is EinsumParameter and not node.summed)
        always = is_product or all(map(excludes_negative, ranges))
        return always or any(inputs) or any(self._is_derived(source) or _is_small(source) for source in sources)

    def _is_derived(self, node: Any) -> bool:
        """Whether the logarithm of a node is computed from its inputs themselves."""
        return is_derived(node) and self.numbers(node).range is not None

    def _descended(self, node: Any) -> tuple[Any, ...]:
        """The nodes whose logarithms that of a node is computed from."""
        if not self.takes(node):
            return ()
        inputs = tuple(self.parameter.node_inputs(node))
        return tuple(self.parameter.node_inputs(inputs[0])) if type(node) is ExpParameter else inputs

    def _log(self, node: Any, logs: Mapping[Any, SignedLog]) -> SignedLog:
        """The logarithm of a node."""
        if self.takes(node):
            inputs = [logs[input_node] for input_node in self._descended(node)]
            return inputs[0] if type(node) is ExpParameter else LOG_RULES[type(node)](self._add, node, inputs)
        if self._is_derived(node):
            (source,) = self.parameter.node_inputs(node)
            self._keep(source)
            return SignedLog(OF_INPUT[type(node)](self._add, node, source))
        range_ = self.numbers(node).range
        if excludes_negative(range_) and not (self.directed and _known(node) is None and range_ and range_[0] <= 0):
            return SignedLog(self._of_number(node))
        return self._of_signed(node)

    def _of_number(self, node: Any) -> Any:
        """The logarithm of a number itself."""
        value = _known(node)
        if value is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                return _constant(node, np.log(value))
        self._keep(node)
        return self._add(LogParameter(node.shape), node)

    def _of_signed(self, node: Any) -> SignedLog:
        """Size and sign of a number of any sign, from the number itself."""
        value = _known(node)
        if value is not None:
            size = np.log(np.abs(value), where=value != 0, out=np.zeros_like(value))
            return SignedLog(_constant(node, size), _constant(node, np.sign(value)))
        self._keep(node)
        size, sign = (self._add(kind(node.shape), node) for kind in (LogSizeParameter, SignParameter))
        return SignedLog(size, sign)

    def _add(self, op: ParameterOp, *inputs: Any) -> ParameterOp:
        self.edges[op] = list(inputs)
        return op

    def _keep(self, node: Any) -> None:
        for needed in topological_order([node], self.parameter.node_inputs):
            self.edges[needed] = list(self.parameter.node_inputs(needed))


def _known(node: Any) -> NDArray[Any] | None:
    """The numbers of a real constant."""
    target = dereferenced(node)
    if not isinstance(target, ConstantParameter) or target.dtype == DataType.COMPLEX:
        return None
    return np.asarray(target.value, dtype=np.float64)


def _constant(node: Any, value: NDArray[Any]) -> ConstantParameter:
    return ConstantParameter(*node.shape, value=value if value.ndim else value.item())


def _is_log(node: Any) -> bool:
    return type(node) is LogParameter
