"""Random circuits whose leaves calls may give, and their values by NumPy and SciPy alone.

made = random_circuit(np.random.default_rng(0), num_variables=3)
made.log_value(made.numbers, made.rows(1)[0])
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from plica.symbolic import layers, parameters
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.parameters import ConstantParameter, Parameter, ParameterInput, ReferenceParameter, TensorParameter
from tests.harness.layer_cases import LAYER_CASES, InputCase, num_states
from tests.harness.layer_cases.numbers import SHARE
from tests.harness.spaces import LOG, WIDE

Array = Any
Shape = tuple[int, ...]
Numbers = dict[str, Array]
Known = tuple[Any, Callable[[Numbers], Array]]  # a parameter, and its value from those of leaves
Unit = tuple[Any, Callable[[Numbers, Array], Array]]  # a layer, and the logarithms of its units for a row


@dataclass(frozen=True)
class Variable:
    """An input layer of one variable.

    Args:
        layer: The layer.
        log_values: The logarithms of its units, `(K,)`, for the numbers of leaves and an entry; NaN is summed out.
        draw: An entry that is possible.
    """

    layer: Any
    log_values: Callable[[Numbers, float], Array]
    draw: Callable[[], float]


@dataclass
class Writer:
    """What writes one circuit: random numbers, and the leaves so far."""

    rng: np.random.Generator
    leaves: dict[str, TensorParameter] = field(default_factory=dict)
    numbers: Numbers = field(default_factory=dict)

    def leaf(self, shape: Shape) -> tuple[Any, str]:
        """A leaf of any numbers: a new one, with a value of its own or without, or one that is there already."""
        same = [name for name, one in self.leaves.items() if one.shape == shape]
        if same and self.rng.random() < 0.25:
            name = str(self.rng.choice(same))
            return ReferenceParameter(self.leaves[name]), name
        name, numbers = f"leaf_{len(self.leaves)}", self.rng.normal(size=shape)
        start = None if self.rng.random() < 0.3 else ConstantTensorInitializer(numbers)
        self.leaves[name], self.numbers[name] = TensorParameter(*shape, initializer=start, name=name), numbers
        return self.leaves[name], name

    def of(self, op: Callable[[Shape], Any], numpy: Callable[[Array], Array], shape: Shape) -> Known:
        """An operation of a leaf."""
        leaf, name = self.leaf(shape)
        return Parameter.from_unary(op(shape), leaf), lambda numbers: numpy(numbers[name])

    def real(self, *shape: int) -> Known:
        """Any numbers."""
        if self.rng.random() < 0.3:
            return self.of(lambda _: parameters.ReduceSumParameter((*shape, 2)), lambda one: one.sum(-1), (*shape, 2))
        leaf, name = self.leaf(shape)
        return leaf, lambda numbers: numbers[name]

    def positive(self, *shape: int) -> Known:
        """Positive numbers."""
        which = self.rng.integers(5)
        if which == 0:
            return self.of(parameters.ExpParameter, np.exp, shape)
        if which == 1:
            return self.of(
                lambda shape: parameters.ScaledSigmoidParameter(shape, 0.3, 2.5),
                lambda one: 0.3 + 2.2 * special.expit(one),
                shape,
            )
        if which == 2:
            (first, value), (second, other) = self.positive(*shape), self.positive(*shape)
            product = Parameter.from_binary(parameters.HadamardParameter(shape, shape), first, second)
            return product, lambda numbers: value(numbers) * other(numbers)
        added = self.rng.uniform(0.4, 1.0, shape)
        if which == 3:
            part, value = self.of(parameters.SoftplusParameter, lambda one: np.logaddexp(0, one), shape)
        else:
            part, value = self.of(parameters.SquareParameter, np.square, shape)
        both = Parameter.from_binary(
            parameters.SumParameter(shape, shape), part, ConstantParameter(*shape, value=added)
        )
        return both, lambda numbers: value(numbers) + added

    def shares(self, *shape: int) -> Known:
        """Weights: of rows that add up to one, or any positive ones."""
        if self.rng.random() < 0.3:
            return self.positive(*shape)
        return self.of(parameters.SoftmaxParameter, lambda one: special.softmax(one, -1), shape)


def _makers(case: InputCase) -> dict[str, Callable[..., Known]] | None:
    """What writes each parameter of a case: of any numbers, positive ones, or weights; None where one is none of these.

    Parameters that are never learned, and probabilities, are none.
    """
    rng = np.random.default_rng(0)
    makers: dict[str, Callable[..., Known]] = {}
    for name, kind in case.parameters.items():
        values = kind.draw(rng, (100,), 1.0)
        if kind.fixed or kind.shared or kind is SHARE:
            return None
        makers[name] = Writer.real if (values < 0).any() else Writer.shares if (values == 0).any() else Writer.positive
    return makers


def _variable(case: InputCase, writer: Writer, place: int, units: int) -> Variable:
    """An input layer of a case, with its values by the case's reference."""
    (layer, *_) = writer.rng.permutation([build([place], units) for build in (case.build, *case.alike)])
    makers = _makers(case) or {}
    made = {name: maker(writer, *layer.all_params[name].shape) for name, maker in makers.items()}
    layer = layer.with_params(
        {
            name: Parameter.from_input(parameter) if isinstance(parameter, ParameterInput) else parameter
            for name, (parameter, _) in made.items()
        }
    )

    def log_values(numbers: Numbers, entry: float) -> Array:
        row = np.full((1, place + 1), entry, WIDE)
        params = {name: value(numbers).astype(WIDE) for name, (_, value) in made.items()}
        return case.reference(LOG, layer, params, row)[0].astype(float)

    return Variable(layer, log_values, lambda: float(case.draw(layer, writer.rng, 1)[0, 0]))


