import copy
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

import plica
from plica.errors import DTypeError, ShapeError, UnsupportedError
from plica.lower.arrays import initial_arrays
from plica.lower.compiled import CircuitCompiler
from plica.pipeline import PipelineContext
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import ConstantTensorInitializer, DirichletInitializer, NormalInitializer
from plica.symbolic.layers import GaussianLayer
from plica.symbolic.parameters import ConstantParameter, ExpParameter, ReferenceParameter, TensorParameter


def test_tensor_parameter_has_its_settings() -> None:
    initializer = NormalInitializer()
    leaf = TensorParameter(2, 3, initializer=initializer, learnable=False, dtype=DataType.COMPLEX, name="w")
    assert leaf.shape == (2, 3)
    assert leaf.config == {"initializer": initializer, "learnable": False, "dtype": DataType.COMPLEX, "name": "w"}
    again = TensorParameter(*leaf.shape, **leaf.config)
    assert (again.shape, again.config) == (leaf.shape, leaf.config)
    assert again != leaf
    loaded = pickle.loads(pickle.dumps(leaf))
    assert (loaded.shape, loaded.name) == ((2, 3), "w")


def test_constant_parameter_holds_a_number_or_an_array() -> None:
    assert ConstantParameter(2, 3).value == 0.0
    values = np.arange(6).reshape(2, 3)
    leaf = ConstantParameter(2, 3, value=values)
    values[0, 0] = 9
    assert np.asarray(leaf.value)[0, 0] == 0
    assert leaf.dtype == DataType.INTEGER
    assert ConstantParameter(1, value=1j).dtype == DataType.COMPLEX
    assert ConstantParameter(2, value=[0.5, 1.5]).dtype == DataType.REAL
    assert np.asarray(copy.deepcopy(leaf).value).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_references_lead_to_the_leaf() -> None:
    leaf = TensorParameter(2, initializer=NormalInitializer())
    reference = ReferenceParameter(ReferenceParameter(leaf))
    assert reference.parameter is leaf
    assert reference.deref() is leaf
    assert (reference.shape, reference.dtype) == (leaf.shape, leaf.dtype)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: TensorParameter(2, 3, initializer=ConstantTensorInitializer(np.zeros(3))),
            ShapeError,
            r"ConstantTensorInitializer .* cannot fill shape \(2, 3\)",
        ),
        (
            lambda: TensorParameter(2, 3, initializer=DirichletInitializer([1.0, 1.0])),
            ShapeError,
            "DirichletInitializer .* cannot fill",
        ),
        (lambda: TensorParameter(0, initializer=NormalInitializer()), ShapeError, "at least 1"),
        (
            lambda: TensorParameter(1, initializer=NormalInitializer(), dtype=DataType.INTEGER),
            DTypeError,
            "integers cannot be learned; pass learnable=False",
        ),
        (lambda: ConstantParameter(2, 3, value=np.zeros((3, 2))), ShapeError, r"shape \(2, 3\), found \(3, 2\)"),
        (lambda: ConstantParameter(2, value=["a", "b"]), DTypeError, r"expected numbers .*, found \['a', 'b'\]"),
        (lambda: ConstantParameter(2, value=10**30), DTypeError, "numbers that fit 64 bits, found 10000"),
        (lambda: ConstantParameter(2, value=[[1], [1, 2]]), ShapeError, "give every row the same length"),
        (lambda: ReferenceParameter(ExpParameter((2,))), DTypeError, "expected a leaf of a parameter, found Exp"),  # type: ignore[arg-type]
    ],
)
def test_refuses(make, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_an_initializer_is_assigned_until_the_leaf_is_compiled() -> None:
    leaf = TensorParameter(2, 3, initializer=NormalInitializer())
    leaf.initializer = ConstantTensorInitializer(2.5)
    assert leaf.config["initializer"] is leaf.initializer
    shared = ReferenceParameter(leaf)
    context = PipelineContext()
    assert context.compile_parameter(shared)().tolist() == [[[2.5] * 3] * 2]
    before = leaf.initializer
    with pytest.raises(UnsupportedError, match=r"the leaf .* was compiled.*assign it before the circuit is compiled"):
        leaf.initializer = NormalInitializer()
    assert leaf.initializer is before


def test_an_initializer_may_come_and_go_before_compilation() -> None:
    leaf = TensorParameter(2, initializer=None, name="mean")
    leaf.initializer = ConstantTensorInitializer(np.array([1.0, 2.0]))
    layer = GaussianLayer([0], 2, mean=leaf)
    circuit = plica.compile(Circuit([layer], {}, [layer]))
    assert circuit.state_dict()["mean"].tolist() == [1.0, 2.0]
    other = TensorParameter(2, initializer=NormalInitializer(), name="mean")
    other.initializer = None
    layer = GaussianLayer([0], 2, mean=other)
    circuit = plica.compile(Circuit([layer], {}, [layer]))
    assert "mean" not in circuit.state_dict()
    with pytest.raises(UnsupportedError, match="the leaf 'mean' was compiled"):
        other.initializer = NormalInitializer()


def test_native_files_and_layers_compile_leaves_too() -> None:
    leaves = [TensorParameter(2, initializer=NormalInitializer(), name="mean") for _ in range(2)]
    layers = [GaussianLayer([0], 2, mean=leaf) for leaf in leaves]
    initial_arrays(CircuitCompiler().compile(Circuit([layers[0]], {}, [layers[0]])))
    PipelineContext().compile_layer(layers[1])
    for leaf in leaves:
        with pytest.raises(UnsupportedError, match="was compiled"):
            leaf.initializer = NormalInitializer()


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (3.0, DTypeError, r"expected an initializer, such as NormalInitializer\(\), found 3.0"),
        (ConstantTensorInitializer(np.zeros(3)), ShapeError, r"cannot fill shape \(2,\)"),
    ],
)
def test_a_wrong_initializer_is_not_assigned(value: Any, error: type[Exception], message: str) -> None:
    leaf = TensorParameter(2, initializer=NormalInitializer())
    before = leaf.initializer
    with pytest.raises(error, match=message):
        leaf.initializer = value
    assert leaf.initializer is before


@pytest.mark.parametrize("name", ["shape", "learnable", "dtype", "name", "is_compiled", "other"])
def test_nothing_else_is_assigned(name: str) -> None:
    leaf = TensorParameter(2, initializer=NormalInitializer())
    with pytest.raises(FrozenInstanceError, match=name):
        setattr(leaf, name, None)
    with pytest.raises(FrozenInstanceError, match=name):
        delattr(leaf, name)


def test_copies_of_leaves_have_their_settings() -> None:
    leaf = TensorParameter(2, 3, initializer=NormalInitializer(), name="w")
    for other in (copy.copy(leaf), copy.deepcopy(leaf), pickle.loads(pickle.dumps(leaf))):
        assert (other.shape, other.name, other.learnable) == ((2, 3), "w", True)
        other.initializer = ConstantTensorInitializer(1.0)
        assert other.initializer is not leaf.initializer
