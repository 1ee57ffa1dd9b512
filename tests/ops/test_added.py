"""Operations from outside: by name in `plica.numpy`, in Programs, in every backend."""

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import DTypeError, PlicaError, ShapeError, UnsupportedError
from plica.ir.op import Op, Unsupported
from plica.ir.types import ArrayType, array_type
from plica.ops import ADDED, OPS, add_operation
from plica.ops.elementwise import elementwise
from tests.harness.own_operations import own_operations
from tests.harness.together import grouped


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    with own_operations():
        yield


def of_pairs(**columns) -> Op:
    """`a / (a + b)` of two arrays, in terms of others."""
    return elementwise(
        "share_of",
        lambda a, b: a / (a + b),
        ("float",),
        "positive",
        arity=2,
        decompose=lambda xp, a, b: xp.divide(a, a + b),
        **columns,
    )


def _types(x: ArrayType, *, times: float) -> tuple[ArrayType, ...]:  # noqa: ARG001
    return (array_type(x.shape[1:], x.dtype),) * 2


# of two results, with a parameter
ENDS = Op(
    "ends_of",
    _types,
    lambda x, *, times: (times * x.min(axis=0), times * x.max(axis=0)),
    lambda: (),
    decompose=lambda xp, x, *, times: (times * xp.min(x, axis=0), times * xp.max(x, axis=0)),
)


def test_functions_of_the_namespace() -> None:
    add_operation(of_pairs())
    a, b = np.array([1.0, 2.0]), np.array([[3.0], [0.5]])
    expected = a / (a + b)
    np.testing.assert_allclose(pnp.share_of(a, b), expected)
    np.testing.assert_allclose(pnp.share_of(torch.tensor(a), torch.tensor(b)).numpy(), expected)
    assert "share_of" in dir(pnp)
    assert pnp.share_of.__name__ == "share_of"
    x, y = (torch.tensor(one, requires_grad=True) for one in (a, b))
    assert torch.autograd.gradcheck(plica.jit(lambda x, y: pnp.share_of(x, y)), (x, y))
    np.testing.assert_allclose(pnp.share_of(a, 1), a / (a + 1))  # numbers take the dtype of arrays
    with pytest.raises(DTypeError, match="found int64, expected float"):
        pnp.share_of(np.array([1, 2]), np.array([3, 4]))


def test_programs_with_several_results() -> None:
    add_operation(ENDS)
    x = np.random.default_rng(0).normal(size=(5, 3))

    def f(x):
        least, most = pnp.ends_of(x, times=2.0)
        return most - least

    program = plica.trace(f, plica.spec(("n", 3), "float64"))
    assert plica.parse(str(program)) == program
    assert pickle.loads(pickle.dumps(program)) == program
    expected = 2 * np.ptp(x, axis=0)
    np.testing.assert_allclose(plica.interpret(program, x)[0], expected)
    np.testing.assert_allclose(plica.jit(f)(torch.tensor(x)).numpy(), expected)
    np.testing.assert_allclose(plica.jit(f, backend="native")(x), expected)


def test_text_for_other_compilers_has_the_decomposition() -> None:
    add_operation(of_pairs())
    program = plica.trace(lambda x: pnp.sum(pnp.share_of(x, x * x)), plica.spec("n", "float64"))
    text, *_ = plica.native.stablehlo(program)
    assert "divide" in text
    assert "share_of" not in text


def test_a_primitive_needs_a_row_of_the_backend() -> None:
    add_operation(replace(of_pairs(), decompose=Unsupported("a primitive")))
    x = np.ones(2)
    np.testing.assert_allclose(pnp.share_of(x, x), 0.5)  # the interpreter computes the reference
    with pytest.raises(UnsupportedError, match="no row for the operation 'share_of'"):
        pnp.share_of(torch.ones(2), torch.ones(2))


def test_what_is_wrong_is_refused() -> None:
    add_operation(of_pairs())
    with pytest.raises(UnsupportedError, match="a backend has 'share_of' already; choose another name"):
        add_operation(of_pairs())
    for name in ("exp", "multiply_runs", "positive"):  # an operation, one of torch's own, and a function
        with pytest.raises(UnsupportedError, match=f"'{name}' already"):
            add_operation(replace(of_pairs(), name=name))
    wrong: Any
    for wrong in ("exp", None, replace(of_pairs(), name="share of")):
        with pytest.raises(DTypeError, match="add_operation takes an Op whose name is an identifier"):
            add_operation(wrong)
    assert [*ADDED] == ["share_of"]
    assert "exp" in OPS


