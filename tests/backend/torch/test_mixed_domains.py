"""Random circuits over variables of several domains, on data of every dtype with wrong and missing entries.

The reference is plain numpy, row by row, with the meaning of each domain written a second time.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.data import DataCheck
from plica.errors import InputError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import Parameter
from plica.symbolic.scope import Scope
from tests.harness.circuits import constant
from tests.harness.layers import ROWS, ExponentialLayer, MarginalTableLayer, TableLayer, WaitingLayer

UNITS = 2
DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64"),
)
NUMBERS = np.array([0, 0, 1, 1, 1, 2, 2, 3, 4, 255, 256, 257, 299, 300, 0.5, -1, 1.5, 1000, 65504])
Rng = np.random.Generator


def values(parameter: Any) -> np.ndarray:
    return np.asarray(parameter.nodes[0].value)


def positive(rng: Rng, *shape: int) -> Parameter:
    return Parameter.from_input(constant(rng.uniform(0.2, 1.5, shape)))


def categorical(rng: Rng, part: tuple[int, ...]) -> CategoricalLayer:
    size = int(rng.choice([1, 2, 3, 4, 300]))
    return CategoricalLayer(part, UNITS, num_categories=size, probs=positive(rng, UNITS, size))


def table(rng: Rng, part: tuple[int, ...]) -> TableLayer:
    size, kind = int(rng.integers(2, 5)), (TableLayer, MarginalTableLayer)[rng.integers(2)]
    return kind(Scope(part), UNITS, size, positive(rng, UNITS, size, size))


SINGLE: tuple[Callable[[Rng, tuple[int, ...]], Any], ...] = (
    categorical,
    lambda rng, part: GaussianLayer(part, UNITS, mean=positive(rng, UNITS), stddev=positive(rng, UNITS)),
    lambda rng, part: WaitingLayer(Scope(part), UNITS, positive(rng, UNITS)),
    lambda rng, part: ExponentialLayer(Scope(part), UNITS, positive(rng, UNITS)),
)


def random_circuit(rng: Rng) -> Circuit:
    """A product of mixtures, each over one or two variables, with a layer of a higher variable that nothing reads."""
    order = [int(variable) for variable in rng.permutation(rng.integers(1, 5))]
    inputs: list[Any] = []
    edges: dict[Any, Any] = {}
    mixtures: list[Any] = []
    while order:
        size = 2 if len(order) > 1 and rng.random() < 0.35 else 1
        part, order = tuple(order[:size]), order[size:]
        makes = [table if size == 2 else SINGLE[rng.integers(len(SINGLE))] for _ in range(rng.integers(1, 3))]
        leaves = [make(rng, part) for make in makes]
        mixture = SumLayer(UNITS, UNITS, len(leaves), weight=positive(rng, UNITS, UNITS * len(leaves)))
        inputs, edges[mixture], mixtures = [*inputs, *leaves], leaves, [*mixtures, mixture]
    product, root = HadamardLayer(UNITS, len(mixtures)), SumLayer(UNITS, 1, weight=positive(rng, 1, UNITS))
    edges |= {product: mixtures, root: [product]}
    return Circuit([*inputs, CategoricalLayer([7], 3, num_categories=2), *edges], edges, [root])


def is_legal(layer: Any, value: float) -> bool:
    whole = math.isfinite(value) and value == math.floor(value)
    if isinstance(layer, CategoricalLayer | TableLayer):
        return whole and 0 <= value < (layer.num_categories if hasattr(layer, "num_categories") else layer.num_values)
    if isinstance(layer, WaitingLayer):
        return whole and 0 <= value < 2**63
    return value > 0 if isinstance(layer, ExponentialLayer) else True


def density(layer: Any, row: list[float]) -> Any:
    """`(UNITS,)`, or None where the layer cannot sum out what is missing."""
    x = [row[variable] for variable in layer.scope]
    missing = [value != value for value in x]
    if isinstance(layer, TableLayer):
        if any(missing) and not all(missing) and not isinstance(layer, MarginalTableLayer):
            return None
        places = tuple(slice(None) if gone else int(value) for value, gone in zip(x, missing, strict=True))
        chosen = values(layer.table)[:, places[0], places[1]]
        return chosen.reshape(UNITS, -1).sum(axis=1)
    if isinstance(layer, CategoricalLayer):
        return values(layer.probs).sum(axis=1) if missing[0] else values(layer.probs)[:, int(x[0])]
    if missing[0]:
        return np.ones(UNITS)
    if isinstance(layer, GaussianLayer):
        mean, stddev = values(layer.mean), values(layer.stddev)
        return np.exp(-(((x[0] - mean) / stddev) ** 2) / 2) / (stddev * math.sqrt(2 * math.pi))
    rate = values(layer.rate)
    return (-np.expm1(-rate) if isinstance(layer, WaitingLayer) else rate) * np.exp(-rate * x[0])


def reference(circuit: Circuit, row: list[float]) -> float | None:
    """The value of a row; None where it must be refused."""
    known: dict[Any, Any] = {}
    layer: Any
    for layer in circuit.live.layers:
        inputs = [known[one] for one in circuit.layer_inputs(layer)]
        if isinstance(layer, HadamardLayer):
            known[layer] = np.prod(inputs, axis=0)
        elif isinstance(layer, SumLayer):
            known[layer] = values(layer.weight) @ np.concatenate(inputs)
        else:
            present = [row[variable] for variable in layer.scope if row[variable] == row[variable]]
            found = density(layer, row) if all(is_legal(layer, value) for value in present) else None
            if found is None:
                return None
            known[layer] = found
    return float(known[circuit.outputs[0]][0])


def random_data(rng: Rng, width: int, dtype: str) -> torch.Tensor:
    rows = int(rng.integers(0, 7))
    numbers = rng.choice(NUMBERS, (rows, width)) if rng.random() < 0.4 else rng.integers(0, 3, (rows, width))
    kind = getattr(torch, dtype)
    if kind.is_floating_point:
        numbers = np.where(rng.random(numbers.shape) < 0.2, np.nan, numbers)
        numbers = np.where(rng.random(numbers.shape) < 0.05, rng.choice([np.inf, -np.inf]), numbers)
        x = torch.from_numpy(numbers).to(kind)
    else:
        limits = np.iinfo("uint8" if dtype == "bool" else dtype)
        whole = np.clip(np.floor(numbers), limits.min, min(limits.max, 2**62)).astype(dtype)
        if rows and rng.random() < 0.1:
            whole[0, 0] = limits.max if dtype != "bool" else True
        x = torch.from_numpy(whole)
    return x.T.contiguous().T if rng.random() < 0.5 else x


def check(seed: int) -> None:
    rng = np.random.default_rng(seed)
    try:
        circuit = random_circuit(rng)
    except InputError as error:
        assert "no value is in both domains" in str(error)  # noqa: PT017 - two layers of one variable
        return
    compiler = TorchCompiler("sum-product", bool(rng.integers(2)), bool(rng.integers(2)), dtype="float64")
    for row in ROWS:
        compiler.add_layer_rule(row)
    model = compiler.compile(circuit)
    for dtype in rng.choice(DTYPES, 4):
        x = random_data(rng, max(circuit.scope) + 1, str(dtype))
        rows = [[value if isinstance(value, float) else int(value) for value in row] for row in x.tolist()]
        expected = [reference(circuit, row) for row in rows]
        where = f"seed {seed}, {dtype}, {rows}"
        if None in expected:
            with pytest.raises(InputError) as caught:
                model(x)
            named = int(str(caught.value).split()[1].rstrip(",:"))
            assert expected[named] is None, where
            with pytest.raises(InputError):
                model.check(x)
        else:
            model.check(x)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DataCheck, "check", lambda *_: None)
            found = model(x).detach().flatten().numpy()
        assert np.isnan(found).tolist() == [value is None for value in expected], where
        right = [value for value in expected if value is not None]
        np.testing.assert_allclose(found[~np.isnan(found)], right, rtol=1e-10, atol=1e-290, err_msg=where)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(12))
def test_random_circuits_of_several_domains(seed: int) -> None:
    check(seed)


@pytest.mark.full
@pytest.mark.parametrize("start", range(100, 600, 100))
def test_many_random_circuits_of_several_domains(start: int) -> None:
    for seed in range(start, start + 100):
        check(seed)
