"""Nests as shared libraries: what pointers give is what the interpreter gives, and what they leave is given back."""

import ctypes
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings

import plica
import plica.numpy as pnp
from plica.backend.native.loops.build import build_nest
from plica.backend.native.loops.calls import compile_jit
from plica.backend.native.loops.compile import machine, optimized
from plica.backend.native.loops.llvm import llvm_text
from plica.backend.native.loops.product import blocked_product
from plica.backend.native.loops.shared_library import MACHINES, library
from plica.backend.native.loops.support import PRODUCTS
from plica.errors import NativeFileError, UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.interpret import interpret_program
from plica.ops import OPS
from plica.runtime.machine import LEVELS, architecture, features
from plica.runtime.shared_library import Library, SelfAllocated
from tests.harness.function_runs import TOLERANCE, assert_same
from tests.harness.libraries import HOST, compile_library
from tests.harness.random_programs import SIZES, arguments, programs

_ELF_OF = {"x86_64": 62, "aarch64": 183}


def _fitting() -> list[Any]:
    """The machines that this one is; by default the best of them."""
    is_known = architecture() == "x86_64"
    names = [name for name, wanted in LEVELS.items() if set(wanted) <= features()] if is_known else [HOST.name]
    return [pytest.param(MACHINES[name], id=name, marks=[pytest.mark.full] * (name != HOST.name)) for name in names]


def _traced(function: Callable[..., Any], *specs: Any) -> Any:
    return plica.trace(function, *(plica.spec(*one) if isinstance(one, tuple) else one for one in specs))


def _agrees(program: Any, *given_: Any) -> None:
    for one, other in zip(compile_library(program)(*given_), interpret_program(program, OPS, given_), strict=True):
        tolerance = TOLERANCE.get(other.dtype.name, 0.0)
        assert_same(one, np.asarray(other), tolerance, "a library")


@settings(max_examples=4, deadline=None)
@given(programs())
def test_random_programs_give_what_the_interpreter_gives(program):
    run = compile_library(program)
    for sizes in SIZES:
        drawn = arguments(program, sizes)
        for one, other in zip(run(*drawn), interpret_program(program, OPS, drawn), strict=True):
            assert_same(one, other, TOLERANCE.get(other.dtype.name, 0.0), f"a library at {sizes}")


def test_numbers_of_all_kinds_go_in_and_out():
    def function(x, half, brain, flags, point, count, flag, phase):
        chosen = pnp.where(flags, x, half.astype("float64"))
        return chosen * point + count, pnp.logical_xor(flags, flag), half * half, brain + 1.0, phase * phase, flag

    specs = [(("n",), name) for name in ("float64", "float16", "bfloat16", "bool")]
    scalars = [((), name) for name in ("float64", "int64", "bool", "complex128")]
    program = _traced(function, *specs, *scalars)
    x = np.linspace(-2, 2, 5)
    flags = np.asarray([True, False, True, False, False])
    given_ = [x, x.astype(np.float16), x.astype(ml_dtypes.bfloat16), flags, 1.5, 7, True, 1 + 2j]
    given_ = [np.asarray(one) for one in given_]
    _agrees(program, *given_)


@pytest.mark.parametrize("name", [*MACHINES])
def test_numbers_of_every_dtype_are_passed_to_functions_on_every_machine(name: str) -> None:
    dtypes = [dtype for dtype in DType if dtype.bits >= 8 or dtype == DType.BOOL]
    program = _traced(
        lambda *numbers: [plica.cond(x > 1, lambda x=x: x * x, lambda x=x: x + x) for x in numbers],
        *(((), dtype.value) for dtype in dtypes if dtype.kind not in ("complex", "bool")),
    )
    whole = _traced(lambda x, y: pnp.einsum("ab,->", x, y), (("a", "b"), "bfloat16"), ((), "bfloat16"))
    assert library({"numbers": build_nest(program, has_blas=False), "whole": build_nest(whole)}, MACHINES[name])
    if name == HOST.name:
        _agrees(
            program, *(np.asarray(2 - number % 2, one.type.dtype.numpy) for number, one in enumerate(program.arguments))
        )
        _agrees(whole, np.ones((2, 3), ml_dtypes.bfloat16), np.asarray(-1.5, ml_dtypes.bfloat16))