# Declarations that lie


def plus_one(name: str = "mine", **columns: Any) -> Op:
    """`x + 1`, with other columns in place of its own."""
    good = elementwise("mine", lambda x: x + 1, ("float",), decompose=lambda xp, x: x + 1)  # noqa: ARG005
    return replace(good, name=name, **columns)


@grouped("name", ["lambda", "True", "_hidden", "__dir__", "\ufb01x", "", "2x", "linspace", "random", "merge", 3, None])
def test_a_name_that_no_function_can_have_is_refused(name: Any) -> None:
    if name == "merge":
        add_operation(plus_one(name))
    before = {*OPS}, {*ADDED}
    with pytest.raises((DTypeError, UnsupportedError), match=r"whose name is an identifier|has '.*' already"):
        add_operation(plus_one(name))
    assert ({*OPS}, {*ADDED}) == before


def _writes(x: Any) -> Any:
    return np.add(x, 1, out=x)


REFERENCES: dict[str, tuple[Any, str]] = {
    "another shape": (np.sum, r"gives shape \(\), expected f32\[2,3\]"),
    "two results": (lambda x: (x, x), r"gives shape \(2, 3\) and \(2, 3\), expected f32"),
    "no result": (lambda _: (), "gives shape none, expected f32"),
    "nothing": (lambda _: None, r"gives shape \(\)"),
    "text": (lambda x: np.full(x.shape, "a"), "gives <U1, expected f32"),
    "another kind": (lambda x: x + 1j, "gives complex64, expected f32"),
    "an error": (lambda _: 1 / 0, "fails at a sample: ZeroDivisionError"),
    "in place": (_writes, "fails at a sample: ValueError: .*read-only"),
}


@grouped("case", REFERENCES)
def test_a_reference_that_breaks_its_type_rule_is_refused(case: str) -> None:
    reference, message = REFERENCES[case]
    with pytest.raises(PlicaError, match=f"the reference of 'mine' {message}"):
        add_operation(plus_one(reference=reference))
    assert "mine" not in OPS


def test_a_reference_is_held_to_its_type_rule_where_it_runs() -> None:
    """An operation without samples."""
    add_operation(plus_one(samples=lambda: (), reference=np.sum))
    add_operation(plus_one("yours", samples=lambda: (), type_rule=lambda *_: None))
    program = plica.trace(pnp.mine, plica.spec("n", "float64"))
    with pytest.raises(ShapeError, match=r"the reference of 'mine' gives shape \(\), expected f64\[3\]"):
        plica.interpret(program, np.ones(3))
    with pytest.raises(DTypeError, match="the type rule of 'yours' gives None, expected the type of each result"):
        pnp.yours(np.ones(3))


COLUMNS = ("type_rule", "reference", "samples", "decompose", "nonnegative", "memory", "view", "derivative", "range")


@grouped("column", [*COLUMNS, "never_raises", "tolerance"])
def test_columns_are_of_their_kind(column: str) -> None:
    wrong: Any
    for wrong in (None, "exp"):
        with pytest.raises(DTypeError, match=f"the {column} of 'mine' is {wrong!r}, expected a"):
            add_operation(plus_one(**{column: wrong}))
    assert "mine" not in OPS


RUNS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda x: pnp.mine(torch.tensor(x)),
    "torch": lambda x: plica.jit(lambda x: pnp.mine(x))(torch.tensor(x)),
    "native": lambda x: plica.jit(lambda x: pnp.mine(x), backend="native")(x),
    "StableHLO": lambda x: plica.native.stablehlo(plica.trace(pnp.mine, plica.spec(x.shape, x.dtype.name))),
}
DECOMPOSITIONS: dict[str, tuple[Any, str]] = {
    "a sum": (lambda xp, x: xp.sum(x), r"gives f64\[\], expected f64\["),
    "twice as much": (lambda xp, x: xp.concat([x, x]), r"gives f64\[.*, expected f64\["),
    "another dtype": (lambda xp, x: xp.astype(x, xp.float32), r"gives f32\[.*, expected f64\[.*convert its results"),
    "two results": (lambda _, x: (x, x), r"gives f64\[.*, f64\[.*, expected f64\[.*return one array"),
    "nothing": (lambda *_: None, r"gives nothing, expected f64\[.*return one array"),
    "itself": (lambda xp, x: 2 * xp.mine(x), "needs 'mine' itself; write it in terms of other operations"),
    "an array": (lambda _, x: x * np.array([2.0]), r"captures an array, f64\[1\]; make it of its operands"),
    "text": (lambda *_: "a", "needs an array, found str 'a'"),
}


