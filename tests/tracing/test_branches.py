"""Branches: what they return, which sizes are new, and that every way to run them gives the same."""
# ruff: noqa: ARG001, ARG005 - branches are given what they need not use

import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import DTypeError, ShapeError, TraceError
from plica.frontend.programs import trace
from plica.ir.types import spec
from tests.harness.functions import Cases, checked, ramp

N, X3 = spec("n"), spec((3,))
ALL = tuple((ramp(size), value) for size in (3, 1, 0) for value in (True, False))
cases = Cases()


@pytest.mark.parametrize("case", cases)
def test_every_way_gives_the_same(case) -> None:
    case()


@cases.add([N, bool], *ALL)
def two_branches(x, p):
    @plica.cond(p)
    def branch():
        return x

    @branch.otherwise
    def branch():
        return x * 2

    return branch()


@cases.add([N, bool, bool], *((*row, value) for row in ALL for value in (True, False)))
def three_branches_of_trees_with_arguments(x, p, q):
    @plica.cond(p)
    def branch(y):
        return {"a": x + y, "b": (1, None)}

    @branch.else_if(q)
    def branch(y):
        return {"a": x * y, "b": (2.5, None)}

    @branch.otherwise
    def branch(y):
        return {"a": y, "b": (pnp.astype(x.shape[0], "float64"), None)}

    return branch(x - 1)


@cases.add([N, int], *((ramp(3), value) for value in range(7)))
def the_first_that_holds(x, k):
    @plica.cond(k > 4)
    def branch():
        return x

    for least in (3, 2, 1):
        branch.else_if(k > least)(lambda least=least: x * least)
    return branch.otherwise(lambda: -x)()


@cases.add([N, bool], *ALL)
def at_once(x, p):
    return plica.cond(p, lambda: x, lambda: x + 1), plica.cond(p, lambda y: x, lambda y: y + 1, x * 3)


@cases.add([N, bool], *ALL)
def no_branch_returns_anything(x, p):
    @plica.cond(p)
    def branch():
        x + 1

    assert branch() is None
    return plica.cond(p, lambda: None, lambda: None), x


@cases.add([N], (ramp(3),), (ramp(0),))
def predicates_that_are_known(x):
    return plica.cond(True, lambda: x, lambda: x + 1), plica.cond(x.shape[0] >= x.shape[0], lambda: 1, lambda: 2)


@cases.add([N], (ramp(3),), (ramp(0),))
def predicates_of_sizes(x):
    return plica.cond(x.shape[0] > 2, lambda: x, lambda: x + 1)


@cases.add([X3], (ramp(3),), (ramp(3) + 2,))
def predicates_of_elements(x):
    return plica.cond(x[0] > 0, lambda: x, lambda: plica.cond(x[2] > -0.75, lambda: x * 2, lambda: x * 3))


# Sizes


