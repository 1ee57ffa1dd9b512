"""Construction of layers: sizes, config, parameters, references and the keys for folding."""

from dataclasses import dataclass
from functools import partial

import pytest

from plica.errors import ShapeError
from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import REALS, Domain, finite
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import (
    CategoricalLayer,
    CPTLayer,
    GaussianLayer,
    HadamardLayer,
    InputLayer,
    KroneckerLayer,
    Layer,
    SumLayer,
    TensorDotLayer,
    TuckerLayer,
)
from plica.symbolic.parameters import (
    ConstantParameter,
    MixingWeightParameter,
    Parameter,
    ReferenceParameter,
    SoftmaxParameter,
    TensorParameter,
    mixing_weight_factory,
    softmax_normal,
)
from plica.symbolic.scope import Scope


def normal(*shape: int) -> TensorParameter:
    return TensorParameter(*shape, initializer=NormalInitializer())


MIXING = partial(mixing_weight_factory, param_factory=softmax_normal)

# layer, (input units, output units, arity), its repr
TABLE: list[tuple[Layer, tuple[int, int, int], str]] = [
    (CategoricalLayer([3], 4, num_categories=5), (1, 4, 0), "CategoricalLayer(scope={3}, 4)"),
    (CategoricalLayer([3], 4, num_categories=5, probs=normal(4, 5)), (1, 4, 0), "CategoricalLayer(scope={3}, 4)"),
    (GaussianLayer([0], 2), (1, 2, 0), "GaussianLayer(scope={0}, 2)"),
    (GaussianLayer([0], 2, log_partition=normal(2)), (1, 2, 0), "GaussianLayer(scope={0}, 2)"),
    (HadamardLayer(4), (4, 4, 2), "HadamardLayer(arity=2, 4 -> 4)"),
    (KroneckerLayer(4, 3), (4, 64, 3), "KroneckerLayer(arity=3, 4 -> 64)"),
    (SumLayer(4, 2), (4, 2, 1), "SumLayer(arity=1, 4 -> 2)"),
    (SumLayer(16, 16, arity=2, weight_factory=MIXING), (16, 16, 2), "SumLayer(arity=2, 16 -> 16)"),
    (TuckerLayer(4, 2, 3), (4, 2, 3), "TuckerLayer(arity=3, 4 -> 2)"),
    (CPTLayer(4, 2, 3), (4, 2, 3), "CPTLayer(arity=3, 4 -> 2)"),
    (TensorDotLayer(2, 3, 4, 5), (24, 40, 1), "TensorDotLayer(arity=1, 24 -> 40)"),
]


@pytest.mark.parametrize(("layer", "sizes", "text"), TABLE)
def test_sizes_and_text(layer: Layer, sizes: tuple[int, int, int], text: str) -> None:
    assert (layer.num_input_units, layer.num_output_units, layer.arity) == sizes
    assert repr(layer) == text


def test_default_parameters() -> None:
    weight = SumLayer(3, 2, 2).weight
    assert weight.shape == (2, 6)
    assert isinstance(weight.output, SoftmaxParameter)
    assert weight.output.axis == -1
    categorical = CategoricalLayer([0], 4, num_categories=5)
    assert list(categorical.params) == ["logits"]
    assert categorical.domain == finite(5)
    gaussian = GaussianLayer([0], 4)
    assert gaussian.domain == REALS
    assert gaussian.params["stddev"].shape == (4,)


def test_factories_get_the_shape() -> None:
    asked = []

    def factory(shape):
        asked.append(shape)
        return normal(*shape)

    SumLayer(3, 2, 4, weight_factory=factory)
    CategoricalLayer([0], 2, num_categories=7, probs_factory=factory)
    CategoricalLayer([0], 2, num_categories=7, logits_factory=factory)
    GaussianLayer([0], 5, mean_factory=factory, stddev_factory=factory)
    assert asked == [(2, 12), (2, 7), (2, 7), (5,), (5,)]


def test_mixing_works_on_the_small_weights() -> None:
    layer = SumLayer(4, 4, 3, weight_factory=MIXING)
    assert layer.mixing
    assert layer.params["weight"].shape == (4, 12)
    assert layer.evaluated_params["weight"].shape == (4, 3)
    assert layer.copyref().mixing
    dense = SumLayer(4, 4, 3)
    assert not dense.mixing
    assert dense.evaluated_params == dense.params


def test_mixing_weights_of_another_form_are_dense() -> None:
    # (2, 8) is H=4 diagonals of 2 units, but the layer reads 2 inputs of 4 units
    weight = Parameter.from_unary(MixingWeightParameter((2, 4)), normal(2, 4))
    layer = SumLayer(4, 2, 2, weight=weight)
    assert not layer.mixing
    assert layer.evaluated_params["weight"].shape == (2, 8)


def test_fold_settings_ignore_scopes_and_tell_apart_what_computes_differently() -> None:
    first, second = (CategoricalLayer([v], 4, num_categories=5) for v in (0, 9))
    longer = CategoricalLayer([0], 4, num_categories=6)  # folds by padding
    assert first.fold_settings() == second.fold_settings() == longer.fold_settings()
    others = [
        CategoricalLayer([0], 5, num_categories=5),
        CategoricalLayer([0], 4, num_categories=5, probs=normal(4, 5)),
        GaussianLayer([0], 4),
        GaussianLayer([0], 4, log_partition=normal(4)),
        SumLayer(1, 1, 2),
        SumLayer(1, 1, 2, weight_factory=MIXING),
        HadamardLayer(4),
        KroneckerLayer(4),
    ]
    keys = [layer.fold_settings() for layer in (first, *others)]
    assert len(set(keys)) == len(keys)


@dataclass(frozen=True, eq=False)
class Shifted(InputLayer):
    """A layer of one's own, written as an ordinary dataclass."""

    scope: Scope
    num_output_units: int
    mean: Parameter
    shift: float = 0.5
    domain: Domain = REALS

    @property
    def config(self) -> dict[str, object]:
        return {"scope": self.scope, "num_output_units": self.num_output_units, "shift": self.shift}

    @property
    def params(self) -> dict[str, Parameter]:
        return {"mean": self.mean}


def test_a_layer_of_ones_own_is_a_dataclass() -> None:
    first, second = (Shifted(Scope([v]), 3, Parameter.from_input(normal(3))) for v in (0, 1))
    assert (first.arity, first.num_input_units, first.num_variables) == (0, 1, 1)
    assert first.fold_settings() == second.fold_settings()
    assert first.fold_settings() != Shifted(Scope([0]), 3, first.mean, shift=1.0).fold_settings()
    (reference,) = first.copyref().mean.leaves
    assert isinstance(reference, ReferenceParameter)
    assert reference.deref() is first.mean.leaves[0]
    total = SumLayer(3, 1)
    circuit = Circuit([first, total], {total: [first]}, [total])
    assert circuit.scope == Scope([0])
    assert circuit.layer_name(first).startswith("Shifted(0, ")


def test_scope_may_be_any_iterable() -> None:
    assert GaussianLayer({4}, 1).scope == Scope([4])


def test_with_params_keeps_names_and_shapes() -> None:
    with pytest.raises(ShapeError, match="with_params: expected parameters of shapes"):
        SumLayer(3, 2).with_params({"weight": Parameter.from_input(ConstantParameter(3, 2))})
    with pytest.raises(ShapeError, match="with_params"):
        HadamardLayer(2).with_params({"w": Parameter.from_input(normal(1))})
