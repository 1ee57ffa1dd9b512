"""Programs as data: equality, hashing, copying, renaming, and signatures."""

import copy
import pickle

import pytest

from plica.frontend.programs import parse, verify
from plica.ir.program import Bound, Equation, Program, nested, size_variables
from plica.ir.rewrite import rename
from plica.ir.sizes import Size
from plica.ir.types import DBIdx, InDBIdx, OutDBIdx

TEXT = """{ lambda w:f32[3] ; {n:i64[]} x:f32[n,3] y:f32[n,3] . let
    a:f32[n,3] = multiply x w
    b:f32[n,3] = add a y
    c:f32[n+1] = full[shape=(n+1,)] 0.5:f32[]
    d:f32[n] = sum[axis=(1,) keepdims=False] b
  in ({n}, d, c, b) }"""
PROGRAM = parse(TEXT)
DIFFERENT = (
    ("add a y", "add y a"),
    ("add a y", "subtract a y"),
    ("0.5:f32[]", "0.25:f32[]"),
    ("({n}, d, c, b)", "({n}, d, b, c)"),
    ("({n}, d, c, b)", "(n, d, c, b)"),
    ("({n}, d, c, b)", "({n}, d, c)"),
    ("w:f32[3] ; {n:i64[]} x:f32[n,3]", "; {n:i64[]} w:f32[3] x:f32[n,3]"),
    ("c:f32[n+1] = full[shape=(n+1,)]", "c:f32[n+2] = full[shape=(n+2,)]"),
    ("d:f32[n] = sum[axis=(1,) keepdims=False]", "d:f32[n,1] = sum[axis=(1,) keepdims=True]"),
    ("f32", "f64"),
    ("{n:i64[]} x:f32[n,3] y:f32[n,3]", "{n:i64[]} x:f32[n,3] y:f32[n,3] z:f32[]"),
)


def _other_names(program: Program) -> Program:
    return rename(program, lambda var: f"{var.name}_other")


def test_names_and_sources_do_not_count() -> None:
    other = _other_names(PROGRAM)
    verify(other)
    sourced = [Equation(one.op, one.inputs, one.outputs, one.params, "file:1") for one in PROGRAM.equations]
    assert str(other) != str(PROGRAM)
    for same in (other, Program(PROGRAM.consts, PROGRAM.inputs, tuple(sourced), PROGRAM.outputs, 1, 1)):
        assert same == PROGRAM
        assert hash(same) == hash(PROGRAM)
    assert len({PROGRAM, other, parse(TEXT)}) == 1


@pytest.mark.parametrize(("old", "new"), DIFFERENT)
def test_everything_else_counts(old: str, new: str) -> None:
    assert old in TEXT
    assert parse(TEXT.replace(old, new)) != PROGRAM


def test_sizes_are_compared_as_polynomials() -> None:
    assert parse(TEXT.replace("n+1", "1+n")) == PROGRAM


@pytest.mark.parametrize(
    ("first", "second"), [("1.0:f32[]", "1.0:f64[]"), ("0.0:f32[]", "-0.0:f32[]"), ("1:i64[]", "True:bool[]")]
)
def test_literals_are_compared_by_value_and_type(first: str, second: str) -> None:
    text = "{{ lambda ; . let in ({},) }}"
    assert parse(text.format(first)) != parse(text.format(second))
    assert parse(text.format(first)) == parse(text.format(first))


@pytest.mark.parametrize("value", ["nan", "(nan+infj)"])
def test_nan_in_a_program_equals_itself(value: str) -> None:
    text = f"{{ lambda ; . let in ({value}:c64[],) }}".replace("nan:c64", "nan:f32")
    assert parse(text) == parse(text)


def test_marks_of_sizes_do_not_count() -> None:
    text = "{ lambda ; x:bool[3] . let {a:i64[]} b:i64[a] = nonzero x in ({a}, b) }"
    other = parse(text.replace("{a:i64[]} b", "a:i64[] b"))
    assert parse(text) == other
    assert hash(parse(text)) == hash(other)


def test_a_program_is_no_other_thing() -> None:
    assert str(PROGRAM) != PROGRAM


