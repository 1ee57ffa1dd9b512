"""The rules of operators for input layers: products of all pairs of layers, and what is known of single families.

The oracle is the layers' references in numpy: a product is the product of two values.
"""

from typing import Any

import numpy as np
import pytest
import torch

from plica.errors import UnsupportedError
from plica.files.structure import decode_circuit, encode_circuit
from plica.pipeline import PipelineContext
from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import finite
from plica.symbolic.layers import (
    CategoricalLayer,
    DiagonalGaussianLayer,
    EmbeddingLayer,
    ExponentialLayer,
    GaussianLayer,
    HadamardLayer,
    HistogramLayer,
    LaplaceLayer,
    ModuleLayer,
    MultivariateGaussianLayer,
    PoissonLayer,
    PolynomialLayer,
    UniformLayer,
    UnivariateLayer,
    unit_parameter,
)
from plica.symbolic.parameters import Parameter, ReferenceParameter, normal
from tests.harness.circuits import constant, tensor
from tests.harness.layer_cases import InputCase
from tests.harness.operator_rules import UNIVARIATE, applied, compiled, outer
from tests.harness.pairwise import first_usual

CLOSED = (
    *("beta", "exponential", "gamma", "gaussian", "geometric"),
    *("histogram", "log-normal", "polynomial", "uniform", "von"),
)
"""The families, by the first words of names, that are closed under products."""
REFUSED = r"no rule is known|gives densities, and no masses|have finitely many states|not known to be equal"


def family(case: InputCase) -> str:
    """The first word of the name."""
    return case.name.split()[0].rstrip(",")


def is_supported(case: InputCase, other: InputCase) -> bool:
    """Whether there is a product: of one closed family, or of states that both have; a polynomial has values there."""
    if family(case) == family(other) and family(case) in CLOSED:
        return True
    domains = [each.build([0], 2).domain for each in (case, other)]
    if all(domain.num_states is None for domain in domains):
        return False
    return all(
        domain.whole or family(each) == "polynomial" for each, domain in zip((case, other), domains, strict=True)
    )


def data(pairs: list[Any], rows: int = 7) -> Any:
    """Data for pairs of layers, each of a variable of its own, in the domains of both."""
    rng = np.random.default_rng(0)
    x = np.zeros((rows, len(UNIVARIATE)))
    for first, second, other in pairs:
        (variable,), states = second.scope, first.domain.meet(second.domain).num_states
        drawn = other.draw(second, rng, rows)[:, 0] if states is None else rng.integers(0, states, rows)
        x[:, variable] = drawn
    return x


def check_products(pairs: list[Any], semiring: str) -> None:
    """Compare the blocks of pairs of layers with the products of their references."""
    blocks = [applied("multiply", first, second) for first, second, _ in pairs]
    run = compiled(blocks, semiring, [layer for first, second, _ in pairs for layer in (first, second)])
    x = data(pairs)
    found = run(x)
    for index, (first, second, other) in enumerate(pairs):
        expected = outer(run.reference(first, x), run.reference(second, x)).astype(float)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found[:, index], expected, rtol=1e-9, atol=1e-9 * scale, err_msg=f"{first}, {other}")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("turn", first_usual(range(8)))
@pytest.mark.parametrize("case", UNIVARIATE, ids=str)
def test_products_of_all_pairs(case: InputCase, turn: int) -> None:
    """The usual suite takes every eighth layer, the case itself first."""
    pairs: list[Any] = []
    for variable, other in list(enumerate(UNIVARIATE))[(UNIVARIATE.index(case) + turn) % 8 :: 8]:
        first, second = case.build([variable], 2), other.build([variable], 3)
        if is_supported(case, other):
            pairs.append((first, second, other))
            continue
        with pytest.raises(UnsupportedError, match=REFUSED):
            applied("multiply", first, second)
    signed = [pair for pair in pairs if case.signed or pair[2].signed]
    for some, semiring in (([pair for pair in pairs if pair not in signed], "lse-sum"), (signed, "sum-product")):
        if some:
            check_products(some, semiring)


@pytest.mark.parametrize("semiring", first_usual(["lse-sum", "sum-product"]))
def test_squares_share_the_tensors_of_the_layer(semiring: str) -> None:
    """Each family times itself, where the layer is one object: its references are to the layer's own leaves."""
    cases = [case for case in UNIVARIATE if is_supported(case, case) and not case.signed]
    assert len(cases) > 20
    pairs = [(layer, layer, case) for number, case in enumerate(cases) for layer in [case.build([number], 2)]]
    check_products(pairs, semiring)
    for layer, _, _ in pairs:
        leaves = [leaf for parameter in layer.params.values() for leaf in parameter.leaves]
        block = applied("multiply", layer, layer)
        read = [leaf for each in block.layers for parameter in each.params.values() for leaf in parameter.leaves]
        shared = [leaf.deref() for leaf in read if isinstance(leaf, ReferenceParameter)]
        assert shared or all(leaf in read for leaf in leaves)
        assert all(leaf in leaves for leaf in shared)


