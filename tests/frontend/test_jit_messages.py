"""What is said of integers that are divided by zero, of numbers beyond 64 bits, and of captured arrays that change."""
# ruff: noqa: ARG005 - the tables hold functions of loops' arguments

from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import BoundsError, DTypeError, InputError, VerifyError, ZeroDivisorError

WHOLE, ZERO = torch.tensor([4, 6]), torch.tensor([2, 0])
BEYOND = 2**63

DIVIDED: Any = {
    "tensors": (lambda a, b: a // b, (WHOLE, ZERO), None),
    "remainders of tensors": (lambda a, b: a % b, (WHOLE, ZERO), None),
    "numbers": (lambda a, b: pnp.zeros(3) + a // b, (4, 0), None),
    "a size of a new array": (lambda a, b: pnp.ones(a % b), (4, 0), None),
    "sizes": (lambda x, y: pnp.ones(x.shape[0] // y.shape[0]), (torch.ones(3), torch.ones(0)), ({0: "n"}, {0: "m"})),
    "in a loop": (lambda a, n: plica.for_loop(0, n, 1, lambda i, b: b + a // i, a), (WHOLE, 2), None),
}


@pytest.mark.parametrize(("function", "arguments", "axes"), DIVIDED.values(), ids=DIVIDED)
def test_an_integer_divided_by_zero_names_the_line(function: Any, arguments: Any, axes: Any) -> None:
    run = plica.jit(function, abstracted_axes=axes)
    with pytest.raises(ZeroDivisorError, match=r"test_jit_messages.py:\d+: an integer is divided by 0"):
        run(*arguments)


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_numpy_arrays_too(name: str) -> None:
    def divided(a: Any, b: Any) -> Any:
        return getattr(pnp, name)(a, b)

    whole, zero = np.asarray([5, 7]), np.asarray([2, 0], "int64")
    for run in (divided, plica.jit(divided, backend="interpreter")):
        with pytest.raises(ZeroDivisorError, match="an integer is divided by 0"):
            run(whole, zero)
        assert run(whole[:0], zero[1:]).shape == (0,)


def test_other_divisions_stay_what_they_are() -> None:
    run = plica.jit(lambda a, b: a // b)
    assert run(torch.tensor([1.0]), torch.tensor([0.0])).tolist() == [float("inf")]
    assert run(WHOLE, WHOLE).tolist() == [1, 1]
    with pytest.raises(ZeroDivisionError):  # as in Python
        run(4, 0)
    with pytest.raises(BoundsError, match=r"test_jit_messages.py:\d+: index 2 does not lie within axis 0 of size 2"):
        plica.jit(lambda a, i: a[i] * (a // a))(WHOLE, 2)


BEYOND_64_BITS: Any = {
    "an array": (lambda a: a + 1.5, (BEYOND,), {}),
    "a size": (lambda n: pnp.ones(n), (BEYOND,), {}),
    "beside an array": (lambda a, n: a + n, (WHOLE, -BEYOND - 1), {}),
    "an index": (lambda x, i: x[i], (WHOLE, BEYOND), {}),
    "in the interpreter": (lambda a: a + 1, (BEYOND,), {"backend": "interpreter"}),
}


@pytest.mark.parametrize(("function", "arguments", "settings"), BEYOND_64_BITS.values(), ids=BEYOND_64_BITS)
def test_a_number_beyond_64_bits_is_refused(function: Any, arguments: Any, settings: Any) -> None:
    run = plica.jit(function, **settings)
    for _ in range(2):  # and where the function is compiled already
        with pytest.raises(InputError, match=r"is -?\d{19}, which does not fit int64; pass a float"):
            run(*arguments)


IN_A_FUNCTION: Any = {
    "an update": (lambda x: x.at[0].set(BEYOND), "update"),
    "a carry": (lambda x: plica.for_loop(0, 3, 1, lambda i, a: a + 1, BEYOND), "an argument of for_loop"),
    "a bound": (lambda x: plica.for_loop(0, BEYOND, 1, lambda i, a: a + 1, x), "the bound of a loop"),
    "the result of a body": (lambda x: plica.for_loop(0, 3, 1, lambda i, a: BEYOND, 0), "the result of body"),
    "the result": (lambda x: (x, BEYOND), "the result of a traced function"),
}


@pytest.mark.parametrize(("function", "what"), IN_A_FUNCTION.values(), ids=IN_A_FUNCTION)
def test_a_number_beyond_64_bits_in_a_function_is_refused_with_its_line(function: Any, what: str) -> None:
    with pytest.raises(DTypeError, match=rf"test_jit_messages.py:\d+: {what}: the number {BEYOND} does not fit int64"):
        plica.jit(function)(WHOLE)


def test_a_number_in_a_program_fits_its_dtype() -> None:
    text = "{ lambda ; x:i64[] . let y:i64[] = add x 9223372036854775808:i64[] in (y,) }"
    with pytest.raises(VerifyError, match="an operand, 9223372036854775808, does not fit int64"):
        plica.parse(text)
    small = plica.jit(plica.parse("{ lambda ; x:i8[] . let y:i8[] = add x x in (y,) }"))
    assert small(100 - 40) == 120
    with pytest.raises(InputError, match="argument x is 300, which does not fit int8"):
        small(300)


def test_a_captured_tensor_keeps_its_shape() -> None:
    weight = torch.ones(3)
    run = plica.jit(lambda x: x * weight)
    run(torch.ones(3))
    for shape in (4, 1, (1, 3)):  # of which torch would broadcast two
        weight.data = torch.ones(shape)
        with pytest.raises(
            InputError, match=r"the captured array \w+ has shape .* now, but was compiled as \w+:f32\[3\]"
        ):
            run(torch.ones(3))
    weight.data = torch.full((3,), 2.0)
    assert run(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]


def test_a_captured_numpy_array_keeps_its_shape() -> None:
    kept = np.ones(3)
    run = plica.jit(lambda x: x * kept)
    run(torch.ones(3))
    kept.resize(4, refcheck=False)
    with pytest.raises(InputError, match=r"has shape \(4,\) now, .*; give it that shape again"):
        run(torch.ones(3))


def test_a_captured_array_keeps_its_dtype() -> None:
    """Torch would promote where it can, and fail with a message of its own where it cannot."""
    module = torch.nn.Linear(3, 1, bias=False)
    kept = np.ones(3, dtype=np.float32)
    scaled, multiplied = plica.jit(lambda x: x * module.weight), plica.jit(lambda x: x * kept)
    for run in (scaled, multiplied):
        run(torch.ones(3))
    module.double()
    with pytest.raises(
        InputError, match=r"has dtype torch.float64 now, but was compiled as \w+:f32\[1,3\]; give it that dtype"
    ):
        scaled(torch.ones(3))
    kept.dtype = np.dtype("int32")  # type: ignore[misc,assignment]  # the same bytes as other numbers
    with pytest.raises(InputError, match=r"has dtype torch.int32 now"):
        multiplied(torch.ones(3))
    module.float()
    assert scaled(torch.ones(3)).dtype == torch.float32