@pytest.mark.parametrize(
    "again", [lambda p: pickle.loads(pickle.dumps(p)), copy.deepcopy, copy.copy], ids=["pickle", "deepcopy", "copy"]
)
def test_copies_are_equal(again) -> None:
    other = again(PROGRAM)
    verify(other)
    assert other == PROGRAM
    assert str(other) == str(PROGRAM)
    assert {var.name for var in size_variables(other.inputs[1].type)} == {"n"}


def test_programs_and_bound_programs_are_frozen() -> None:
    with pytest.raises(AttributeError):
        PROGRAM.consts = ()  # type: ignore[misc]
    bound = Bound(PROGRAM, (1,))
    assert bound != Bound(PROGRAM, (1,))
    with pytest.raises(AttributeError):
        bound.leaves = ()  # type: ignore[misc]


def test_input_types_refer_to_their_own_entries() -> None:
    (_, captured), (size, shown), (x, explicit), _ = PROGRAM.input_type
    assert (str(size), captured, shown, explicit) == ("i64[]", False, False, True)
    assert x.shape == (Size.of(DBIdx(1)), 3), "the const w is entry 0"


def test_sizes_may_be_consts_and_explicit_inputs() -> None:
    text = "{ lambda n:i64[] w:f32[n] ; m:i64[] x:f32[n] . let a:f32[m*n] = full[shape=(m*n,)] 0.5:f32[] in (x, a) }"
    program = parse(text)
    assert [(str(one), explicit) for one, explicit in program.input_type] == [
        ("i64[]", False),
        ("f32[DBIdx(0)]", False),
        ("i64[]", True),
        ("f32[DBIdx(0)]", True),
    ]
    assert [str(one) for one, _ in program.output_type] == ["f32[InDBIdx(0)]", "f32[InDBIdx(0)*InDBIdx(2)]"]


def test_output_types_refer_to_sizes_among_the_results_and_else_to_inputs() -> None:
    text = """{ lambda w:f32[3] ; {n:i64[]} {m:i64[]} x:f32[n,m] . let
        a:f32[n+m] = full[shape=(n+m,)] 0.0:f32[]
        b:i64[] = add n m
      in ({m}, {b}, x, a) }"""
    (size, shown), _, (x, explicit), (a, _) = parse(text).output_type
    assert (str(size), shown, explicit) == ("i64[]", False, True)
    assert x.shape == (Size.of(InDBIdx(1)), Size.of(OutDBIdx(0))), "the const w is entry 0 of the input type"
    assert a.shape == (Size.of(OutDBIdx(1)),), "a whole size that is a result"


def test_sizes_that_equations_compute_are_results_in_output_types() -> None:
    text = """{ lambda ; x:bool[4] . let
        k:i64[] i:i64[k] = nonzero x
        a:i64[] = add k 1:i64[]
        b:f32[k+1] = full[shape=(k+1,)] 0.0:f32[]
      in ({k}, {a}, i, b) }"""
    shown = [str(one) for one, _ in parse(text).output_type]
    assert shown == ["i64[]", "i64[]", "i64[OutDBIdx(0)]", "f32[OutDBIdx(1)]"]


def test_static_signatures_have_no_references() -> None:
    program = parse("{ lambda ; x:f32[2] . let in (x, 1.0:f32[]) }")
    assert [str(one) for one, _ in program.output_type] == ["f32[2]", "f32[]"]


def test_nested_programs_are_found_in_order() -> None:
    assert list(nested({"a": PROGRAM, "b": 1, "c": (2, PROGRAM)})) == [PROGRAM, PROGRAM]


def test_a_chain_of_many_equations_needs_no_recursion() -> None:
    lines = ["a0:f32[] = exp x", *(f"a{index}:f32[] = exp a{index - 1}" for index in range(1, 5000))]
    text = "{ lambda ; x:f32[] . let " + " ".join(lines) + " in (a4999,) }"
    program = parse(text)
    assert parse(str(program)) == program
    assert copy.deepcopy(program) == program
    assert pickle.loads(pickle.dumps(program)) == program