def test_layers_of_one_family_fold() -> None:
    """Blocks of one kind over several variables are computed as folds, each with its own parameters."""
    kinds: list[Any] = [ExponentialLayer, GaussianLayer, PoissonLayer]
    pairs = [
        (kind([variable], 2), kind([variable], 3), next(case for case in UNIVARIATE if case.row.layer is kind))
        for variable, kind in enumerate(kinds * 3)
        if kind is not PoissonLayer
    ]
    check_products(pairs, "lse-sum")
    blocks = [applied("multiply", first, second) for first, second, _ in pairs]
    groups = compiled(blocks, "lse-sum").circuit.layers
    assert len(list(groups)) < len([layer for block in blocks for layer in block.layers])


def test_unequal_numbers_of_states_leave_those_that_both_have() -> None:
    first, second = CategoricalLayer([0], 2, num_categories=3), EmbeddingLayer([0], 2, num_states=5)
    for pair in ((first, second), (second, first)):
        block = applied("multiply", *pair)
        assert block.output.config.get("num_states", block.output.config.get("num_categories")) == 3
        run, x = compiled([block], "sum-product", pair), np.arange(3.0)[:, None]
        expected = outer(*(run.reference(layer, x) for layer in pair))
        np.testing.assert_allclose(run(x)[:, 0], expected.astype(float), rtol=1e-12)


def test_what_a_product_of_tables_is() -> None:
    """Logarithms stay logarithms; numbers of any sign are an embedding; a mass of 0 stays 0."""
    logits, probs = (
        CategoricalLayer([0], 1, num_categories=2),
        CategoricalLayer([0], 1, num_categories=2, probs=constant([[0.0, 1.0]])),
    )
    assert "logits" in applied("multiply", logits, logits).output.params
    assert "probs" in applied("multiply", logits, probs).output.params
    assert isinstance(applied("multiply", logits, EmbeddingLayer([0], 1)).output, EmbeddingLayer)
    found = compiled([applied("multiply", logits, probs)], "lse-sum")(np.array([[0.0], [1.0]]))
    assert found[0, 0, 0] == 0
    assert found[1, 0, 0] > 0


def test_intervals_that_do_not_meet_and_intervals_that_do() -> None:
    first, second = UniformLayer([0], 2, low=[0.0, 2.0], high=[1.0, 4.0]), UniformLayer([0], 1, low=0.5, high=1.5)
    found = compiled([applied("multiply", first, second)], "lse-sum")(np.array([[0.25], [0.75], [1.25], [2.5], [3.0]]))
    np.testing.assert_allclose(found[:, 0], [[0, 0], [1, 0], [0, 0], [0, 0], [0, 0]], atol=1e-15)


def test_intervals_that_do_not_meet_far_from_zero() -> None:
    """Beside 3e17, 1 is less than a rounding."""
    first, second = UniformLayer([0], 1, low=0.0, high=1e17), UniformLayer([0], 1, low=3e17, high=4e17)
    for pair in ((first, second), (second, first)):
        found = compiled([applied("multiply", *pair)], "lse-sum")(np.array([[0.5e17], [2e17], [3.5e17]]))
        assert (found == 0).all()


def test_histograms_of_equal_bins() -> None:
    """Bins of unequal widths, also learned ones that both layers share; others are refused."""
    edges = tensor([-1.0, 0.0, 0.5, 3.0])
    shared = [HistogramLayer([0], 2, edges=edges), HistogramLayer([0], 2, edges=ReferenceParameter(edges))]
    run, x = compiled([applied("multiply", *shared)], "lse-sum", shared), np.array([[-0.5], [0.0], [0.7], [3.0]])
    expected = outer(*(run.reference(layer, x) for layer in shared))
    np.testing.assert_allclose(run(x)[:, 0], expected.astype(float), rtol=1e-12)
    other = HistogramLayer([0], 2, edges=tensor([-1.0, 0.0, 0.5, 3.0]))
    with pytest.raises(UnsupportedError, match="their bins are not known to be equal; give both layers the same"):
        applied("multiply", shared[0], other)


@pytest.mark.parametrize(
    "pair",
    [
        (ExponentialLayer([0], 2), ExponentialLayer([0], 3)),
        (PoissonLayer([0], 2), CategoricalLayer([0], 2, num_categories=4)),
        (UniformLayer([0], 2), UniformLayer([0], 2)),
        (MultivariateGaussianLayer([0], 2), MultivariateGaussianLayer([0], 2)),
    ],
    ids=lambda pair: type(pair[0]).__name__,
)
def test_products_are_saved_in_files(pair: Any) -> None:
    block = applied("multiply", *pair)
    circuit = Circuit([*block.layers], block.in_layers, [block.output])
    again = decode_circuit(*encode_circuit(circuit))
    first, second = (PipelineContext().compile(each).to(torch.float64) for each in (circuit, again))
    second.load_state_dict(first.state_dict())
    x = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    assert first(x).equal(second(x))


