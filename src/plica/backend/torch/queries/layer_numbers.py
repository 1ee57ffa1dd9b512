"""The layers of a circuit one by one, in ordinary numbers of any sign: what queries of squares compute with.

Numbers are float64, or complex128: of a layer and a row, a mantissa of each unit and the logarithm of one scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, final

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.garbage import without_collection
from plica.backend.torch.queries.program import QueryProgram, as_described
from plica.eager import namespace as xp
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.op import Unsupported
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.queries.by_layer import LoweredLayer, Shapes, lower_body, lower_input, lower_numbers
from plica.symbolic.circuit import Circuit
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

    def up_to(self, node: Node, end: Tensor, log_scale: Tensor) -> Tensor:
        """The units of an input layer, integrated up to `end (B,)`, divided by `exp(log_scale)`: `(B, K)`."""
        return _divided(self.function(node, "up to")(end.reshape(1, -1, 1)), log_scale, self.dtype)

    def inner(self, node: Node, inputs: Sequence[Scaled]) -> Scaled:
        """The units of an inner layer, from those of its inputs."""
        if self.graph.adds[node]:
            mantissas, log_scale = with_one_scale(inputs)
        else:
            mantissas = [scaled.mantissa for scaled in inputs]
            log_scale = total_of([scaled.log_scale for scaled in inputs])
        return Scaled.of(self.body(node, mantissas), log_scale)

    def body(self, node: Node, mantissas: Sequence[Tensor]) -> Tensor:
        """The body of an inner layer in ordinary numbers: `(B, K)`, from those of its inputs."""
        count = max(map(len, mantissas))
        read = [mantissa.expand(count, -1)[None].to(self.dtype) for mantissa in mantissas]
        result: Tensor = self.function(node)(*read)
        return result.expand(1, count, -1)[0]

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
