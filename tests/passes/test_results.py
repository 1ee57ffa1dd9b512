"""Results of one's own: where they are copied, and that writing to them changes nothing else, whatever runs them."""
# ruff: noqa: ARG001, ARG005 - bodies are given what they need not use

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.native
import plica.numpy as pnp
from plica.frontend.native import entry_programs_of
from plica.ir.op import Memory
from plica.ir.program import Bound, Program, nested
from plica.ops import OPS
from plica.passes.clean import clean
from plica.passes.ownership import REPEATING
from plica.passes.results import own_results
from tests.harness import aliased_functions
from tests.harness.pairwise import first_usual
from tests.harness.programs import one_equation, reference, run_torch, to_torch
from tests.harness.samples import CASES, Case, over
from tests.harness.texts import loaded
from tests.harness.together import grouped
from tests.harness.written_results import check_written

N = plica.spec(("n",), "float64")
CAPTURED = np.asarray([1.0, 2.0, 3.0])
BACKENDS = ("torch", "native", "interpreter")


def _copies(program: Program) -> Iterator[str]:
    """The copies of a Program, each by how deep it stands: o(utside), or i(n a nested Program)."""
    for equation in program.equations:
        if equation.op.name == "copy":
            yield "o"
        for one in nested(equation.params):
            yield from ("i" for _ in _copies(one))


def _literal() -> Any:
    return pnp.asarray([0.0, 0.0, 0.0], dtype="float64")


def _twice(i: Any, a: Any) -> Any:
    return a * 2


def _swapped(times: Any) -> Callable[[Any], Any]:
    return lambda x: plica.for_loop(0, times, 1, lambda i, a, b: (b, a), x, x * 2)


def _scanned(x: Any) -> Any:
    return plica.scan(lambda c, row: (c + row, c), x, pnp.zeros((2, 1), dtype="float64"))


def _with_own(x: Any) -> Any:
    y = x * 2
    return plica.cond(y[0] > 0, lambda: y, lambda: y + 1)


def _with_own_twice(x: Any) -> Any:
    y = x * 2
    return plica.cond(y[0] > 0, lambda: y, lambda: y + 1), y


def _either_argument(x: Any) -> Any:
    return plica.cond(x[0] > 9, lambda: plica.cond(x[1] > 9, lambda: x * 2, lambda: x), lambda: x * 3)


def _both_of_one(x: Any) -> Any:
    return plica.cond(x[0] > 0, lambda: (lambda y: (y, y))(x * 2), lambda: (x * 2, x * 3))


def _call_and_view(x: Any) -> Any:
    y = plica.jit(lambda a: pnp.clip(a, -1.0, 1.0))(x)
    return pnp.reshape(y, (-1, 1)), y


def _call_twice(x: Any) -> Any:
    def twice(a: Any, n: int) -> Any:
        b = plica.for_loop(0, n, 1, _twice, a)
        return b, b

    return plica.jit(twice)(x * 2, x.shape[0])


