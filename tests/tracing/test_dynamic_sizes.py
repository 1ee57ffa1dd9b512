"""Functions of arrays with dynamic sizes: listings of Programs, and examples that run in every way."""
# ruff: noqa: ARG001, ARG005, RET504 - the functions show one thing each

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.errors import ShapeError
from plica.frontend.programs import trace
from plica.ir.dtypes import DType
from plica.ir.program import Program
from plica.ir.sizes import Size
from plica.ir.types import DBIdx, DShapedArray, InDBIdx, OutDBIdx, ShapedArray, spec
from tests.harness.functions import checked, ramp

F64, SIZE = DType.FLOAT64, ShapedArray((), DType.INT64)
SIZES = ((3,), (5,), (1,), (0,))


def _floats(*dims) -> DShapedArray:
    return DShapedArray(tuple(dim if isinstance(dim, int) else Size.of(dim) for dim in dims), F64)


def _body(program: Program) -> Program:
    (body,) = [one.params["body"] for one in program.equations if "body" in one.params]
    return body


# Tracing problem overview


def circuit(sz: int):
    a0 = pnp.ones([sz], dtype=float)

    @plica.for_loop(0, 10, 1)
    def loop(i, a):
        return a * sz

    a2 = loop(a0)
    return a0 + a2


FIRST_LISTING = """{ lambda ; sz:i64[] . let
    a:f64[sz] = full[shape=(sz,)] 1.0:f64[]
    b:i64[] c:f64[sz] = for_loop[body={ lambda sz_1:i64[] ; {sz:i64[]} i:i64[] a:f64[sz] . let
          b:f64[] = astype[dtype=f64] sz_1
          c:f64[sz] = multiply a b
        in ({sz}, c) } body_nconsts=1 num_implicit_inputs=1 num_implicit_outputs=1 preserve_dimensions=True] \
sz sz 0:i64[] 10:i64[] 1:i64[] a
    d:f64[sz] = add a c
  in (d,) }"""


def test_first_listing() -> None:
    assert str(checked(circuit, [int], *SIZES)) == FIRST_LISTING


def test_first_listing_is_compiled_when_it_is_decorated_and_once() -> None:
    compiled = plica.jit(circuit)
    assert compiled.num_compilations == 1
    for size in (3, 5, 0):
        assert compiled(size).tolist() == [1.0 + float(size) ** 10] * size
    assert compiled.num_compilations == 1
    assert str(compiled.program) == FIRST_LISTING


def test_the_loop_is_traced_once() -> None:
    calls = []

    def counted(sz):
        return plica.for_loop(0, 10, 1, lambda i, a: calls.append(i) or a * sz, pnp.ones([sz]))

    trace(counted, int)
    assert len(calls) == 1


# Definitions


def test_tracers_of_abstract_values() -> None:
    seen = []

    def look(static, dynamic):
        seen.extend([static, dynamic])
        return static

    trace(look, spec((3, 4), "int64"), spec(("n", 4, 1), "float64"))
    static, dynamic = seen
    assert static.aval == ShapedArray((3, 4), DType.INT64)
    assert static.shape == (3, 4)
    size, *rest = dynamic.shape
    assert (size.aval, rest) == (SIZE, [4, 1])
    assert isinstance(dynamic.aval, DShapedArray)


def test_input_and_output_type() -> None:
    """A result with two dynamic dimensions of its own, and one of the first argument."""

    def function(x):
        (n,) = x.shape
        return pnp.zeros([n + 1, 2 * n, n])

    program = checked(function, [spec("n", "float64")], (ramp(3, dtype="float64"),), (ramp(0, dtype="float64"),))
    assert program.input_type == ((SIZE, False), (_floats(DBIdx(0)), True))
    assert program.output_type == (
        (SIZE, False),
        (SIZE, False),
        (_floats(OutDBIdx(0), OutDBIdx(1), InDBIdx(0)), True),
    )


