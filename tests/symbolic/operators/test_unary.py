"""Operators on one circuit, and circuits joined, against their values in numpy."""

from typing import Any

import numpy as np
import pytest

from plica.errors import DTypeError, InputError, ShapeError, StructuralPropertyError, UnsupportedError
from plica.pipeline import PipelineContext
from plica.symbolic import functional
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
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
    rename,
    simplify,
    smooth,
)
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import (
    CategoricalLayer,
    CircuitBlock,
    ConstantValueLayer,
    DiagonalGaussianLayer,
    EmbeddingLayer,
    EvidenceLayer,
    GaussianLayer,
    HadamardLayer,
    IntegratedLayer,
    Layer,
    MarginalLayer,
    OperatorRow,
    PoissonLayer,
    PolynomialLayer,
    SumLayer,
    TransposeLayer,
)
from plica.symbolic.operators.registry import BUILT_IN, current_registry
from plica.symbolic.parameters import (
    ConstantParameter,
    MixingWeightParameter,
    Parameter,
    TensorParameter,
    dereferenced,
    normal,
)
from plica.symbolic.scope import Scope
from tests.harness.operator_circuits import (
    NO_RULES,
    STATES,
    circuit,
    close,
    leaf,
    numbers,
    products,
    rows,
    tree_of,
    values,
)
from tests.harness.oracle import Oracle, keys

Array = Any


def draw(seed: int, variables: int = 4) -> tuple[Circuit, np.random.Generator]:
    """A random circuit, and where to draw further from."""
    rng = np.random.default_rng(seed)
    tree = tree_of(rng, [int(variable) for variable in rng.permutation(len(STATES))[:variables]])
    return circuit(rng, tree, other_trees=0.3), rng


def built(edges: dict[Layer, list[Layer]], *outputs: Layer) -> Circuit:
    """The circuit of some layers and what they read."""
    layers = dict.fromkeys([*(child for inputs in edges.values() for child in inputs), *edges, *outputs])
    return Circuit(layers, edges, outputs)


def masked(x: Array, variables: Any) -> Array:
    result = x.astype(float)
    result[:, list(variables)] = np.nan
    return result


def check_made(result: Circuit, operator: str, *operands: Circuit, **metadata: Any) -> None:
    """The result knows how it was made, and its tensors are those of its operands."""
    assert result.operation is not None
    assert (result.operation.operator, result.operation.operands) == (operator, operands)
    assert result.operation.metadata == metadata
    known = [found for operand in operands for found in keys(operand)]
    assert all(found in known for found in keys(result))


@pytest.mark.parametrize("seed", range(12))
def test_integrals_and_marginals(seed: int) -> None:
    whole, rng = draw(seed)
    leaves, x = numbers(rng, whole), rows(rng)
    every = list(whole.scope)
    some = [every[at] for at in rng.permutation(len(every))[: int(rng.integers(1, len(every)))]]
    result = integrate(whole, some)
    check_made(result, "integrate", whole, scope=Scope(some))
    assert result.scope == whole.scope - Scope(some)
    close(values(result, leaves, x), values(whole, leaves, masked(x, some)))
    kept = marginal(whole, some)
    check_made(kept, "marginal", whole, scope=Scope(some))
    assert kept.scope == Scope(some)
    close(values(kept, leaves, x), values(whole, leaves, masked(x, [one for one in every if one not in some])))
    total = integrate(whole)
    assert total.scope == Scope()
    close(values(total, leaves, x[:1]), values(whole, leaves, masked(x[:1], every)))


def test_a_total_is_the_sum_over_all_states() -> None:
    whole, rng = draw(40, 3)
    top = whole.subgraph(whole.outputs[0])
    leaves = numbers(rng, top)
    expected = Oracle(top, {key: leaves[found] for found, key in keys(top).items()}).total()
    close(values(integrate(top), leaves, np.zeros((1, 1)))[0], expected)


