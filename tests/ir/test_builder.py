"""`Builder`: names, sizes, sources, and errors that carry the operation and the place."""

import itertools
from typing import Any, cast

import numpy as np
import pytest

from plica.errors import DTypeError, ShapeError
from plica.frontend.programs import interpret, verify
from plica.ir.builder import Builder, Names, const_key
from plica.ir.dtypes import DType
from plica.ir.program import RESERVED, Literal, print_equation
from plica.ir.sizes import Size, evaluate, floor_divide, opaque, substitute
from plica.ir.types import SCALAR_SIZE, DBIdx, ShapedArray, array_type
from plica.ops import OPS


def test_names_are_fresh() -> None:
    names = Names()
    assert [names.fresh("x"), names.fresh("x"), names.fresh("x")] == ["x", "x_1", "x_2"]
    assert names.fresh("b") == "b"
    assert [names.fresh() for _ in range(3)] == ["a", "c", "d"]
    assert names.fresh("not a name") == "e"
    assert names.fresh("größe") == "f"
    letters = [names.fresh() for _ in range(800)]
    assert len(set(letters)) == 800
    assert not RESERVED & {*letters, *(names.fresh(word) for word in sorted(RESERVED))}
    assert [*itertools.islice(Names._sequence(), 25, 28)] == ["z", "aa", "ab"]


def test_sizes_of_one_name_are_one_variable() -> None:
    builder = Builder(OPS)
    x, y = builder.argument("x", ("n", 3), DType.FLOAT32), builder.argument("y", ("m", "n"), DType.FLOAT32)
    assert x.type.shape[0] == y.type.shape[1] == builder.size("n")
    program = builder.build([x])
    verify(program)
    assert [var.name for var in program.inputs] == ["n", "m", "x", "y"]
    assert program.num_implicit_inputs == 2


def test_sources_are_kept_and_do_not_count() -> None:
    builder = Builder(OPS)
    x = builder.argument("x", (2,), DType.FLOAT32)
    with builder.at("here:1"):
        (y,) = builder.add("exp", x)
        with builder.at("there:2"):
            builder.add("exp", y)
        builder.add("exp", y)
    builder.add("exp", y)
    assert [one.source for one in builder.build([y]).equations] == ["here:1", "there:2", "here:1", ""]


def test_errors_name_the_operation_its_operands_and_the_place() -> None:
    builder = Builder(OPS)
    x, y = builder.argument("x", (2,), DType.FLOAT32), builder.argument("y", (3,), DType.FLOAT32)
    with (
        builder.at("model.py:7"),
        pytest.raises(ShapeError, match=r"^add\(f32\[2\], f32\[3\]\) \(model.py:7\): the sha"),
    ):
        builder.add("add", x, y)
    with pytest.raises(DTypeError, match=r"^bitwise_or\(f32\[2\], f32\[2\]\): found float32, expected bool or int"):
        builder.add("bitwise_or", x, x)
    assert builder.build([x]).equations == ()


def test_keys_of_leaves_are_identifiers() -> None:
    assert const_key("3.weight") == "3_weight"
    assert const_key(("a", 1)) == "__a___1_"


# Sizes as values

N, M = Size.of(DBIdx(0)), Size.of(DBIdx(1))
SIZES: Any = (
    # a size, and the equations that compute it
    (N, []),
    (7, []),
    (N + 1, ["add n 1:i64[]"]),
    (1 - N, ["multiply n -1:i64[]", "add a 1:i64[]"]),
    (3 * N - 2 * M, ["multiply m -2:i64[]", "multiply n 3:i64[]", "add a b"]),
    (N * N * M, ["multiply m n", "multiply a n"]),
    (floor_divide(N, 2), ["floor_divide n 2:i64[]"]),
    (opaque("mod", N + 1, M), ["add n 1:i64[]", "remainder a m"]),
    (opaque("max", N, M), ["subtract m n", "maximum a 0:i64[]", "add b n"]),
    (N + 2**63, ["add n -9223372036854775808:i64[]"]),
)


