"""Logarithms and exponentials of parameters, as parameters: `log(softmax(x))` becomes `log_softmax(x)`.

A weight may underflow to 0 although its logarithm is an ordinary number. So logarithms are computed by the rules of
`log_rules.py` from the logarithms of inputs, or from inputs themselves. A node without a rule is computed first, and
then its logarithm. Logarithms that are right although the number underflows are called *accurate* here.

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
from plica.lower.log_rules import (
    FROM_OPERANDS,
    LOG_RULES,
    MOVED,
    OF_INPUT,
    PRODUCTS,
    SUMS,
    SignedLog,
    copied,
    is_derived,
)
from plica.lower.optimize.ranges import known_range, never_negative, numbers
from plica.symbolic.dtypes import DataType
from plica.symbolic.layers.formula_parameters import LogUnitsParameter
from plica.symbolic.parameters import (
    ClampParameter,
    ConstantParameter,
    EinsumParameter,
    ExpParameter,
    FlattenParameter,
    HadamardParameter,
    LogEinsumExpParameter,
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
    """The accurate logarithms of a parameter's numbers; NaN where a number is negative."""
    output = parameter.output
    if type(output) is SoftmaxParameter and numbers(parameter.node_inputs)(output).range is not None:
        (source,) = parameter.node_inputs(output)  # most weights: this is faster than the general way
        op = LogSoftmaxParameter(output.in_shape, axis=output.axis)
        return Parameter.from_unary(op, parameter.subgraph(source))
    if type(output) is ExpParameter and _is_log(parameter.node_inputs(output)[0]):
        return accurate_logs(parameter.subgraph(parameter.node_inputs(output)[0]))
    return _Logs(parameter).run()


def directed_form(parameter: Parameter) -> tuple[Parameter, Parameter] | None:
    """A parameter's numbers as pairs: a number is `direction * exp(size)`, with a direction of -1, 0 or 1.

    The direction of 0 is 0; its derivative is the one that the number has in ordinary arithmetic. The result is None if
    numbers may be complex.
    """
    return _Logs(parameter, directed=True).directions()


def learns(parameter: Parameter, is_learned: Callable[[Any], bool]) -> bool:
    """Whether a leaf of a parameter may be learned, and so have a gradient."""
    return any(is_learned(dereferenced(node)) for node in parameter.nodes if not isinstance(node, ParameterOp))


def may_be_zero(logs: Parameter, is_learned: Callable[[Any], bool]) -> bool:
    """Whether learned values of leaves can make a number 0. A softmax cannot: its numbers are 0 by underflow alone.

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
        if isinstance(node, LogUnitsParameter):
            return not node.layer.log_masses and reaches(node)
        if not _is_log(node):
            return type(node) is SignedLogParameter
        (number,) = logs.node_inputs(node)
        least, _ = known(number).range or ANYTHING
        return least <= 0 and reaches(number)

    return any(map(is_of_zero, logs.nodes))


def unchanged(parameter: Parameter) -> Parameter:
    """The parameter unchanged."""
    return parameter


def accurate_logs(parameter: Parameter) -> Parameter:
    """A parameter that holds logarithms, with an accurate logarithm if its last operation is one."""
    output = parameter.output
    return log_form(parameter.subgraph(parameter.node_inputs(output)[0])) if _is_log(output) else parameter


def with_accurate_logs(parameter: Parameter) -> Parameter:
    """The parameter with each of its logarithms replaced by an accurate one."""
    return _with_accurate_logs(parameter, ())


def with_accurate_inner_logs(parameter: Parameter) -> Parameter:
    """The same, except for the last operation: whoever reads its logarithm may need the number instead."""
    return _with_accurate_logs(parameter, parameter.outputs)


def _with_accurate_logs(parameter: Parameter, excluded: Sequence[Any]) -> Parameter:
    if not any(_is_log(node) and node not in excluded for node in parameter.nodes):  # most have none
        return parameter
    edges: dict[Any, tuple[Any, ...]] = {}
    replacements: dict[Any, Any] = {}
    for node in parameter.nodes:
        inputs = parameter.node_inputs(node)
        new_inputs = tuple(replacements[node_input] for node_input in inputs)
        if _is_log(node) and node not in excluded:
            logs = log_form(Parameter(edges, edges, new_inputs))
            if is_better(logs):
                edges.update((log_node, logs.node_inputs(log_node)) for log_node in logs.nodes)
                replacements[node] = logs.output
                continue
        new_node = copied(node) if isinstance(node, ParameterOp) and new_inputs != inputs else node
        replacements[node] = new_node
        edges[new_node] = new_inputs
    return Parameter(edges, edges, [replacements[output] for output in parameter.outputs])


def exp_form(parameter: Parameter) -> Parameter:
    """The exponentials of a parameter's numbers."""
    output = parameter.output
    if type(output) is LogSoftmaxParameter:
        (source,) = parameter.node_inputs(output)
        op = SoftmaxParameter(output.in_shape, axis=output.axis)
        return Parameter.from_unary(op, parameter.subgraph(source))
    inputs = [parameter.subgraph(node) for node in parameter.node_inputs(output)]
    if _is_log(output) and never_negative(inputs[0].output, parameter.node_inputs):
        return inputs[0]
    if isinstance(output, FlattenParameter | LogEinsumExpParameter):
        linear = list(map(exp_form, inputs))
        if not any(type(numbers_read.output) is ExpParameter for numbers_read in linear):  # none overflows
            if isinstance(output, FlattenParameter):
                return Parameter.from_nary(copied(output), *linear)
            return Parameter.from_nary(EinsumParameter(*output.in_shapes, equation=output.equation), *linear)
    return Parameter.from_unary(ExpParameter(parameter.shape), parameter)