CASES_OF_RESULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    # function, and where its copies stand
    "what was computed": (lambda x: x * 2, ""),
    "an argument": (lambda x: x, "o"),
    "a scalar argument's view": (lambda x: x[0], "o"),
    "a captured array": (lambda x: pnp.asarray(CAPTURED), "o"),
    "a literal": (lambda x: _literal(), "o"),
    "one result twice": (lambda x: (lambda y: (y, y))(x * 2), "o"),
    "a view of what was computed": (lambda x: (x * 2)[1:], ""),
    "two views of it": (lambda x: (lambda y: (y[1:], y[:1]))(x * 2), "o"),
    "a result and its transpose": (lambda x: (lambda y: (y, y.T))(x[:, None] * x), "o"),
    "a broadcast": (lambda x: pnp.broadcast_to(x * 2, (4, x.shape[0])), "o"),
    "a filled array": (lambda x: pnp.full((3,), x[0] * 2), "o"),
    "filled with a number": (lambda x: pnp.zeros(3), ""),
    "a matrix product": (lambda x: pnp.einsum("a,b->ab", x, x), ""),
    "a transposed argument": (lambda x: pnp.einsum("ab->ba", x[:, None]), "o"),
    "a cast to the same": (lambda x: pnp.astype(x, "float64"), "o"),
    "a cast": (lambda x: pnp.astype(x, "float32"), ""),
    "two factors": (lambda x: tuple(pnp.linalg.qr(x[:, None] * x)), ""),
    "a literal in a branch": (lambda x: plica.cond(x[0] > 9, lambda: x * 2, lambda: x), "i"),
    "a branch of one's own": (_with_own, ""),
    "a branch that returns what is returned too": (_with_own_twice, "o"),
    "a branch in a branch": (_either_argument, "i"),
    "a branch that returns one array twice": (_both_of_one, "o"),
    "a call": (lambda x: plica.jit(lambda a: a)(x), "i"),
    "a call that computes": (lambda x: plica.jit(lambda a: a * 2)(x), ""),
    "a loop that takes a turn": (lambda x: plica.for_loop(0, 3, 1, _twice, x), ""),
    "a loop that takes none": (lambda x: plica.for_loop(3, 0, 1, _twice, x), "o"),
    "a loop that may take none": (lambda x: plica.for_loop(0, x.shape[0], 1, _twice, x), "o"),
    "a loop over what was computed": (lambda x: plica.for_loop(0, x.shape[0], 1, _twice, x * 3), ""),
    "a loop that changes nothing": (lambda x: plica.for_loop(0, 3, 1, lambda i, a: a, x), "o"),
    "a loop that returns what it captures": (lambda x: plica.for_loop(0, 3, 1, lambda i, a: x, x * 2), "o"),
    "arrays that change places": (_swapped(2), "o"),
    "a while loop": (lambda x: plica.while_loop(lambda a: a[0] < 9, lambda a: a * 2, x), "o"),
    "a loop of which one array is returned": (
        lambda x: plica.for_loop(0, x.shape[0], 1, lambda i, a, b: (a * 2, a + b), x * 3, x)[1],
        "o",
    ),
    "a scan": (_scanned, ""),
    "a loop that writes": (lambda x: plica.for_loop(0, x.shape[0], 1, lambda i, a: a.at[i].set(1.0), x), "o"),
    "a view of what a call returns, and that": (_call_and_view, "o"),
    "one array of a call twice": (_call_twice, "o"),
    "parts": (lambda x: pnp.unstack(pnp.reshape(x * 2, (3, 1))), "oo"),
}


@grouped(("function", "copies"), CASES_OF_RESULTS.values(), ids=CASES_OF_RESULTS)
def test_a_result_is_copied_where_somebody_else_may_have_it(function: Any, copies: str) -> None:
    spec = plica.spec((3,), "float64") if copies == "oo" or "qr" in function.__code__.co_names else N
    program = own_results(clean(plica.trace(function, spec)))
    plica.verify(program)
    assert "".join(_copies(program)) == copies