@cases.add([N, bool], *ALL)
def a_size_that_differs(x, p):
    return plica.cond(p, lambda: pnp.concat([x, x]), lambda: x[: x.shape[0] // 2]) + 1


@cases.add([N, bool], *ALL)
def one_new_size_for_two_results(x, p):
    a, b = plica.cond(p, lambda: (pnp.concat([x, x]),) * 2, lambda: (pnp.ones([3], dtype="float32"),) * 2)
    return a + b


@cases.add([N, bool], *ALL)
def sizes_of_their_own(x, p):
    a, b = plica.cond(
        p,
        lambda: (pnp.concat([x, x]),) * 2,
        lambda: (pnp.ones([3], dtype="float32"),) * 2,
        preserve_dimensions=False,
    )
    return a + b, x


@pytest.mark.parametrize("shared", [True, False])
def test_results_of_one_size_share_it_or_not(shared: bool) -> None:
    def function(x, p):
        @plica.cond(p, preserve_dimensions=shared)
        def branch():
            return x, pnp.concat([x, x]), pnp.concat([x, x])

        return branch.otherwise(lambda: (x, x, x))()

    program = checked(function, [N, bool], *ALL)
    (equation,) = [one for one in program.equations if one.op.name == "cond"]
    first, *rest = [str(one.type) for one in equation.outputs if one.type.shape]
    assert first == "f32[n]", "all branches agree on it"
    assert len(set(rest)) == equation.params["num_implicit_outputs"] == (1 if shared else 2)
    assert (equation.params["num_implicit_inputs"], equation.params["preserve_dimensions"]) == (0, shared)


@cases.add([N, bool], *ALL)
def two_new_sizes(x, p):
    return plica.cond(p, lambda: (x, pnp.concat([x, x])), lambda: (pnp.concat([x, x]), pnp.concat([x, x])))


@cases.add([N, bool], *ALL)
def static_sizes_that_differ(x, p):
    return plica.cond(p, lambda: pnp.ones([2, 3]), lambda: pnp.ones([2, 4]))


@cases.add([N, bool], *ALL)
def sizes_that_data_decide(x, p):
    return plica.cond(p, lambda: x[x > 0], lambda: x[x < -0.5])


@cases.add([bool, int], (True, 3), (False, 3))
def numbers_that_become_sizes(p, k):
    return pnp.ones([plica.cond(p, lambda: k + 1, lambda: k * 2)])


@cases.add([N, bool], *ALL)
def only_the_size_of_a_result_is_used(x, p):
    return plica.cond(p, lambda: (x, x * 2), lambda: (pnp.concat([x, x]), x))[0].shape[0]


@cases.add([N, bool], *ALL)
def some_results_are_not_used(x, p):
    return plica.cond(p, lambda: (x, x * 2), lambda: (pnp.concat([x, x]), x * 3))[1]


@cases.add([N, bool], *ALL)
def branches_that_do_nothing_in_a_loop(x, p):
    return plica.for_loop(0, 3, 1, lambda i, a: plica.cond(p, lambda: a, lambda: a), x)


@cases.add([X3], (ramp(3),))
def branches_between_loops(x):
    @plica.for_loop(0, 5)
    def loop(i, a, b):
        @plica.cond(i % 2 == 0)
        def branch():
            return a, b + a

        @branch.else_if(i == 3)
        def branch():
            return plica.while_loop(lambda c: pnp.sum(c) < 10, lambda c: c + 1 + a, b), a

        @branch.otherwise
        def branch():
            return b, a

        return branch()

    return loop(x, x + 1)


# Numbers


@cases.add([X3, bool], (ramp(3), True), (ramp(3), False))
def numbers_take_the_dtype_of_the_other_branch(x, p):
    return plica.cond(p, lambda: x[0], lambda: 2.5), plica.cond(p, lambda: 1, lambda: pnp.sum(x)), x


@cases.add([X3, bool], (ramp(3), True), (ramp(3), False), eager=False)
def numbers_of_two_kinds(x, p):
    return plica.cond(p, lambda: 1, lambda: 2.5), plica.cond(p, lambda: True, lambda: 2), plica.cond(p, int, lambda: 1j)


@cases.add([X3, bool], (ramp(3), True), (ramp(3), False))
def numbers_stay_weak(x, p):
    return x * plica.cond(p, lambda: 1.5, lambda: 2.5), pnp.ones(2, dtype="int8") * plica.cond(p, lambda: 1, lambda: 2)


@cases.add([int], (1,), (3,), (27,))
def collatz(n):
    def step(n, steps):
        return plica.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1), steps + 1

    return plica.while_loop(lambda n, steps: n != 1, step, n, 0)[1]


def test_the_text() -> None:
    program = checked(a_size_that_differs_at_once, [N, bool], *ALL)
    assert str(program) == (
        "{ lambda ; {n:i64[]} x:f32[n] p:bool[] . let\n"
        "    {a:i64[]} b:f32[n] c:f32[a] = cond[branches=({ lambda {n:i64[]} x:f32[n] ; . let\n"
        "          a:f32[2*n] = concat[axis=0] x x\n"
        "          b:i64[] = multiply n 2:i64[]\n"
        "        in ({b}, x, a) },{ lambda {n:i64[]} x:f32[n] ; . let\n"
        "          a:f32[n] = multiply x 2.0:f32[]\n"
        "        in ({n}, a, x) }) branch_nconsts=(2,2) num_implicit_inputs=0 num_implicit_outputs=1 "
        "preserve_dimensions=True] p n x n x\n"
        "  in ({a}, b, c) }"
    )


def a_size_that_differs_at_once(x, p):
    return plica.cond(p, lambda: (x, pnp.concat([x, x])), lambda: (x * 2, x))


REFUSED = (
    (
        lambda x: plica.cond(True, lambda: x, lambda: x[0]),
        ShapeError,
        r"return f32\[n\] at .*, f32\[\] at .*number of axes",
    ),
    (lambda x: plica.cond(True, lambda: x, lambda: pnp.astype(x, "float64")), DTypeError, r"f64\[n\] at .*with astype"),
    (
        lambda x: plica.cond(True, lambda: x, lambda: pnp.ones(3, dtype="int32")),
        DTypeError,
        r"i32\[3\] at .* with astype",
    ),
    (lambda x: plica.cond(True, lambda: pnp.sum(x), lambda: 2j), DTypeError, "with astype"),
    (
        lambda x: plica.cond(True, lambda: x, lambda: (x, x)),
        TraceError,
        "different structures: .*return the same tuples",
    ),
    (lambda x: plica.cond(True, lambda: {"a": x}, lambda: {"b": x}), TraceError, "different structures: .*'a'.*'b'"),
    (lambda x: plica.cond(True, lambda: x, lambda: None), TraceError, "different structures"),
    (lambda x: plica.cond(True)(lambda: x)(), TraceError, r"different structures: .*\(there is no otherwise\)"),
    (
        lambda x: plica.cond(x > 0, lambda: x, lambda: x),
        TraceError,
        r"predicate of cond is a scalar bool, found bool\[n\]",
    ),
    (lambda x: plica.cond(x[0], lambda: x, lambda: x), TraceError, r"found f32\[\]; write a comparison such as x > 0"),
    (lambda x: plica.cond(1, lambda: x, lambda: x), TraceError, r"is a scalar bool, found i64\[\]"),
    (lambda x: plica.cond("yes", lambda: x, lambda: x), TraceError, "predicate of cond is a scalar bool, found str"),
)


@pytest.mark.parametrize(("function", "error", "message"), REFUSED, ids=[row[2][:40] for row in REFUSED])
def test_misuse_is_refused_where_it_is(function, error, message: str) -> None:
    with pytest.raises(error, match=rf"(?s){message}") as caught:
        trace(function, N)
    assert "test_branches.py:" in str(caught.value)


def test_each_branch_is_traced_once() -> None:
    calls = []
    trace(lambda x: plica.cond(x[0] > 0, lambda: calls.append("a") or x, lambda: calls.append("b") or -x), N)
    assert calls == ["a", "b"]


def test_a_branch_that_is_not_taken_does_not_run() -> None:
    def function(x, p):
        return plica.cond(p, lambda: x[5], lambda: pnp.sum(x))

    for backend in ("torch", "interpreter"):
        compiled = plica.jit(function, abstracted_axes=({0: "n"}, None), backend=backend)
        assert compiled(torch.ones(3), False) == 3.0


def test_gradients_go_through_the_branch_that_is_taken() -> None:
    function = plica.jit(lambda x: plica.cond(pnp.sum(x) > 0, lambda: x * x, lambda: pnp.concat([x, x])))
    for at in ([1.0, 2.0], [-1.0, -2.0]):
        x = torch.tensor(at, requires_grad=True)
        (found,) = torch.autograd.grad(function(x).sum(), x)
        assert found.tolist() == ([2.0, 4.0] if at[0] > 0 else [2.0, 2.0])
