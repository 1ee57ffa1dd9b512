"""Ownership: which updates write over their array, and that nobody can tell but by the time that it takes."""
# ruff: noqa: ARG005 - bodies are given what they need not use

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.autograd.forward_ad as forward

import plica
import plica.numpy as pnp
from plica.errors import BoundsError
from plica.ir.op import Memory
from plica.ir.program import Program, nested
from plica.ops import OPS
from plica.passes.clean import clean
from plica.passes.memory import plan_memory
from plica.passes.ownership import owned
from tests.harness import aliased_functions
from tests.harness.pairwise import first_usual
from tests.harness.programs import one_equation, run_torch, to_torch
from tests.harness.samples import CASES, Case, over
from tests.harness.texts import loaded
from tests.harness.together import grouped

N = plica.spec(("n",), "float64")
SIZES = (3, 5)


def _updates(program: Program) -> Iterator[Any]:
    """The updates of a Program in the order of its text, those of nested ones where they stand."""
    for equation in program.equations:
        if equation.op.name == "update":
            yield equation
        for one in nested(equation.params):
            yield from _updates(one)


def _written(program: Program) -> str:
    """A letter for each update: i(n place), c(opied values, then in place), n(ew memory)."""
    found = owned(program).written
    return "".join("n" if one not in found else "c" if found[one] else "i" for one in _updates(program))


def _copies(program: Program) -> int:
    """How many carried arrays start with a copy."""
    return sum(map(len, owned(program).copied.values()))


def _loop(body: Callable[..., Any], *more: Any, times: int = 3) -> Any:
    return lambda x: plica.for_loop(0, times, 1, body, x, *more)


def _set(i: Any, a: Any) -> Any:
    return a.at[i].set(a[i] * 2 + 1)


def _fresh(x: Any) -> Any:
    return x * 2


def _captured_and_returned(x: Any) -> Any:
    y = x * 2
    z = plica.for_loop(0, 3, 1, lambda i, a: y, x)
    return y.at[0].set(1.0) + z


def _nested_loop(x: Any) -> Any:
    return plica.for_loop(0, 2, 1, lambda i, a: plica.for_loop(0, 3, 1, lambda j, b: b.at[j].add(i), a), x)


def _nested_and_read(x: Any) -> Any:
    inner = lambda a: plica.for_loop(0, 3, 1, lambda j, b: b.at[j].add(1.0), a)  # noqa: E731
    return plica.for_loop(0, 2, 1, lambda i, a: inner(a) + a, x)