def test_an_implicit_result() -> None:
    program = checked(lambda sz: pnp.ones((sz + 1,), dtype=float), [int], *SIZES)
    assert str(program) == (
        "{ lambda ; sz:i64[] . let\n"
        "    a:f64[sz+1] = full[shape=(sz+1,)] 1.0:f64[]\n"
        "    b:i64[] = add sz 1:i64[]\n"
        "  in ({b}, a) }"
    )
    assert program.input_type == ((SIZE, True),)
    assert program.output_type == ((SIZE, False), (_floats(OutDBIdx(0)), True))


# Adding dynamic dimensions


def test_one_implicit_argument_for_a_shared_size() -> None:
    program = checked(lambda a, b: a + b, [spec("d", "float64")] * 2, (ramp(3, dtype="float64"),) * 2)
    assert str(program).startswith("{ lambda ; {d:i64[]} a:f64[d] b:f64[d] . let")
    assert program.input_type == ((SIZE, False), (_floats(DBIdx(0)), True), (_floats(DBIdx(0)), True))


@pytest.mark.parametrize("shared", [True, False])
def test_arguments_of_a_loop_share_a_size_or_not(shared: bool) -> None:
    def function(d):
        first = pnp.ones([d])
        return plica.for_loop(0, 2, 1, lambda i, a, b: (a, b), first, first, preserve_dimensions=shared)

    body = _body(checked(function, [int], *SIZES))
    sizes = [SIZE] if shared else [SIZE, SIZE]
    second = DBIdx(0) if shared else DBIdx(1)
    assert body.input_type == (
        *((size, False) for size in sizes),
        (SIZE, True),  # the index
        (_floats(DBIdx(0)), True),
        (_floats(second), True),
    )


def test_results_refer_to_results_and_to_arguments() -> None:
    def function(p, a, b):
        e = a.shape[0] + 1
        return pnp.zeros([e]), b

    program = checked(
        function,
        [spec("v", "float64"), spec("d", "float64"), spec("d", "float64")],
        (ramp(1, dtype="float64"), ramp(3, dtype="float64"), ramp(3, dtype="float64")),
    )
    assert [var.name for var in program.inputs] == ["v", "d", "p", "a", "b"]
    assert program.output_type == ((SIZE, False), (_floats(OutDBIdx(0)), True), (_floats(InDBIdx(1)), True))


# Loop expansion specifics


def test_a_shared_size_stays() -> None:
    def function(sz):
        a0 = pnp.ones([sz], dtype=float)

        @plica.for_loop(0, 10, 1)
        def loop(i, a, a_):
            return a, a_

        first, second = loop(a0, a0)
        return first + second + a0

    program = checked(function, [int], *SIZES)
    assert "assert_shape" not in str(program)
    body = _body(program)
    assert (body.num_implicit_inputs, body.num_implicit_outputs) == (1, 1)


def test_a_shared_size_changes_alike() -> None:
    def function(sz):
        a0 = pnp.ones([sz], dtype=float)

        @plica.for_loop(0, 10, 1)
        def loop(i, a, a_):
            b = pnp.ones([sz + 1], dtype=float)
            return b, b

        first, second = loop(a0, a0)
        return first + second

    program = checked(function, [int], *SIZES)
    assert "assert_shape" not in str(program), "the results share one size"
    assert _body(program).num_implicit_inputs == 1


def unequal(sz, *, preserve_dimensions: bool = True):
    a0 = pnp.ones([sz], dtype=float)

    @plica.for_loop(0, 10, 1, preserve_dimensions=preserve_dimensions)
    def loop(i, a, a_):
        b = pnp.ones([sz + 1], dtype=float)
        return a, b

    return loop(a0, a0)


def test_a_shared_size_that_changes_for_one_argument_is_an_error() -> None:
    with pytest.raises(ShapeError) as caught:
        trace(unequal, int)
    shown = str(caught.value)
    assert "axis 0 of argument 'a_' has size sz and becomes sz+1 (made at " in shown
    assert "but argument 'a', which shares that size, keeps it" in shown
    assert "use preserve_dimensions=False" in shown


def test_so_it_is_where_the_loop_runs_at_once() -> None:
    with pytest.raises(ShapeError, match="axis 0 of argument 'a_' has size 3 and becomes 4, but argument 'a', which"):
        unequal(3)
    assert [found.shape for found in unequal(3, preserve_dimensions=False)] == [(3,), (4,)]


