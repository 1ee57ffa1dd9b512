"""Text of MLIR, and what its compiler says."""

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.backend.native.build import compile_text
from plica.backend.native.mlir.emit import emit
from plica.errors import UnsupportedError
from tests.harness.native import NativePrograms, assert_interpreted


def test_what_the_compiler_refuses_is_said_in_one_line() -> None:
    with pytest.raises(
        UnsupportedError, match=r'^the IREE compiler makes no code .*: it says: use of undeclared.*"native"'
    ):
        compile_text("func.func @f() -> i64 { return %x : i64 }")


def test_traces_of_one_function_are_emitted_alike() -> None:
    def factors(x):
        return *pnp.linalg.svd(x), *pnp.linalg.qr(x)

    programs = [plica.trace(factors, plica.spec(("n", "n"), "float64")) for _ in range(12)]
    assert len({emit(program, "factors").text for program in programs}) == 1


def test_integers_of_four_bits_are_bytes() -> None:
    def halves(x):
        return pnp.astype(x, "int4"), pnp.astype(x, "uint4")

    program = plica.trace(halves, plica.spec(("n",), "int64"))
    assert_interpreted(NativePrograms({"halves": program}), "halves", [np.arange(-20, 20)])