def test_integrals_of_layers_of_several_variables() -> None:
    rng = np.random.default_rng(0)
    product = HadamardLayer(2)
    layer = DiagonalGaussianLayer([1, 4, 9], 2)
    whole = built({product: [layer, leaf(0, 2)]}, product)
    leaves = {one: np.abs(number) + 0.5 for one, number in numbers(rng, whole).items()}
    x = np.concatenate([rows(rng), rng.normal(size=(5, 4))], axis=1)
    for some in ([4], [1, 9], [0, 4, 9], [1, 4, 9]):
        result = integrate(whole, some, registry=NO_RULES)
        kinds = [type(found) for found in result.input_layers]
        assert (MarginalLayer in kinds) == (len(Scope(some) & layer.scope) < 3)
        assert (IntegratedLayer in kinds) == (0 in some or len(some) == 3)
        close(values(result, leaves, x), values(whole, leaves, masked(x, some)))
        again = integrate(result, whole.scope - Scope(some), registry=NO_RULES)
        close(values(again, leaves, x), values(whole, leaves, masked(x, whole.scope)))


@pytest.mark.parametrize("seed", range(12))
def test_evidence_and_other_names(seed: int) -> None:
    whole, rng = draw(seed + 20)
    leaves, x = numbers(rng, whole), rows(rng)
    every = list(whole.scope)
    some = [every[at] for at in rng.permutation(len(every))[: int(rng.integers(1, len(every) + 1))]]
    known = {variable: int(rng.integers(STATES[variable])) for variable in some}
    result = evidence(whole, known)
    check_made(result, "evidence", whole, obs=known)
    assert result.scope == whole.scope - Scope(some)
    observed = x.copy()
    observed[:, some] = [known[variable] for variable in some]
    close(values(result, leaves, x), values(whole, leaves, observed))
    mapping = {variable: variable + 20 for variable in some}
    other = rename(whole, mapping)
    check_made(other, "rename", whole, mapping=mapping)
    assert other.scope == Scope([mapping.get(variable, variable) for variable in every])
    wide = np.zeros((len(x), 30), int)
    wide[:, : x.shape[1]] = x
    for old, new in mapping.items():
        wide[:, new], wide[:, old] = x[:, old], 0
    close(values(other, leaves, wide), values(whole, leaves, x))
    swapped = rename(whole, {every[0]: every[1], every[1]: every[0]})
    turned = x.copy()
    turned[:, [every[0], every[1]]] = x[:, [every[1], every[0]]]
    close(values(swapped, leaves, turned), values(whole, leaves, x))


def test_evidence_may_be_a_parameter_of_real_variables() -> None:
    whole = built({}, GaussianLayer([3], 2))
    place = TensorParameter(1, initializer=NormalInitializer())
    result = evidence(whole, {3: place})
    (layer,) = result.input_layers
    assert isinstance(layer, EvidenceLayer)
    assert dereferenced(layer.observation.output) is place


def test_marginals_are_renamed_with_the_layer_that_they_hold() -> None:
    whole = marginal(built({}, DiagonalGaussianLayer([1, 4, 9], 2)), [1, 9], registry=NO_RULES)
    result = rename(whole, {1: 2})
    (layer,) = result.input_layers
    assert isinstance(layer, MarginalLayer)
    assert (layer.scope, layer.layer.scope) == (Scope([2, 9]), Scope([2, 4, 9]))
    with pytest.raises(UnsupportedError, match=r"would read \[1, 9\] as \[12, 9\], but its parameters follow"):
        rename(whole, {1: 12})


def complex_normal(shape: tuple[int, ...]) -> Parameter:
    return Parameter.from_input(TensorParameter(*shape, initializer=NormalInitializer(), dtype=DataType.COMPLEX))


