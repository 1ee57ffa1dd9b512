"""Conditional distributions of single variables, layer by layer: what samples and posteriors of squares are made of.

The value of a circuit is linear in the units of the layers of one variable, since it is smooth and decomposable:

    c(x) = sum over layers l of the variable, units k, of  d[l, k] u[l, k](x_v)

The coefficients d are derivatives, and depend on the other variables alone. So `c(., x_v)`, which is proportional to
the distribution of the variable given the rest, is a mixture of the units, whose weights may have any sign.

Each layer keeps its value, and its derivative, until a variable of its scope, or one outside of it, gets a value. So
variables that are drawn in the order of a depth-first walk cost a few evaluations of each layer together, where
products split their variables alike. In all other circuits the layers above a variable are computed anew for it.

Numbers are float64, or complex128: of a layer and a row, a mantissa of each unit and the logarithm of one scale.

Source: Darwiche, "A differential approach to inference in Bayesian networks", 2003; Ferris and Vidal, "Perfect sampling
with unitary tensor networks", 2012, on the chain rule for squares of tensor networks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias, final

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.queries.program import QueryProgram, as_described
from plica.eager import namespace as xp
from plica.errors import UnsupportedError
from plica.graph.order import topological_order
from plica.ir.dtypes import DType
from plica.ir.op import Unsupported
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.queries.layer_parameters import lower_parameters
from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import Domain
from plica.symbolic.layers import InputLayer, InputRow, LayerRow, SumRow, with_sub_layers
from plica.symbolic.semirings import COMPLEX_LSE_SUM, SUM_PRODUCT, Params, Value, Weight

Node: TypeAlias = tuple[int, int]
"""A layer as it is computed: its group, and its fold."""


class Scaled(NamedTuple):
    """The numbers `mantissa * exp(log_scale)` of the units of a layer.

    Args:
        mantissa: `(B, K)`, or `(1, K)` for all rows alike; the largest absolute value is 1, or 0.
        log_scale: `(B, 1)` or `(1, 1)`; 0 where all numbers are 0.
    """

    mantissa: Tensor
    log_scale: Tensor

    @staticmethod
    def of(mantissa: Tensor, log_scale: Tensor) -> Scaled:
        """Numbers with any mantissa."""
        largest = mantissa.abs().amax(1, keepdim=True)
        is_zero = largest == 0
        divisor = torch.where(is_zero, 1.0, largest)
        return Scaled(mantissa / divisor, torch.where(is_zero, 0.0, log_scale + divisor.log()))

    def at_most(self) -> Tensor:
        """The scale, minus infinity where all numbers are 0."""
        return torch.where((self.mantissa == 0).all(1, keepdim=True), -math.inf, self.log_scale)


def with_one_scale(numbers: Sequence[Scaled]) -> tuple[list[Tensor], Tensor]:
    """The mantissas of several layers for one scale, and the scale."""
    scales = [scaled.at_most() for scaled in numbers]
    largest = scales[0]
    for scale in scales[1:]:
        largest = torch.maximum(largest, scale)
    largest = torch.where(largest == -math.inf, 0.0, largest)
    return [scaled.mantissa * (scale - largest).exp() for scaled, scale in zip(numbers, scales, strict=True)], largest


@final
class LayerGraph:
    """The layers of a circuit as they are computed, who reads them, and the Program of their parameters.

    Args:
        circuit: The circuit.
        name: The query, for messages.

    Raises:
        UnsupportedError: A layer of several variables, or one whose parameters cannot be read one by one.
    """

    def __init__(self, circuit: TorchCircuit, name: str) -> None:
        own = circuit.semiring.algebra == SUM_PRODUCT.algebra
        self.folded: FoldedCircuit = circuit.folded if own else as_described(circuit)
        for layer in self.folded.circuit.live.input_layers:
            if layer.num_variables > 1:
                raise UnsupportedError(
                    f"{name} of a circuit with signs takes one variable after another, and "
                    f"{self.folded.circuit.layer_name(layer)} has several at once; use layers of one variable."
                )
        self.lowered = lower_parameters(self.folded, DType.FLOAT64, circuit.leaves.owners)
        self.parameters = QueryProgram(("layer parameters", circuit.dtype), self.lowered, "layer_parameters")
        self.is_complex = any(
            parameter.dtype.name == "COMPLEX"
            for layer in self.folded.circuit.live_layers
            for parameter in layer.all_evaluated_params.values()
        )
        ((group, fold),) = self.folded.out_fold_idx
        self.output: Node = (group, fold)
        self.children: dict[Node, tuple[Node, ...]] = {}
        self.readers: dict[Node, dict[Node, None]] = {}
        self.scopes: dict[Node, int] = {}  # of each bit whether the layer depends on the variable
        self.of_variable: dict[int, list[Node]] = {}
        for number, folded_layer in enumerate(self.folded.groups):
            for index, member in enumerate(folded_layer.members):
                self._add((number, index), folded_layer, member)
        self.order = _depth_first(self.folded.described.live)
        self.num_units = sum(group.num_folds * group.representative.num_output_units for group in self.folded.groups)

    def _add(self, node: Node, group: FoldedLayer, layer: Any) -> None:
        children = tuple((int(other), int(fold)) for other, fold in group.in_fold_idx[node[1]]) if layer.arity else ()
        self.children[node] = () if isinstance(layer, InputLayer) else children
        self.readers[node] = {}
        scope = 0
        if isinstance(layer, InputLayer):
            for variable in layer.scope:
                scope |= 1 << variable
                self.of_variable.setdefault(variable, []).append(node)
        for child in self.children[node]:
            self.readers[child].setdefault(node)
            scope |= self.scopes[child]
        self.scopes[node] = scope

    def row(self, node: Node) -> LayerRow:
        """The registry entry of a layer."""
        return self.folded.row(self.folded.groups[node[0]].representative)

    def adds(self, node: Node) -> bool:
        """Whether a layer adds its inputs, so that they need one scale; else it multiplies them."""
        children = self.children[node]
        scopes = [self.scopes[child] for child in children]
        return isinstance(self.row(node), SumRow) or any(
            first & second for place, first in enumerate(scopes) for second in scopes[:place]
        )


def _depth_first(circuit: Circuit) -> tuple[int, ...]:
    """The variables in the order in which a depth-first walk from the outputs meets them."""
    met: dict[int, None] = {}
    visited: dict[Any, None] = {}
    stack = list(reversed(circuit.outputs))
    while stack:
        layer = stack.pop()
        if layer in visited:
            continue
        visited[layer] = None
        if isinstance(layer, InputLayer):
            met.update(dict.fromkeys(layer.scope))
        stack.extend(reversed(circuit.layer_inputs(layer)))
    return tuple(met)


@final
class Rows:
    """Values and derivatives of all layers for some rows, which get the values of more and more variables.

    Args:
        graph: The layers.
        parameters: The results of the Program of their parameters.
        x: Rows `(B, D)`, float64; NaN where a value is missing.
    """

    def __init__(self, graph: LayerGraph, parameters: Sequence[Tensor], x: Tensor) -> None:
        self.graph, self.x = graph, x
        self._params = _by_group(graph, parameters)
        self._known = x.isnan().logical_not_()
        self._whole = 0  # the variables that got their values here, as bits
        self._values: dict[Node, tuple[int, Scaled]] = {}
        self._derivatives: dict[Node, tuple[int, Scaled]] = {}
        self._dtype = torch.complex128 if graph.is_complex else torch.float64

    def log_value(self) -> Tensor:
        """The logarithm of the value of each row, `(B,)`; NaN where it is negative."""
        output = self._value(self.graph.output)
        return (output.mantissa.real.log() + output.log_scale)[:, 0].expand(len(self.x))

    def set(self, variable: int, values: Tensor) -> None:
        """Give all rows a value `(B,)` of a variable; rows that have one keep it."""
        column = self.x[:, variable]
        self.x[:, variable] = torch.where(column.isnan(), values, column)
        self._known[:, variable] = True
        self._whole |= 1 << variable

    def mixture(self, variable: int) -> Mixture:
        """The distribution of a variable given the other values of each row; its own value is not read."""
        nodes = self.graph.of_variable[variable]
        self._update_derivatives(nodes)
        return Mixture(self, variable, nodes, [self._derivatives[node][1] for node in nodes])

    # Values, inputs first.

    def _value(self, node: Node) -> Scaled:
        def outdated(node: Node) -> Sequence[Node]:
            return () if self._is_current(node) else self.graph.children[node]

        for visited in topological_order([node], outdated):
            if not self._is_current(visited):
                children = self.graph.children[visited]
                stamp = self._whole & self.graph.scopes[visited]
                value = self._inner(visited, [self._values[child][1] for child in children])
                self._values[visited] = stamp, value if children else self._input(visited)
        return self._values[node][1]

    def _is_current(self, node: Node) -> bool:
        return node in self._values and self._values[node][0] == self._whole & self.graph.scopes[node]

    def _inner(self, node: Node, inputs: list[Scaled]) -> Scaled:
        if not inputs:
            return self._input(node)
        if self.graph.adds(node):
            mantissas, log_scale = with_one_scale(inputs)
        else:
            mantissas = [scaled.mantissa for scaled in inputs]
            log_scale = _total([scaled.log_scale for scaled in inputs])
        return Scaled.of(self._body(node, mantissas), log_scale)

    def _body(self, node: Node, mantissas: Sequence[Tensor]) -> Tensor:
        """The body of an inner layer in ordinary numbers: `(B, K)`, from those of its inputs."""
        row, layer = self.graph.row(node), self.graph.folded.groups[node[0]].representative
        assert not isinstance(row, InputRow), "inputs are computed by `_input`"
        count = max(map(len, mantissas))
        read = [(mantissa.expand(count, -1)[None],) for mantissa in mantissas]
        result: Tensor = row.body(xp, SUM_PRODUCT, layer, self._params_of(node), read)[0]
        return result.expand(1, count, -1)[0]

    def _input(self, node: Node) -> Scaled:
        """The units of an input layer at the known values; summed or integrated where there is none."""
        layer = self.graph.folded.groups[node[0]].representative
        row = self.graph.row(node)
        assert isinstance(layer, InputLayer), "a layer without inputs is an input layer"
        assert isinstance(row, InputRow), "input rows belong to input layers"
        total = _scaled(row.reduced(xp, COMPLEX_LSE_SUM, layer, self._params_of(node)), self._dtype)
        (variable, *_) = (*self.graph.folded.groups[node[0]].scope_idx[node[1]], -1)
        if variable < 0 or not bool(self._known[:, variable].any()):
            return total
        known = self._known[:, variable, None]
        at_values = _scaled(self.units(node, torch.where(known[:, 0], self.x[:, variable], float(layer.domain.inside))), self._dtype)
        if bool(known.all()):
            return at_values
        return Scaled(
            torch.where(known, at_values.mantissa, total.mantissa), torch.where(known, at_values.log_scale, total.log_scale)
        )

    def units(self, node: Node, values: Tensor) -> Value:
        """The units of an input layer at some values `(N,)`, as directions and sizes `(1, N, K)`."""
        layer, row = self.graph.folded.groups[node[0]].representative, self.graph.row(node)
        assert isinstance(layer, InputLayer), "only input layers have values"
        assert isinstance(row, InputRow), "input rows belong to input layers"
        x = values.to(getattr(torch, layer.domain.dtype(DType.FLOAT64).value)).reshape(1, -1, 1)
        value: Value = row.body(xp, COMPLEX_LSE_SUM, layer, self._params_of(node), x)
        return value

    def _params_of(self, node: Node) -> Params:
        group = self.graph.folded.groups[node[0]]
        arrays = {name: array[node[1] : node[1] + 1] for name, array in self._params[node[0]].items()}
        if self.graph.is_complex and not isinstance(group.representative, InputLayer):
            arrays = {name: array.to(self._dtype) for name, array in arrays.items()}
        return with_sub_layers(_params(arrays), group.representative, self.graph.folded.row)

    # Derivatives, outputs first.

    def _update_derivatives(self, nodes: Iterable[Node]) -> None:
        """Compute the derivatives of the output with respect to some layers, and to what reads them."""
        graph = self.graph

        def outdated(node: Node) -> Sequence[Node]:
            return () if self._has_derivative(node) else tuple(graph.readers[node])

        for node in topological_order(nodes, outdated):
            if self._has_derivative(node):
                continue
            terms = [self._passed_on(reader, node) for reader in graph.readers[node]]
            if node == graph.output:
                terms.append(
                    Scaled(
                        torch.ones((1, 1), dtype=self._dtype, device=self.x.device),
                        torch.zeros((1, 1), dtype=torch.float64, device=self.x.device),
                    )
                )
            mantissas, log_scale = with_one_scale(terms)
            self._derivatives[node] = self._stamp_outside(node), Scaled.of(_total(mantissas), log_scale)

    def _has_derivative(self, node: Node) -> bool:
        return node in self._derivatives and self._derivatives[node][0] == self._stamp_outside(node)

    def _stamp_outside(self, node: Node) -> int:
        return self._whole & ~self.graph.scopes[node]

    def _passed_on(self, reader: Node, node: Node) -> Scaled:
        """The part of the derivative of a layer that comes from one of its readers."""
        derivative = self._derivatives[reader][1]
        children = self.graph.children[reader]
        own = [place for place, child in enumerate(children) if child == node]
        if self.graph.adds(reader):  # a linear function: its derivative is the same everywhere
            units = self.graph.folded.groups
            read = [
                torch.zeros((1, units[child[0]].representative.num_output_units), dtype=self._dtype, device=self.x.device)
                for child in children
            ]
            log_scale = derivative.log_scale
        else:
            others = {child: self._value(child) for child in children if child != node}
            width = self.graph.folded.groups[node[0]].representative.num_output_units
            ones = torch.ones((1, width), dtype=self._dtype, device=self.x.device)
            read = [others[child].mantissa if child in others else ones for child in children]
            log_scale = _total([derivative.log_scale, *(others[child].log_scale for child in children if child != node)])
        count = max(len(derivative.mantissa), *map(len, read))
        with torch.enable_grad():
            ends = [array.expand(count, -1).detach().clone() for array in read]
            for place in own:
                ends[place].requires_grad_()
            result = self._body(reader, ends)
            given = derivative.mantissa.expand(count, -1).conj()
            grads = torch.autograd.grad(result, [ends[place] for place in own], given)
        return Scaled.of(_total([grad.conj() for grad in grads]), log_scale.expand(count, 1))


@final
class Mixture:
    """A distribution of one variable for each row: a mixture of units of its layers, with weights of any sign.

    Args:
        rows: The rows.
        variable: The variable.
        nodes: Its layers.
        derivatives: The derivatives with respect to them.
    """

    def __init__(self, rows: Rows, variable: int, nodes: Sequence[Node], derivatives: Sequence[Scaled]) -> None:
        self._rows, self._nodes = rows, nodes
        self.domain: Domain = rows.graph.folded.described.domains[variable]
        self.count = len(rows.x)
        states = self.domain.num_states
        if states is None:
            at = [_of_row(rows, node).reduced(xp, COMPLEX_LSE_SUM, _layer(rows, node), rows._params_of(node)) for node in nodes]
        else:
            numbers = torch.arange(states, dtype=torch.float64, device=rows.x.device)
            at = [rows.units(node, numbers) for node in nodes]
        self._sizes = [_largest_size(value) for value in at]
        self._tables = [_divided(value, size, rows._dtype) for value, size in zip(at, self._sizes, strict=True)]
        shifted = [
            Scaled(derivative.mantissa, derivative.log_scale + size)
            for derivative, size in zip(derivatives, self._sizes, strict=True)
        ]
        self._weights, _ = with_one_scale(shifted)

    def masses(self) -> Tensor:
        """Numbers `(B, C)` that are proportional to the probabilities of states; rounding leaves none below 0."""
        return self._mixed(self._tables).clamp_(min=0)

    def up_to(self, ends: Tensor) -> Tensor:
        """Numbers `(B, P)` proportional to the probabilities of values up to `ends (B, P)`."""
        columns = []
        for end in ends.unbind(1):
            at = [self._interval(node, end) for node in self._nodes]
            tables = [_divided(value, size, self._rows._dtype) for value, size in zip(at, self._sizes, strict=True)]
            columns.append(
                _total([(w * table).sum(1) for w, table in zip(self._weights, tables, strict=True)]).real.expand(self.count)
            )
        return torch.stack(columns, 1)

    def _interval(self, node: Node, end: Tensor) -> Value:
        row, layer = _of_row(self._rows, node), _layer(self._rows, node)
        if isinstance(row.interval, Unsupported):
            raise UnsupportedError(f"{self._rows.graph.folded.circuit.layer_name(layer)}: {row.interval.why}.")
        high = end.reshape(1, -1, 1)
        low = torch.full_like(high, float(layer.domain.least))
        value: Value = row.interval(xp, COMPLEX_LSE_SUM, layer, self._rows._params_of(node), low, high)
        return value

    def moments(self) -> tuple[Tensor, Tensor]:
        """The mean and the variance of the variable, `(B,)` each.

        Raises:
            UnsupportedError: A layer does not define them.
        """
        if self.domain.num_states is not None:
            masses = self.masses()
            shares = masses / masses.sum(1, keepdim=True)
            states = torch.arange(shares.shape[1], dtype=shares.dtype, device=shares.device)
            mean = shares @ states
            return mean, (shares * (states - mean[:, None]).square()).sum(1)
        weights = torch.cat([(w * table).real.expand(self.count, -1) for w, table in zip(self._weights, self._tables, strict=True)], 1)
        weights = weights / weights.sum(1, keepdim=True)
        means, variances = (torch.cat([self._moment(node, name) for node in self._nodes], 1) for name in ("mean", "variance"))
        centre = means[:, :1]
        distance = (weights * (means - centre)).sum(1)
        mean = centre[:, 0] + distance
        return mean, (weights * (variances + (means - mean[:, None]).square())).sum(1).clamp_(min=0)

    def _moment(self, node: Node, name: str) -> Tensor:
        """A moment of each unit, `(1, K)`."""
        row, layer = _of_row(self._rows, node), _layer(self._rows, node)
        rule = getattr(row, name)
        if isinstance(rule, Unsupported):
            raise UnsupportedError(f"{self._rows.graph.folded.circuit.layer_name(layer)}: {rule.why}.")
        moment: Tensor = rule(xp, layer, self._rows._params_of(node))
        return moment[:, :, 0].to(torch.float64)

    def _mixed(self, tables: Sequence[Tensor]) -> Tensor:
        """The weighted sums of the columns of tables `(C, K)`, as real numbers `(B, C)`."""
        terms = [weights @ table.T for weights, table in zip(self._weights, tables, strict=True)]
        return _total(terms).real.expand(self.count, -1).clone()


def _layer(rows: Rows, node: Node) -> Any:
    return rows.graph.folded.groups[node[0]].representative


def _of_row(rows: Rows, node: Node) -> InputRow:
    row = rows.graph.row(node)
    assert isinstance(row, InputRow), "variables are read by input layers"
    return row


def _total(terms: Sequence[Tensor]) -> Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _scaled(value: Value, dtype: torch.dtype) -> Scaled:
    """Directions and sizes `(1, N, K)` as numbers with one scale for each of the N."""
    direction, size = (part[0] for part in value)
    counted = torch.where(direction == 0, -math.inf, size).amax(1, keepdim=True)
    largest = torch.where(counted == -math.inf, 0.0, counted)
    return Scaled.of((direction * (size - largest).clamp(max=0).exp()).to(dtype), largest)


def _largest_size(value: Value) -> Tensor:
    """The largest size of a number that is not 0, `(1, 1)`; 0 where there is none."""
    direction, size = value
    largest = torch.where(direction == 0, -math.inf, size).amax().reshape(1, 1)
    return torch.where(largest == -math.inf, 0.0, largest)


def _divided(value: Value, size: Tensor, dtype: torch.dtype) -> Tensor:
    """Directions and sizes `(1, N, K)` divided by `exp(size)`: `(N, K)`."""
    direction, sizes = (part[0] for part in value)
    return (direction * torch.where(direction == 0, 0.0, (sizes - size).exp())).to(dtype)


def _by_group(graph: LayerGraph, parameters: Sequence[Tensor]) -> list[dict[str, Tensor]]:
    rest = iter(parameters)
    return [{name: next(rest) for name in names} for names in graph.lowered.names]


def _params(arrays: dict[str, Tensor]) -> Params:
    """Parameters of a layer from arrays `(1, *shape)`."""

    def weight(name: str, logs: bool, checked: bool) -> Weight:  # noqa: ARG001
        array = arrays[name]
        if not logs:
            return Weight.of(array)
        least = -math.inf if array.is_complex() else 0.0
        return Weight(lambda: xp.exp(array), lambda: array, least=least)

    return Params(tuple(arrays), arrays.__getitem__, weight, dtype=DType.FLOAT64)
