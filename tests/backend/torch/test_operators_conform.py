"""Operators on pairs of layers, in all semirings, with and without folding and optimizing, against numpy.

A circuit is `sum over k of w_k a_k(x) b_k(y)` with the layers of a pair as `a`. Its values are those of the references
of layers in the algebra of the semiring; integrals are sums over states, or a quadrature.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from plica.errors import UnsupportedError
from plica.pipeline import PipelineContext
from plica.symbolic.circuit import Circuit
from plica.symbolic.functional import (
    concatenate,
    condition,
    conjugate,
    differentiate,
    evidence,
    integrate,
    marginal,
    mixture,
    multiply,
    normalize,
    power,
    rename,
    simplify,
    smooth,
)
from plica.symbolic.layers import (
    BernoulliLayer,
    BetaLayer,
    BinomialLayer,
    CategoricalLayer,
    ConstantValueLayer,
    EmbeddingLayer,
    EvidenceLayer,
    ExponentialLayer,
    GammaLayer,
    GaussianLayer,
    GeometricLayer,
    HadamardLayer,
    InputLayer,
    LaplaceLayer,
    Layer,
    LogNormalLayer,
    PolynomialLayer,
    SumLayer,
)
from plica.symbolic.semirings import LSE_SUM, SEMIRINGS
from tests.harness.circuits import tensor
from tests.harness.layer_cases.categorical import exp_normal
from tests.harness.operator_circuits import products
from tests.harness.oracle import Oracle, numbers
from tests.harness.pairwise import pairwise
from tests.harness.spaces import SPACES

Array = Any
BOUNDS = {"float64": 1e-9, "float32": 1e-4}
"""The largest error, as a share of the largest number."""
STATES = 3
LAYERS: dict[str, Callable[[], InputLayer]] = {
    "logits": lambda: CategoricalLayer([0], 2, num_categories=STATES),
    "probs": lambda: CategoricalLayer([0], 2, num_categories=STATES, probs_factory=exp_normal),
    "embedding": lambda: EmbeddingLayer([0], 2, num_states=STATES, weight_factory=exp_normal),
    "bernoulli": lambda: BernoulliLayer([0], 2),
    "binomial": lambda: BinomialLayer([0], 2, total_count=STATES - 1),
    "geometric": lambda: GeometricLayer([0], 2, probs=tensor([0.6, 0.8])),
    "gaussian": lambda: GaussianLayer([0], 2, mean=tensor([0.0, 1.5]), stddev=tensor([1.0, 0.5])),
    "exponential": lambda: ExponentialLayer([0], 2, rate=tensor([1.0, 2.5])),
    "gamma": lambda: GammaLayer([0], 2, concentration=tensor([3.0, 4.0]), rate=tensor([2.0, 3.0])),
    "beta": lambda: BetaLayer([0], 2, alpha=tensor([3.0, 4.0]), beta=tensor([4.0, 3.0])),
    "log-normal": lambda: LogNormalLayer([0], 2, loc=tensor([0.0, 0.5]), scale=tensor([0.5, 0.25])),
    "laplace": lambda: LaplaceLayer([0], 2, loc=tensor([0.0, 0.5]), scale=tensor([0.5, 0.25])),
    "polynomial": lambda: PolynomialLayer([0], 2, degree=2),
}
ENDS = {
    "gaussian": (-12, 14), "exponential": (0, 40), "gamma": (0, 40), "beta": (0, 1), "log-normal": (1e-6, 60),
    "laplace": (-20, 20), "polynomial": (-1, 1),
}  # fmt: skip
"""The ends between which densities are integrated."""
PAIRS = [
    *(("logits", "logits"), ("logits", "probs"), ("probs", "embedding"), ("embedding", "bernoulli")),
    *(("binomial", "logits"), ("bernoulli", "binomial"), ("geometric", "probs"), ("geometric", "geometric")),
    *(("gaussian", "gaussian"), ("exponential", "exponential"), ("gamma", "gamma"), ("beta", "beta")),
    *(("log-normal", "log-normal"), ("polynomial", "polynomial"), ("polynomial", "logits")),
    *(("laplace", "laplace"), ("gaussian", "logits"), ("gaussian", "gamma")),
]


def circuit_of(name: str) -> Circuit:
    """Two units; the other variable is a table, or a polynomial too. A constant and an observed layer are factors."""
    first = LAYERS[name]()
    second: InputLayer = CategoricalLayer([1], 2, num_categories=2)
    if name == "polynomial":
        second = PolynomialLayer([1], 2, degree=1)
    seen = EvidenceLayer(CategoricalLayer([9], 2, num_categories=2), observation=1)
    factors: list[Layer] = [first, second, ConstantValueLayer(2, value=tensor([0.5, 1.5])), seen]
    product, total = HadamardLayer(2, 4), SumLayer(2, 2)
    return Circuit([*factors, product, total], {product: factors, total: [product]}, [total])


@dataclass
class Case:
    """Two circuits in one context, and their values in numpy."""

    pair: tuple[str, str]
    semiring: str
    fold: bool
    optimize: bool
    dtype: str

    def __post_init__(self) -> None:
        self.first, self.second = (circuit_of(name) for name in self.pair)
        self.row = SEMIRINGS[self.semiring]
        self.context = PipelineContext(semiring=self.semiring, dtype=self.dtype, fold=self.fold, optimize=self.optimize)
        states = [range(2) if "bernoulli" in self.pair else range(STATES), range(2)]
        if all(name in ENDS for name in self.pair):
            low, high = (choose(ENDS[name][at] for name in self.pair) for at, choose in enumerate((max, min)))
            states[0] = (low + (high - low) * np.array([0.11, 0.35, 0.52])).astype(np.float32).tolist()
        self.x = np.array(list(itertools.product(*states)), float)

    def sum(self, *terms: Array) -> Array:
        return np.sum(terms, axis=0) if self.row.algebra.name == "real" else np.max(terms, axis=0)

    def value(self, circuit: Circuit, x: Array | None = None, algebra: str | None = None) -> Array:
        """The values of one of the two circuits, in the algebra of the semiring."""
        compiled = self.context.compile(circuit)
        oracle = Oracle(circuit, numbers(compiled))
        layers = oracle.layers(SPACES[algebra or self.row.algebra.name], self.x if x is None else x)
        return layers[circuit.outputs[0]][:, None]

    def points(self) -> tuple[Array, Array]:
        """The values of the first variable, and their weights in an integral."""
        name = self.pair[0]
        if name not in ENDS:
            count = {"bernoulli": 2, "geometric": 80}.get(name, STATES)
            return np.arange(count, dtype=float), np.ones(count)
        nodes, weights = np.polynomial.legendre.leggauss(60)
        edges = np.linspace(*ENDS[name], 81)
        halves = np.diff(edges)[:, None] / 2
        return (edges[:-1, None] + halves * (nodes + 1)).ravel(), (halves * weights).ravel()

    def integral(self, x: Array, gone: tuple[int, ...]) -> Array:
        """The first circuit, summed or integrated over some variables in the algebra of real numbers."""
        at, weights = self.points() if 0 in gone else (None, np.ones(1))
        total: Array = 0.0
        for state in range(2) if 1 in gone else [None]:
            rows = np.repeat(x, len(weights), axis=0)
            if at is not None:
                rows[:, 0] = np.tile(at, len(x))
            if state is not None:
                rows[:, 1] = state
            parts = self.value(self.first, rows, "real").reshape(len(x), len(weights), 1, 2)
            total = total + np.einsum("bnou,n->bou", parts, weights)
        return total

    def slope(self, variable: int) -> Array:
        step = 1e-3 * np.eye(2)[variable]  # exact for polynomials of degree 2
        sides = [self.value(self.first, self.x + sign * step) for sign in (1, -1)]
        return (sides[0] - sides[1]) / 2e-3

    def at(self, value: float) -> Array:
        rows = self.x.copy()
        rows[:, 0] = value
        return rows


def _observed(case: Case) -> float:
    return float(case.x[1 % len(case.x), 0])


OPERATORS: dict[str, tuple[Callable[[Case], Circuit], Callable[[Case], Array]]] = {
    "multiply": (
        lambda c: multiply(c.first, c.second),
        lambda c: products(c.value(c.first), c.value(c.second)),
    ),
    "power": (
        lambda c: power(c.first, 2),
        lambda c: products(c.value(c.first), c.value(c.first)),
    ),
    "integrate": (lambda c: integrate(c.first), lambda c: c.integral(c.x[:1], (0, 1))),
    "marginal": (lambda c: marginal(c.first, [1]), lambda c: c.integral(c.x, (0,))),
    "evidence": (lambda c: evidence(c.first, {0: _observed(c)}), lambda c: c.value(c.first, c.at(_observed(c)))),
    "condition": (
        lambda c: condition(c.first, {0: _observed(c)}),
        lambda c: c.value(c.first, c.at(_observed(c))) / c.integral(c.at(_observed(c)), (1,)),
    ),
    "normalize": (lambda c: normalize(c.first), lambda c: c.value(c.first) / c.integral(c.x[:1], (0, 1))),
    "differentiate": (
        lambda c: differentiate(c.first),
        lambda c: np.concatenate([c.slope(0), c.slope(1), c.value(c.first)], axis=1),
    ),
    "conjugate": (lambda c: conjugate(c.first), lambda c: c.value(c.first)),
    "mixture": (
        lambda c: mixture([c.first, c.second], [0.25, 0.75]),
        lambda c: c.sum(0.25 * c.value(c.first), 0.75 * c.value(c.second)),
    ),
    "concatenate": (
        lambda c: concatenate([c.first, c.second]),
        lambda c: np.concatenate([c.value(c.first), c.value(c.second)], axis=1),
    ),
    "rename": (lambda c: rename(c.first, {0: 5}), lambda c: c.value(c.first)),
    "smooth": (lambda c: smooth(c.first), lambda c: c.value(c.first)),
    "simplify": (lambda c: simplify(c.first), lambda c: c.value(c.first)),
}
TWO = ("multiply", "mixture", "concatenate")
INTEGRALS = ("integrate", "marginal", "normalize", "condition")
REFUSALS: list[tuple[Callable[[str, tuple[str, str], Any], bool], str]] = [
    (
        lambda operator, pair, _: operator in INTEGRALS and pair[0] == "polynomial",
        r"integrate: PolynomialLayer.* cannot be integrated over \{[01]\}: the integral of a polynomial over all real",
    ),
    (
        lambda operator, pair, _: operator == "differentiate" and pair[0] != "polynomial",
        r"differentiate: .*Layer\(.*\)",
    ),
    (
        lambda operator, pair, _: "laplace" in pair and operator in ("multiply", "power"),
        r"LaplaceLayer.* times LaplaceLayer.*: their product is no layer, since no rule is known for their classes",
    ),
    (
        lambda operator, pair, _: operator == "multiply" and pair == ("gaussian", "logits"),
        r"GaussianLayer.* times CategoricalLayer.*: GaussianLayer.* gives densities, and no masses of 3 states",
    ),
    (
        lambda operator, pair, _: operator == "multiply" and pair == ("gaussian", "gamma"),
        r"GaussianLayer.* times GammaLayer.*: their product is no layer, since no rule is known",
    ),
    (
        lambda operator, pair, row: "polynomial" in pair[: 2 if operator in TWO else 1] and not row.negative,
        r"a polynomial may be negative, and .* cannot represent negative numbers; compile with semiring=",
    ),
    (
        lambda operator, _, row: operator in ("integrate", "marginal") and row.algebra.name != "real",
        r"adds and integrates real numbers over \{.*\}, which the algebra .* of semiring='.*' does not; leave these",
    ),
]
"""Whether an operator on a pair is refused in a semiring, and the message; the first that holds."""


def refusal_of(operator: str, pair: tuple[str, str], semiring: str) -> str | None:
    """The message with which an operator is refused; None if it has a result."""
    return next((text for holds, text in REFUSALS if holds(operator, pair, SEMIRINGS[semiring])), None)


def ordinary(case: Case, compiled: Any, x: Array) -> Array:
    """The results of a compiled circuit as ordinary numbers, with an axis of rows."""
    dtype = torch.float64 if case.dtype == "float64" else torch.float32
    found = compiled(torch.from_numpy(x).to(dtype)) if compiled.scope else compiled()[None]
    found = found.detach().resolve_conj()
    if case.row.algebra.name != "real":
        return LSE_SUM.map_from(found, case.row).exp().double().numpy()
    return (found.exp() if case.row.logarithmic else found).numpy()


CHOICES: dict[str, list[Any]] = {
    "operator": list(OPERATORS), "pair": PAIRS, "semiring": [name for name in SEMIRINGS if name != "scaled"],
    "fold": [True, False], "optimize": [True, False], "dtype": list(BOUNDS),
}  # fmt: skip
USUAL = [tuple(case.values()) for case in pairwise({**CHOICES, "pair": PAIRS[::2]})]
EVERY = [
    (operator, pair, semiring, bool(number & 1), bool(number & 2), list(BOUNDS)[number >> 2 & 1])
    for number, (operator, pair, semiring) in enumerate(
        itertools.product(CHOICES["operator"], PAIRS, CHOICES["semiring"])
    )
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("operator", "pair", "semiring", "fold", "optimize", "dtype"),
    [*USUAL, *(pytest.param(*case, marks=pytest.mark.full) for case in EVERY if case not in USUAL)],
)
def test_operators_mean_what_they_say(
    operator: str, pair: tuple[str, str], semiring: str, fold: bool, optimize: bool, dtype: str
) -> None:
    torch.manual_seed(1)
    case, (make, expected_of) = Case(pair, semiring, fold, optimize, dtype), OPERATORS[operator]
    message = refusal_of(operator, pair, semiring)
    if message is not None:
        with pytest.raises(UnsupportedError, match=message):
            case.context.compile(make(case))
        return
    compiled = case.context.compile(make(case))
    x = case.x
    if operator == "rename":
        x = np.zeros((len(x), 6))
        x[:, [5, 1]] = case.x
    expected = np.asarray(expected_of(case), float)
    if case.row.algebra.name == "boolean":
        expected = (expected > 0).astype(float)
    found = ordinary(case, compiled, x)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < BOUNDS[dtype] * np.abs(expected).max()


def test_refusals_are_few_and_each_is_met() -> None:
    """What is refused: 1 of 6 combinations at most, so that no defect hides as a refusal."""
    combinations = list(itertools.product(OPERATORS, PAIRS, CHOICES["semiring"]))
    refused = [refusal_of(*one) for one in combinations]
    assert {text for text in refused if text} == {text for _, text in REFUSALS}
    assert sum(text is not None for text in refused) < len(combinations) / 3