def test_conjugates() -> None:
    def mixing(shape: tuple[int, ...]) -> Parameter:
        source = complex_normal((shape[0], shape[1] // shape[0]))
        return Parameter.from_unary(MixingWeightParameter(source.shape), source)

    low, high = SumLayer(2, 3, weight_factory=complex_normal), SumLayer(3, 3, 2, weight_factory=mixing)
    whole = built({low: [leaf(0, 2)], high: [low, leaf(0, 3)]}, high)
    rng = np.random.default_rng(1)
    leaves, x = numbers(rng, whole), rows(rng)
    result = conjugate(whole)
    check_made(result, "conjugate", whole)
    close(values(result, leaves, x), np.conj(values(whole, leaves, x)))
    assert result.sum_layers[1].mixing
    square = multiply(whole, result)
    assert np.allclose(np.diagonal(values(square, leaves, x).reshape(5, 3, 3), 0, 1, 2).imag.astype(float), 0)
    table = built({}, EmbeddingLayer([0], 2, weight_factory=complex_normal))
    with pytest.raises(UnsupportedError, match=r"EmbeddingLayer\(0, .* has complex parameters, and there is no rule"):
        conjugate(table, registry=NO_RULES)


@pytest.mark.parametrize("order", [1, 2])
def test_derivatives_of_each_output_in_ascending_order_of_variables(order: int) -> None:
    variables = (11, 3, 8, 20)  # a set would give 3, 8, 11 and 20 in another order than their own
    inputs: list[Layer] = [PolynomialLayer([variable], 2, degree=3) for variable in variables]
    pairs, sums, top = [HadamardLayer(2), HadamardLayer(2)], [SumLayer(2, 2) for _ in range(2)], HadamardLayer(2)
    turned, total = TransposeLayer((2,), (0,)), SumLayer(2, 2, weight_factory=normal)
    edges: dict[Layer, list[Layer]] = {pairs[0]: inputs[:2], pairs[1]: inputs[2:]}
    edges |= {sums[0]: [pairs[0]], sums[1]: [pairs[1]], top: list(sums), turned: [top], total: [turned]}
    whole = Circuit([*inputs, *edges], edges, [total, sums[1]])
    rng = np.random.default_rng(2)
    leaves, x = numbers(rng, whole), rng.normal(size=(3, 21)).astype(np.longdouble)
    result = differentiate(whole, order)
    check_made(result, "differentiate", whole, order=order)
    assert len(result.outputs) == 5 + 3

    def shifted(variable: int, step: float) -> Array:
        moved = x.copy()
        moved[:, variable] += step
        return values(whole, leaves, moved)

    step = 1e-3
    expected = []
    for output, read in ((0, (3, 8, 11, 20)), (1, (8, 20))):
        for variable in read:
            near = [shifted(variable, step * at)[:, output] for at in range(-3, 4)]
            weights = {1: (-1, 9, -45, 0, 45, -9, 1), 2: (2, -27, 270, -490, 270, -27, 2)}[order]
            scale = {1: 60 * step, 2: 180 * step**2}[order]
            expected.append(sum(weight * value for weight, value in zip(weights, near, strict=True)) / scale)
        expected.append(values(whole, leaves, x)[:, output])
    close(values(result, leaves, x), np.stack(expected, axis=1))


def test_circuits_joined() -> None:
    rng = np.random.default_rng(5)
    whole = [circuit(rng, tree_of(rng, [0, 1, 2])) for _ in range(12)]
    one = [part.subgraph(part.outputs[0]) for part in whole if part.outputs[0].num_output_units == 2][:3]
    assert len(one) == 3
    leaves, x = numbers(rng, *one), rows(rng)
    each = [values(part, leaves, x) for part in one]
    both = concatenate(one)
    check_made(both, "concatenate", *one)
    close(values(both, leaves, x), np.concatenate(each, axis=1))
    weights = list(range(1, len(one) + 1))
    mixed = mixture(one, weights)
    check_made(mixed, "mixture", *one, weights=weights)
    close(values(mixed, leaves, x), sum(weight * value for weight, value in zip(weights, each, strict=True)))
    by_unit = rng.normal(size=(2, len(one)))
    expected = sum(by_unit[None, None, :, at] * value for at, value in enumerate(each))
    close(values(mixture(one, ConstantParameter(*by_unit.shape, value=by_unit)), leaves, x), expected)
    with pytest.raises(InputError, match="expected numbers or a parameter as weights"):
        mixture(one[:2], ["a", "b"])
    with pytest.raises(ShapeError, match="expected 2 weight"):
        mixture(one[:2], [1.0])
    with pytest.raises(StructuralPropertyError, match="mixture needs circuits of one scope"):
        mixture([one[0], rename(one[1], {0: 9})], [1, 2])
    with pytest.raises(ShapeError, match="one number of outputs and units"):
        mixture([one[0], concatenate(one[:2])], [1, 2])
    with pytest.raises(ShapeError, match="outputs need one number of units"):
        concatenate([one[0], built({}, leaf(0, 3))])


def test_smooth_circuits_have_the_same_values() -> None:
    x, y, total = leaf(0, 2), leaf(1, 2), SumLayer(2, 1, 2, weight_factory=normal)
    product, real = HadamardLayer(2), PolynomialLayer([7], 2, degree=1)
    higher = SumLayer(2, 1, 2, weight_factory=normal)
    for rough in (built({total: [x, y]}, total), built({product: [y, real], higher: [x, product]}, higher)):
        assert not rough.is_smooth
        rng = np.random.default_rng(0)
        leaves, data = numbers(rng, rough), rows(rng)
        result = smooth(rough)
        check_made(result, "smooth", rough)
        assert result.is_smooth
        close(values(result, leaves, data), values(rough, leaves, data))
    counts, last = PoissonLayer([3], 2), SumLayer(2, 1, 2)
    with pytest.raises(UnsupportedError, match="smooth: variable 3 is lacking"):
        smooth(built({last: [x, counts]}, last))


def test_simpler_circuits_have_the_same_values() -> None:
    whole, rng = draw(3)
    leaves, x = numbers(rng, whole), rows(rng)
    again = concatenate([whole, whole])
    result = simplify(again)
    check_made(result, "simplify", again)
    assert len(result.layers) <= len(whole.live_layers)
    close(values(result, leaves, x), values(again, leaves, x))
    one, total = HadamardLayer(2, 1), SumLayer(2, 2)
    twin = TransposeLayer((2, 1), (1, 0))
    short = simplify(built({one: [leaf(0, 2)], twin: [one], total: [twin]}, total))
    assert [type(layer) for layer in short.layers] == [EmbeddingLayer, SumLayer]
    table = EmbeddingLayer([0], 2, num_states=2, weight=ConstantParameter(2, 2, value=1.0))
    other = EmbeddingLayer([0], 2, num_states=2, weight=ConstantParameter(2, 2, value=2.0))
    assert len(simplify(built({}, table, other)).layers) == 2, "other constants are other layers"


@pytest.mark.parametrize("seed", range(8))
def test_quotients_by_the_integral(seed: int) -> None:
    whole, rng = draw(seed + 60)
    leaves, x = {one: np.abs(number) for one, number in numbers(rng, whole).items()}, rows(rng)
    result = normalize(whole)
    check_made(result, "normalize", whole)
    total = values(whole, leaves, masked(x[:1], whole.scope))
    close(values(result, leaves, x), values(whole, leaves, x) / total)
    first, *rest = whole.scope
    given = condition(whole, {first: 1})
    check_made(given, "condition", whole, obs={first: 1})
    assert given.scope == whole.scope - Scope([first])
    known = x.copy()
    known[:, first] = 1
    close(values(given, leaves, x), values(whole, leaves, known) / values(whole, leaves, masked(known[:1], rest)))


def test_quotients_that_are_refused() -> None:
    whole = built({}, GaussianLayer([3], 2))
    for refused, layer in (
        (lambda: normalize(whole, registry=NO_RULES), "IntegratedLayer"),
        (lambda: condition(whole, {3: 0.5}, registry=NO_RULES), "EvidenceLayer"),
    ):
        with pytest.raises(UnsupportedError, match=rf"the value of {layer}\(0, .* is no parameter; .*'constant'"):
            refused()


def test_products_of_what_operators_give() -> None:
    whole, rng = draw(9, 3)
    leaves, x = numbers(rng, whole), rows(rng)
    (first, *rest) = whole.scope
    part, known = integrate(whole, rest), evidence(whole, {first: 1})
    result = multiply(part, known, integrate(known))
    total = values(integrate(known), leaves, x)
    close(values(result, leaves, x), products(products(values(part, leaves, x), values(known, leaves, x)), total))


class _NoArray:
    """As a tensor of torch that is learned, it refuses to become an array."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("call detach first")


def test_refusals() -> None:
    whole = built({}, GaussianLayer([3], 2))
    x, y, total = leaf(0, 2), leaf(1, 2), SumLayer(2, 1, 2)
    rough = built({total: [x, y]}, total)
    for refused in (lambda: integrate(rough), lambda: marginal(rough, [0])):
        with pytest.raises(StructuralPropertyError, match="integrate needs a smooth circuit"):
            refused()
    with pytest.raises(StructuralPropertyError, match="differentiate needs a smooth circuit"):
        differentiate(rough)
    for wrong in (lambda: integrate(whole, [4]), lambda: marginal(whole, [3, 4]), lambda: evidence(whole, {4: 0})):
        with pytest.raises(InputError, match=r"\{4\} is not in the scope \{3\} of the circuit"):
            wrong()
    with pytest.raises(UnsupportedError, match=r"integrate: PolynomialLayer\(0, .*the integral of a polynomial"):
        integrate(built({}, PolynomialLayer([0], 2, degree=2)))
    with pytest.raises(InputError, match="is observed as 5, which is none of the 2 states"):
        evidence(built({}, CategoricalLayer([0], 2, num_categories=2)), {0: 5})
    coin = built({}, CategoricalLayer([0], 2, num_categories=2))
    for operator in (evidence, condition):
        name = operator.__name__
        for value, message in ((5, "variable 0 of .* is observed as 5"), (1j, "the observation of .* is complex")):
            with pytest.raises(InputError, match=f"^{name}: {message}"):
                operator(coin, {0: value})
        with pytest.raises(InputError, match=rf"^{name}: \{{7\}} is not in the scope"):
            operator(coin, {7: 0})
        with pytest.raises(InputError, match=f"^{name}: the observation of .* is a state"):
            operator(coin, {0: normal((1,))})
        with pytest.raises(ShapeError, match=f"^{name}: expected observation of shape"):
            operator(coin, {0: ConstantParameter(2, value=0.0)})
        with pytest.raises(InputError, match=f"^{name}: variable 0 is observed as 'x'"):
            operator(coin, {0: "x"})
    with pytest.raises(InputError, match="variable 3 is observed as 'x', expected one number"):
        evidence(whole, {3: "x"})
    with pytest.raises(UnsupportedError, match=r"reads \{0, 1\}, of which \{1\} alone is observed"):
        evidence(built({}, DiagonalGaussianLayer([0, 1], 2)), {1: 0.0})
    with pytest.raises(InputError, match="variables 0 and 1 would both become 1"):
        rename(rough, {0: 1})
    with pytest.raises(UnsupportedError, match=r"no rule for CategoricalLayer\(0"):
        differentiate(built({}, CategoricalLayer([0], 2, num_categories=2)), registry=NO_RULES)
    with pytest.raises(InputError, match="there are no circuits"):
        concatenate([])
    wide = built({}, GaussianLayer([3], 3))
    with pytest.raises(ShapeError, match=r"concatenate: outputs need one number of units, found 2 in GaussianLayer\(0"):
        concatenate([whole, wide])
    for weights in ([[1.0], [1.0, 2.0]], _NoArray()):
        with pytest.raises(InputError, match=r"mixture: the weights .* are no array"):
            mixture([whole, whole], weights)
    with pytest.raises(InputError, match=r"variable 3 is observed as .*NoArray.*, which is no number"):
        evidence(whole, {3: _NoArray()})
    for name in functional.__all__:
        with pytest.raises(DTypeError):
            getattr(functional, name)(
                3, *[2] * (name in ("condition", "evidence", "marginal", "mixture", "power", "rename"))
            )


def test_rules_are_those_of_the_active_context() -> None:
    table, constant = built({}, EmbeddingLayer([0], 2)), ConstantValueLayer(2, value=2.0)

    def doubled(layer: Any, *, scope: Scope) -> CircuitBlock:
        assert scope == layer.scope
        return CircuitBlock.from_layer(constant)

    row = OperatorRow("integrate", (EmbeddingLayer,), doubled)
    with PipelineContext() as outer:
        outer.add_operator_rule(row, override=True)
        assert integrate(table).outputs[0] is constant
        with PipelineContext():
            assert current_registry() is not BUILT_IN
            assert integrate(table).outputs[0] is not constant
        assert integrate(table).outputs[0] is constant
        assert integrate(table, registry=BUILT_IN).outputs[0] is not constant
    assert current_registry() is BUILT_IN
    with pytest.raises(DTypeError, match="registry must find rows of operators by a method"):
        integrate(table, registry=3)  # type: ignore[arg-type]