def test_with_sizes_of_their_own_it_is_none() -> None:
    program = checked(lambda sz: unequal(sz, preserve_dimensions=False), [int], *SIZES)
    (loop,) = [one for one in program.equations if one.op.name == "for_loop"]
    assert [repr(var) for var in loop.outputs] == ["b:i64[]", "c:f64[sz]", "d:f64[b]"]


def separate(sz):
    a0 = pnp.ones([sz], dtype=float)

    @plica.for_loop(0, 10, 1, preserve_dimensions=False)
    def loop(i, a, b, b_):
        return a, b, b_

    b0 = pnp.ones([sz + 1], dtype=float)
    a2, b2, b2_ = loop(a0, b0, b0)
    return a2, b2, b2_


def test_sizes_are_not_shared_without_preserve_dimensions() -> None:
    body = _body(checked(separate, [int], *SIZES))
    assert [str(type_) for type_, _ in body.input_type] == [
        "i64[]",
        "i64[]",
        "i64[]",
        "i64[]",
        "f64[DBIdx(0)]",
        "f64[DBIdx(1)]",
        "f64[DBIdx(2)]",
    ]


def test_arguments_that_share_no_size_meet_under_a_check() -> None:
    """The seed cannot add `b + b_`; here it is checked when it runs."""

    def function(sz):
        b0 = pnp.ones([sz + 1], dtype=float)
        return plica.for_loop(0, 3, 1, lambda i, b, b_: (b + b_, b_), b0, b0, preserve_dimensions=False)

    assert "assert_shape" in str(_body(checked(function, [int], *SIZES)))


# For-loop expansion specifics


@pytest.mark.parametrize("shared", [True, False])
def test_the_index_of_a_loop_is_no_size_outside(shared: bool) -> None:
    def function(sz):
        a0 = pnp.ones([sz], dtype=float)

        @plica.for_loop(0, 10, 1, preserve_dimensions=shared)
        def loop(i, a):
            b = pnp.ones([i], dtype=float)
            return b

        return loop(a0)

    program = checked(function, [int], *SIZES)
    body = _body(program)
    assert body.output_type == ((SIZE, False), (_floats(OutDBIdx(0)), True))
    assert program.output_type == ((SIZE, False), (_floats(OutDBIdx(0)), True))
    (found,) = plica.interpret(program, 3)
    assert found.shape == (9,)


# Adding constants


def test_captured_arrays_come_first_with_their_sizes() -> None:
    def function(a, b, o):
        @plica.for_loop(0, 2)
        def loop(i, a, b):
            return pnp.concat([a, o]), pnp.concat([b, o])

        return loop(a, b)

    specs = [spec("d", "float64"), spec("d", "float64"), spec("od", "float64")]
    arrays = [ramp(size, dtype="float64") for size in (3, 3, 2)]
    program = checked(function, specs, arrays, [array[:0] for array in arrays])
    (equation,) = [one for one in program.equations if one.op.name == "for_loop"]
    body = equation.params["body"]
    assert equation.params["body_nconsts"] == 2
    assert [str(var) for var in map(repr, (*body.consts, *body.inputs))] == [
        "od:i64[]",
        "o:f64[od]",
        "d:i64[]",
        "i:i64[]",
        "a:f64[d]",
        "b:f64[d]",
    ]
    assert body.input_type == (
        (SIZE, False),
        (_floats(DBIdx(0)), False),
        (SIZE, False),
        (SIZE, True),
        (_floats(DBIdx(2)), True),
        (_floats(DBIdx(2)), True),
    )


# Caveats


def test_a_captured_array_and_an_argument_of_one_size_meet() -> None:
    def function(sz):
        a0 = pnp.ones([sz], dtype=float)

        @plica.for_loop(0, 10, 1)
        def loop(i, a):
            return a + a0  # a0 is a constant; the seed cannot tell that its size is that of a

        return loop(a0)

    program = checked(function, [int], *SIZES)
    assert "assert_shape" not in str(program)
    assert plica.interpret(program, np.asarray(2))[0].tolist() == [11.0, 11.0]