def test_results_whose_sizes_only_the_nest_knows_live_on_and_are_given_back(monkeypatch):
    given_back, release = [], Library._release

    def noted(self, address):
        given_back.append(address)
        release(self, address)

    monkeypatch.setattr(Library, "_release", noted)
    program = _traced(lambda x: (pnp.unique_values(x), x * 2.0, pnp.nonzero(x > 0.0)[0]), (("n",), "float64"))
    nest = build_nest(program)
    loaded = Library(library({"main": nest}, HOST))
    x = np.asarray([1.0, -1.0, 3.0])
    doubled = np.empty(3)
    left = [SelfAllocated(1, np.dtype(np.float64)), SelfAllocated(1, np.dtype(np.int64))]
    _, [distinct, places], _ = loaded.call("main", [x], [3], [doubled], left)
    address = places.ctypes.data
    del loaded
    np.testing.assert_array_equal(distinct, [-1.0, 1.0, 3.0])
    np.testing.assert_array_equal(places, [0, 2])
    np.testing.assert_array_equal(doubled, [2.0, -2.0, 6.0])
    part = places[1:]
    del places
    assert not given_back
    del part
    assert given_back == [address]
    del distinct
    assert len(given_back) == 2


def test_an_error_tells_its_numbers():
    program = _traced(lambda x, i: pnp.take(x, i), (("n",), "float64"), (("m",), "int64"))
    run = compile_library(program)
    np.testing.assert_array_equal(run(np.arange(3.0), np.asarray([2, 0]))[0], [2.0, 0.0])
    with pytest.raises(IndexError) as found:
        run(np.arange(3.0), np.asarray([0, 5]))
    with pytest.raises(IndexError) as expected:
        interpret_program(program, OPS, [np.arange(3.0), np.asarray([0, 5])])
    assert "5" in str(found.value)
    assert type(found.value) is type(expected.value)


@pytest.mark.parametrize("kind", _fitting())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("is_packed", [True, False])
def test_products_without_blas_are_right_at_all_edges(dtype, kind, is_packed, monkeypatch):
    if is_packed:  # small ones too, which are loops over blocks
        monkeypatch.setattr("plica.backend.native.loops.rows.linalg.PACKED_FROM", 1)
        monkeypatch.setattr("plica.backend.native.loops.rows.linalg.PACKED_SIDE", 1)

    def function(a, b, c, d):
        return a @ b, pnp.permute_dims(c, (1, 0)) @ b, a @ pnp.permute_dims(d, (1, 0))

    specs = [(shape, dtype) for shape in (("m", "k"), ("k", "n"), ("k", "m"), ("n", "k"))]
    program = _traced(function, *specs)
    generator = np.random.default_rng(0)
    run = compile_library(program, kind)
    # a tile, more than a block of rows, of columns and of steps, few rows, one entry, no steps, no rows
    for m, n, k in (
        (24, 24, 24),
        (193, 70, 400),
        (20, 1100, 65),
        (7, 3, 900),
        (1, 1, 20000),
        (40, 40, 0),
        (0, 40, 400),
    ):
        drawn = [generator.normal(size=shape).astype(dtype) for shape in ((m, k), (k, n), (k, m), (n, k))]
        a, b, c, d = (one.astype(np.float64) for one in drawn)
        for found, wanted in zip(run(*drawn), (a @ b, c.T @ b, a @ d.T), strict=True):
            bound = np.finfo(dtype).eps * (k + 1) * 8  # entries are about 1
            np.testing.assert_allclose(found, wanted, rtol=0, atol=bound, err_msg=f"{m}, {n}, {k}")


def test_memory_of_a_product_goes_in_the_branch_that_took_it():
    """Loops over blocks of rows have some, packed products have none; which one runs is known in each turn."""

    def powers(a, x, turns):
        def turn(_, x, total):
            x = pnp.concat([x, x[:1]]) @ a
            return x, total + pnp.sum(x)

        return plica.for_loop(0, turns, 1, turn, x, 0.0, preserve_dimensions=False)

    program = _traced(powers, (("n", "n"), "float64"), (("m", "n"), "float64"), ((), "int64"))
    module = machine().binding.parse_assembly(
        llvm_text(build_nest(program, has_blas=False), "", HOST.registers, None, blocked_product).main
    )
    module.verify()
    run = compile_library(program)
    for n, m in ((100, 1), (100, 120), (3, 200), (100, 85)):
        a, x = np.random.default_rng(n).normal(size=(n, n)) / n, np.random.default_rng(m).normal(size=(m, n))
        found = run(a, x, np.asarray(20))
        total, wanted = 0.0, x
        for _ in range(20):
            wanted = np.concatenate([wanted, wanted[:1]]) @ a
            total += wanted.sum()
        np.testing.assert_allclose(found[0], wanted, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found[1], total, rtol=1e-9, atol=1e-12)