@grouped(("case", "run"), [(case, run) for case in DECOMPOSITIONS for run in RUNS])
def test_a_decomposition_that_breaks_its_type_rule_is_refused(case: str, run: str) -> None:
    decompose, message = DECOMPOSITIONS[case]
    with own_operations():
        add_operation(plus_one(decompose=decompose))
        with pytest.raises(PlicaError, match=f"the decomposition of 'mine' {message}"):
            RUNS[run](np.array([1.0, 2.0, 3.0]))


def test_a_size_of_a_decomposition_that_only_the_run_knows_is_checked_there() -> None:
    add_operation(plus_one(decompose=lambda xp, x: x[xp.nonzero(x > 0.0)[0]] + 1))
    for backend in ("torch", "native"):
        run = plica.jit(lambda x: pnp.mine(x), abstracted_axes={0: "n"}, backend=backend)
        array = torch.tensor if backend == "torch" else np.array
        assert run(array([1.0, 2.0])).tolist() == [2.0, 3.0]
        with pytest.raises(PlicaError, match=r"an array has shape \(1,\), but \(2,\) is needed"):
            run(array([1.0, -2.0]))


def test_sizes_of_results_may_be_computed_of_those_of_operands() -> None:
    twice = plus_one(
        type_rule=lambda x: (array_type((2 * x.shape[0], *x.shape[1:]), x.dtype),),
        reference=lambda x: np.concatenate([x, x]),
        decompose=lambda xp, x: xp.concat([x, x[xp.nonzero(x > 0.0)[0]]]),
    )
    add_operation(twice)
    for backend in ("torch", "native"):
        run = plica.jit(lambda x: pnp.mine(x), abstracted_axes={0: "n"}, backend=backend)
        array = torch.tensor if backend == "torch" else np.array
        assert run(array([1.0, 2.0])).tolist() == [1.0, 2.0, 1.0, 2.0]
        with pytest.raises(PlicaError, match=r"an array has shape \(3,\), but \(4,\) is needed"):
            run(array([1.0, -2.0]))


def test_results_belong_to_the_caller_though_an_operation_returns_its_operand() -> None:
    add_operation(plus_one(reference=lambda x: x, decompose=lambda _, x: x))
    for run in (pnp.mine, plica.jit(lambda x: pnp.mine(x)), plica.jit(lambda x: pnp.mine(x), backend="native")):
        for x in (np.ones(3), torch.ones(3)):
            run(x)[...] = 5.0
            assert (x == 1.0).all()


PRIVATE_FIRST = """
import sys
from plica.errors import UnsupportedError
from plica.ops import add_operation
from plica.ops.elementwise import elementwise
for name in ("multiply_runs", "look_up", "linspace", "random"):
    try:
        add_operation(elementwise(name, lambda x: x + 0, ("float",), decompose=lambda xp, x: x + 0))
    except UnsupportedError as error:
        print(name)
assert "torch" not in sys.modules
import plica.backend.torch.operations.private, plica.backend.native.circuits.operations, plica.numpy
"""


@pytest.mark.full
def test_names_of_what_is_not_imported_yet_are_taken() -> None:
    done = subprocess.run([sys.executable, "-c", PRIVATE_FIRST], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["multiply_runs", "look_up", "linspace", "random"], done.stderr


def test_one_of_several_threads_gets_a_name() -> None:
    for trial in range(20):
        barrier = Barrier(4)

        def add(number: int, name: str = f"raced_{trial}", barrier: Barrier = barrier) -> bool:
            barrier.wait()
            try:
                add_operation(plus_one(name, reference=lambda x: x + number))
            except UnsupportedError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(add, range(4))) == 1
