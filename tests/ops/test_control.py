"""Control flow in the table: type rules refuse regions that do not fit, and references run them."""

from typing import Any

import numpy as np
import pytest

from plica.errors import InputError, VerifyError
from plica.frontend.programs import interpret, parse
from plica.ops import OPS
from plica.ops.control import steps
from plica.ops.regions import regions_of
from tests.harness.programs import reference
from tests.harness.together import grouped

FOR = """{ lambda c:f32[] ; {n:i64[]} x:f32[n] k:i64[] . let
    s:i64[] y:f32[s] = for_loop[body={ lambda c:f32[] ; {m:i64[]} i:i64[] a:f32[m] . let
          b:f32[m] = multiply a c
          d:f32[2*m] = concat[axis=0] b b
          e:i64[] = add m m
        in ({e}, d) } body_nconsts=1 num_implicit_inputs=1 num_implicit_outputs=1 preserve_dimensions=True] \
c n 0:i64[] k 1:i64[] x
  in ({s}, y) }"""
KEPT = """{ lambda ; {n:i64[]} x:f32[n] . let
    s:i64[] y:f32[n] = for_loop[body={ lambda ; {m:i64[]} i:i64[] a:f32[m] . let
          b:f32[m] = multiply a a
        in ({m}, b) } body_nconsts=0 num_implicit_inputs=1 num_implicit_outputs=1 preserve_dimensions=True] \
n 0:i64[] 3:i64[] 1:i64[] x
  in (y,) }"""
WHILE = """{ lambda ; {n:i64[]} x:f32[n] k:i64[] . let
    s:i64[] y:f32[s] = while_loop[cond={ lambda k:i64[] ; {m:i64[]} a:f32[m] . let
          b:bool[] = less m k
        in (b,) } cond_nconsts=1 body={ lambda ; {m:i64[]} a:f32[m] . let
          b:f32[2*m] = concat[axis=0] a a
          c:i64[] = add m m
        in ({c}, b) } body_nconsts=0 num_implicit_inputs=1 num_implicit_outputs=1 preserve_dimensions=True] k n x
  in ({s}, y) }"""
COND = """{ lambda ; {n:i64[]} x:f32[n] p:bool[] . let
    s:i64[] y:f32[n] z:f32[s] = cond[branches=({ lambda n:i64[] x:f32[n] ; . let
          a:f32[2*n] = concat[axis=0] x x
          b:i64[] = add n n
        in ({b}, x, a) },{ lambda n:i64[] x:f32[n] ; . let
          a:f32[n] = multiply x x
        in ({n}, a, x) }) branch_nconsts=(2,2) num_implicit_inputs=0 num_implicit_outputs=1 preserve_dimensions=True] \
p n x n x
  in ({s}, y, z) }"""
SCAN = """{ lambda ; {n:i64[]} {m:i64[]} t:f32[n,m] x:f32[m] . let
    s:i64[] y:f32[m] z:f32[n,m] = scan[body={ lambda ; {m:i64[]} c:f32[m] r:f32[m] . let
          a:f32[m] = add c r
        in ({m}, a, c) } body_nconsts=0 num_carries=1 length=n reverse=False num_implicit_inputs=1 \
num_implicit_outputs=1 preserve_dimensions=True] m x t
  in (y, z) }"""
CALL = """{ lambda w:f32[3] ; {n:i64[]} x:f32[n,3] . let
    {s:i64[]} y:f32[s,3] = call[program={ lambda w:f32[3] ; {m:i64[]} a:f32[m,3] . let
          b:f32[m,3] = multiply a w
          c:f32[2*m,3] = concat[axis=0] b b
          d:i64[] = add m m
        in ({d}, c) } body_nconsts=1 num_implicit_inputs=1 num_implicit_outputs=1 name='f'] w n x
  in ({s}, y) }"""
ASSERT = """{ lambda ; {n:i64[]} {m:i64[]} x:f32[n] y:f32[m] . let
    a:f32[n] = assert_shape[shape=(n,)] y
  in (a,) }"""