def is_better(logs: Parameter) -> bool:
    """Whether a `log_form` can be more accurate than the logarithm of the computed number."""
    moved = topological_order([logs.output], lambda node: logs.node_inputs(node) if isinstance(node, MOVED) else ())
    return any(map(_avoids_the_number, moved))


def has_accurate_logs(parameter: Parameter) -> bool:
    """Whether the logarithm of the computed number is accurate: no number underflows, and no exponential overflows."""
    least, _ = known_range(parameter.output, parameter.node_inputs)
    return least >= _LEAST and not any(isinstance(node, ExpParameter) for node in parameter.nodes)


def _avoids_the_number(logs: Any) -> bool:
    """Whether a node makes logarithms without computing the number first."""
    if isinstance(logs, ConstantParameter):
        value = np.asarray(logs.value, dtype=np.float64)
        return bool(((value > -inf) & (value < log(_LEAST))).any())
    return not isinstance(logs, (LogParameter, *MOVED))


def _is_mask(node: Any) -> bool:
    """Whether a node is a constant of zeros and ones, by which a product never underflows."""
    value = getattr(dereferenced(node), "value", None)
    return value is not None and bool(np.isin(value, (0, 1)).all())


_LEAST = 1e-30
"""Smaller constants are computed in logarithms: they, or products with them, may leave float32."""


def _is_small(node: Any) -> bool:
    """Whether a node is a constant with an entry below `_LEAST` that is not 0."""
    value = _constant_value(node)
    return value is not None and bool(((value != 0) & (np.abs(value) < _LEAST)).any())


