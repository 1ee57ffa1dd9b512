"""Small random circuits whose leaves have closed forms, with rows that have holes; and their counts by enumeration.

An *induced tree* is one term of the polynomial that a circuit is: a product of weights and of values of input units.
"""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.stats

from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import (
    BernoulliLayer,
    BinomialLayer,
    CategoricalLayer,
    DiagonalGaussianLayer,
    EmbeddingLayer,
    ExponentialLayer,
    GaussianLayer,
    GeometricLayer,
    HadamardLayer,
    HistogramLayer,
    KroneckerLayer,
    LogNormalLayer,
    MultivariateGaussianLayer,
    PoissonLayer,
    SumLayer,
)
from plica.symbolic.layers.base import InputLayer, Layer
from plica.symbolic.parameters import (
    ClampParameter,
    LogSoftmaxParameter,
    MixingWeightParameter,
    Parameter,
    SoftmaxParameter,
    TensorParameter,
)
from tests.harness import oracle

Array = Any


def leaf(values: Array) -> TensorParameter:
    """A learnable tensor that starts as given."""
    return TensorParameter(*np.shape(values), initializer=ConstantTensorInitializer(np.asarray(values)))


def shares(rng: Any, shape: tuple[int, ...], form: str) -> Parameter:
    """Positive numbers whose last axis sums to 1, by a form of parameters."""
    numbers = rng.dirichlet(np.full(shape[-1], 2.0), size=shape[:-1])
    if form == "softmax":
        return Parameter.from_unary(SoftmaxParameter(shape), leaf(np.log(numbers) + rng.normal(size=(*shape[:-1], 1))))
    if form == "clamped":
        return Parameter.from_unary(ClampParameter(shape, vmin=1e-12), leaf(numbers))
    return Parameter.from_input(leaf(numbers))


# Each makes a layer of a variable, and values of it.
INPUTS: dict[str, tuple[Callable[[Any, int, int], InputLayer], Callable[[Any, int], Array]]] = {
    "categorical": (
        lambda rng, v, k: CategoricalLayer([v], k, num_categories=3, probs=shares(rng, (k, 3), "softmax")),
        lambda rng, n: rng.integers(3, size=n),
    ),
    "logits": (
        lambda rng, v, k: CategoricalLayer(
            [v],
            k,
            num_categories=3,
            logits=Parameter.from_unary(LogSoftmaxParameter((k, 3)), leaf(rng.normal(size=(k, 3)))),
        ),
        lambda rng, n: rng.integers(3, size=n),
    ),
    "embedding": (
        lambda rng, v, k: EmbeddingLayer([v], k, num_states=3, weight=shares(rng, (k, 3), "direct")),
        lambda rng, n: rng.integers(3, size=n),
    ),
    "bernoulli": (lambda _, v, k: BernoulliLayer([v], k), lambda rng, n: rng.integers(2, size=n)),
    "bernoulli of probabilities": (
        lambda rng, v, k: BernoulliLayer([v], k, probs=leaf(rng.uniform(0.1, 0.9, k))),
        lambda rng, n: rng.integers(2, size=n),
    ),
    "binomial": (lambda _, v, k: BinomialLayer([v], k, total_count=4), lambda rng, n: rng.integers(5, size=n)),
    "gaussian": (lambda _, v, k: GaussianLayer([v], k), lambda rng, n: 1.0 + 2.0 * rng.normal(size=n)),
    "log-normal": (lambda _, v, k: LogNormalLayer([v], k), lambda rng, n: np.exp(rng.normal(size=n))),
    "exponential": (lambda _, v, k: ExponentialLayer([v], k), lambda rng, n: rng.exponential(2.0, n)),
    "poisson": (lambda _, v, k: PoissonLayer([v], k), lambda rng, n: rng.poisson(2.0, n)),
    "geometric": (lambda _, v, k: GeometricLayer([v], k), lambda rng, n: rng.geometric(0.4, n) - 1),
    "histogram": (
        lambda _, v, k: HistogramLayer([v], k, edges=[-3.0, -1.0, 0.5, 3.0]),
        lambda rng, n: rng.uniform(-3, 3, n),
    ),
}


def draw_learned(seed: int, rows: int = 12, missing: float = 0.25) -> tuple[Circuit, Array]:
    """A circuit of 2 or 3 variables beside a block of 2, and rows of it: normalized, in float64."""
    rng = np.random.default_rng([seed, 32])
    names = rng.choice(list(INPUTS), size=rng.integers(1, 3))
    units, has_block = int(rng.integers(1, 3)), bool(rng.random() < 0.4)
    edges: dict[Layer, list[Layer]] = {}
    columns = [INPUTS[name][1](rng, rows).astype(float) for name in names]
    first = len(columns)
    if has_block:
        columns += list((rng.normal(size=(rows, 2)) @ rng.normal(size=(2, 2))).T)
    forms = ("softmax", "direct", "clamped")
    parts: list[Layer] = []
    for number in range(int(rng.integers(1, 3))):
        inputs: list[Layer] = [INPUTS[name][0](rng, v, units) for v, name in enumerate(names)]
        if number and rng.random() < 0.4:  # the same leaves as before
            inputs[0] = next(layer for layer in edges if isinstance(layer, InputLayer)).copyref()
        if has_block:
            block = MultivariateGaussianLayer if rng.random() < 0.7 else DiagonalGaussianLayer
            inputs.append(block([first, first + 1], units))
        edges |= {layer: [] for layer in inputs}
        mixed: list[Layer] = []
        for layer in inputs:
            weight = mixed[-1].weight.ref() if mixed and rng.random() < 0.3 else None  # type: ignore[attr-defined]
            mix = SumLayer(units, units, weight=weight or shares(rng, (units, units), str(rng.choice(forms))))
            edges[mix] = [layer]
            mixed.append(mix)
        kinds = (HadamardLayer, KroneckerLayer) if units < 3 else (HadamardLayer,)
        product = kinds[int(rng.integers(len(kinds)))](units, len(mixed))
        edges[product] = mixed
        count = product.num_output_units
        parts.append(SumLayer(count, units, weight=shares(rng, (units, count), str(rng.choice(forms)))))
        edges[parts[-1]] = [product]
    if len(parts) > 1:
        mixing = Parameter.from_unary(
            MixingWeightParameter((units, 2)), shares(rng, (units, 2), str(rng.choice(forms)))
        )
        both = SumLayer(units, units, 2, weight=mixing)
        edges[both] = parts
        parts = [both]
    root = SumLayer(units, 1, weight=shares(rng, (1, units), str(rng.choice(forms))))
    edges[root] = parts
    x = np.stack(columns, 1)
    x[rng.random(x.shape) < missing] = np.nan
    return Circuit(edges, edges, [root]), x