# program, what is replaced, by what, part of the message
BROKEN = (
    # how many operands
    (FOR, " k 1:i64[] x", " k 1:i64[]", "for_loop: the region takes 3 inputs, found 2"),
    (FOR, " k 1:i64[] x", " k 1:i64[] x x", "for_loop: the region takes 3 inputs, found 4"),
    (FOR, "body={ lambda c:f32[] ;", "body={ lambda c:f32[] z:f32[] ;", "for_loop: the region takes 2 consts, found 1"),
    (FOR, "body_nconsts=1", "body_nconsts=0", "for_loop: the region takes 1 consts, found 0"),
    (FOR, "i:i64[] a:f32[m]", "a:f32[m]", "for_loop: the region takes 2 inputs, found 3"),
    (WHILE, "] k n x", "] k n", "the condition of while_loop: the region takes 2 inputs, found 1"),
    (WHILE, "cond_nconsts=1", "cond_nconsts=0", "the condition of while_loop: the region takes 1 consts, found 0"),
    (COND, "p n x n x", "p n x n", "cond: the region takes 2 consts, found 1"),
    (COND, "p n x n x", "p n x n x x", "cond: expected operands that a branch takes"),
    (
        COND,
        "num_implicit_inputs=0",
        "num_implicit_inputs=1",
        r"cond: .* takes 0 size\(s\) and returns 1, but .* 1 and 1",
    ),
    (COND, " num_implicit_inputs=0", "", "missing a required argument: 'num_implicit_inputs'"),
    (COND, " preserve_dimensions=True", "", "missing a required argument: 'preserve_dimensions'"),
    (COND, "branch_nconsts=(2,2)", "branch_nconsts=(2,)", "cond: expected operands that a branch takes"),
    (COND, "branch_nconsts=(2,2)", "branch_nconsts=(3,1)", "cond: the region takes 2 consts, found 3"),
    (
        COND,
        "},{ lambda n:i64[] x:f32[n] ;",
        "},{ lambda n:i64[] ; x:f32[n]",
        "cond: the region takes 1 consts, found 2",
    ),
    (SCAN, "] m x t", "] m x", "scan: the region takes 3 inputs, found 2"),
    (SCAN, "body_nconsts=0", "body_nconsts=1", "scan: the region takes 0 consts, found 1"),
    (CALL, "] w n x", "] w n", "f: the region takes 2 inputs, found 1"),
    (CALL, "body_nconsts=1", "body_nconsts=0", "f: the region takes 1 consts, found 0"),
    # their types
    (FOR, "x:f32[n] k", "x:f64[n] k", r"for_loop: the region expects a:f32\[m\], found f64\[n\]"),
    (FOR, "x:f32[n] k", "x:f32[n,1] k", r"for_loop: the region expects a:f32\[m\], found f32\[n,1\]"),
    (FOR, "{ lambda c:f32[] ; {n", "{ lambda c:f64[] ; {n", r"for_loop: the region expects c:f32\[\], found f64\[\]"),
    (FOR, " c n 0", " n c 0", r"for_loop: the region expects c:f32\[\], found i64\[\]"),
    (FOR, " c n 0", " c 3:i64[] 0", "found f32.n.. Whether 3 = n is not known"),
    (FOR, " c n 0", " c k 0", "found f32.n.. Whether k = n is not known"),
    (FOR, "k:i64[]", "k:i32[]", r"the bounds and the step of a loop: found i32\[\], expected i64\[\]"),
    (FOR, "k 1:i64[]", "k 1.0:f64[]", r"the bounds and the step of a loop: found f64\[\]"),
    (FOR, "i:i64[] a", "i:f32[] a", r"for_loop: the index is i64\[\], but the body expects i:f32\[\]"),
    (COND, "] p n", "] n n", r"the predicates of cond: found i64\[\], expected bool\[\]"),
    (SCAN, "num_carries=1", "num_carries=2", r"scan: the region expects r:f32\[m\], found f32\[n,m\]"),
    (SCAN, "length=n", "length=m", r"scan has m steps, but is given f32\[n,m\]"),
    (SCAN, "] m x t", "] m x 1.0:f32[]", r"scan runs along the first axis of its arrays, found f32\[\]"),
    (CALL, "x:f32[n,3] .", "x:f32[n,4] .", r"f: the region expects a:f32\[m,3\], found f32\[n,4\]"),
    (ASSERT, "(n,)] y", "(n,n)] y", r"f32\[m\] cannot have the shape \(n, n\)"),
    (ASSERT, "(n,)] y", "(m+1,)] y", r"f32\[m\] cannot have the shape \(m\+1\)"),
    # how many sizes
    (
        FOR,
        "num_implicit_inputs=1",
        "num_implicit_inputs=0",
        "a size of a:f32.m. is not among the sizes that the region takes",
    ),
    (FOR, "num_implicit_outputs=1", "num_implicit_outputs=2", r"returns 1, but the equation says 1 and 2"),
    (FOR, "{m:i64[]} i:i64[]", "m:i64[] i:i64[]", r"takes 0 size\(s\) and returns 1, but the equation says 1 and 1"),
    (FOR, "({e}, d)", "(d,)", r"takes 1 size\(s\) and returns 0, but the equation says 1 and 1"),
    (WHILE, "in (b,)", "in ({k}, b)", r"the condition of while_loop: .* returns 1, but the equation says 1 and 0"),
    (COND, "({n}, a, x)", "(a, x)", r"cond: the region takes 0 size\(s\) and returns 0, but the equation says 0 and 1"),
    (SCAN, "({m}, a, c)", "(a, c)", r"scan: the region takes 1 size\(s\) and returns 0"),
    (CALL, "num_implicit_inputs=1", "num_implicit_inputs=2", r"f: .* but the equation says 2 and 1"),
    # what the regions return
    (FOR, "({e}, d)", "({e})", r"for_loop: the body carries 1 value\(s\) and returns 0"),
    (FOR, "({e}, d)", "({e}, d, d)", r"for_loop: the body carries 1 value\(s\) and returns 2"),
    (FOR, "({e}, d)", "({m}, d)", r"for_loop: the body is given a:f32\[m\] and returns f32\[2\*m\]"),
    (FOR, "({e}, d)", "({7:i64[]}, d)", r"for_loop: the body is given a:f32\[m\] and returns f32\[2\*m\]"),
    (
        FOR,
        "d:f32[2*m] = concat[axis=0] b b",
        "d:f64[m] = astype[dtype=f64] b",
        r"is given a:f32\[m\] and returns f64\[m\]",
    ),
    (KEPT, "({m}, b)", "({i}, b)", r"for_loop: the body is given a:f32\[m\] and returns f32\[m\]"),
    (WHILE, "({c}, b)", "({m}, b)", r"while_loop: the body is given a:f32\[m\] and returns f32\[2\*m\]"),
    (WHILE, "in (b,)", "in (k,)", r"the condition of while_loop returns one bool\[\], found i64\[\]"),
    (WHILE, "in (b,)", "in (b, b)", r"returns one bool\[\], found bool\[\], bool\[\]"),
    (COND, "({n}, a, x)", "({n}, a)", "cond: the branches return 2, 1 results"),
    (COND, "({n}, a, x)", "({n}, a, 1.0:f32[])", r"cond: the branches return f32\[2\*n\], f32\[\]"),
    (
        COND,
        "({n}, a, x)",
        "({3:i64[]}, a, x)",
        r"cond: the branches must return the sizes 2\*n, n of a result as implicit outputs",
    ),
    (
        COND,
        "a:f32[n] = multiply x x",
        "a:f64[n] = astype[dtype=f64] x",
        r"cond: the branches return f32\[n\], f64\[n\]",
    ),
    # the types of the results
    (FOR, "y:f32[s]", "y:f32[n]", r"the result of for_loop has type i64\[\], f32\[s\], but is declared as .*f32\[n\]"),
    (FOR, "y:f32[s]", "y:f32[2*s]", r"has type i64\[\], f32\[s\], but is declared as i64\[\], f32\[2\*s\]"),
    (KEPT, "y:f32[n]", "y:f32[s]", r"the result of for_loop has type i64\[\], f32\[n\], but is declared as .*f32\[s\]"),
    (COND, "z:f32[s]", "z:f32[n]", "the result of cond has type"),
    (SCAN, "({m}, a, c)", "({m}, a)", "the result of scan has type"),
    (SCAN, "z:f32[n,m]", "z:f32[m,n]", "the result of scan has type"),
    (CALL, "y:f32[s,3]", "y:f32[2*n,3]", "the result of call has type"),
    (ASSERT, "a:f32[n]", "a:f32[m]", "the result of assert_shape has type"),
    # parameters
    (FOR, " preserve_dimensions=True", "", "missing a required argument: 'preserve_dimensions'"),
    (FOR, "body={", "region={", "missing a required argument: 'body'"),
    (CALL, "name='f'", "name='f' colour=1", "unexpected keyword argument 'colour'"),
)


