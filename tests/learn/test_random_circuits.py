"""Expected counts and updates of random circuits, against derivatives of a plain evaluation in linear float64.

The circuits have what `tests.harness.learned_circuits` lacks: weights of every form, weights that are 0 or constant,
layers without variables, layers that are read twice, and leaves that are tied over layers and regions.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import plica
from plica.learn import flows
from plica.learn.learners.base import Plan
from plica.learn.learners.full_em import FullEM
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import ConstantValueLayer, HadamardLayer, InputLayer, KroneckerLayer, Layer, SumLayer
from plica.symbolic.parameters import (
    ClampParameter,
    ExpParameter,
    Parameter,
    SoftmaxParameter,
    SoftplusParameter,
    SquareParameter,
    TensorParameter,
    dereferenced,
)
from tests.harness import oracle
from tests.harness.circuits import constant
from tests.harness.learned_circuits import INPUTS, density, evaluated, leaf

Array = Any
FLOAT64 = torch.float64
UNNORMALIZED: Mapping[str, Any] = {"softplus": SoftplusParameter, "exp": ExpParameter, "square": SquareParameter}
LEAST = -600.0  # the log-likelihood of a row that a plain evaluation holds in float64
FORMS = ("softmax", "direct", "clamped", "constant", *UNNORMALIZED)


def draw_weight(rng: Any, shape: tuple[int, int], form: str) -> Parameter:
    if form in UNNORMALIZED:
        return Parameter.from_unary(UNNORMALIZED[form](shape), leaf(rng.normal(size=shape)))
    shares = rng.dirichlet(np.ones(shape[1]), size=shape[0])
    if form == "softmax":
        return Parameter.from_unary(SoftmaxParameter(shape), leaf(np.log(shares) + rng.normal()))
    if shape[1] > 1 and rng.random() < 0.3:
        shares[:, rng.integers(shape[1])] = 0.0
        shares /= shares.sum(axis=1, keepdims=True)
    if form == "constant":
        return Parameter.from_input(constant(shares))
    if form == "clamped":
        return Parameter.from_unary(ClampParameter(shape, vmin=0.0, vmax=1.0), leaf(shares))
    return Parameter.from_input(leaf(shares))


class Draw:
    """A random circuit of 1 to 5 variables, and rows of it: with holes, and maybe drawn again with replacement."""

    def __init__(self, seed: int) -> None:
        rng = self._rng = np.random.default_rng([seed, 77])
        self._names = rng.choice(list(INPUTS), size=rng.integers(1, 6))
        self._units = int(rng.integers(1, 4))
        self._edges: dict[Layer, list[Layer]] = {}
        self._inputs: list[list[InputLayer]] = [[] for _ in self._names]
        self._weights: dict[tuple[int, int], list[Parameter]] = {}
        rows = int(rng.integers(1, 12))
        self.x = np.stack([np.asarray(INPUTS[name][1](rng, rows), float) for name in self._names], axis=1)
        if rng.random() < 0.3:
            self.x = self.x[rng.integers(rows, size=rows)]
        self.x[rng.random(self.x.shape) < 0.25] = np.nan
        root = self._sum([self._region(list(range(len(self._names))), 0)], 1)
        self.circuit = Circuit(self._edges, self._edges, [root])

    def _input(self, variable: int) -> Layer:
        before = self._inputs[variable]
        if before and self._rng.random() < 0.3:
            layer = before[self._rng.integers(len(before))]
            layer = layer if self._rng.random() < 0.5 else layer.copyref()
        else:
            layer = INPUTS[self._names[variable]][0](self._rng, variable, self._units)
        if layer not in self._edges:
            self._edges[layer] = []
            before.append(layer)
        return layer

    def _sum(self, inputs: list[Layer], units: int) -> Layer:
        shape = (units, sum(layer.num_output_units for layer in inputs))
        before = self._weights.setdefault(shape, [])
        if before and self._rng.random() < 0.25:
            weight = before[self._rng.integers(len(before))].ref()
        else:
            weight = draw_weight(self._rng, shape, str(self._rng.choice(FORMS)))
            before.append(weight)
        layer = SumLayer(inputs[0].num_output_units, units, len(inputs), weight=weight)
        self._edges[layer] = inputs
        return layer

    def _region(self, variables: list[int], depth: int) -> Layer:
        if len(variables) == 1:
            layer = self._input(variables[0])
            return self._sum([layer], self._units) if self._rng.random() < 0.5 else layer
        products: list[Layer] = []
        for _ in range(int(self._rng.integers(1, 3)) if depth < 2 else 1):
            order = self._rng.permutation(variables).tolist()
            cut = int(self._rng.integers(1, len(order)))
            inputs = [self._region(part, depth + 1) for part in (order[:cut], order[cut:])]
            if self._rng.random() < 0.15:
                numbers = constant(self._rng.normal(size=self._units))
                inputs.append(ConstantValueLayer(self._units, log_space=True, value=numbers))
                self._edges[inputs[-1]] = []
            kind = KroneckerLayer if len(inputs) == 2 and self._rng.random() < 0.4 else HadamardLayer
            products.append(kind(self._units, len(inputs)))
            self._edges[products[-1]] = inputs
        if len({product.num_output_units for product in products}) > 1:
            products = products[:1]
        return self._sum(products, self._units)

    def model(self, seed: int) -> Any:
        model = plica.compile(self.circuit, dtype=FLOAT64)
        model.reset_parameters(seed=seed)
        return model


def expected(
    circuit: Circuit, params: Mapping[Layer, Mapping[str, Array]], x: Array
) -> tuple[float, dict[Layer, Array], dict[Layer, Array]]:
    """The log-likelihood of rows; the counts of weights by layer, and the flows `(B, K)` of units of input layers."""
    leaves: dict[Layer, Tensor] = {}
    values: dict[Layer, Tensor] = {}
    for layer in circuit.layers:
        inputs = [values[child] for child in circuit.layer_inputs(layer)]
        if isinstance(layer, ConstantValueLayer):
            values[layer] = torch.tensor(params[layer]["value"]).exp().expand(len(x), -1)
        elif isinstance(layer, InputLayer):
            units, scope = range(layer.num_output_units), list(layer.scope)
            table = [[density(layer, dict(params[layer]), unit, row[scope]) for unit in units] for row in x]
            values[layer] = leaves[layer] = torch.tensor(table, dtype=FLOAT64, requires_grad=True)
        elif isinstance(layer, SumLayer):
            leaves[layer] = torch.tensor(params[layer]["weight"], requires_grad=True)
            values[layer] = torch.cat(inputs, dim=1) @ leaves[layer].T
        elif isinstance(layer, HadamardLayer):
            values[layer] = torch.stack(inputs).prod(dim=0)
        else:
            values[layer] = torch.einsum("bi,bj->bij", *inputs).flatten(1)
    total = values[circuit.outputs[0]].log().sum()
    gradients = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    uses = {
        layer: np.zeros(number.shape) if gradient is None else (number * gradient).detach().numpy()
        for (layer, number), gradient in zip(leaves.items(), gradients, strict=True)
    }
    of_sums: dict[Layer, Array] = {layer: use for layer, use in uses.items() if isinstance(layer, SumLayer)}
    return float(total.detach()), of_sums, {layer: use for layer, use in uses.items() if layer not in of_sums}


SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(4, 200))]


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_are_weights_times_derivatives(seed: int) -> None:
    draw = Draw(seed)
    circuit, x, model = draw.circuit, draw.x, draw.model(seed)
    keys = oracle.keys(circuit)
    params = evaluated(circuit, {key: value.numpy() for key, value in model.state_dict().items()})
    x = x[[expected(circuit, params, row[None])[0] > LEAST for row in x]]
    log_likelihood, of_weights, of_units = expected(circuit, params, x)
    counted = flows(model, x)
    assert counted.log_likelihood == pytest.approx(log_likelihood, rel=1e-9, abs=1e-9)
    assert not counted.refused
    totals: dict[str, Any] = {}
    for layer, count in of_weights.items():
        (tensor,) = {dereferenced(node) for node in layer.params["weight"].leaves}
        if isinstance(tensor, TensorParameter):  # else it is constant, and is not counted
            totals[keys[tensor]] = totals.get(keys[tensor], 0.0) + count
    for key, count in totals.items():
        np.testing.assert_allclose(counted.counts[key].numpy(), count, atol=1e-9)
    for sums in {id(sums): sums for sums in counted.statistics.values()}.values():
        sharing = [layer for layer in counted.statistics if counted.statistics[layer] is sums]
        known = [~np.isnan(x[:, list(layer.scope)]) for layer in sharing if isinstance(layer, InputLayer)]
        count: Array = sum(of_units[layer].T @ column for layer, column in zip(sharing, known, strict=True))
        number = sums["states"].sum(-1) if "states" in sums else sums["count"]
        np.testing.assert_allclose(number.numpy().reshape(count.shape), count, atol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_update_lowers_the_likelihood_and_fixed_leaves_stay(seed: int) -> None:
    draw, rng = Draw(1000 + seed), np.random.default_rng(seed)
    model, rows = draw.model(seed), torch.as_tensor(draw.x)
    _, *others = model.parameters()
    fixed = [tensor.requires_grad_(False) for tensor in others if seed % 3 == 0 and rng.random() < 0.4]
    before = [tensor.clone() for tensor in fixed]
    training = FullEM(0.0).training(model, Plan(len(rows), 1, 6))
    history = []
    for _ in range(6):
        history.append(float(training.step(rows)))
        training.end_epoch()
    assert np.diff(history)[1:].min() > -1e-9, history  # the first update may normalize weights
    assert all(torch.equal(old, new) for old, new in zip(before, fixed, strict=True))