def evaluated(circuit: Circuit, state: dict[str, Array]) -> dict[Layer, dict[str, Array]]:
    """The parameters of each layer, from a state dict of arrays."""
    leaves = {tensor: state[key] for tensor, key in oracle.keys(circuit).items()}
    return {
        layer: {name: np.float64(oracle.evaluate(parameter, leaves)) for name, parameter in layer.params.items()}
        for layer in circuit.layers
    }


def density(layer: Any, params: dict[str, Array], unit: int, x: Array) -> float:
    """The density of one unit at the known variables of a layer."""
    known = ~np.isnan(x)
    if not known.any():
        return 1.0
    p = {name: np.asarray(value)[unit] if name != "edges" else value for name, value in params.items()}
    if isinstance(layer, MultivariateGaussianLayer):
        factor = np.tril(p["scale_tril"])
        covariance = (factor @ factor.T)[np.ix_(known, known)]
        return float(scipy.stats.multivariate_normal.pdf(x[known], p["mean"][known], covariance))
    if isinstance(layer, DiagonalGaussianLayer):
        return float(np.prod(scipy.stats.norm.pdf(x[known], p["mean"][known], p["stddev"][known])))
    (v,) = x
    success = p.get("probs", 1 / (1 + np.exp(-p["logits"])) if "logits" in p else None)
    if isinstance(layer, CategoricalLayer):
        return float(p["probs"][int(v)] if "probs" in p else np.exp(p["logits"][int(v)]))
    if isinstance(layer, EmbeddingLayer):
        return float(p["weight"][int(v)])
    if isinstance(layer, BernoulliLayer | BinomialLayer):
        return float(scipy.stats.binom.pmf(v, getattr(layer, "total_count", 1), success))
    if isinstance(layer, GeometricLayer):
        return float(scipy.stats.geom.pmf(v + 1, success))
    if isinstance(layer, HistogramLayer):
        edges = params["edges"]
        at = int(np.clip(np.searchsorted(edges, v, side="right") - 1, 0, len(edges) - 2))
        return float(np.exp(p["logits"][at]) / (edges[at + 1] - edges[at]))
    distribution = {
        GaussianLayer: lambda: scipy.stats.norm(p["mean"], p["stddev"]),
        LogNormalLayer: lambda: scipy.stats.lognorm(p["scale"], scale=np.exp(p["loc"])),
        ExponentialLayer: lambda: scipy.stats.expon(scale=1 / p["rate"]),
        PoissonLayer: lambda: scipy.stats.poisson(p["rate"]),
    }[type(layer)]()
    return float(distribution.pmf(v) if isinstance(layer, PoissonLayer) else distribution.pdf(v))


def count_uses(circuit: Circuit, params: dict[Layer, dict[str, Array]], x: Array) -> tuple[float, dict[Any, float]]:
    """The value of one row, and how often each weight `(layer, o, n)` and unit `(layer, k)` is expected to be used."""
    trees: dict[Layer, list[list[tuple[float, Counter[Any]]]]] = {}
    for layer in circuit.layers:
        inputs = [trees[child] for child in circuit.layer_inputs(layer)]
        if isinstance(layer, InputLayer):
            columns = x[list(layer.scope)]
            trees[layer] = [
                [(density(layer, params[layer], k, columns), Counter({(layer, k): 1}))]
                for k in range(layer.num_output_units)
            ]
        elif isinstance(layer, SumLayer):
            units = [unit for child in inputs for unit in child]
            weight = params[layer]["weight"]
            trees[layer] = [
                [
                    (weight[o, n] * value, uses + Counter({(layer, o, n): 1}))
                    for n, unit in enumerate(units)
                    if weight[o, n]
                    for value, uses in unit
                ]
                for o in range(len(weight))
            ]
        else:
            pairs = zip(*inputs, strict=True) if isinstance(layer, HadamardLayer) else itertools.product(*inputs)
            trees[layer] = [
                [
                    (float(np.prod([value for value, _ in factors])), sum((uses for _, uses in factors), Counter()))
                    for factors in itertools.product(*units)
                ]
                for units in pairs
            ]
    (output,) = trees[circuit.outputs[0]]
    total = float(sum(value for value, _ in output))
    expected: dict[Any, float] = {}
    for value, uses in output:
        for use, number in uses.items():
            expected[use] = expected.get(use, 0.0) + number * value / total
    return total, expected
