"""Splats are read as numbers, and nothing else is."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import plica
from plica.ir.text import parse_program
from plica.ops import OPS
from plica.passes.dead_code import eliminate_dead_code
from plica.passes.splats import read_splats
from tests.harness.constant_programs import constant_programs, named_arguments
from tests.harness.programs import assert_same
from tests.harness.random_programs import SIZES

X = np.linspace(-1, 2, 6).reshape(2, 3)


def _after(lines: str, result: str = "r") -> list[str]:
    """The equations that are left, and that they compute what was computed before, to the bit."""
    head = "{ lambda ; {b:i64[]} x:f64[2,b] m:bool[2,b] . let\n"
    program = parse_program(f"{head}{lines}\n in ({result},) }}", OPS)
    found = eliminate_dead_code(read_splats(program))
    plica.verify(found)
    for arrays in ((X, X > 0), (X[:, :0], X[:, :0] > 0)):
        for one, expected in zip(plica.interpret(found, *arrays), plica.interpret(program, *arrays), strict=True):
            np.testing.assert_array_equal(one, expected)
    return [str(one).strip() for one in str(found).splitlines()[1:-1]]


READ = {
    "beside an array": "a:f64[2,1] = full[shape=(2,1)] 3.0:f64[]\n r:f64[2,b] = multiply x a",
    "parts": """a:f64[4,1] = full[shape=(4,1)] 3.0:f64[]
        c:f64[2,1] d:f64[2,1] = split[axis=0 sizes=(2,2)] a
        r:f64[2,b] = multiply x d""",
    "joined": """a:f64[1,1] = full[shape=(1,1)] 3.0:f64[]
        c:f64[2,1] = concat[axis=0] a a
        r:f64[2,b] = multiply x c""",
    "computed": """a:f64[2,1] = full[shape=(2,1)] 1.0:f64[]
        c:f64[2,1] = add a 2.0:f64[]
        r:f64[2,b] = multiply x c""",
    "chosen": """a:f64[2,b] = full[shape=(2,b)] 3.0:f64[]
        c:f64[2,b] = where m a 3.0:f64[]
        r:f64[2,b] = multiply x c""",
    "broadcast": """a:f64[1] = full[shape=(1,)] 3.0:f64[]
        c:f64[2,b] = broadcast_to[shape=(2,b)] a
        r:f64[2,b] = multiply x c""",
    "one of two joined numbers": """a:f64[1,1] = full[shape=(1,1)] 3.0:f64[]
        c:f64[1,1] = full[shape=(1,1)] 2.0:f64[]
        d:f64[2,1] = concat[axis=0] a c
        e:f64[1,1] f:f64[1,1] = split[axis=0 sizes=(1,1)] d
        r:f64[2,b] = multiply x e""",
    "the larger of two joined numbers and one": """a:f64[1,1] = full[shape=(1,1)] -3.0:f64[]
        c:f64[1,1] = full[shape=(1,1)] 2.0:f64[]
        d:f64[2,1] = concat[axis=0] a c
        e:f64[2,1] = maximum d 3.0:f64[]
        r:f64[2,b] = multiply x e""",
}


@pytest.mark.parametrize("name", READ)
def test_a_splat_is_read_as_a_number(name) -> None:
    assert _after(READ[name]) == ["r:f64[2,b] = multiply x 3.0:f64[]"]


LEFT = {
    "an array of many numbers": """a:f64[4096,1] = full[shape=(4096,1)] 3.0:f64[]
        c:f64[4096,1] = full[shape=(4096,1)] 2.0:f64[]
        d:f64[8192,1] = concat[axis=0] a c
        e:f64[2,1] f:f64[8190,1] = split[axis=0 sizes=(2,8190)] d
        r:f64[2,b] = multiply x e""",
    "the result would be smaller": "a:f64[5,2,b] = full[shape=(5,2,b)] 3.0:f64[]\n r:f64[5,2,b] = multiply x a",
    "two numbers": """a:f64[1,1] = full[shape=(1,1)] 3.0:f64[]
        c:f64[1,1] = full[shape=(1,1)] 2.0:f64[]
        d:f64[2,1] = concat[axis=0] a c
        r:f64[2,b] = multiply x d""",
    "zeros of two signs": """a:f64[2,b] = full[shape=(2,b)] 0.0:f64[]
        c:f64[2,b] = full[shape=(2,b)] -0.0:f64[]
        d:f64[2,b] = where m a c
        r:f64[2,b] = divide x d""",
    "a sum": """a:f64[2,4] = full[shape=(2,4)] 3.0:f64[]
        c:f64[2,1] = sum[axis=(1,) keepdims=True] a
        r:f64[2,b] = multiply x c""",
    "an exponential, which backends round differently": """a:f64[2,1] = full[shape=(2,1)] 3.0:f64[]
        c:f64[2,1] = exp a
        r:f64[2,b] = multiply x c""",
}


@pytest.mark.parametrize("name", LEFT)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_no_splat_is_left(name) -> None:
    last = LEFT[name].splitlines()[-1].strip()
    assert _after(LEFT[name])[-1] == last


def test_what_needs_an_array_has_one_of_its_own_size() -> None:
    lines = """a:f64[4,1] = full[shape=(4,1)] 3.0:f64[]
        c:f64[2,1] d:f64[2,1] = split[axis=0 sizes=(2,2)] a
        e:f64[2,1] = negative d
        r:f64[2,b] = einsum[equation='fi,fb->fb'] e x"""
    assert _after(lines) == [
        "e:f64[2,1] = full[shape=(2,1)] -3.0:f64[]",
        "r:f64[2,b] = einsum[equation='fi,fb->fb'] e x",
    ]


@settings(max_examples=30)
@given(constant_programs(), st.sampled_from(SIZES))
def test_random_programs_compute_the_same(drawn, sizes) -> None:
    program = drawn[0]
    found = eliminate_dead_code(read_splats(program))
    plica.verify(found)
    given_ = named_arguments(program, sizes)
    for one, expected in zip(
        plica.interpret(found, *given_.values()), plica.interpret(program, *given_.values()), strict=True
    ):
        assert_same(one, expected)


@settings(max_examples=20)
@given(st.sampled_from(["int8", "uint8", "float16", "bfloat16", "int64"]))
def test_numbers_wrap_and_round_as_arrays_do(dtype) -> None:
    import plica.numpy as pnp

    def fn(x):
        return x + (pnp.full((3,), 100, dtype=dtype) + pnp.full((3,), 101, dtype=dtype)) * pnp.full(
            (3,), 3, dtype=dtype
        )

    program = plica.trace(fn, plica.spec((3,), dtype))
    x = np.arange(3).astype(program.arguments[0].type.dtype.numpy)
    for one, expected in zip(
        plica.interpret(eliminate_dead_code(read_splats(program)), x), plica.interpret(program, x), strict=True
    ):
        np.testing.assert_array_equal(one, expected)
