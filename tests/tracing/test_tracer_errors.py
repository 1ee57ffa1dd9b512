"""Plain Python on tracers, and tracers out of their scope: errors that show the line and what to write instead."""
# ruff: noqa: ARG001, ARG005, B007, RET503, RET505, RUF059 - what users write is tested, good style or not

import inspect
import re
import sys

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import DTypeError, ShapeError, TraceError
from plica.frontend.programs import trace
from plica.ir.types import spec
from plica.tracing.scope import current_trace

N, I32 = spec("n"), spec((2, 3), "int32")


def _if(x):
    if x[0] > 1:
        return x
    return -x


def _elif(x):
    if x.ndim > 3:
        return x
    elif x.shape[0] > 2:
        return -x


def _while(x):
    while pnp.sum(x) > 3:
        x = x - 1
    return x


def _assert(x):
    assert x[0] > 4, "positive"
    return x


def _for_range(x):
    for _ in range(x.shape[0] + 5):
        x = x + 1
    return x


def _for_rows(x):
    for row in x:
        x = x + row
    return x


def _for_enumerate(x):
    for place, row in enumerate(pnp.exp(x)):
        x = x + row
    return x


def _comprehension(x):
    return [row + 6 for row in x]


def _unpacked(x):
    first, second = x * 7
    return first


def _len(x):
    return pnp.zeros(len(x) + 8)


def _int(x):
    return x * int(x[9])


def _float(x):
    return x * float(x[10])


def _complex(x):
    return x * complex(x[11])


def _bool(x):
    return bool(x[12] > 0)


def _ternary(x):
    return x if x[13] > 0 else -x


def _and(x):
    return x[14] > 0 and x[15] > 0


def _not(x):
    return not x[16]


# fmt: off
def _several_lines(x):
    if (
        x.ndim > 17
        or x[18] > 0
    ):
        return x
    return -x
# fmt: on


def _index(x):
    return [1, 2, 3][x.shape[0] - 19]


def _range(x):
    return list(range(x.shape[0] + 20))


def _max(x):
    return max(x[0], x[21])


def _in(x):
    return x.shape[0] in (22, 23)


def _set(x):
    x[0] = 24
    return x


def _increment(x):
    x[25] += 1
    return x


def _numpy(x):
    return np.exp(x + 26)


def _numpy_shape(x):
    return np.zeros([x.shape[0] + 27])


UNKNOWN = (
    (_if, "if x[0] > 1:", r"a Python `if` needs its truth value\. Use @plica\.cond\(\.\.\.\), or plica\.numpy\.where"),
    (_elif, "elif x.shape[0] > 2:", r"a Python `elif` needs its truth value\. Use \.else_if\(\.\.\.\) of @plica\.cond"),
    (_while, "while pnp.sum(x) > 3:", r"a Python `while` needs its truth value\. Use @plica\.while_loop\(condition\)"),
    (_assert, 'assert x[0] > 4, "positive"', r"a Python `assert` needs its truth value\. Use a comparison"),
    (_for_range, "for _ in range(x.shape[0] + 5):", r"a Python `for` loop counts to it\. Use @plica\.for_loop\(0, n\)"),
    (_for_rows, "for row in x:", r"Python iterates over it\. Use @plica\.for_loop\(0, x\.shape\[0\]\), plica\.scan"),
    (_for_enumerate, "for place, row in enumerate(pnp.exp(x)):", "Python iterates over it.*plica.numpy.unstack"),
    (_comprehension, "return [row + 6 for row in x]", "Python iterates over it"),
    (_unpacked, "first, second = x * 7", "Python iterates over it"),
    (_len, "return pnp.zeros(len(x) + 8)", r"length\. Use x\.shape\[0\], a scalar of the program"),
    (_int, "return x * int(x[9])", r"it is converted to a Python int\. Use array operations, or astype\(x, 'int64'\)"),
    (_float, "return x * float(x[10])", "it is converted to a Python float.*'float64'"),
    (_complex, "return x * complex(x[11])", "it is converted to a Python complex.*'complex128'"),
    (_bool, "return bool(x[12] > 0)", "its truth value is needed. Use plica.numpy.where or plica.cond"),
    (_ternary, "return x if x[13] > 0 else -x", "its truth value is needed"),
    (_and, "return x[14] > 0 and x[15] > 0", "its truth value is needed"),
    (_not, "return not x[16]", "its truth value is needed"),
    (_several_lines, "or x[18] > 0", "its truth value is needed. Use plica.numpy.where or plica.cond"),
    (_index, "return [1, 2, 3][x.shape[0] - 19]", r"it is used as a Python index.*x\[i\] of a tracer x"),
    (_range, "return list(range(x.shape[0] + 20))", "it is used as a Python index.*plica.for_loop"),
    (_max, "return max(x[0], x[21])", "its truth value is needed"),
    (_in, "return x.shape[0] in (22, 23)", "its truth value is needed"),
    (_set, "x[0] = 24", r"cannot be changed in place\. Use x = x\.at\[index\]\.set\(values\)"),
    (_increment, "x[25] += 1", "cannot be changed in place"),
    (_numpy, "return np.exp(x + 26)", "numpy needs its elements.*plica.numpy in place of numpy's"),
    (_numpy_shape, "return np.zeros([x.shape[0] + 27])", "it is used as a Python index"),
)