def _branch(x: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        return plica.cond(i > 0, lambda: a.at[i].set(9.0), lambda: a)

    return plica.for_loop(0, 3, 1, body, x)


def _branch_then_read(x: Any) -> Any:
    y = x * 2
    z = plica.cond(y[0] > 0, lambda: y.at[0].set(9.0), lambda: y)
    return z + y


def _branch_of_arguments(x: Any) -> Any:
    y = x * 2
    z = plica.cond(y[0] > 0, lambda: y, lambda: x)
    return z.at[0].set(9.0)


def _called(x: Any) -> Any:
    return plica.jit(lambda a: a.at[0].set(9.0))(x * 2)


def _called_then_read(x: Any) -> Any:
    y = x * 2
    return plica.jit(lambda a: a.at[0].set(9.0))(y) + y


def _while(x: Any) -> Any:
    return plica.while_loop(lambda i, a: a[i] < 5, lambda i, a: (i, a.at[i].add(2.0)), pnp.asarray(1), x * 0)


def _while_that_asks_with_an_update(x: Any) -> Any:
    return plica.while_loop(lambda a: pnp.sum(a.at[0].set(4.0)) < 9, lambda a: a.at[1].add(2.0), x * 0)


def _scan_carry(x: Any) -> Any:
    return plica.scan(lambda c, row: (c.at[0].add(row), row * 2), x * 2, x)


def _scan_that_stacks_its_carry(x: Any) -> Any:
    def body(c: Any, row: Any) -> Any:
        c = c.at[0].add(row)
        return c, c

    return plica.scan(body, x * 2, x)


def _scan_that_stacks_a_view(x: Any) -> Any:
    return plica.scan(lambda c, row: (c.at[0].add(row), c[1:]), x * 2, x)


def _pair(function: Callable[[Any, Any, Any], Any], first: Any, second: Any) -> Any:
    return lambda x: plica.for_loop(0, 3, 1, function, first(x), second(x))


def _three(x: Any) -> Any:
    y = x * 2
    z = y.at[0].set(1.0)
    z = z.at[1].multiply(3.0)
    return z.at[2].max(7.0)


def _view_read(x: Any) -> Any:
    y = x * 2
    view = y[1:]
    return y.at[0].set(1.0)[1:] + view


def _self(x: Any) -> Any:
    return x


def _same_values(x: Any) -> Any:
    """One equation computes both, once common subexpressions are shared."""
    return plica.for_loop(0, 3, 1, lambda i, a, b: (a.at[i].add(1.0), b.at[i].add(2.0)), x * 2, x * 2)


CASES_OF_UPDATES: dict[str, tuple[Callable[[Any], Any], str, int]] = {
    # function, its updates, how many carried arrays start with a copy
    "an argument": (lambda x: x.at[0].set(1.0), "n", 0),
    "what was computed": (lambda x: (x * 2).at[0].set(1.0), "i", 0),
    "one after the other": (_three, "iii", 0),
    "read afterwards": (lambda x: (lambda y: y.at[0].set(1.0) + y)(x * 2), "n", 0),
    "a view of it read afterwards": (_view_read, "n", 0),
    "a view, whose array is read afterwards": (lambda x: (lambda y: y[1:].at[0].set(1.0) + y[1:])(x * 2), "n", 0),
    "a view of its own": (lambda x: (x * 2)[1:].at[0].set(1.0), "n", 0),
    "returned too": (lambda x: (lambda y: (y.at[0].set(1.0), y))(x * 2), "n", 0),
    "values that are a view of it": (lambda x: (lambda y: y.at[1:].set(y[: x.shape[0] - 1]))(x * 2), "c", 0),
    "values that are the array": (lambda x: (lambda y: y.at[:].add(y))(x * 2), "c", 0),
    "indices that are the array": (lambda x: (lambda y: y.at[y].add(1))(pnp.arange(x.shape[0]) * 1), "n", 0),
    "a broadcast": (lambda x: pnp.broadcast_to(x[0] * 2, (4,)).at[0].set(1.0), "n", 0),
    "filled with a scalar that was computed": (lambda x: pnp.full((4,), x[0] * 2).at[0].set(1.0), "n", 0),
    "filled with a number": (lambda x: pnp.zeros(4).at[0].set(x[0]), "i", 0),
    "a transposed product": (lambda x: pnp.einsum("ab->ba", pnp.expand_dims(x, axis=0)).at[0].set(1.0), "n", 0),
    "a diagonal": (lambda x: pnp.linalg.diagonal(pnp.expand_dims(x, axis=0)).at[0].set(1.0), "n", 0),
    "the real part": (lambda x: pnp.real(x * 1j).at[0].set(1.0), "n", 0),
    "without gradient": (lambda x: pnp.stop_gradient(x).at[0].set(1.0), "n", 0),
    "in a loop": (_loop(_set), "i", 1),
    "in a loop over what was computed": (lambda x: _loop(_set)(x * 2), "i", 0),
    "in a loop over what is read afterwards": (lambda x: (lambda y: _loop(_set)(y) + y)(x * 2), "i", 1),
    "of what a loop hands on": (lambda x: (lambda y: y.at[0].set(1.0) + _loop(lambda i, a: a)(y))(x * 2), "n", 0),
    "of what a loop captures and returns": (_captured_and_returned, "n", 0),
    "in a loop that captures its start": (
        lambda x: (lambda y: plica.for_loop(0, 3, 1, lambda i, a: a.at[i].set(y[i] + a[0]), y))(x * 2),
        "i",
        1,
    ),
    "in a loop, and read": (_loop(lambda i, a: a.at[i].set(1.0) + a), "n", 0),
    "in a loop, and a view read": (_loop(lambda i, a: a.at[i].set(1.0) + a[0]), "n", 0),
    "twice in a loop": (_loop(lambda i, a: a.at[i].set(1.0).at[0].add(a[i])), "ni", 0),
    "of a captured array": (lambda x: plica.for_loop(0, 3, 1, lambda i, a: a + x.at[i].set(1.0), x), "n", 0),
    "one array carried twice": (
        _pair(lambda i, a, b: (a.at[i].set(1.0), b.at[i].set(2.0)), _self, _self),
        "ii",
        2,
    ),
    "one computed array carried twice": (_same_values, "ii", 2),
    "an array and a view of it": (
        lambda x: (
            lambda y: plica.for_loop(0, 2, 1, lambda i, a, b: (a.at[i].set(b[0] + 1), b.at[i].add(a[1])), y, y[1:])
        )(x * 2),
        "ni",
        1,
    ),
    "arrays that change places": (
        _pair(lambda i, a, b: (b, a.at[i].set(7.0)), _fresh, lambda x: x * 3),
        "i",
        0,
    ),
    "arrays that become one": (_pair(lambda i, a, b: (a.at[i].set(7.0),) * 2, _fresh, _fresh), "n", 0),
    "an array and its own view next": (
        _pair(lambda i, a, b: (lambda c: (c, pnp.stop_gradient(c)))(a.at[i].set(7.0)), _fresh, _fresh),
        "n",
        0,
    ),
    "a loop in a loop": (_nested_loop, "i", 1),
    "a loop in a loop, and read": (_nested_and_read, "i", 1),
    "a branch": (_branch, "i", 1),
    "a branch, and read": (_branch_then_read, "n", 0),
    "a branch that may give the argument": (_branch_of_arguments, "n", 0),
    "a call": (_called, "i", 0),
    "a call, and read": (_called_then_read, "n", 0),
    "a loop that asks": (_while, "i", 0),
    "a loop that asks with an update": (_while_that_asks_with_an_update, "ni", 0),
    "a scan": (_scan_carry, "i", 0),
    "a scan that stacks its carry": (_scan_that_stacks_its_carry, "n", 0),
    "a scan that stacks a view": (_scan_that_stacks_a_view, "n", 0),
    "all modes": (
        _loop(lambda i, a: a.at[i].add(2.0).at[i].multiply(1.5).at[i].min(4.0).at[0].max(a[1])),
        "niii",
        0,
    ),
    "slices": (_loop(lambda i, a: a.at[1:].set(0.5).at[i:].add(1.0)), "ii", 1),
    "places": (_loop(lambda i, a: a.at[pnp.asarray([0, 0, 2])].add(1.0).at[pnp.asarray([1, i])].set(3.0)), "ii", 1),
    "two axes": (
        lambda x: _loop(lambda i, a: a.at[i, 1].set(a[0, i] + 1).at[:, 0].set(2.0))(x * pnp.ones((3, 1))),
        "ii",
        0,
    ),
    "a scalar": (_loop(lambda i, a: a + pnp.sum(a).at[()].set(1.0)), "i", 0),
}


@grouped(("function", "written", "copies"), CASES_OF_UPDATES.values(), ids=CASES_OF_UPDATES)
def test_an_update_writes_over_what_nobody_else_holds(function: Any, written: str, copies: int) -> None:
    program = clean(plica.trace(function, N))
    assert (_written(program), _copies(program)) == (written, copies)


def _results(found: Any) -> tuple[np.ndarray, ...]:
    listed = found if isinstance(found, tuple) else (found,)
    return tuple(one.detach().numpy() for one in listed)


def _argument(size: int) -> torch.Tensor:
    return torch.arange(1.0, size + 1, dtype=torch.float64)


@grouped("function", [one for one, _, _ in CASES_OF_UPDATES.values()], ids=CASES_OF_UPDATES)
def test_values_are_those_of_new_arrays_and_arguments_stay(function: Any) -> None:
    run = plica.jit(function, abstracted_axes={0: "n"})
    defined = plica.jit(function, abstracted_axes={0: "n"}, backend="interpreter")
    for size in SIZES:
        x = _argument(size)
        for one in (x.clone(), x.clone().requires_grad_(), x.flip(0).flip(0)):
            for found, expected in zip(_results(run(one)), _results(defined(x)), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-12)
            assert torch.equal(one, x)


@grouped("function", [one for one, _, _ in CASES_OF_UPDATES.values()], ids=CASES_OF_UPDATES)
def test_gradients_are_those_of_new_arrays(function: Any) -> None:
    run = plica.jit(function, abstracted_axes={0: "n"})
    x = _argument(3)

    def loss(one: torch.Tensor) -> torch.Tensor:
        found = run(one)
        parts = (
            part.double() * (part.detach().double() + 1) for part in (found if isinstance(found, tuple) else (found,))
        )
        return sum((part.sum() for part in parts), torch.zeros((), dtype=torch.float64))

    def fixed(one: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return loss(one)

    given = x.clone().requires_grad_()
    total = loss(given)
    if total.requires_grad:
        (found,) = torch.autograd.grad(total, given, allow_unused=True)
        by_transform = torch.func.grad(loss)(x)
        torch.testing.assert_close(torch.zeros_like(x) if found is None else found, by_transform)
    torch.testing.assert_close(fixed(x), total.detach())


def recurrence(x: Any, u: Any) -> Any:
    return plica.for_loop(1, x.shape[0], 1, lambda i, a: a.at[i].set(a[i - 1] * 0.5 + u[i]), x)


def by_hand(x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    rows = [x[0]]
    for i in range(1, x.shape[0]):
        rows.append(rows[-1] * 0.5 + u[i])
    return torch.stack(rows)


def test_transforms_of_torch_see_new_arrays() -> None:
    run = plica.jit(recurrence, abstracted_axes={0: "n"})
    x, u = _argument(4), _argument(4) / 3
    many = torch.stack([u, u * 2, u - 1])
    torch.testing.assert_close(
        torch.vmap(run, in_dims=(None, 0))(x, many), torch.stack([by_hand(x, one) for one in many])
    )
    torch.testing.assert_close(
        torch.vmap(torch.func.grad(lambda one: run(x, one).sum()))(many),
        torch.vmap(torch.func.grad(lambda one: by_hand(x, one).sum()))(many),
    )
    tangent = torch.func.jvp(lambda one: run(x, one), (u,), (torch.ones_like(u),))[1]
    expected = torch.func.jvp(lambda one: by_hand(x, one), (u,), (torch.ones_like(u),))[1]
    torch.testing.assert_close(tangent, expected)
    with forward.dual_level():
        dual = run(x, forward.make_dual(u, torch.ones_like(u)))
        torch.testing.assert_close(forward.unpack_dual(dual).tangent, expected)
    with torch.inference_mode():
        torch.testing.assert_close(run(x, u), by_hand(x, u))


def test_arrays_that_autograd_keeps_are_not_written_over() -> None:
    """The array has no gradient itself, but that of the weight is computed from what it was."""
    weight = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)

    def function(x: Any) -> Any:
        def body(i: Any, a: Any, total: Any) -> Any:
            total = total + pnp.sum(a * weight)
            return a.at[i].add(1.0), total

        return plica.for_loop(0, 3, 1, body, x, pnp.asarray(0.0, dtype="float64"))[1]

    run = plica.jit(function, abstracted_axes={0: "n"})
    run(_argument(3)).backward()
    assert _written(clean(run.program)) == "i"
    assert weight.grad == 3 * 6 + 3  # 6, 7, 8
    with torch.no_grad():
        assert run(_argument(3)) == 2 * 21


def test_what_is_captured_stays() -> None:
    kept = _argument(3)
    run = plica.jit(lambda x: plica.for_loop(0, 3, 1, lambda i, a: a.at[i].set(x[0]), kept))
    assert run(_argument(2)).tolist() == [1.0, 1.0, 1.0]
    assert kept.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int8", "bool", "complex64"])
def test_arrays_of_other_dtypes(dtype: str) -> None:
    mode = "set" if dtype == "bool" else "add"
    x = np.asarray([1, 0, 1], dtype)

    def function(x: Any) -> Any:
        return plica.for_loop(0, 3, 1, lambda i, a: pnp.update(a, i, x[i], mode), x)

    expected = plica.jit(function, backend="interpreter")(x)
    assert plica.jit(function)(x).tolist() == expected.tolist()
    assert x.tolist() == [1, 0, 1]


def test_a_loop_without_iterations_gives_no_argument_away() -> None:
    run = plica.jit(lambda x, times: plica.for_loop(0, times, 1, _set, x).at[0].set(9.0))
    x = _argument(3)
    assert run(x, 0).tolist() == [9.0, 2.0, 3.0]
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_an_index_outside_names_the_line_and_leaves_the_argument() -> None:
    run = plica.jit(lambda x, i: plica.for_loop(0, i, 1, lambda j, a: a.at[j].set(7.0), x))
    x = _argument(3)
    with pytest.raises(BoundsError, match=r"test_ownership.py:\d+: index 3 does not lie within axis 0 of size 3"):
        run(x, 4)
    assert x.tolist() == [1.0, 2.0, 3.0]
    reads = plica.jit(lambda x, i: plica.for_loop(0, i, 1, lambda j, a: a + x[-j], x))
    with pytest.raises(BoundsError, match=r"test_ownership.py:\d+: index -4 does not lie within axis 0 of size 3"):
        reads(x, 5)
    columns = plica.jit(lambda x, i: plica.for_loop(0, i, 1, lambda j, a: a + x[:, j], x[:, 0]))
    with pytest.raises(BoundsError, match=r"test_ownership.py:\d+: index 2 does not lie within axis 1 of size 2"):
        columns(torch.ones(3, 2), 3)
    cells = plica.jit(lambda x, i: plica.for_loop(0, i, 1, lambda j, a: a.at[:, j].add(1.0), x))
    with pytest.raises(BoundsError, match=r"test_ownership.py:\d+: index 2 does not lie within axis 1 of size 2"):
        cells(torch.ones(3, 2), 3)


def test_the_memory_plan_knows_what_is_written_over() -> None:
    straight = clean(plica.trace(_three, N))
    assert plan_memory(straight, 64).peak == 512
    assert plan_memory(straight, 64).total == 4 * 512
    in_loop = clean(plica.trace(_loop(_set), N))
    assert plan_memory(in_loop, 64).peak == 512 + 8 * 2  # the copy that it starts with, and two scalars


# What the analysis believes of the rows of torch


@over(CASES)
def test_new_results_lie_in_no_operand_and_hold_each_element_once(case: Case) -> None:
    if OPS[case.op].regions or OPS[case.op].memory in (Memory.VIEW, Memory.EITHER):
        return
    tensors = [to_torch(array) for array in case.inputs]
    given = {one.untyped_storage().data_ptr() for one in tensors if one.numel()}
    for one in run_torch(one_equation(case.op, case.inputs, case.params), *tensors):
        if one.numel():
            assert one.untyped_storage().data_ptr() not in given
            assert not any(step == 0 and size > 1 for step, size in zip(one.stride(), one.shape, strict=True))


def _check_aliases(seed: int) -> None:
    """A random function has numpy's results and eager gradients for any size, and writes to no argument or result."""
    text = aliased_functions.drawn(seed)
    by_copies = loaded(text, aliased_functions.ON_NUMPY)
    function = loaded(text, aliased_functions.ON_PLICA)
    eager = loaded(text, aliased_functions.EAGER)
    dynamic = plica.jit(function, abstracted_axes=({0: "n"}, {0: "n"}, {0: "n", 1: "n"}, {0: "n"}))
    for run, size in ((dynamic, 4), (dynamic, 5), (plica.jit(function), 4)):
        arguments = aliased_functions.arguments(seed, size)
        given = [torch.tensor(one) for one in arguments]
        aliased = [given[0], given[0], given[2].T, given[2][1]]  # which share memory with one another
        for tensors in (given, aliased, [one.clone().requires_grad_() for one in given]):
            expected = by_copies(*(one.detach().numpy().copy() for one in tensors))
            for one, wanted in zip(_results(run(*tensors)), expected, strict=True):
                np.testing.assert_allclose(one, wanted, rtol=1e-9, atol=1e-9, err_msg=text)
        found, expected = run(*given), by_copies(*arguments)
        for other in (torch.no_grad, torch.inference_mode):
            with other():
                run(*(0.5 * one for one in given))
        for one, wanted in zip(_results(found), expected, strict=True):
            np.testing.assert_allclose(one, wanted, rtol=1e-9, atol=1e-9, err_msg=text)
        for tensor, before in zip(given, arguments, strict=True):
            np.testing.assert_array_equal(tensor.numpy(), before, err_msg=text)
        if run is dynamic:
            for found, slope in zip(_slopes(run, given), _slopes(eager, given), strict=True):
                torch.testing.assert_close(found, slope, msg=text)


def _slopes(function: Callable[..., Any], given: list[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients of a weighted sum of the results; those of the last argument alone where it alone has some."""
    found = []
    for learned in (range(4), (3,)):
        tensors = [one.clone().requires_grad_(place in learned) for place, one in enumerate(given)]
        total = sum(
            (one * torch.linspace(0.5, 1.5, one.numel()).reshape(one.shape)).sum() for one in function(*tensors)
        )
        wanted = [tensors[place] for place in learned]
        if total.requires_grad:
            slopes = torch.autograd.grad(total, wanted, allow_unused=True)
            found += [torch.zeros(()) if one is None else one for one in slopes]
    return found


# The first two draw functions in which an update would write over what a loop returns, were that taken for new memory.
@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", first_usual([29, 67, *range(28)], 20))
def test_random_functions_compute_what_copies_compute(seed: int) -> None:
    _check_aliases(seed)


@pytest.mark.full
@pytest.mark.parametrize("start", range(100, 1600, 100))
def test_more_random_functions_compute_what_copies_compute(start: int) -> None:
    for seed in range(start, start + 100):
        _check_aliases(seed)