@pytest.mark.parametrize("text", [FOR, KEPT, WHILE, COND, SCAN, CALL, ASSERT])
def test_what_is_right_passes(text: str) -> None:
    program = parse(text)
    assert str(program) == text
    assert parse(" ".join(text.split())) == program


@grouped(("text", "old", "new", "message"), BROKEN, ids=[f"{row[1]}-{row[2]}"[:50] for row in BROKEN])
def test_what_does_not_fit_is_refused(text: str, old: str, new: str, message: str) -> None:
    assert old in text
    with pytest.raises(VerifyError, match=rf"^equation 0: .*{message}"):
        parse(text.replace(old, new))


X = np.arange(3, dtype="float32")
# program, consts, arguments, results
RUNS: Any = (
    (FOR, [np.float32(2)], [X, 2], [np.tile(X * 4, 4)]),
    (FOR, [np.float32(2)], [X, 0], [X]),
    (FOR, [np.float32(2)], [X, -5], [X]),
    (KEPT, [], [X], [X**8]),
    (WHILE, [], [X, 7], [np.tile(X, 4)]),
    (WHILE, [], [X, 3], [X]),
    (COND, [], [X, True], [X, np.tile(X, 2)]),
    (COND, [], [X, False], [X * X, X]),
    (SCAN, [], [np.ones((2, 3), "float32"), X], [X + 2, np.stack([X, X + 1])]),
    (SCAN.replace("reverse=False", "reverse=True"), [], [np.ones((2, 3), "float32"), X], [X + 2, np.stack([X + 1, X])]),
    (SCAN, [], [np.ones((0, 3), "float32"), X], [X, np.zeros((0, 3), "float32")]),
    (CALL, [X], [np.ones((1, 3), "float32")], [np.stack([X, X])]),
    (ASSERT, [], [X, X + 1], [X + 1]),
)