def _line(code: str) -> int:
    """The line of this file that is `code`."""
    lines = inspect.getsource(sys.modules[__name__]).splitlines()
    (number,) = [index for index, line in enumerate(lines, 1) if line.split("#")[0].strip() == code]
    return number


@pytest.mark.parametrize(("function", "code", "message"), UNKNOWN, ids=[row[0].__name__ for row in UNKNOWN])
def test_what_only_the_run_knows_is_refused_with_the_users_line(function, code: str, message: str) -> None:
    with pytest.raises(TraceError, match=message) as caught:
        trace(function, N)
    shown = str(caught.value).splitlines()
    assert shown[:2] == [f"{__file__}:{_line(code)}:", f"    {code}"]
    assert "is not known while the function is traced, but " in shown[2]


def test_text_that_is_no_file_is_left_out() -> None:
    scope: dict = {}
    exec("def function(x):\n    return int(x[0])", scope)
    with pytest.raises(TraceError, match=r"^<string>:2: the value of Tracer\(\w+:f32\[\]\) is not known"):
        trace(scope["function"], N)


def test_numbers_of_numpy_are_refused_as_indices_of_lists() -> None:
    with pytest.raises(TraceError, match="it is used as a Python index"):
        trace(lambda x: [1, 2, 3][x[0, 0]], I32)


# Arguments of functions

FOREIGN = (
    (lambda x: x + "a", "add needs an array, found str 'a'"),
    (lambda x: pnp.add(x, [1, 2, 3]), r"add needs an array, found list \[1, 2, 3\]"),
    (lambda x: pnp.where(x > 0, x, None), "where needs an array, found NoneType None"),
    (lambda x: "a", "the result of a traced function needs an array, found str 'a'"),
    (lambda x: {x}, "the result of a traced function needs an array, found set"),
    (lambda x: (y for y in (x, x)), "the result of a traced function needs an array, found generator"),
)


@pytest.mark.parametrize(("function", "message"), FOREIGN, ids=[row[1] for row in FOREIGN])
def test_what_is_no_array_is_refused(function, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        trace(function, N)


SIZES = (
    (lambda x: pnp.ones([x.shape[0] / 2]), r"found f64\[\], made at .*; use // instead of /, or convert it with as"),
    (lambda x: pnp.ones([2.0]), "found float 2.0; write an int, or use // instead of /"),
    (lambda x: pnp.ones([pnp.ones(3, dtype="int64")]), r"found i64\[3\], made at .*_errors.py:\d+; take one"),
    (lambda x: pnp.ones([x[0] > 0]), r"found bool\[\]"),
    (lambda x: pnp.ones(x), r"found f32\[n\]"),
    (lambda x: pnp.ones(["n"]), "found str 'n'"),
    (lambda x: pnp.reshape(x, (2.5, 2)), "found float 2.5"),
    (lambda x: pnp.broadcast_to(x, (x[0], x.shape[0])), r"found f32\[\]"),
    (lambda x: pnp.arange(3, dtype="int64")[: x[0]], "float32|f32"),
)


@pytest.mark.parametrize(("function", "message"), SIZES, ids=[str(place) for place in range(len(SIZES))])
def test_sizes_are_scalar_integers(function, message: str) -> None:
    with pytest.raises((ShapeError, TraceError), match=rf"test_tracer_errors.py:\d+: .*{message}"):
        trace(function, N)


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"test_tracer_errors.py:\d+\): a shape has the negative size -1: f64\[-1\]"):
        trace(lambda x: pnp.ones([-1]), N)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "int64"])
def test_integers_of_any_width_are_sizes(dtype: str) -> None:
    program = trace(lambda k: pnp.ones([k, 2]), spec((), dtype))
    (found,) = plica.interpret(program, np.asarray(3, dtype))
    assert found.shape == (3, 2)


def _two(sz):
    first = pnp.ones([sz])
    second = pnp.ones([sz + 1])
    return first + second


def test_sizes_that_differ_name_both_and_where_they_were_made() -> None:
    with pytest.raises(ShapeError) as caught:
        trace(_two, int)
    assert str(caught.value).splitlines() == [
        f"add(f64[sz], f64[sz+1]) ({__file__}:{_line('return first + second')}): "
        "the shapes (sz) and (sz+1) do not broadcast: sz against sz+1.",
        f"  a:f64[sz] was made at {__file__}:{_line('first = pnp.ones([sz])')}",
        f"  b:f64[sz+1] was made at {__file__}:{_line('second = pnp.ones([sz + 1])')}",
    ]


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: pnp.reshape(x, (-1, -1)), ShapeError, "cannot become"),
        (lambda x: pnp.sum(x, axis=2), ShapeError, "axis 2 does not exist"),
        (lambda x: x | x, DTypeError, "found float32, expected bool or int"),
    ],
)
def test_errors_of_operations_carry_the_users_line(function, error, message: str) -> None:
    with pytest.raises(error, match=rf"test_tracer_errors.py:\d+.*{message}"):
        trace(function, spec((2, 3)))


