"""The interpreter: what it refuses on entry, which dtypes it computes in, and sizes that it reads off shapes."""

import numpy as np
import pytest

from plica.errors import DTypeError, InputError
from plica.frontend.programs import interpret, parse

LINEAR = parse(
    """{ lambda w:f32[3] ; {n:i64[]} {m:i64[]} x:f32[n,3] y:f32[m,n+1] . let
    a:f32[n,3] = multiply x w
    b:f32[n] = sum[axis=(1,) keepdims=False] a
    c:i64[n*m] = arange[size=n*m dtype=i64]
  in (b, c, n, 2.5:f32[]) }"""
)
X, Y, W = np.ones((2, 3), "float32"), np.ones((4, 3), "float32"), np.arange(3, dtype="float32")
NAN = np.asarray([np.nan], "float32")

REFUSED = (
    ((X,), (W,), InputError, r"takes 2 argument\(s\) \(x:f32\[n,3\], y:f32\[m,n\+1\]\), but 1 were given"),
    ((X, Y, X), (W,), InputError, "but 3 were given"),
    ((X, Y), (), InputError, "captures 1 leaves, but 0 were given"),
    ((X, Y), (W, W), InputError, "captures 1 leaves, but 2 were given"),
    ((X, Y), (W[:2],), InputError, r"leaf w is float32 of shape \(2,\), but the program expects w?.*f32\[3\]"),
    ((X, Y), (W.astype("float64"),), InputError, "leaf w is float64"),
    ((X.astype("float64"), Y), (W,), DTypeError, "argument x has dtype float64, but the program was made for float32"),
    ((X[0], Y), (W,), InputError, r"argument x has shape \(3,\), but the program expects f32\[n,3\]"),
    ((X[:, :2], Y), (W,), InputError, r"argument x has shape \(2, 2\).*axis 1 is 2, expected 3"),
    ((X, Y[:, :2]), (W,), InputError, r"argument y has shape \(4, 2\).*axis 1 is 2, expected 3 \(n\+1 = 3\)"),
)


@pytest.mark.parametrize(("args", "consts", "error", "message"), REFUSED)
def test_arguments_that_do_not_fit(args, consts, error, message) -> None:
    with pytest.raises(error, match=message):
        interpret(LINEAR, *args, consts=consts)


@pytest.mark.parametrize(("n", "m"), [(2, 4), (0, 1), (5, 0)])
def test_sizes_are_read_off_the_arguments(n: int, m: int) -> None:
    b, c, size, literal = interpret(
        LINEAR, np.ones((n, 3), "float32"), np.ones((m, n + 1), "float32"), consts=[np.arange(3, dtype="float32")]
    )
    assert b.tolist() == [3.0] * n
    assert c.tolist() == list(range(n * m))
    assert (size.dtype, size.shape, int(size)) == (np.int64, (), n)
    assert (literal.dtype, literal.shape) == (np.float32, ())


def test_inconsistent_sizes_are_refused() -> None:
    program = parse("{ lambda ; {n:i64[]} x:f32[n] y:f32[n] z:f32[2*n] . let in (x,) }")
    with pytest.raises(InputError, match=r"argument y has shape \(3,\), .*axis 0 is 3, expected 2 \(n = 2\)"):
        interpret(program, *(np.ones(size, "float32") for size in (2, 3, 4)))
    with pytest.raises(InputError, match=r"argument z has shape \(5,\), .*expected 4 \(2\*n = 4\)"):
        interpret(program, *(np.ones(size, "float32") for size in (2, 2, 5)))


def test_declared_dtypes_are_computed_in() -> None:
    program = parse("{ lambda ; x:f32[1] . let a:f32[1] = add x 1e-09:f32[] b:f32[1] = subtract a x in (b,) }")
    assert interpret(program, np.ones(1, "float32"))[0].tolist() == [0.0]
    (precise,) = interpret(program, np.ones(1, "float32"), precise=True)
    assert precise.dtype == np.float64
    np.testing.assert_allclose(precise, 1e-9, rtol=1e-6)


def test_precise_widens_what_is_made_or_converted_within() -> None:
    program = parse(
        """{ lambda w:f16[] ; x:i32[1] z:c64[] . let
        a:f32[1] = astype[dtype=f32] x
        b:f32[3] = arange[size=3 dtype=f32]
        c:i32[1] = add x 1:i32[]
        d:c64[] = multiply z z
      in (a, b, c, d, w) }"""
    )
    args = np.asarray([2**24 + 1], "int32"), np.asarray(1j, "complex64")
    plain = interpret(program, *args, consts=[np.float16(0.5)])
    assert [str(array.dtype) for array in plain] == ["float32", "float32", "int32", "complex64", "float16"]
    assert plain[0].tolist() == [2.0**24]
    precise = interpret(program, *args, consts=[np.float16(0.5)], precise=True)
    assert [str(array.dtype) for array in precise] == ["float64", "float64", "int32", "complex128", "float64"]
    assert precise[0].tolist() == [2.0**24 + 1]


def test_lists_of_the_right_dtype_are_arrays() -> None:
    program = parse("{ lambda ; x:f64[2] y:i64[] . let in (x, y) }")
    assert [array.tolist() for array in interpret(program, [1.0, 2.0], 3)] == [[1.0, 2.0], 3]


def test_nothing_is_said_of_nan_and_infinity(recwarn: pytest.WarningsRecorder) -> None:
    program = parse("{ lambda ; x:f32[1] . let a:f32[1] = log x b:f32[1] = divide x x c:f32[1] = exp x in (a, b, c) }")
    interpret(program, NAN)
    interpret(program, np.zeros(1, "float32"))
    interpret(program, np.full(1, 1e38, "float32"))
    assert not recwarn.list
