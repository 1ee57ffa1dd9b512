import copy
import pickle

import numpy as np
import pytest

from plica.errors import DTypeError, ShapeError
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import ConstantTensorInitializer, DirichletInitializer, NormalInitializer
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
