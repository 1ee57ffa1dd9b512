"""Sampling as a Program: uniform numbers in, samples out; ancestral, top-down.

Bottom-up, every variable is summed out, so that unnormalised circuits are sampled exactly. Top-down, each sum layer
picks one of its weight's columns with probability proportional to weight times what the picked input sums to, and each
product passes the choice to all its inputs. In a smooth and decomposable circuit every row reaches each variable once.

Source: Poon and Domingos, "Sum-product networks: a new deep architecture", 2011; Vergari et al., "Tractable
probabilistic models", 2019.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from plica.errors import ShapeError, UnsupportedError
from plica.graph.fold import FoldIndex
from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.lower.data import input_width, samples_dtype
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.leaves import Constant, Leaf, Owners
from plica.lower.scope import LoweringScope
from plica.lower.score import describe, layer_values
from plica.symbolic.layers import FusedLayer, InputLayer, InputRow, Layer, ProductRow, SumLayer
from plica.symbolic.semirings import LSE_SUM, Value
from plica.tracing import namespace as xp
from plica.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True)
class LoweredSampling:
    """The Program `(uniforms (U, N)) -> samples (N, D), choices (S, N), log_partition (), negative ()`.

    Args:
        program: The Program.
        captured: What stands behind each of its captured variables.
        num_uniforms: U, how many uniform numbers one sample takes.
        sums: The S sum layers, by topological index, in the order of `choices`.
    """

    program: Program
    captured: tuple[Leaf | Constant, ...]
    num_uniforms: int
    sums: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A chosen unit for each row, `(1, N)`; -1 where the row does not come by, unless `always` is set."""

    units: Tracer
    always: bool

    def active(self) -> Tracer | None:
        """Which rows come by; None for all."""
        return None if self.always else xp.greater_equal(self.units, 0)

    def index(self) -> Tracer:
        """The units with 0 for rows that do not come by."""
        return self.units if self.always else xp.maximum(self.units, 0)


def lower_sampling(folded: FoldedCircuit, dtype: DType, owners: Owners | None = None) -> LoweredSampling:
    """The sampling Program of a circuit with one output of one unit.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        ShapeError: More than one output or unit.
        UnsupportedError: A layer that only the optimiser makes.
    """
    circuit = folded.circuit
    for layer in circuit.live.layers:
        if isinstance(layer, FusedLayer):
            raise UnsupportedError(
                f"sampling goes through sums and products, and {circuit.layer_name(layer)} is both at once; build the "
                "circuit of a product layer and a SumLayer: compiling fuses them for scoring alone."
            )
    circuit.check_smooth_and_decomposable("sampling")
    (output, *others) = circuit.outputs
    if others or output.num_output_units != 1:
        raise ShapeError(
            f"sampling needs one output of one unit, found {len(circuit.outputs)} of {output.num_output_units}; "
            "choose one with circuit.subgraph(...) and a SumLayer of one unit."
        )
    scope = LoweringScope(folded, LSE_SUM, dtype, owners or {})
    with scope.trace.active():
        sampler = _Sampler(scope)
        results = sampler.run()
    sums = tuple(circuit.layer_index(layer) for layer in sampler.sums)
    return LoweredSampling(scope.build(results), tuple(scope.captured), _count_uniforms(folded), sums)


def _count_uniforms(folded: FoldedCircuit) -> int:
    return sum(_uniforms_of(layer) for group in folded.groups for layer in group.members)


def _uniforms_of(layer: Layer) -> int:
    if isinstance(layer, InputLayer):
        return layer.num_variables
    return 1 if isinstance(layer, SumLayer) else 0