@pytest.mark.one_in(3)
@pytest.mark.parametrize("backend", BACKENDS)
@grouped("function", [one for one, _ in CASES_OF_RESULTS.values()], ids=CASES_OF_RESULTS)
def test_writing_to_results_changes_nothing_else(function: Any, backend: str) -> None:
    run = plica.jit(function, backend=backend, abstracted_axes={0: "n"})
    for x in (np.asarray([10.0, 2.0, 3.0]), torch.tensor([1.0, 20.0, 3.0], dtype=torch.float64)):
        check_written(partial(run, x), [x, CAPTURED])
    if backend != "interpreter":
        learned = torch.tensor([10.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
        check_written(lambda: run(learned), [learned, CAPTURED])


def test_gradients_pass_through_copies() -> None:
    x = torch.ones(2, 2, requires_grad=True)
    (found,) = torch.autograd.grad(sum(one.sum() for one in plica.jit(lambda x: (x, x.T))(x)), x)
    assert found.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x += 1
    y = plica.jit(lambda x: plica.cond(x[0, 0] > 9, lambda: x * 2, lambda: x))(x)
    y += 1  # no leaf, and no view of one
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_literal_stays_what_was_written() -> None:
    """What is exported after a call, too."""
    function = plica.jit(lambda x: plica.cond(x[0] > 0, lambda: x * 2, _literal))
    found = function(np.asarray([-1.0, 1.0, 1.0]))
    found += 5
    (entry_program,) = entry_programs_of(function)
    assert all(not array.any() for array in entry_program.body.constants.values())
    assert [leaf.tolist() for leaf in function.bound.leaves] == [[0.0, 0.0, 0.0]]


def test_results_of_native_files_belong_to_the_caller(tmp_path: Path) -> None:
    def function(x: Any, w: Any) -> Any:
        y = x * w
        literal = plica.cond(x[0] > 5, lambda: x * 2, _literal)
        return x, y, y, x[1:], pnp.asarray(CAPTURED), literal, w, pnp.broadcast_to(x[0], (3,)), _swapped(0)(x)

    run = plica.jit(function)
    x, w = np.asarray([1.0, 2.0, 3.0]), np.asarray([4.0, 5.0, 6.0])
    expected = run(x, w)
    path = tmp_path / "results.plicab"
    plica.native.compile(run, path, updatable={"w": w})
    with plica.native.load(path) as module:
        check_written(lambda: [*module(x)[:8], *module(x)[8]], [x, CAPTURED, w])
        assert [one.tolist() for one in module(x)[:8]] == [one.tolist() for one in expected[:8]]


# What the analysis believes of rows and references


@over(CASES)
def test_results_lie_where_the_table_says(case: Case) -> None:
    row = OPS[case.op]
    if row.regions:
        return
    tensors = [to_torch(array) for array in case.inputs]
    arrays = [np.array(one) for one in case.inputs]
    in_torch = run_torch(one_equation(case.op, case.inputs, case.params), *tensors)
    by_torch = [(one.conj() if one.is_conj() else one).numpy() for one in in_torch]  # where it lies, no new array
    by_numpy = [np.asarray(one) for one in reference(case.op, arrays, case.params)]
    for given, results in (([one.numpy() for one in tensors], by_torch), (arrays, by_numpy)):
        if row.memory in (Memory.NEW, Memory.COPY):
            pairs = [*product(given, results), *combinations(results, 2)]
            assert not any(np.shares_memory(*pair) for pair in pairs), f"{case}: results share memory"
        for one in results if case.op not in REPEATING else ():
            assert not one.size or not any(
                step == 0 and size > 1 for step, size in zip(one.strides, one.shape, strict=True)
            ), case
            assert one.flags.writeable, f"{case}: nobody may write to a result"


# Random functions


def _check_text(seed: int) -> None:
    """A function of arrays with many names, some of them captured, on every backend."""
    text = aliased_functions.drawn(seed)
    function = loaded(text, aliased_functions.ON_PLICA)
    arguments = aliased_functions.arguments(seed, 4)
    axes = ({0: "n"}, {0: "n"}, {0: "n", 1: "n"}, {0: "n"})
    backend = BACKENDS[seed % 3]
    given = arguments if seed // 3 % 2 else [torch.tensor(one) for one in arguments]
    dynamic = plica.jit(function, abstracted_axes=axes, backend=backend)
    check_written(lambda: dynamic(*given), given, text)
    x, y, m, u = given
    part = plica.jit(lambda x, m: function(x, pnp.asarray(y), m, pnp.asarray(u)), backend=backend)
    check_written(lambda: part(x, m), given, text)
    given = [torch.tensor(one) for one in arguments]
    learned = [one.requires_grad_() for one in given]
    check_written(lambda: plica.jit(function)(*learned), learned, text)


def _check_folded(seed: int) -> None:
    """A function whose constants are folded, and the Program of one with what it captures."""
    text, arguments = aliased_functions.drawn(seed), aliased_functions.arguments(seed, 4)
    drawn, captured = loaded(text, aliased_functions.ON_PLICA), arguments[3]
    function = plica.jit(lambda x, y, m: drawn(x, y, m, pnp.asarray(captured)))
    given = [torch.tensor(one) for one in arguments[:3]] if seed % 2 else [np.array(one) for one in arguments[:3]]
    function(*given)
    bound: Bound = function.bound
    names = [var.name for var in bound.program.arguments]
    backend, form = ("torch", "interpreter")[seed // 2 % 2], ("runtime", "split")[seed // 4 % 2]
    known = {names[1]: given[1]} if form == "split" else {}
    late = [name for name in names[1:] if name not in known]
    folded = plica.fold_constants(bound, run_time=late, compile_time=known, form=form).compile(backend)
    # what is written to a constant is noticed, and folded again
    check_written(lambda: folded(*given), [given[0]], text)
    program = plica.jit(bound, backend=BACKENDS[seed % 3])
    check_written(lambda: program(*given), [*given, captured], text)


# Without copies, the first would return what its loop starts from, and the second the memory of a result twice.
@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", first_usual([15, 16, *range(15)], 14))
def test_results_of_random_functions_belong_to_the_caller(seed: int) -> None:
    _check_text(seed)
    _check_folded(seed)


@pytest.mark.full
@pytest.mark.parametrize("start", range(1000, 1700, 100))
def test_results_of_more_random_functions_belong_to_the_caller(start: int) -> None:
    for seed in range(start, start + 100):
        _check_text(seed)
        _check_folded(seed)