@pytest.mark.parametrize(("text", "consts", "arguments", "results"), RUNS, ids=range(len(RUNS)))
def test_what_control_flow_means(text: str, consts, arguments, results) -> None:
    found = interpret(parse(text), *arguments, consts=consts)
    for one, expected in zip(found, results, strict=True):
        assert one.dtype == expected.dtype
        np.testing.assert_array_equal(one, expected)


def test_regions_are_found_with_the_operands_of_their_consts() -> None:
    for text, counts in ((FOR, [1]), (WHILE, [1, 0]), (COND, [2, 2]), (SCAN, [0]), (CALL, [1]), (ASSERT, [])):
        (equation,) = parse(text).equations
        found = regions_of(equation)
        assert [len(operands) for _, operands in found] == counts
        assert all(len(program.consts) == len(operands) for program, operands in found)
        assert bool(found) == OPS[equation.op.name].regions


@pytest.mark.parametrize(
    ("bounds", "indices"),
    [((0, 5, 2), [0, 2, 4]), ((5, 0, -2), [5, 3, 1]), ((3, 3, 1), []), ((0, 5, -1), []), ((-2, 1, 1), [-2, -1, 0])],
)
def test_indices_of_a_loop(bounds, indices) -> None:
    assert list(steps(*bounds)) == indices


def test_what_runs_refuses_bad_values() -> None:
    with pytest.raises(InputError, match="a loop from 0 to 3 has step 0; take a positive or a negative step"):
        steps(0, 3, 0)
    with pytest.raises(
        InputError, match=r"an array has shape \(3,\), but \(2,\) is needed: paired sizes must be equal"
    ):
        reference("assert_shape", [X], {"shape": (2,)})
    with pytest.raises(InputError, match=r"shape \(2,\), but \(3,\) is needed"):
        interpret(parse(ASSERT), X, X[:2])
