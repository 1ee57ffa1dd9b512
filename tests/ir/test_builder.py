"""`Builder`: names, sizes, sources, and errors that carry the operation and the place."""

import itertools

import pytest

from plica.api import verify
from plica.errors import DTypeError, ShapeError
from plica.ir.builder import Builder, Names, const_key
from plica.ir.dtypes import DType
from plica.ir.program import RESERVED
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