# Tracers outside their scope


def _from_a_loop(x):
    kept = []

    @plica.for_loop(0, 3)
    def loop(i, a):
        kept.append(a * 28)
        return a

    return loop(x) + kept[0]


def _index_of_a_loop(x):
    kept = []

    @plica.for_loop(0, 29)
    def loop(i, a):
        kept.append(i)
        return a

    return loop(x) * kept[0]


def _size_of_a_loop(x):
    kept = []

    @plica.while_loop(lambda a: a.shape[0] < 30)
    def loop(a):
        kept.append(a.shape[0] + 1)
        return pnp.concat([a, a])

    return loop(x), pnp.ones([kept[0], 31])


def _between_branches(x):
    kept = []

    @plica.cond(x[0] > 0)
    def branch():
        kept.append(x * 32)
        return x

    @branch.otherwise
    def branch():
        return kept[0] + 33

    return branch()


def _from_a_call(x):
    kept = []

    @plica.jit
    def inner(y):
        kept.append(y * 34)
        return y

    return inner(x) + kept[0] + 35


def _from_a_trace_within(x):
    kept = []

    def inner(y):
        kept.append(y * 36)
        return y

    trace(inner, N)
    return x + kept[0] + 37


def _from_one_loop_in_another(x):
    kept = []

    @plica.for_loop(0, 3)
    def outer(i, a):
        @plica.for_loop(0, 3)
        def first(j, b):
            kept.append(b * 38)
            return b

        @plica.for_loop(0, 3)
        def second(j, b):
            return b + kept[0] + 39

        return second(first(a))

    return outer(x)


LEAKED = (
    # function, the line that makes the tracer (or the function that is given it), the line that uses it
    (_from_a_loop, "kept.append(a * 28)", "return loop(x) + kept[0]"),
    (_index_of_a_loop, "@plica.for_loop(0, 29)", "return loop(x) * kept[0]"),
    (_size_of_a_loop, "@plica.while_loop(lambda a: a.shape[0] < 30)", "return loop(x), pnp.ones([kept[0], 31])"),
    (_between_branches, "kept.append(x * 32)", "return kept[0] + 33"),
    (_from_a_call, "kept.append(y * 34)", "return inner(x) + kept[0] + 35"),
    (_from_a_trace_within, "kept.append(y * 36)", "return x + kept[0] + 37"),
    (_from_one_loop_in_another, "kept.append(b * 38)", "return b + kept[0] + 39"),
)


@pytest.mark.parametrize(("function", "made", "used"), LEAKED, ids=[row[0].__name__ for row in LEAKED])
def test_a_tracer_outside_its_scope_names_both_lines(function, made: str, used: str) -> None:
    with pytest.raises(TraceError) as caught:
        trace(function, N)
    assert re.fullmatch(
        rf"{re.escape(__file__)}:{_line(used)}: Tracer\(.*\), made at {re.escape(__file__)}:{_line(made)}, "
        r"is used after the function that made it has ended; return it from that function, "
        r"or carry it through the loop as an argument\.",
        str(caught.value),
    )


KEPT: list = []


def _keep(x):
    KEPT[:] = [x * 40, x.shape[0] + 41]
    return x


USES = (
    lambda: KEPT[0] + 1,
    lambda: 1 - KEPT[0],
    lambda: pnp.sum(KEPT[0]),
    lambda: KEPT[0][0],
    lambda: KEPT[1] * 2,
    lambda: pnp.zeros(KEPT[1]),
    lambda: KEPT[0].shape[0] + 1,
    lambda: plica.for_loop(0, 3, 1, lambda i, a: a, KEPT[0]),
    lambda: plica.cond(KEPT[1] > 50, lambda: 1, lambda: 2),
)


@pytest.mark.parametrize("use", USES, ids=[str(place) for place in range(len(USES))])
def test_a_tracer_of_a_finished_function_names_both_lines(use) -> None:
    trace(_keep, N)
    with pytest.raises(TraceError) as caught:
        use()
    assert re.match(
        rf"{re.escape(__file__)}:\d+: Tracer\(.*\), made at {re.escape(__file__)}:\d+, "
        r"is used after its function was traced; return it from that function\.",
        str(caught.value),
    )


def test_a_tracer_of_another_function_that_is_being_traced() -> None:
    with pytest.raises(TraceError, match="belongs to another function that is being traced"):
        trace(lambda x: trace(lambda y: x + y, N), N)


def test_an_error_ends_every_scope() -> None:
    def fails(x):
        return plica.for_loop(0, 3, 1, lambda i, a: plica.cond(i > 0, lambda: 1 // 0, lambda: a), x)

    with pytest.raises(ZeroDivisionError):
        trace(fails, spec(()))
    assert current_trace() is None
    assert torch.equal(pnp.add(torch.ones(2), 1), torch.full((2,), 2.0))