class _Bent(UnivariateLayer):
    """Numbers `2 size exp(-slope x)` of states, which do not sum to 1; two of them multiply to one."""

    slope: Parameter = unit_parameter(normal, "slopes")
    size: Parameter = unit_parameter(normal, "sizes")
    domain = finite(3)

    @staticmethod
    def log_density(x: Any, slope: Any, size: Any) -> Any:
        return size - slope * x

    @staticmethod
    def log_total(xp: Any, slope: Any, size: Any) -> Any:
        return size + xp.log(1.0 + xp.exp(-slope) + xp.exp(-2.0 * slope))

    mode = staticmethod(lambda xp, slope: xp.zeros_like(slope))

    @staticmethod
    def product(xp: Any, first: Any, second: Any) -> dict[str, Any]:  # noqa: ARG004
        return {"slope": first["slope"] + second["slope"], "size": 0.0 * first["size"] + 0.0 * second["size"]}


def test_a_declared_layer_of_ones_own() -> None:
    """It multiplies within its family, with tables, and its integral follows from `log_total`."""
    slopes, sizes = np.array([0.5, -1.0]), np.array([0.25, 2.0])
    layer, table = _Bent([0], 2, slope=tensor(slopes), size=tensor(sizes)), EmbeddingLayer([0], 2, num_states=4)
    context, x = PipelineContext(semiring="sum-product"), np.arange(3.0)[:, None]
    context.add_layer_compilation_rule(_Bent.row)
    values = np.exp(sizes - slopes * x)
    blocks = [applied("multiply", layer, layer), applied("multiply", layer, table), applied("multiply", table, layer)]
    total = applied("integrate", layer, scope=layer.scope)
    assert [type(block.output) for block in blocks] == [HadamardLayer, EmbeddingLayer, EmbeddingLayer]
    edges = dict(blocks[0].in_layers)
    circuit = Circuit([each for block in blocks for each in block.layers], edges, [block.output for block in blocks])
    compiled_blocks = context.compile(circuit).to(torch.float64)
    found = compiled_blocks(torch.from_numpy(x)).detach().numpy()
    (weight,) = [value.numpy().T[:3] for key, value in compiled_blocks.state_dict().items() if "weight" in key]
    np.testing.assert_allclose(found[:, 0], outer(values, values), rtol=1e-12)
    np.testing.assert_allclose(found[:, 1], outer(values, weight), rtol=1e-12)
    np.testing.assert_allclose(found[:, 2], outer(weight, values), rtol=1e-12)
    integral = context.compile(Circuit(total.layers, {}, [total.output])).to(torch.float64)().detach().numpy()
    np.testing.assert_allclose(integral.reshape(-1), values.sum(axis=0), rtol=1e-12)


class _Module:
    def forward(self, x: Any) -> Any:
        return x


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (LaplaceLayer([0], 2), LaplaceLayer([0], 2), r"LaplaceLayer\(scope=\{0\}, 2\) times .*no rule is known"),
        (PoissonLayer([0], 2), PoissonLayer([0], 2), "does not have finitely many states from 0 on"),
        (GaussianLayer([0], 2), PolynomialLayer([0], 2, degree=1), "Take layers of one family"),
        (
            GaussianLayer([0], 2),
            EmbeddingLayer([0], 2),
            r"GaussianLayer\(scope=\{0\}, 2\) gives densities, and no masses",
        ),
        (UniformLayer([0], 2), CategoricalLayer([0], 2, num_categories=2), "gives densities"),
        (ModuleLayer([0], 2, module=_Module()), GaussianLayer([0], 2), "is no layer that Plica has.*add_operator_rule"),
        (DiagonalGaussianLayer([0, 1], 2), DiagonalGaussianLayer([1, 2], 2), "of equal scopes alone"),
        (MultivariateGaussianLayer([0, 1], 2), MultivariateGaussianLayer([0], 2), "of equal scopes alone"),
        (DiagonalGaussianLayer([0], 2), GaussianLayer([0], 2), "no rule is known for DiagonalGaussianLayer"),
        (GaussianLayer([0], 2), GaussianLayer([1], 2), "of equal scopes alone"),
        (ExponentialLayer([0], 2), ExponentialLayer([1], 2), "of equal scopes alone"),
        (GaussianLayer([0], 2), DiagonalGaussianLayer([1, 2], 2), "they share no variable"),
    ],
    ids=lambda item: type(item).__name__ if not isinstance(item, str) else "",
)
def test_refused_pairs(first: Any, second: Any, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        applied("multiply", first, second)