@pytest.mark.parametrize(("size", "equations"), SIZES, ids=lambda value: str(value)[:30])
def test_sizes_become_operands(size, equations) -> None:
    builder = Builder(OPS)
    builder.argument("x", ("n", "m"), DType.FLOAT32)
    sizes = [builder.size("n"), builder.size("m")]
    wanted = substitute(size, lambda atom: sizes[cast(DBIdx, atom).val])
    operand = builder.size_operand(wanted)
    assert builder.size_operand(wanted) == operand, "computed once"
    program = builder.build([operand])
    verify(program)
    assert [print_equation(one).split(" = ")[1] for one in program.equations] == equations
    for shape in ((3, 2), (1, 5)):
        lengths: dict[Any, int] = {DBIdx(axis): length for axis, length in enumerate(shape)}
        expected = evaluate(size, lengths.__getitem__)
        (found,) = interpret(program, np.zeros(shape, "float32"))
        assert (int(found) - expected) % 2**64 == 0


def test_what_equations_compute_from_sizes_are_sizes() -> None:
    builder = Builder(OPS)
    x = builder.argument("x", ("n",), DType.FLOAT32)
    n = builder.size("n")
    (twice,) = builder.add("add", builder.size_operand(n), builder.size_operand(n))
    (more,) = builder.add("subtract", twice, Literal(1, SCALAR_SIZE))
    assert (builder.size_of(twice), builder.size_of(more)) == (2 * n, 2 * n - 1)
    assert builder.build([more]).size_of(more) == 2 * n - 1
    (total,) = builder.add("sum", x, axis=(0,), keepdims=False)
    (unknown,) = builder.add("astype", total, dtype=DType.INT64)
    assert builder.size_of(unknown) == Size.of(unknown)


def test_sizes_of_results_are_implicit_results() -> None:
    builder = Builder(OPS)
    x = builder.argument("x", ("n",), DType.FLOAT32)
    n = builder.size("n")
    one = Literal(1.0, ShapedArray((), DType.FLOAT32))
    made = [builder.add("full", one, shape=shape)[0] for shape in ((n + 1,), (n, 2 * n), (n + 1, 3))]
    program = builder.build([x, *made])
    assert str(program).endswith("in ({d}, {e}, x, a, b, c) }"), "each size once"
    assert [str(type_) for type_, _ in program.output_type[:2]] == ["i64[]", "i64[]"]
    assert builder.build([x, made[0]], implicit=[]).num_implicit_outputs == 0


def test_results_may_have_sizes_that_are_results() -> None:
    builder = Builder(OPS)
    x = builder.argument("x", ("n",), DType.BOOL)
    size, indices = builder.add("nonzero", x)
    assert indices.type == array_type((Size.of(size),), DType.INT64)
    program = builder.build([indices])
    verify(program)
    assert program.outputs == (size, indices)
    (found,) = interpret(program, np.asarray([True, False, True]))
    assert found.tolist() == [0, 2]


def test_sizes_that_may_differ_are_checked_once() -> None:
    builder = Builder(OPS)
    x, y = builder.argument("x", ("n",), DType.FLOAT32), builder.argument("y", ("m",), DType.FLOAT32)
    (total,) = builder.add("add", x, y)
    (product,) = builder.add("multiply", total, y)
    n, m = builder.size("n"), builder.size("m")
    assert builder.equalities[0] == (n, m)
    program = builder.build([product])
    verify(program)
    assert [one.op.name for one in program.equations] == ["assert_shape", "add", "multiply"]
    assert product.type.shape == (n,)


def test_a_number_is_kept_where_a_size_may_be_it() -> None:
    builder = Builder(OPS)
    x, y = builder.argument("x", ("n",), DType.FLOAT32), builder.argument("y", (3,), DType.FLOAT32)
    assert builder.add("add", x, y)[0].type.shape == (3,)
    assert builder.add("add", y, x)[0].type.shape == (3,)


def test_a_table_without_checks_refuses_sizes_that_may_differ() -> None:
    builder = Builder({"add": OPS["add"]})
    x, y = builder.argument("x", ("n",), DType.FLOAT32), builder.argument("y", ("m",), DType.FLOAT32)
    with pytest.raises(ShapeError, match=r"n against m\. Whether n = m is not known before the program runs"):
        builder.add("add", x, y)


def test_errors_say_where_operands_were_made() -> None:
    builder = Builder(OPS)
    x = builder.argument("x", ("n", 3), DType.FLOAT32)
    with builder.at("model.py:7"):
        (y,) = builder.add("sum", x, axis=(1,), keepdims=True)
    with builder.at("model.py:9"), pytest.raises(ShapeError) as caught:
        builder.add("concat", y, x, axis=0)
    assert str(caught.value).splitlines() == [
        "concat(f32[n,1], f32[n,3]) (model.py:9): f32[n,1], f32[n,3] must have equal sizes outside axis 0.",
        "  a:f32[n,1] was made at model.py:7",
    ]