class _Logs:
    """The graph of logarithms under construction.

    A number of any sign is a `SignedLog`: the logarithm of its absolute value, its *size*, and its sign.

    Args:
        parameter: The parameter of numbers.
        directed: Whether a computed number that may be 0 gets a sign, even if it is never negative; it does in sums.
    """

    def __init__(self, parameter: Parameter, *, directed: bool = False) -> None:
        self.parameter = parameter
        # a term of a sum that is 0 has a derivative, which its logarithm lacks
        self.directed = directed or any(type(node) in SUMS for node in parameter.nodes)
        self.edges: dict[Any, list[Any]] = {}
        self.numbers = numbers(parameter.node_inputs)
        self.reads_logs = from_inputs(parameter.node_inputs, self._reads_logs)

    def run(self) -> Parameter:
        """The logarithms of the output: by rules, or of the computed number if no rule applies to the output."""
        output = self.parameter.output
        if not self._has_rule(output):
            return self._graph(self._log_of_number(output))
        logs = self._logs()
        signed = logs.sign is not None
        return self._graph(self._add(SignedLogParameter(output.shape, output.shape), *logs) if signed else logs.size)

    def directions(self) -> tuple[Parameter, Parameter] | None:
        """Directions and sizes of the output: by rules, or of the computed number; None if numbers may be complex."""
        output = self.parameter.output
        if self.numbers(output).range is None:
            return None
        logs = self._logs() if self._has_rule(output) else self._signed_log_of_number(output)
        sign = ConstantParameter(*output.shape, value=1.0) if logs.sign is None else logs.sign
        return self._graph(sign), self._graph(logs.size)

    def _has_rule(self, node: Any) -> bool:
        return bool(self.reads_logs(node)) or self._is_derived(node)

    def _logs(self) -> SignedLog:
        """The logarithm of the output, after those of the nodes from whose logarithms it is computed."""
        output, logs = self.parameter.output, dict[Any, SignedLog]()
        for node in topological_order([output], self._log_inputs):
            logs[node] = self._log(node, logs)
        return logs[output]

    def _graph(self, output: Any) -> Parameter:
        nodes = topological_order([output], lambda node: self.edges.get(node, ()))
        return Parameter(nodes, {node: self.edges[node] for node in nodes if self.edges.get(node)}, [output])

    def _reads_logs(self, node: Any, inputs: list[bool]) -> bool:
        """Whether a node's logarithm is computed from those of its inputs; `inputs` has the answer for each input."""
        sources = self.parameter.node_inputs(node)
        kind, ranges = type(node), [self.numbers(source).range for source in sources]
        if kind is ExpParameter:  # exp(log(number)): the logarithm of that number
            (source,) = sources
            return _is_log(source) and excludes_negative(self.numbers(self.parameter.node_inputs(source)[0]).range)
        if kind not in LOG_RULES or None in ranges:  # maybe complex
            return False
        if kind is ClampParameter and node.vmax is not None and node.vmax < 0:
            return False  # no number is near 0
        masks = kind is HadamardParameter and any(map(_is_mask, sources))
        is_product = (kind in PRODUCTS and not masks) or (kind is EinsumParameter and not node.summed)
        always = is_product or all(map(excludes_negative, ranges))
        return always or any(inputs) or any(map(self._has_better_logs, sources))

    def _has_better_logs(self, node: Any) -> bool:
        """Whether the logarithm of a node may be accurate where the number underflows."""
        return self._is_derived(node) or type(node) in FROM_OPERANDS or _is_small(node)

    def _is_derived(self, node: Any) -> bool:
        """Whether a node's logarithm is computed from its input itself, as log_softmax is."""
        return is_derived(node) and self.numbers(node).range is not None

    def _log_inputs(self, node: Any) -> tuple[Any, ...]:
        """The nodes from whose logarithms the logarithm of a node is computed."""
        if not self.reads_logs(node):
            return ()
        inputs = tuple(self.parameter.node_inputs(node))
        return tuple(self.parameter.node_inputs(inputs[0])) if type(node) is ExpParameter else inputs

    def _log(self, node: Any, logs: Mapping[Any, SignedLog]) -> SignedLog:
        """The logarithm of a node, given those of its `_log_inputs`."""
        if self.reads_logs(node):
            inputs = [logs[input_node] for input_node in self._log_inputs(node)]
            return inputs[0] if type(node) is ExpParameter else LOG_RULES[type(node)](self._add, node, inputs)
        if self._is_derived(node):
            (source,) = self.parameter.node_inputs(node)
            self._add_subgraph(source)
            return SignedLog(OF_INPUT[type(node)](self._add, node, source))
        range_ = self.numbers(node).range
        is_constant = _constant_value(node) is not None
        if excludes_negative(range_) and not (self.directed and not is_constant and range_ and range_[0] <= 0):
            return SignedLog(self._log_of_number(node))
        return self._signed_log_of_number(node)

    def _log_of_number(self, node: Any) -> Any:
        """The logarithm of a node that is computed first."""
        value = _constant_value(node)
        if value is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                return _constant(node, np.log(value))
        if type(node) in FROM_OPERANDS:
            return self._of_operands(node, FROM_OPERANDS[type(node)][0])
        self._add_subgraph(node)
        return self._add(LogParameter(node.shape), node)

    def _signed_log_of_number(self, node: Any) -> SignedLog:
        """The size and the sign of a node that is computed first, and that may have any sign."""
        value = _constant_value(node)
        if value is not None:
            size = np.log(np.abs(value), where=value != 0, out=np.zeros_like(value))
            return SignedLog(_constant(node, size), _constant(node, np.sign(value)))
        if type(node) in FROM_OPERANDS:
            return SignedLog(*(self._of_operands(node, kind) for kind in FROM_OPERANDS[type(node)][1:]))
        self._add_subgraph(node)
        size, sign = (self._add(kind(node.shape), node) for kind in (LogSizeParameter, SignParameter))
        return SignedLog(size, sign)

    def _of_operands(self, node: Any, kind: type[ParameterOp]) -> Any:
        """An operation of another kind on the operands of a node, which are computed first."""
        operands = self.parameter.node_inputs(node)
        for operand in operands:
            self._add_subgraph(operand)
        return self._add(kind(*node.in_shapes, **node.config), *operands)

    def _add(self, op: ParameterOp, *inputs: Any) -> ParameterOp:
        self.edges[op] = list(inputs)
        return op

    def _add_subgraph(self, node: Any) -> None:
        """Add a node of the parameter, and all that it is computed from."""
        for needed in topological_order([node], self.parameter.node_inputs):
            self.edges[needed] = list(self.parameter.node_inputs(needed))


def _constant_value(node: Any) -> NDArray[Any] | None:
    """The numbers of a real constant; None for other nodes."""
    target = dereferenced(node)
    if not isinstance(target, ConstantParameter) or target.dtype == DataType.COMPLEX:
        return None
    return np.asarray(target.value, dtype=np.float64)


def _constant(node: Any, value: NDArray[Any]) -> ConstantParameter:
    """A constant of the shape of a node."""
    return ConstantParameter(*node.shape, value=value if value.ndim else value.item())


def _is_log(node: Any) -> bool:
    return type(node) is LogParameter
