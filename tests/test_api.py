"""The public names, and the functions on Programs that a user calls."""

import numpy as np
import pytest

import plica
from plica.errors import ParseError, PlicaError, VerifyError

TEXT = "{ lambda w:f32[3] ; {n:i64[]} x:f32[n,3] . let a:f32[n,3] = multiply x w in (a,) }"


def test_public_names_exist_and_are_all() -> None:
    ours = {name for name, value in vars(plica).items() if getattr(value, "__module__", "").startswith("plica")}
    assert set(plica.__all__) == ours
    assert plica.__version__[0].isdigit()


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