@dataclass(slots=True)
class _Sampler:
    """The walk from the output down; collects one message for every edge."""

    scope: LoweringScope
    uniforms: Tracer = field(init=False)
    sums: list[Layer] = field(default_factory=list)
    _values: list[Value] = field(init=False)
    _taken: int = 0
    _messages: dict[FoldIndex, list[Message]] = field(default_factory=dict)
    _columns: dict[int, list[tuple[Tracer, Tracer | None]]] = field(default_factory=dict)
    _choices: list[Tracer] = field(default_factory=list)
    _negative: list[Tracer] = field(default_factory=list)

    def __post_init__(self) -> None:
        shape = (_count_uniforms(self.scope.folded), "n")
        self.uniforms = self.scope.argument("uniforms", shape, self.scope.dtype)
        self._values = layer_values(self.scope, None)

    def run(self) -> list[Tracer]:
        folded = self.scope.folded
        (root,) = folded.out_fold_idx
        rows = self.uniforms.dims[1]
        self._messages[root] = [Message(xp.zeros((1, rows), dtype=DType.INT64), always=True)]
        for number in range(len(folded.groups) - 1, -1, -1):
            with self.scope.builder.at(describe(folded.circuit, number, folded.groups[number])):
                self._visit(number, folded.groups[number])
        unread = [layer for layer in folded.circuit.sum_layers if layer not in self.sums]
        if unread:  # no row comes by
            self.sums.extend(unread)
            self._choices.append(xp.full((len(unread), rows), -1, dtype=DType.INT64))
        log_partition = self.scope.semiring.to_log(xp, self._values[root[0]])[root[1] : root[1] + 1]
        negative = xp.any(xp.stack(self._negative)) if self._negative else xp.zeros((), dtype=DType.BOOL)
        choices = xp.concat(self._choices) if self._choices else xp.zeros((0, rows), dtype=DType.INT64)
        return [self._samples(), choices, xp.reshape(log_partition, ()), negative]

    def _visit(self, number: int, group: FoldedLayer) -> None:
        row = self.scope.folded.row(group.representative)
        arrived = [self._merge(self._messages.pop((number, fold), [])) for fold in range(group.num_folds)]
        if isinstance(row, InputRow):
            self._draw(row, group, _join(arrived))
        elif isinstance(row, ProductRow):
            self._route(row, group, _join(arrived))
        else:
            self._choose(group, _join(arrived))

    def _merge(self, messages: list[Message]) -> Message:
        """At most one message of a row is a unit; the others are -1."""
        if not messages:
            rows = self.uniforms.dims[1]
            return Message(xp.full((1, rows), -1, dtype=DType.INT64), always=False)
        units = messages[0].units
        for message in messages[1:]:
            units = xp.maximum(units, message.units)
        return Message(units, messages[0].always and len(messages) == 1)

    def _take(self, group: FoldedLayer) -> Tracer:
        """The next uniform numbers, a row for each fold and variable."""
        count = group.num_folds * _uniforms_of(group.representative)
        self._taken += count
        return self.uniforms[self._taken - count : self._taken]

    def _draw(self, row: InputRow, group: FoldedLayer, message: Message) -> None:
        layer, folds = group.representative, group.num_folds
        assert isinstance(layer, InputLayer), "input rows belong to input layers"
        width = layer.num_variables
        uniforms = xp.reshape(self._take(group), (folds, width, self.uniforms.dims[1]))
        uniforms = xp.permute_dims(uniforms, (0, 2, 1))
        drawn = row.sample(xp, layer, self.scope.parameters(group), message.index(), uniforms)  # (F, N, width)
        active = message.active()
        for fold, variables in enumerate(group.scope_idx):
            seen = None if active is None else active[fold]
            for place, variable in enumerate(variables):
                self._columns.setdefault(variable, []).append((drawn[fold, :, place], seen))

    def _route(self, row: ProductRow, group: FoldedLayer, message: Message) -> None:
        active = message.active()
        for place, units in enumerate(row.route(xp, group.representative, message.index())):
            self._send(group, place, units if active is None else xp.where(active, units, -1), message.always)

    def _choose(self, group: FoldedLayer, message: Message) -> None:
        layer = group.representative
        assert isinstance(layer, SumLayer), "what is neither input nor product is a sum"
        table = xp.cumulative_sum(xp.softmax(self._log_weights(group, layer), axis=-1), axis=-1)
        chosen = xp.search_cumulative(table, message.index(), self._take(group))
        active = message.active()
        for place in range(layer.arity):
            if layer.mixing:
                reached, units = xp.equal(chosen, place), message.index()
            else:
                reached = xp.equal(xp.floor_divide(chosen, layer.num_input_units), place)
                units = chosen if layer.arity == 1 else xp.remainder(chosen, layer.num_input_units)
            if layer.arity == 1:
                self._send(group, place, units if active is None else xp.where(active, units, -1), message.always)
            else:
                reached = reached if active is None else reached & active
                self._send(group, place, xp.where(reached, units, -1), False)
        self.sums.extend(group.members)
        self._choices.append(chosen if active is None else xp.where(active, chosen, -1))

    def _log_weights(self, group: FoldedLayer, layer: SumLayer) -> Tracer:
        """Log of weight times what the input sums to: `(F, O, H*I)`, or `(F, K, H)` of a mixing layer."""
        weight = self.scope.parameters(group)["weight"]
        self._negative.append(xp.any(xp.less(weight, 0)))
        parts = []
        for place in range(layer.arity):
            value = self.scope.read(self._values, [fold[place] for fold in group.in_fold_idx])
            parts.append(self.scope.semiring.to_log(xp, value))  # (F, 1, I)
        log_weight: Tracer = xp.safe_log(weight)
        if layer.mixing:
            return log_weight + xp.permute_dims(xp.concat(parts, axis=1), (0, 2, 1))
        return log_weight + xp.concat(parts, axis=2)

    def _send(self, group: FoldedLayer, place: int, units: Tracer, always: bool) -> None:
        for fold, inputs in enumerate(group.in_fold_idx):
            message = Message(units[fold : fold + 1], always)
            self._messages.setdefault(inputs[place], []).append(message)

    def _samples(self) -> Tracer:
        """`(N, D)`; a variable's layers that a row does not reach do not count."""
        circuit = self.scope.folded.circuit
        rows = self.uniforms.dims[1]
        dtype = samples_dtype(circuit, self.scope.dtype)
        columns = []
        for variable in range(input_width(circuit)):
            column = xp.zeros((rows,), dtype=dtype)
            for values, seen in self._columns.get(variable, []):
                values = xp.astype(values, dtype)
                column = values if seen is None else xp.where(seen, values, column)
            columns.append(column)
        return xp.stack(columns, axis=1) if columns else xp.zeros((rows, 0), dtype=dtype)


def _join(messages: list[Message]) -> Message:
    if len(messages) == 1:
        return messages[0]
    return Message(xp.concat([message.units for message in messages]), all(message.always for message in messages))
