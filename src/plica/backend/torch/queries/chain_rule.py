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
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, final

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.garbage import without_collection
from plica.backend.torch.queries.program import QueryProgram, as_described
from plica.eager import namespace as xp
from plica.errors import UnsupportedError
from plica.graph.order import topological_order
from plica.ir.dtypes import DType
from plica.ir.op import Unsupported
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.queries.by_layer import LoweredLayer, Shapes, lower_body, lower_input, lower_numbers
from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import Domain
from plica.symbolic.dtypes import DataType
from plica.symbolic.layers import InputLayer, InputRow, Layer, SumRow, with_sub_layers
from plica.symbolic.semirings import SUM_PRODUCT, Params, Value

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
    """The layers of a circuit as they are computed, who reads them, and their Programs.

    Args:
        circuit: The circuit.
        name: The query, for messages.

    Raises:
        UnsupportedError: A layer of several variables, or one whose parameters cannot be read one by one.
    """

    @without_collection()
    def __init__(self, circuit: TorchCircuit, name: str) -> None:
        own = circuit.semiring.algebra == SUM_PRODUCT.algebra
        self.folded: FoldedCircuit = circuit.folded if own else as_described(circuit)
        for layer in self.folded.circuit.live.input_layers:
            if layer.num_variables > 1:
                raise UnsupportedError(
                    f"{name} of a circuit with signs takes one variable after another, and "
                    f"{self.folded.circuit.layer_name(layer)} has several at once; use layers of one variable."
                )
        self._lowered = lower_numbers(self.folded, DType.FLOAT64, circuit.leaves.owners)
        self._numbers = QueryProgram(("numbers of layers", circuit.dtype), self._lowered, "numbers")
        self._programs: dict[Hashable, QueryProgram] = {}
        self.is_complex = any(
            parameter.dtype == DataType.COMPLEX
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
        self.adds = {node: self._adds(node) for node in self.children}
        self.order = _depth_first(self.folded.described.live)
        self.num_units = sum(group.num_folds * group.representative.num_output_units for group in self.folded.groups)

    def _add(self, node: Node, group: FoldedLayer, layer: Layer) -> None:
        is_input = isinstance(layer, InputLayer)
        self.children[node] = () if is_input else tuple((int(a), int(b)) for a, b in group.in_fold_idx[node[1]])
        self.readers[node] = {}
        scope = 0
        for variable in layer.scope if isinstance(layer, InputLayer) else ():
            scope |= 1 << variable
            self.of_variable.setdefault(variable, []).append(node)
        for child in self.children[node]:
            self.readers[child].setdefault(node)
            scope |= self.scopes[child]
        self.scopes[node] = scope

    def _adds(self, node: Node) -> bool:
        """Whether a layer adds its inputs, so that they need one scale; else it multiplies them."""
        scopes = [self.scopes[child] for child in self.children[node]]
        return isinstance(self.folded.row(self.layer(node)), SumRow) or any(
            first & second for place, first in enumerate(scopes) for second in scopes[:place]
        )

    def layer(self, node: Node) -> Layer:
        """The layer whose settings stand for those of a group."""
        return self.folded.groups[node[0]].representative

    def input_of(self, node: Node) -> tuple[InputLayer, InputRow]:
        """An input layer, and its registry entry."""
        layer, row = self.layer(node), self.folded.row(self.layer(node))
        assert isinstance(layer, InputLayer), "callers pass input layers"
        assert isinstance(row, InputRow), "input rows belong to input layers"
        return layer, row

    def numbers(self, circuit: TorchCircuit) -> Numbers:
        """The numbers of layers that do not depend on data, with the circuit's tensors as they are now."""
        results = self._numbers(circuit)
        rest = iter(results if isinstance(results, tuple | list) else (results,))
        arrays = [{name: next(rest) for name in names} for names in self._lowered.names]
        return Numbers(self, circuit, arrays)

    def program(self, circuit: TorchCircuit, node: Node, shapes: Shapes, what: str) -> QueryProgram:
        """The Program of a layer: its "body", or "up to" for input layers; layers alike share it."""
        layer, group = self.layer(node), self.folded.groups[node[0]]
        key = (what, type(layer), layer.fold_settings(), layer.input_widths, shapes)
        if key not in self._programs:
            lowered: LoweredLayer
            if isinstance(layer, InputLayer):
                lowered = lower_input(self.folded, group, DType.FLOAT64, shapes, up_to=what == "up to")
            else:
                dtype = DType.COMPLEX128 if self.is_complex else DType.FLOAT64
                lowered = lower_body(self.folded, group, dtype, shapes)
            self._programs[key] = QueryProgram(("layer", len(self._programs), circuit.dtype), lowered, "layer")
        return self._programs[key]


@final
class Numbers:
    """What layers compute with, at one moment.

    Args:
        graph: The layers.
        circuit: The circuit.
        arrays: The numbers of each group, by name, with an axis of folds first.
    """

    def __init__(self, graph: LayerGraph, circuit: TorchCircuit, arrays: Sequence[Mapping[str, Tensor]]) -> None:
        self.graph, self._circuit, self._arrays = graph, circuit, arrays
        self.dtype = torch.complex128 if graph.is_complex else torch.float64
        self.device = circuit.leaves.device
        self._functions: dict[tuple[Node, str], Callable[..., Any]] = {}
        self._totals: dict[Node, Scaled] = {}
        self._tables: dict[Node, tuple[Tensor, Tensor]] = {}

    def absolute(self, circuit: TorchCircuit) -> Numbers:
        """The absolute values of the parameters of inner layers."""
        arrays = [{name: array.abs() for name, array in group.items()} for group in self._arrays]
        return Numbers(self.graph, circuit, arrays)

    def _part(self, node: Node, name: str) -> Value:
        arrays = self._arrays[node[0]]
        return tuple(arrays[f"{name}.{part}"][node[1]][None] for part in ("direction", "size"))

    def total(self, node: Node) -> Scaled:
        """The units of an input layer, summed or integrated: one row."""
        if node not in self._totals:
            self._totals[node] = scaled_of(self._part(node, "total"), self.dtype)
        return self._totals[node]

    def table(self, node: Node) -> tuple[Tensor, Tensor]:
        """The units of an input layer at its states, `(C, K)`, and the logarithm of their scale, `(1, 1)`."""
        if node not in self._tables:
            value = self._part(node, "states")
            size = _largest_size(value)
            self._tables[node] = _divided(value, size, self.dtype), size
        return self._tables[node]

    def has_table(self, node: Node) -> bool:
        """Whether an input layer has states."""
        return "states.size" in self._arrays[node[0]]

    def at(self, node: Node, values: Tensor) -> Scaled:
        """The units of an input layer at values `(B,)` of its domain."""
        if self.has_table(node):
            table, size = self.table(node)
            return Scaled.of(table[values.long()], size.expand(len(values), 1))
        return scaled_of(self.function(node)(values.reshape(1, -1, 1)), self.dtype)

    def params(self, node: Node) -> Params:
        """The parameters of an input layer."""
        layer, _ = self.graph.input_of(node)
        names = layer.all_evaluated_params
        arrays = {name: array[node[1]][None] for name, array in self._arrays[node[0]].items() if name in names}
        return with_sub_layers(Params.of(xp, arrays), layer, self.graph.folded.row)

    def function(self, node: Node, what: str = "body") -> Callable[..., Any]:
        """The function of a layer (see `LayerGraph.program`): that of an inner layer is differentiable."""
        key = (node, what)
        if key not in self._functions:
            layer = self.graph.layer(node)
            dtype = torch.float64 if isinstance(layer, InputLayer) else self.dtype
            arrays = {name: self._arrays[node[0]][name][node[1]][None].to(dtype) for name in layer.all_evaluated_params}
            shapes = tuple((name, tuple(array.shape[1:])) for name, array in arrays.items())
            program = self.graph.program(self._circuit, node, shapes, what)
            leaves = program.leaves(self._circuit)

            def run(*inputs: Tensor) -> Any:
                return program.run(leaves, *inputs, *arrays.values())

            self._functions[key] = run
        return self._functions[key]


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
        numbers: What the layers compute with.
        x: Rows `(B, D)`, float64; NaN where a value is missing. They are written into.
    """

    def __init__(self, numbers: Numbers, x: Tensor) -> None:
        self.graph, self.numbers, self.x = numbers.graph, numbers, x
        self._known = x.isnan().logical_not_()
        self._whole = 0  # the variables that got their values here, as bits
        self._values: dict[Node, tuple[int, Scaled]] = {}
        self._derivatives: dict[Node, tuple[int, Scaled]] = {}

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
                inputs = [self._values[child][1] for child in children]
                self._values[visited] = stamp, self._inner(visited, inputs) if children else self._input(visited)
        return self._values[node][1]

    def _is_current(self, node: Node) -> bool:
        return node in self._values and self._values[node][0] == self._whole & self.graph.scopes[node]

    def _inner(self, node: Node, inputs: list[Scaled]) -> Scaled:
        if self.graph.adds[node]:
            mantissas, log_scale = with_one_scale(inputs)
        else:
            mantissas = [scaled.mantissa for scaled in inputs]
            log_scale = total_of([scaled.log_scale for scaled in inputs])
        return Scaled.of(self._body(node, mantissas), log_scale)

    def _body(self, node: Node, mantissas: Sequence[Tensor]) -> Tensor:
        """The body of an inner layer in ordinary numbers: `(B, K)`, from those of its inputs."""
        count = max(map(len, mantissas))
        read = [mantissa.expand(count, -1)[None] for mantissa in mantissas]
        result: Tensor = self.numbers.function(node)(*read)
        return result.expand(1, count, -1)[0]

    def _input(self, node: Node) -> Scaled:
        """The units of an input layer at the known values; summed or integrated where there is none."""
        total = self.numbers.total(node)
        if not self.graph.scopes[node]:
            return total
        variable = self.graph.scopes[node].bit_length() - 1
        known = self._known[:, variable, None]
        if not bool(known.any()):
            return total
        layer, _ = self.graph.input_of(node)
        values = torch.where(known[:, 0], self.x[:, variable], float(layer.domain.inside))
        own = self.numbers.at(node, values)
        return (
            own if bool(known.all()) else Scaled(*(torch.where(known, *pair) for pair in zip(own, total, strict=True)))
        )

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
                terms.append(self._one())
            mantissas, log_scale = with_one_scale(terms)
            self._derivatives[node] = self._stamp_outside(node), Scaled.of(total_of(mantissas), log_scale)

    def _has_derivative(self, node: Node) -> bool:
        return node in self._derivatives and self._derivatives[node][0] == self._stamp_outside(node)

    def _stamp_outside(self, node: Node) -> int:
        return self._whole & ~self.graph.scopes[node]

    def _one(self) -> Scaled:
        device = self.x.device
        return Scaled(
            torch.ones((1, 1), dtype=self.numbers.dtype, device=device),
            torch.zeros((1, 1), dtype=torch.float64, device=device),
        )

    def _passed_on(self, reader: Node, node: Node) -> Scaled:
        """The part of the derivative of a layer that comes from one of its readers."""
        derivative, children = self._derivatives[reader][1], self.graph.children[reader]
        own = [place for place, child in enumerate(children) if child == node]
        log_scale = derivative.log_scale
        read = [self._ones(child) for child in children]  # the derivative of a sum is the same everywhere
        if not self.graph.adds[reader]:
            others = [(place, self._value(child)) for place, child in enumerate(children) if child != node]
            for place, value in others:
                read[place] = value.mantissa
            log_scale = total_of([log_scale, *(value.log_scale for _, value in others)])
        count = max(len(derivative.mantissa), *map(len, read))
        with torch.enable_grad():
            inputs = [array.expand(count, -1).detach() for array in read]
            for place in own:
                inputs[place] = inputs[place].clone().requires_grad_()
            result = self._body(reader, inputs)
            given = derivative.mantissa.expand(count, -1).conj()
            grads = torch.autograd.grad(result, [inputs[place] for place in own], given)
        return Scaled.of(total_of([grad.conj() for grad in grads]), log_scale)

    def _ones(self, node: Node) -> Tensor:
        return torch.ones((1, self.graph.layer(node).num_output_units), dtype=self.numbers.dtype, device=self.x.device)


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
        self._numbers, self._nodes = rows.numbers, nodes
        self.domain: Domain = rows.graph.folded.described.domains[variable]
        self.count = len(rows.x)
        states = self.domain.num_states
        if states is None:
            totals = [rows.numbers.total(node) for node in nodes]
            self._tables = [total.mantissa for total in totals]
            self._sizes = [total.log_scale for total in totals]
        else:
            tables = [rows.numbers.table(node) for node in nodes]
            self._tables, self._sizes = [table[:states] for table, _ in tables], [size for _, size in tables]
        pairs = zip(derivatives, self._sizes, strict=True)
        self._weights, _ = with_one_scale([Scaled(number.mantissa, number.log_scale + size) for number, size in pairs])

    def masses(self) -> Tensor:
        """Numbers `(B, C)` that are proportional to the probabilities of states; rounding leaves none below 0."""
        return self._mixed(self._tables).clamp_(min=0)

    def up_to(self, ends: Tensor) -> Tensor:
        """Numbers `(B, P)` proportional to the probabilities of values up to `ends (B, P)`.

        Raises:
            UnsupportedError: A layer does not define the mass of an interval.
        """
        columns = []
        for end in ends.unbind(1):
            tables = [self._interval(node, size, end) for node, size in zip(self._nodes, self._sizes, strict=True)]
            terms = [(weights * table).sum(1) for weights, table in zip(self._weights, tables, strict=True)]
            columns.append(total_of(terms).real.expand(self.count))
        return torch.stack(columns, 1)

    def _interval(self, node: Node, size: Tensor, end: Tensor) -> Tensor:
        value = self._numbers.function(node, "up to")(end.reshape(1, -1, 1))
        return _divided(value, size, self._numbers.dtype)

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
        pairs = zip(self._weights, self._tables, strict=True)
        weights = torch.cat([(weights * table).real.expand(self.count, -1) for weights, table in pairs], 1)
        weights = weights / weights.sum(1, keepdim=True)
        means, variances = (
            torch.cat([self._moment(node, name) for node in self._nodes], 1) for name in ("mean", "variance")
        )
        centre = means[:, :1]
        mean = centre[:, 0] + (weights * (means - centre)).sum(1)
        return mean, (weights * (variances + (means - mean[:, None]).square())).sum(1).clamp_(min=0)

    def _moment(self, node: Node, name: str) -> Tensor:
        """A moment of each unit, `(1, K)`."""
        layer, row = self._numbers.graph.input_of(node)
        moment: Tensor = defined(self._numbers, node, getattr(row, name))(xp, layer, self._numbers.params(node))
        return moment[:, :, 0].to(torch.float64)

    def _mixed(self, tables: Sequence[Tensor]) -> Tensor:
        """The weighted sums of the columns of tables `(C, K)`, as real numbers `(B, C)`."""
        terms = [weights @ table.T for weights, table in zip(self._weights, tables, strict=True)]
        return total_of(terms).real.expand(self.count, -1).clone()


def defined(numbers: Numbers, node: Node, rule: Any) -> Any:
    """A column of the row of an input layer.

    Raises:
        UnsupportedError: The row lacks it.
    """
    if isinstance(rule, Unsupported):
        graph = numbers.graph
        raise UnsupportedError(f"{graph.folded.circuit.layer_name(graph.layer(node))}: {rule.why}.")
    return rule


def total_of(terms: Sequence[Tensor]) -> Tensor:
    """The sum of tensors that broadcast."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def scaled_of(value: Value, dtype: torch.dtype) -> Scaled:
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
    divided: Tensor = (direction * torch.where(direction == 0, 0.0, (sizes - size).exp())).to(dtype)
    return divided