def test_a_product_that_gets_no_memory_is_right_all_the_same():
    declared: set[str] = set()
    text = blocked_product(DType.FLOAT64, declared, HOST.registers)
    name = PRODUCTS[DType.FLOAT64]
    text = "\n".join([*sorted(declared), text]).replace("@malloc(", "@nothing(")
    text = text.replace("declare ptr @nothing(i64)", "define ptr @nothing(i64 %size) { ret ptr null }")
    text = text.replace(f"define internal void @{name}(", "define void @multiplied(")
    binding, target = machine().binding, machine().target()
    engine = binding.create_mcjit_compiler(optimized(binding.parse_assembly(text), target), target)
    engine.finalize_object()
    types = [*[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 6, ctypes.c_bool, ctypes.c_bool]
    multiplied = ctypes.CFUNCTYPE(None, *types)(engine.get_function_address("multiplied"))
    a, b, c = np.random.default_rng(0).normal(size=(7, 5)), np.ones((7, 9)), np.empty((5, 9))
    multiplied(c.ctypes.data, a.ctypes.data, b.ctypes.data, 5, 9, 7, 9, 5, 9, True, False)
    np.testing.assert_allclose(c, a.T @ b, rtol=1e-13, atol=1e-13)


def test_one_library_has_several_entries_and_others_of_their_names_do_not_meet_them():
    def nest(factor):
        return build_nest(_traced(lambda x: pnp.exp(x) * factor, (("n",), "float64")))

    x, result = np.zeros(2), np.empty(2)

    def found(loaded, name):
        assert loaded.call(name, [x], [2], [result])[0] == 0
        return result.tolist()

    first = Library(library({"two": nest(2.0), "three": nest(3.0)}, HOST))
    second = Library(library({"two": nest(5.0)}, HOST))
    assert [found(first, "two"), found(first, "three"), found(second, "two")] == [[2.0] * 2, [3.0] * 2, [5.0] * 2]
    del first
    third = Library(library({"two": nest(7.0)}, HOST))  # its file may have the number of the first's
    assert [found(second, "two"), found(third, "two")] == [[5.0] * 2, [7.0] * 2]
    with pytest.raises(NativeFileError, match="no function three"):
        second.call("three", [x], [2], [result])


def test_threads_call_at_one_time():
    loaded = Library(library({"main": build_nest(_traced(pnp.cumulative_sum, (("n",), "float64")))}, HOST))
    wrong = []

    def ask(number):
        x, result = np.full(1000, float(number)), np.empty(1000)
        for _ in range(200):
            loaded.call("main", [x], [1000], [result])
            if result[-1] != 1000.0 * number:
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_other_machines_have_libraries_too():
    nest = build_nest(_traced(lambda x: x * x, (("n",), "float32")))
    for name, kind in MACHINES.items():
        code = library({"main": nest}, kind)
        assert code[:4] == b"\x7fELF"
        assert int.from_bytes(code[18:20], "little") == _ELF_OF["aarch64" if name == "aarch64" else "x86_64"]


_EDGES = (0.0, -0.0, 0.3, 0.5, 0.7, 1.0, 1.5, 2.5, 8388607.5, 8388608.0, 2.0**51 + 0.5, 2.0**52, 1e300, np.inf, np.nan)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_machines_without_instructions_for_it_round_by_code_of_ours(dtype):
    program = _traced(lambda x: (pnp.floor(x), pnp.ceil(x), pnp.trunc(x), pnp.round(x)), (("n",), dtype))
    run = compile_library(program, MACHINES["x86-64"])
    with np.errstate(over="ignore"):
        x = np.asarray([*_EDGES, *np.random.default_rng(0).normal(size=1000) * 10], dtype)
    x = np.concatenate([x, -x])
    for found, wanted in zip(run(x), (np.floor(x), np.ceil(x), np.trunc(x), np.round(x)), strict=True):
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_what_a_machine_has_no_instructions_for_is_refused_by_name():
    nest = build_nest(_traced(lambda x: pnp.floor(x), (("n",), "float64")))
    with pytest.raises(UnsupportedError, match="no instructions for floor"):
        library({"main": nest}, replace(MACHINES["x86-64"], rounds=True))
    assert library({"main": nest}, MACHINES["x86-64"])


def test_what_is_no_library_is_refused():
    with pytest.raises(NativeFileError, match="is no shared library of Linux"):
        Library(b"no library at all")


@pytest.mark.parametrize("compile_", [compile_library, compile_jit])
def test_many_small_arrays_do_not_fill_the_stack(compile_: Callable[..., Any]) -> None:
    """Of 150 arrays of 2 kB, a thread with a stack of 256 kB would have no room for all."""

    def function(x):
        for _ in range(150):
            x = pnp.cumulative_sum(x) * 0.01
        return x

    run, x, results = compile_(_traced(function, ((256,), "float64"))), np.ones(256), []
    outside = threading.stack_size(2**18)
    try:
        thread = threading.Thread(target=lambda: results.append(run(x)[0]))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(outside)
    for _ in range(150):
        x = np.cumsum(x) * 0.01
    np.testing.assert_allclose(results[0], x, rtol=1e-12)
