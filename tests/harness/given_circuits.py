"""Random circuits whose leaves calls may give, and what the oracle makes of them.

made = random_circuit(np.random.default_rng(0), num_variables=3)
made.log_values(made.numbers, made.rows(1))
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plica.symbolic import layers, parameters
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.parameters import ConstantParameter, Parameter, ParameterInput, ReferenceParameter, TensorParameter
from tests.harness.layer_cases import LAYER_CASES, InputCase, num_states
from tests.harness.layer_cases.numbers import SHARE
from tests.harness.oracle import Oracle

Array = Any
Shape = tuple[int, ...]
Numbers = dict[str, Array]


@dataclass
class Writer:
    """What writes one circuit: random numbers, and the leaves so far."""

    rng: np.random.Generator
    leaves: dict[str, TensorParameter] = field(default_factory=dict)
    numbers: Numbers = field(default_factory=dict)

    def leaf(self, *shape: int) -> ParameterInput:
        """A leaf of any numbers: a new one, with a value of its own or without, or one that is there already."""
        same = [one for one in self.leaves.values() if one.shape == shape]
        if same and self.rng.random() < 0.25:
            return ReferenceParameter(same[self.rng.integers(len(same))])
        name, numbers = f"leaf_{len(self.leaves)}", self.rng.normal(size=shape)
        start = None if self.rng.random() < 0.3 else ConstantTensorInitializer(numbers)
        self.leaves[name], self.numbers[name] = TensorParameter(*shape, initializer=start, name=name), numbers
        return self.leaves[name]

    def of(self, op: parameters.ParameterOp) -> Parameter:
        """An operation of a leaf."""
        return Parameter.from_unary(op, self.leaf(*op.in_shapes[0]))

    def real(self, *shape: int) -> Parameter:
        """Any numbers."""
        if self.rng.random() < 0.3:
            return self.of(parameters.ReduceSumParameter((*shape, 2)))
        return Parameter.from_input(self.leaf(*shape))

    def positive(self, *shape: int) -> Parameter:
        """Positive numbers."""
        which = self.rng.integers(5)
        if which == 0:
            return self.of(parameters.ExpParameter(shape))
        if which == 1:
            return self.of(parameters.ScaledSigmoidParameter(shape, 0.3, 2.5))
        if which == 2:
            product = parameters.HadamardParameter(shape, shape)
            return Parameter.from_binary(product, self.positive(*shape), self.positive(*shape))
        part = self.of((parameters.SoftplusParameter if which == 3 else parameters.SquareParameter)(shape))
        added = ConstantParameter(*shape, value=self.rng.uniform(0.4, 1.0, shape))
        return Parameter.from_binary(parameters.SumParameter(shape, shape), part, added)

    def shares(self, *shape: int) -> Parameter:
        """Weights: of rows that add up to one, or any positive ones."""
        return self.positive(*shape) if self.rng.random() < 0.3 else self.of(parameters.SoftmaxParameter(shape))

    def input(self, case: InputCase, variable: int, units: int) -> Any:
        """An input layer of a case."""
        (layer, *_) = self.rng.permutation([build([variable], units) for build in (case.build, *case.alike)])
        makers = _makers(case) or {}
        return layer.with_params({name: make(self, *layer.all_params[name].shape) for name, make in makers.items()})


def _makers(case: InputCase) -> dict[str, Callable[..., Parameter]] | None:
    """What writes each parameter of a case: of any numbers, positive ones, or weights; None where one is none of these.

    Parameters that are never learned, and probabilities, are none.
    """
    rng = np.random.default_rng(0)
    makers: dict[str, Callable[..., Parameter]] = {}
    for name, kind in case.parameters.items():
        values = kind.draw(rng, (100,), 1.0)
        if kind.fixed or kind.shared or kind is SHARE:
            return None
        makers[name] = Writer.real if (values < 0).any() else Writer.shares if (values == 0).any() else Writer.positive
    return makers


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
        cases: The family of each variable.
        variables: The input layer of each variable.
    """

    circuit: Circuit
    writer: Writer
    cases: Sequence[InputCase]
    variables: Sequence[Any]

    def log_values(self, numbers: Numbers, rows: Array) -> Array:
        """The logarithms of the circuit's values for rows, of leaves with some numbers: what is NaN is summed out."""
        return Oracle(self.circuit, self.writer.numbers | numbers).log(rows)[:, 0, 0].astype(float)

    def given(self, least: float = 0.5) -> list[str]:
        """Some names of leaves, those without a value of their own among them."""
        rng = self.writer.rng
        return [name for name, one in self.writer.leaves.items() if one.initializer is None or rng.random() < least]

    def rows(self, count: int, missing: float = 0.2) -> Array:
        """Possible rows, some of whose entries are NaN."""
        rng = self.writer.rng
        columns = [case.draw(layer, rng, count) for case, layer in zip(self.cases, self.variables, strict=True)]
        rows = np.concatenate(columns, axis=1).astype(float)
        return np.where(rng.random(rows.shape) < missing, np.nan, rows)


def random_circuit(rng: np.random.Generator, num_variables: int, families: Sequence[str] = ()) -> RandomCircuit:
    """A smooth and decomposable circuit: sums of products of random parts of the variables, evidence and constants."""
    writer, units = Writer(rng), int(rng.integers(1, 4))
    cases = [FAMILIES[name] for name in rng.choice(list(families or FAMILIES), num_variables)]
    variables = [writer.input(case, place, units) for place, case in enumerate(cases)]
    edges: dict[Any, list[Any]] = {}

    def evidence() -> Any:
        held = writer.input(FAMILIES["gaussian"], num_variables, units)
        return layers.EvidenceLayer(held, observation=float(rng.normal()))

    def constant() -> Any:
        return layers.ConstantValueLayer(units, value=writer.positive(units))

    def summed(parts: list[Any], size: int) -> Any:
        num_inputs = parts[0].num_output_units
        weight = writer.shares(size, len(parts) * num_inputs)
        layer = layers.SumLayer(num_inputs, size, len(parts), weight=weight)
        edges[layer] = parts
        return layer

    def product(scope: Sequence[int]) -> Any:
        if len(scope) == 1:
            return variables[scope[0]]
        mixed, cut = [int(one) for one in rng.permutation(scope)], int(rng.integers(1, len(scope)))
        parts = [
            region(part) if len(part) > 1 or rng.random() < 0.5 else product(part)
            for part in (mixed[:cut], mixed[cut:])
        ]
        parts += [make() for make in (evidence, constant) if rng.random() < 0.2]
        is_outer = units ** len(parts) <= 9 and rng.random() < 0.3
        layer = (layers.KroneckerLayer if is_outer else layers.HadamardLayer)(units, len(parts))
        edges[layer] = parts
        return summed([layer], units) if is_outer else layer

    def region(scope: Sequence[int], size: int = units) -> Any:
        return summed([product(scope) for _ in range(rng.integers(1, 3) if len(scope) > 1 else 1)], size)

    top = region(range(num_variables), 1)
    nodes = dict.fromkeys([*(one for inputs in edges.values() for one in inputs), *edges])
    return RandomCircuit(Circuit(nodes, edges, [top]), writer, cases, variables)
