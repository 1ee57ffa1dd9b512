"""Sizes while tracing: equal by meaning, checked at run time where that is not known, and used as numbers."""

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.errors import InputError, ShapeError
from plica.frontend.programs import interpret, trace
from plica.ir.types import spec
from tests.harness.functions import Cases, checked, ones, ramp, run_torch

N, M, NM = spec("n"), spec("m"), spec(("n", "m"))
INTEGERS = ((3,), (4,), (1,), (0,))
SOME = ((ramp(3, 2),), (ramp(1, 4),), (ramp(0, 2),), (ramp(2, 0),))
cases = Cases()


@pytest.mark.parametrize("case", cases)
def test_every_way_gives_the_same(case) -> None:
    case()


# Equal by meaning: no check is recorded

EQUAL = (
    (lambda n: pnp.ones([n + 1]) + pnp.ones([1 + n]), "n+1"),
    (lambda n: pnp.ones([(n + 1) * (n + 1)]) + pnp.ones([n * n + 2 * n + 1]), "n^2+2*n+1"),
    (lambda n: pnp.ones([2 * n // 2]) + pnp.ones([n]), "n"),
    (lambda n: pnp.ones([n // 2 + n // 2]) + pnp.ones([2 * (n // 2)]), "2*floordiv(n,2)"),
    (lambda n: pnp.ones([n % 3]) + pnp.ones([n % 3]), "mod(n,3)"),
    (lambda n: pnp.ones([(n + 2) // 2]) + pnp.ones([n // 2 + 1]), "floordiv(n,2)+1"),
    (lambda n: pnp.ones([(2 * n + 1) // 2]) + pnp.ones([n]), "n"),
    (lambda n: pnp.ones([(n * 4) // 2]) + pnp.ones([2 * n]), "2*n"),
    (lambda n: pnp.ones([n // 2 // 2]) + pnp.ones([n // 4]), "floordiv(n,4)"),
    (lambda n: pnp.ones([(n + 6) % 3]) + pnp.ones([n % 3]), "mod(n,3)"),
    (lambda n: pnp.ones([n + 1 - 1]) + pnp.ones([n]), "n"),
    (lambda n: pnp.ones([pnp.minimum(n, 2) + pnp.maximum(n, 2)]) + pnp.ones([n + 2]), "n+2"),
    (lambda n: pnp.concat([pnp.ones([n]), pnp.ones([n])]) + pnp.ones([n * 2]), "2*n"),
    (lambda n: pnp.ones([n, 2]).reshape(2, n)[0] + pnp.ones([n]), "n"),
    (lambda n: pnp.reshape(pnp.ones([n, 3]), -1) + pnp.ones([3 * n]), "3*n"),
    (lambda n: pnp.broadcast_to(pnp.ones([1]), (n,)) + pnp.arange(n), "n"),
    (lambda n: pnp.sum(pnp.ones([n, 2 * n]), axis=1) + pnp.ones([n]), "n"),
)


@pytest.mark.parametrize(("function", "size"), EQUAL, ids=[f"{place}-{row[1]}" for place, row in enumerate(EQUAL)])
def test_sizes_are_equal_by_meaning(function, size: str) -> None:
    program = checked(function, [int], *INTEGERS)
    assert "assert_shape" not in str(program)
    assert str(program.results[0].type) == f"f64[{size}]"


def test_the_product_of_sizes_is_split() -> None:
    program = checked(lambda n: pnp.ones([2 * n]).reshape(2, n), [int], *INTEGERS)
    assert str(program.results[0].type) == "f64[2,n]"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("n", "n+1"),
        ("n", "n+2"),
        ("2*n", "2*n-1"),
        ("n+3", "n-3"),
        ("n+m", "m+n+2"),
        ("n*n", "n*n+1"),
        ("n//2", "n//2+1"),
        ("(n+2)//2", "n//2"),
    ],
)
def test_sizes_that_cannot_be_equal_are_refused_while_tracing(first: str, second: str) -> None:
    def function(n, m):
        sizes = [eval(size, {"n": n, "m": m}) for size in (first, second)]
        return pnp.zeros([sizes[0]]) + pnp.zeros([sizes[1]])

    with pytest.raises(
        ShapeError, match=r"(?s)do not broadcast: .* against .*was made at .*test_sizes.py:.*was made at"
    ):
        trace(function, int, int)


# Undecided: checked when it runs

UNDECIDED = (
    # function, arguments that fit, arguments that do not, part of the message
    (lambda x, y: x + y, (3, 3), (3, 4), r"shape \(4,\), but \(3,\) is needed"),
    (lambda x, y: x + y, (0, 0), (1, 3), r"shape \(3,\), but \(1,\) is needed"),
    (lambda x, y: x + y, (1, 1), (3, 1), r"shape \(1,\), but \(3,\) is needed"),
    (lambda x, y: x + pnp.ones(3) + pnp.sum(y), (3, 1), (1, 1), r"shape \(1,\), but \(3,\) is needed"),
    (lambda x, y: pnp.concat([x, x]) * y, (2, 4), (2, 3), r"shape \(3,\), but \(4,\) is needed"),
    (lambda x, y: pnp.stack([x, y]), (2, 2), (2, 0), r"shape \(0,\), but \(2,\) is needed"),
    (lambda x, y: x @ y, (2, 2), (2, 3), r"shape \(3,\), but \(2,\) is needed"),
    (lambda x, y: pnp.einsum("a,a->", x, y), (2, 2), (2, 3), "is needed"),
    (lambda x, y: pnp.where(x > 0, x, y), (2, 2), (2, 3), "is needed"),
    (lambda x, y: pnp.reshape(x, (2, y.shape[0])), (6, 3), (6, 2), r"shape \(6,\), but \(4,\) is needed"),
    (lambda x, y: pnp.broadcast_to(x, (2, y.shape[0])), (3, 3), (1, 3), "is needed"),
    (lambda x, y: pnp.reshape(x, (y.shape[0], -1)), (6, 3), (6, 4), r"shape \(6,\), but \(4,\) is needed"),
    (lambda x, y: pnp.squeeze(x, 0) + pnp.sum(y), (1, 1), (2, 1), r"shape \(2,\), but \(1,\) is needed"),
    (lambda x, y: x[x > 0] + y[y > 0], (7, 7), (7, 8), "is needed"),
)


@pytest.mark.parametrize(("function", "fits", "fails", "message"), UNDECIDED, ids=range(len(UNDECIDED)))
def test_sizes_of_which_it_is_not_known_are_checked_when_it_runs(function, fits, fails, message: str) -> None:
    program = checked(function, [N, M], [ramp(size) for size in fits])
    assert "assert_shape" in str(program)
    for run in (interpret, run_torch):
        with pytest.raises(InputError, match=rf"test_sizes.py:\d+: .*{message}.*paired sizes must be equal"):
            run(program, *(ramp(size) for size in fails))


def test_jit_checks_too() -> None:
    add = plica.jit(lambda x, y: x + y, abstracted_axes=({0: "n"}, {0: "m"}))
    assert add(ones(3), ones(3)).tolist() == [2.0] * 3
    with pytest.raises(InputError, match=rf"{__file__}:\d+: an array has shape \(1,\), but \(3,\) is needed"):
        add(ones(3), ones(1))
    assert add.num_compilations == 1


def test_what_is_cut_off_is_as_long_as_what_was_put_before() -> None:
    program = checked(lambda x: pnp.concat([pnp.ones([3]), x])[3:] + x, [N], (ramp(3),), (ramp(0),))
    assert "assert_shape" not in str(program)


def test_one_check_serves_all_later_uses() -> None:
    def function(x, y):
        z = x + y
        return z * y + pnp.concat([x, y])[: x.shape[0]] - y

    program = checked(function, [N, M], (ramp(3), ramp(3)))
    assert str(program).count("assert_shape") == 1


def test_a_dynamic_size_is_never_taken_for_one() -> None:
    program = trace(lambda x, y: x + y, spec(("n", 3)), spec(("m", 3)))
    for run in (interpret, run_torch):
        with pytest.raises(InputError, match=r"shape \(1, 3\), but \(2, 3\) is needed"):
            run(program, ones(2, 3), ones(1, 3))


NEGATIVE = (
    lambda n: pnp.ones([n]),
    lambda n: pnp.ones([2, n + 1]),
    lambda n: pnp.arange(n),
    lambda n: pnp.broadcast_to(pnp.ones([1, 3]), (n, 3)),
    lambda n: pnp.ones([n * n * n]),
)


@pytest.mark.parametrize("function", NEGATIVE, ids=range(len(NEGATIVE)))
def test_a_size_that_turns_out_negative_is_refused(function) -> None:
    program = trace(function, int)
    for run in (interpret, run_torch):
        with pytest.raises(InputError, match=r"test_sizes.py:\d+: the size .*-\d+ .*is negative; take 0 or more"):
            run(program, np.asarray(-2))


@pytest.mark.parametrize(
    "function", [lambda n: pnp.ones([n**4]), lambda n: pnp.arange(n * n * n * n)], ids=["ones", "arange"]
)
def test_a_size_that_turns_out_beyond_64_bits_is_refused(function) -> None:
    program = trace(function, int)
    for run in (interpret, run_torch):
        with pytest.raises(InputError, match=r"test_sizes.py:\d+: the size .*too large; sizes are below 2\*\*63"):
            run(program, np.asarray(2**20))


# Sizes as numbers


@cases.add([NM], *SOME)
def sizes_meet_arrays(x):
    n, m = x.shape
    return x * n, n + x, m - x, x * n + m, pnp.where(x > 0, n, m), pnp.full([2], n), pnp.maximum(x, m)


@cases.add([NM], (ramp(3, 2),), (ramp(1, 4),))
def quotients(x):
    n, m = x.shape
    return x / n, n / m, n // m, n % m, pnp.sum(x) / (n * m)


@cases.add([NM], *SOME)
def arithmetic(x):
    n, m = x.shape
    return n + m, n - m, n * m, -n, +n, n**2, abs(n - 5), n & 1, n | 4, n ^ m, n << 2, n >> 1, ~n


@cases.add([NM], *SOME)
def comparisons(x):
    n, m = x.shape
    return n == m, n != m, n < m, n <= 3, m >= 2, pnp.logical_and(n > 1, m > 1), pnp.logical_not(n > 1)


@cases.add([NM], *SOME)
def arrays_of_sizes(x):
    n, m = x.shape
    return pnp.stack([pnp.asarray(n), pnp.asarray(m)]), pnp.asarray([n, 2 * m, 3]), pnp.minimum(n, m), pnp.maximum(n, 3)


@cases.add([N], (ramp(3),), (ramp(200),), (ramp(0),))
def a_size_takes_the_dtype_of_what_it_meets(x):
    n = x.shape[0]
    return (
        pnp.ones(3, dtype="int16") * n,
        pnp.ones(3, dtype="uint8") * (n % 7),
        pnp.ones(3, dtype="float64") * n,
        pnp.ones(3, dtype="complex64") * n,
    )


@cases.add([NM], *SOME)
def the_number_of_elements(x):
    return pnp.sum(pnp.ones([pnp.reshape(x, -1).shape[0]])), pnp.sum(x) * (x.shape[0] * x.shape[1])


@cases.add([NM, int], (ramp(3, 2), 1), (ramp(4, 0), 4), (ramp(2, 2), 0))
def bounds_of_slices(x, k):
    return x[k:], x[:k], x[k : x.shape[0]], x[x.shape[0] - k :, : x.shape[1]]


# Sizes that data decide


@cases.add([spec((2,), "int64")], (np.asarray([3, 4]),), (np.asarray([0, 1]),))
def elements_are_sizes(k):
    return pnp.ones([k[0], k[1] + 1]), pnp.arange(k[0]), pnp.reshape(pnp.ones([k[0] * k[1]]), (k[1], k[0]))


@cases.add([N], (ramp(9),), (ramp(2),), (ramp(0),))
def what_a_mask_leaves(x):
    found = x[x > 0]
    return found, found.shape[0], pnp.concat([found, x]), found + pnp.ones([pnp.sum(x > 0)], dtype="float32")


@cases.add([N], (ones(3),), (ones(0),))
def sums_are_sizes(x):
    size = pnp.astype(pnp.sum(x), "int64")
    return pnp.ones([size]) + pnp.zeros([pnp.astype(pnp.sum(x), "int64")])


@cases.add([int, int], (5, 3), (3, 5), (0, 2), (-4, 3))
def scalar_arguments_are_sizes(n, m):
    return pnp.zeros([pnp.maximum(n, 0), m]), n - m, pnp.arange(n, n + m), pnp.ones([abs(n)])


@cases.add([spec((), "int32")], (np.asarray(3, "int32"),), (np.asarray(0, "int32"),))
def narrow_integers_are_sizes(k):
    return pnp.ones([k, 2]), pnp.ones([k + 1])


# Wrap like 64 bits


@cases.add([int], (2**40,), (3,), (-(2**40),), (2**62,), eager=False)
def arithmetic_wraps(n):
    return n * n * n, n + 2**62 + 2**62, 1 - n - 2**62 - 2**62, -n, pnp.square(n), abs(n), n * n > 0, n + 2**63 - 1 > 0


@cases.add([int], (2**61,), (-(2**62),), (1,), eager=False)
def counting_wraps(n):
    return plica.for_loop(0, 5, 1, lambda i, a, b: (a * 3 + i, b + a), n, n)


@cases.add([int, int], (2**62 + 1, -(2**62) - 1), (-(2**62) - 1, 2**62 + 1), (-(2**63), 2**63 - 1), (7, 7), eager=False)
def extremes_of_far_numbers(a, b):
    return (
        pnp.maximum(a, b),
        pnp.minimum(a, b),
        pnp.minimum(a, a * a),
        pnp.clip(a, b, b + 1),
        pnp.maximum(a // 2 - b, 3),
    )


@cases.add([int], (2**24 + 1,), (2**53 + 1,), (3,), eager=False)
def numbers_are_rounded_as_arrays_are(n):
    single = pnp.astype(n, "float32")
    return single, pnp.astype(single, "int64"), pnp.ones([2]) * pnp.astype(single, "float64"), pnp.astype(n, "int8")


def test_the_smallest_integer() -> None:
    checked(lambda n: (-n, abs(n), n - 1, n * -1), [int], (-(2**63),), eager=False)
