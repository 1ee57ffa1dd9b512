"""The public names, and the functions on Programs that a user calls."""

import numpy as np
import pytest

import plica
from plica.errors import ParseError, PlicaError, VerifyError

TEXT = "{ lambda w:f32[3] ; {n:i64[]} x:f32[n,3] . let a:f32[n,3] = multiply x w in (a,) }"


def test_public_names_exist_and_are_all() -> None:
    for name in plica.__all__:
        assert getattr(plica, name).__module__.startswith("plica.")  # loaded when it is first asked for
    found = {name for name, value in vars(plica).items() if getattr(value, "__module__", "").startswith("plica")}
    assert set(plica.__all__) == {name for name in found if not name.startswith("_")}
    assert set(plica.__all__) < set(dir(plica))
    assert plica.__version__[0].isdigit()


def test_modules_are_found_and_other_names_are_not() -> None:
    assert plica.numpy.add.__module__ == "plica.numpy"
    with pytest.raises(AttributeError, match="module 'plica' has no attribute 'nope'"):
        _ = plica.nope
    assert not hasattr(plica, "_nope")


def test_a_function_goes_the_whole_way() -> None:
    program = plica.trace(lambda x, y: (x @ y, x.shape and x[0]), plica.spec((2, "n")), plica.spec("n"))
    assert plica.parse(str(program)) == program
    plica.verify(program)
    product, row = plica.interpret(program, np.ones((2, 3), "float32"), np.arange(3, dtype="float32"))
    assert product.tolist() == [3.0, 3.0]
    assert row.shape == (3,)


def test_leaves_and_precision() -> None:
    program = plica.parse(TEXT)
    (found,) = plica.interpret(program, np.ones((1, 3), "float32"), consts=[np.full(3, 0.1, "float32")], precise=True)
    assert found.dtype == np.float64
    assert found[0, 0] == np.float64(np.float32(0.1))


def test_what_is_wrong_raises_errors_of_the_package() -> None:
    with pytest.raises(ParseError, match="line 1, column 1"):
        plica.parse("")
    with pytest.raises(VerifyError, match="equation 0"):
        plica.parse(TEXT.replace("a:f32", "a:f64"))
    assert issubclass(ParseError, PlicaError)
    assert issubclass(VerifyError, PlicaError)
