from typing import Any, cast

import pytest

from plica.errors import InputError
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import DirichletInitializer, NormalInitializer, UniformInitializer
from plica.symbolic.layers import CategoricalLayer, GaussianLayer
from plica.symbolic.parameters import ClampParameter, SigmoidParameter, SoftmaxParameter, SoftplusParameter
from plica.symbolic.scope import Scope
from plica.templates.parameterization import (
    Parameterization,
    name_to_dtype,
    name_to_initializer,
    name_to_input_layer_factory,
    name_to_parameter_activation,
    named_parameterizations_to_factories,
    parameterization_to_factory,
)


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("softmax", SoftmaxParameter),
        ("sigmoid", SigmoidParameter),
        ("softplus", SoftplusParameter),
        ("positive-clamp", ClampParameter),
    ],
)
def test_activations(name: str, operation) -> None:
    activation = name_to_parameter_activation(name)
    assert activation is not None
    assert type(activation((2, 3))) is operation
    parameter = parameterization_to_factory(Parameterization(activation=name))((2, 3))
    assert [type(node).__name__ for node in parameter.nodes] == ["TensorParameter", operation.__name__]


def test_no_activation_is_the_leaf_alone() -> None:
    assert name_to_parameter_activation("none") is None
    parameter = parameterization_to_factory(Parameterization())((2, 3))
    assert len(parameter.nodes) == 1
    assert isinstance(parameter.leaves[0].initializer, NormalInitializer)


@pytest.mark.parametrize(
    ("name", "initializer"),
    [("uniform", UniformInitializer), ("normal", NormalInitializer), ("dirichlet", DirichletInitializer)],
)
def test_initializers(name: str, initializer) -> None:
    assert type(name_to_initializer(name)) is initializer


def test_settings_are_passed_on() -> None:
    factory = parameterization_to_factory(
        Parameterization(
            initialization="normal",
            initialization_kwargs={"stddev": 0.1},
            activation="softmax",
            activation_kwargs={"axis": 0},
            dtype="complex",
        )
    )
    parameter = factory((2, 3))
    leaf = parameter.leaves[0]
    assert (leaf.initializer.stddev, leaf.dtype, parameter.output.axis) == (0.1, DataType.COMPLEX, 0)
    assert factory((2, 3)).leaves[0] is not leaf


def test_integers_are_not_learned() -> None:
    leaf = parameterization_to_factory(Parameterization(dtype="integer"))((2,)).leaves[0]
    assert (leaf.dtype, leaf.learnable) == (DataType.INTEGER, False)


def test_the_clamp_is_positive() -> None:
    clamp: Any = name_to_parameter_activation("positive-clamp")
    assert clamp((2,)).vmin > 0
    higher: Any = name_to_parameter_activation("positive-clamp", vmin=0.5)
    assert higher((2,)).vmin == 0.5


def test_input_layers_by_name() -> None:
    factories = named_parameterizations_to_factories({"logits": Parameterization("uniform")})
    assert list(factories) == ["logits_factory"]
    layer = name_to_input_layer_factory("categorical", num_categories=3, **factories)(Scope([5]), 4)
    assert isinstance(layer, CategoricalLayer)
    assert (layer.scope, layer.num_output_units, layer.num_categories) == (Scope([5]), 4, 3)
    assert isinstance(layer.params["logits"].leaves[0].config["initializer"], UniformInitializer)
    assert isinstance(name_to_input_layer_factory("gaussian")(Scope([0]), 2), GaussianLayer)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: Parameterization("gauss"),
            InputError,
            "unknown initialization 'gauss'; expected one of uniform, normal",
        ),
        (
            lambda: Parameterization(activation="relu"),
            InputError,
            "unknown activation 'relu'; expected one of none, soft",
        ),
        (lambda: Parameterization(dtype="float"), InputError, "unknown dtype 'float'; expected one of integer, real"),
        (
            lambda: Parameterization(initialization_kwargs={"std": 1.0}),
            InputError,
            "initialization 'normal' does not take the settings std",
        ),
        (lambda: Parameterization(activation_kwargs={"axis": 0}), InputError, "'none' takes no settings, found axis"),
        (
            lambda: Parameterization(activation="softplus", activation_kwargs={"axis": 0}),
            InputError,
            "activation 'softplus' does not take the settings axis",
        ),
        (lambda: name_to_dtype("int"), InputError, "unknown dtype"),
        (lambda: name_to_input_layer_factory("normal"), InputError, "unknown input layer 'normal'"),
        (lambda: name_to_input_layer_factory("categorical"), InputError, "num_categories"),
        (
            lambda: name_to_input_layer_factory(cast(Any, GaussianLayer)),
            InputError,
            r"\(input_factory=GaussianLayer, ...\)",
        ),
    ],
)
def test_refuses(make, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