_ORDERED = layers.UniformLayer  # one of whose parameters must lie above the other
FAMILIES: Mapping[str, InputCase] = {
    case.name: case
    for case in LAYER_CASES
    if isinstance(case, InputCase) and case.num_variables == 1 and case.row.layer is not _ORDERED
    if not case.signed and case.parameters and _makers(case)
}
"""By name, the cases of input layers of one variable whose parameters are numbers that calls may give."""
STATES = [name for name, case in FAMILIES.items() if (num_states(case.build([0], 1)) or 9) < 9]


@dataclass(frozen=True)
class RandomCircuit:
    """A circuit, and what it is to compute.

    Args:
        circuit: The circuit, of one output of one unit.
        writer: Its leaves and their own numbers.
        variables: The input layer of each variable.
        log_values: The logarithm of its value for a row, with what is NaN summed out, `(1,)`.
    """

    circuit: Circuit
    writer: Writer
    variables: Sequence[Variable]
    log_values: Callable[[Numbers, Array], Array]

    @property
    def numbers(self) -> Numbers:
        """The numbers of leaves that have some."""
        return self.writer.numbers

    def log_value(self, numbers: Numbers, row: Array) -> float:
        """The logarithm of the circuit's value for a row, of leaves with some numbers."""
        return float(self.log_values(self.numbers | numbers, row)[0])

    def given(self, least: float = 0.5) -> list[str]:
        """Some names of leaves, those without a value of their own among them."""
        rng = self.writer.rng
        return [name for name, one in self.writer.leaves.items() if one.initializer is None or rng.random() < least]

    def rows(self, count: int, missing: float = 0.2) -> Array:
        """Possible rows, some of whose entries are NaN."""
        rows = np.array([[float(one.draw()) for one in self.variables] for _ in range(count)])
        rows = rows.reshape(count, len(self.variables))
        return np.where(self.writer.rng.random(rows.shape) < missing, np.nan, rows)


def random_circuit(rng: np.random.Generator, num_variables: int, families: Sequence[str] = ()) -> RandomCircuit:
    """A smooth and decomposable circuit: sums of products of random parts of the variables, evidence and constants."""
    writer, units = Writer(rng), int(rng.integers(1, 4))
    chosen = rng.choice(list(families or FAMILIES), num_variables)
    variables = [_variable(FAMILIES[name], writer, place, units) for place, name in enumerate(chosen)]
    edges: dict[Any, list[Any]] = {}

    def leaf_unit(place: int) -> Unit:
        one = variables[place]
        return one.layer, lambda numbers, row: one.log_values(numbers, row[place])

    def evidence() -> Unit:
        one = _variable(FAMILIES["student-t"], writer, num_variables, units)
        seen = float(rng.normal())
        return layers.EvidenceLayer(one.layer, observation=seen), lambda numbers, _: one.log_values(numbers, seen)

    def constant() -> Unit:
        parameter, value = writer.positive(units)
        return layers.ConstantValueLayer(units, value=parameter), lambda numbers, _: np.log(value(numbers))

    def summed(parts: Sequence[Unit], size: int) -> Unit:
        num_inputs = parts[0][0].num_output_units
        weight, value = writer.shares(size, len(parts) * num_inputs)
        layer = layers.SumLayer(num_inputs, size, len(parts), weight=weight)
        edges[layer] = [one for one, _ in parts]

        def log_values(numbers: Numbers, row: Array) -> Array:
            terms = np.concatenate([of(numbers, row) for _, of in parts])
            return special.logsumexp(terms[None], axis=-1, b=value(numbers))

        return layer, log_values

    def product(scope: Sequence[int]) -> Unit:
        if len(scope) == 1:
            return leaf_unit(scope[0])
        mixed, cut = [int(one) for one in rng.permutation(scope)], int(rng.integers(1, len(scope)))
        parts = [
            region(part) if len(part) > 1 or rng.random() < 0.5 else product(part)
            for part in (mixed[:cut], mixed[cut:])
        ]
        parts += [make() for make in (evidence, constant) if rng.random() < 0.2]
        is_outer = units ** len(parts) <= 9 and rng.random() < 0.3
        layer = (layers.KroneckerLayer if is_outer else layers.HadamardLayer)(units, len(parts))
        edges[layer] = [one for one, _ in parts]

        def log_values(numbers: Numbers, row: Array) -> Array:
            found, *others = [of(numbers, row) for _, of in parts]
            for one in others:
                found = np.add.outer(found, one).ravel() if is_outer else found + one
            return found

        return summed([(layer, log_values)], units) if is_outer else (layer, log_values)

    def region(scope: Sequence[int], size: int = units) -> Unit:
        return summed([product(scope) for _ in range(rng.integers(1, 3) if len(scope) > 1 else 1)], size)

    top, log_values = region(range(num_variables), 1)
    nodes = dict.fromkeys([*(one for inputs in edges.values() for one in inputs), *edges])
    return RandomCircuit(Circuit(nodes, edges, [top]), writer, variables, log_values)
