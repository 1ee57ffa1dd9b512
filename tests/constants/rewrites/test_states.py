"""What is computed of looked-up rows is computed for each state, where it goes row by row, and nowhere else."""

import math

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.constants.fold import Folding, fold
from plica.constants.policy import FoldPolicy
from plica.constants.report import Fate
from plica.constants.rewrites import states
from plica.ir.text import parse_program
from plica.ops import OPS
from tests.harness.constant_programs import run_folded

CONSTANTS = ("t", "w", "v", "c", "g", "h", "j")
HEAD = (
    "{ lambda ; {b:i64[]} x:i64[2,b] y:i64[2,b] m:bool[2,b,1] z:f64[2,b,3] "
    "t:f64[2,3,5] w:f64[2,3,4] v:f64[2,4,3] c:f64[2,1,3] g:f64[2,4,3] h:f64[2,3,5] j:f64[2,3,6] . let\n"
)


def _program(*lines: str, result: str = "r"):
    """A Program of data x, y, m, z and constants; each line is `name:type = operation operands`."""
    return parse_program(HEAD + "\n".join(lines) + f"\n in ({result},) }}", OPS)


def _given(rows: int) -> dict[str, np.ndarray]:
    draws = np.random.default_rng(3)
    shapes = {
        "t": (2, 3, 5),
        "w": (2, 3, 4),
        "v": (2, 4, 3),
        "c": (2, 1, 3),
        "g": (2, 4, 3),
        "h": (2, 3, 5),
        "j": (2, 3, 6),
    }
    found: dict[str, np.ndarray] = {name: draws.uniform(0.1, 1.0, shape) for name, shape in shapes.items()}
    found |= {name: draws.integers(5, size=(2, rows)) for name in ("x", "y")}
    return found | {"m": draws.uniform(size=(2, rows, 1)) < 0.5, "z": draws.uniform(0.1, 1.0, (2, rows, 3))}


def _folded(program, policy: FoldPolicy | None = None):
    """The folding, of which is known that it computes what the Program does and keeps to the policy."""
    policy = FoldPolicy(max_growth=None) if policy is None else policy
    used = [name for name in CONSTANTS if any(var.name == name for var in program.arguments)]
    folding = fold(program, run_time=used, policy=policy)
    plica.verify(folding.split.entry)
    for rows in (4, 1, 0):
        given = _given(rows)
        arguments = [given[var.name] for var in program.arguments]
        expected = plica.interpret(program, *arguments)
        for found, wanted in zip(run_folded(folding, given), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=2 * 3 * 2.0**-52)  # sums of up to 3 terms, twice
    return folding


def _at_each_call(folding) -> list[str]:
    return [one.op.name for one in folding.split.entry.equations]


def _growth(folding: Folding) -> int:
    """The bytes that are kept beyond those of the constants."""
    before, after = folding.report.before, folding.report.after
    assert before is not None
    assert after is not None
    return after - before


LOOKUP = "k:f64[2,b,3] = lookup t x"
ROWS = ["add", "reshape", "take", "reshape"]
"""A lookup in a table with states first: the places of rows in the table of all folds, and the rows."""

APPLIED = {
    "nothing": ["r:f64[2,b,3] = negative k"],
    "matmul": ["r:f64[2,b,4] = matmul k w"],
    "einsum": ["r:f64[2,b,4] = einsum[equation='fbi,foi->fbo'] k v"],
    "log_matmul_exp": ["r:f64[2,b,4] = log_matmul_exp k v"],
    "log_matmul_exp with logarithms": ["r:f64[2,b,4] = log_matmul_exp[logs='log_softmax'] k v g"],
    "log_einsum_exp": ["r:f64[2,b,4] = log_einsum_exp[equation='fbi,foi->fbo'] k v"],
    "log_einsum_exp with logarithms": ["r:f64[2,b,4] = log_einsum_exp[equation='fbi,foi->fbo' logs='log'] k v g"],
    "a value twice": ["r:f64[2,b,4] = einsum[equation='fbi,fbi,foi->fbo'] k k v"],
    "elementwise, beside a constant row": ["r:f64[2,b,3] = multiply k c"],
    "elementwise, beside a number": ["r:f64[2,b,3] = multiply 2.0:f64[] k"],
    "two tables, one index": ["l:f64[2,b,3] = lookup h x", "r:f64[2,b,3] = multiply k l"],
    "reductions": ["r:f64[2,b] = sum[axis=(2,) keepdims=False] k"],
    "its scale taken out": [
        "s:f64[2,b,1] = max[axis=(2,) keepdims=True] k",
        "d:f64[2,b,3] = subtract k s",
        "r:f64[2,b,3] = exp d",
    ],
    "a chain": ["l:f64[2,b,4] = matmul k w", "n:f64[2,b,4] = exp l", "r:f64[2,b,3] = matmul n v"],
    "log_softmax": ["r:f64[2,b,3] = log_softmax[axis=2] k"],
}


@pytest.mark.parametrize("name", APPLIED)
def test_rows_are_looked_up_of_what_is_made_of_the_table(name) -> None:
    folding = _folded(_program(LOOKUP, *APPLIED[name]))
    assert _at_each_call(folding) == ROWS
    assert [one.name for one in folding.report.of(Fate.STATES)][-1] == "r"


def test_two_results_have_one_place() -> None:
    program = _program(LOOKUP, "r:f64[2,b,3] s:f64[2,b,1] = rescale k", "q:f64[2,b,3] = multiply r s", result="r, s")
    assert sorted(_at_each_call(_folded(program))) == sorted([*ROWS, "take", "reshape"])


LEFT = {
    "a weight that is no constant": ["r:f64[2,b,b] = einsum[equation='fbi,fci->fbc'] k z"],
    "another value beside it": ["r:f64[2,b,3] = multiply k z"],
    "a value of another index": ["l:f64[2,b,3] = lookup t y", "r:f64[2,b,3] = multiply k l"],
    "a value of other states": ["l:f64[2,b,3] = lookup j x", "r:f64[2,b,3] = multiply k l"],
    "rows summed": ["r:f64[2,3] = sum[axis=(1,) keepdims=False] k"],
    "rows summed in a product": ["r:f64[2,4] = einsum[equation='fbi,foi->fo'] k v"],
    "rows moved": ["r:f64[b,2,4] = einsum[equation='fbi,foi->bfo'] k v"],
    "rows multiplied from the left": ["l:f64[2,3,b] = permute_dims[axes=(0,2,1)] k", "r:f64[2,4,b] = matmul v l"],
    "running sums of rows": ["r:f64[2,b,3] = cumulative_sum[axis=1] k"],
    "softmax over rows": ["r:f64[2,b,3] = softmax[axis=1] k"],
    "folds summed": ["r:f64[b,3] = sum[axis=(0,) keepdims=False] k"],
    "folds apart": ["r:f64[1,b,3] e:f64[1,b,3] = split[axis=0 sizes=(1,1)] k"],
    "weights that are looked up": ["r:f64[2,b,1] = log_einsum_exp[equation='fci,fbi->fbc'] c k"],
}


@pytest.mark.parametrize("name", LEFT)
def test_what_does_not_go_row_by_row_is_left(name) -> None:
    lines = LEFT[name]
    folding = _folded(_program(LOOKUP, *lines))
    last = lines[-1].split(" = ")[1].split("[")[0].split(" ")[0]
    assert _at_each_call(folding)[-1] == last
    assert not list(folding.report.of(Fate.STATES))


def test_a_table_that_is_no_constant_is_left() -> None:
    program = _program(LOOKUP, "r:f64[2,b,4] = matmul k w")
    folding = fold(program, run_time=("w",))
    assert _at_each_call(folding) == ["lookup", "matmul"]
    folding = fold(program, run_time=("t", "w", "x"), policy=FoldPolicy(max_growth=None))
    assert folding.split.entry.equations == (), "a lookup of constants alone is a constant"


def test_an_operation_that_may_raise_is_not_done_at_states_that_no_row_has() -> None:
    text = """{ lambda ; {b:i64[]} x:i64[b] t:i64[5] . let
        k:i64[b] = take[axis=0] t x
        r:i64[b] = floor_divide 7:i64[] k
      in (r,) }"""
    folding = fold(parse_program(text, OPS), run_time=("t",))
    assert _at_each_call(folding) == ["take", "floor_divide"]
    (found,) = run_folded(folding, {"x": np.asarray([1, 2]), "t": np.asarray([0, 1, 2, 0, 0])})
    assert found.tolist() == [7, 3]


@pytest.mark.parametrize("order", ["m c k", "m k c"])
def test_rows_that_are_missing_are_a_constant_row(order) -> None:
    program = _program(LOOKUP, f"n:f64[2,b,3] = where {order}", "r:f64[2,b,4] = matmul n w")
    assert _at_each_call(_folded(program)) == [*ROWS, "where"]
    summed = _program(LOOKUP, f"n:f64[2,b,3] = where {order}", "r:f64[2,b] = max[axis=(2,) keepdims=False] n")
    assert _at_each_call(_folded(summed)) == [*ROWS, "reshape", "where"]


@pytest.mark.parametrize("row", ["0.5:f64[]", "s", "d"])
def test_a_row_of_one_number_is_a_row(row) -> None:
    lines = ["s:f64[2,1,3] = full[shape=(2,1,3)] 0.5:f64[]", "d:f64[2,1,1] = max[axis=(2,) keepdims=True] c"]
    program = _program(LOOKUP, *lines, f"n:f64[2,b,3] = where m {row} k", "r:f64[2,b,4] = matmul n w")
    assert _at_each_call(_folded(program)) == [*ROWS, "where"]


@pytest.mark.parametrize("order", ["m c k", "m k c", "m 0.5:f64[] k"])
def test_a_constant_row_is_one_more_of_several_states(order, monkeypatch) -> None:
    monkeypatch.setattr(states, "_MIN_STATES", 5)
    program = _program(LOOKUP, f"n:f64[2,b,3] = where {order}", "r:f64[2,b,4] = matmul n w")
    assert _at_each_call(_folded(program)) == ["reshape", "where", *ROWS]
    both = _program(
        LOOKUP, f"n:f64[2,b,3] = where {order}", "r:f64[2,b,4] = matmul n w", "q:f64[2,b,3] = add n z", result="r, q"
    )
    assert _at_each_call(_folded(both)).count("where") == 1


@pytest.mark.parametrize(("dtype", "count"), [("uint8", 256), ("int8", 128)])
def test_one_more_state_than_the_dtype_of_an_index_counts(dtype, count) -> None:
    text = f"""{{ lambda ; {{b:i64[]}} x:{dtype[0]}{dtype[-1]}[1,b] m:bool[1,b,1] t:f64[1,2,{count}] c:f64[1,1,2] . let
        k:f64[1,b,2] = lookup t x
        r:f64[1,b,2] = where m c k
      in (r,) }}"""
    folding = fold(parse_program(text, OPS), run_time=("t", "c"))
    assert "where" in _at_each_call(folding)
    table, row = np.arange(2.0 * count).reshape(1, 2, count), np.asarray([[[-1.0, -2.0]]])
    mask, index = np.asarray([[[True], [False], [False]]]), np.asarray([[3, 0, count - 1]], dtype)
    (found,) = run_folded(folding, {"x": index, "m": mask, "t": table, "c": row})
    assert found.tolist() == [[[-1.0, -2.0], [0.0, count], [count - 1, 2 * count - 1]]]


def test_tables_of_other_numbers_of_states_have_their_own_last_state() -> None:
    text = """{ lambda ; {b:i64[]} x:i64[1,b] m:bool[1,b,1] t:f64[1,2,9] h:f64[1,2,12] c:f64[1,1,2] . let
        k:f64[1,b,2] = lookup t x
        l:f64[1,b,2] = lookup h x
        p:f64[1,b,2] = where m c k
        q:f64[1,b,2] = where m c l
      in (p, q) }"""
    program = parse_program(text, OPS)
    folding = fold(program, run_time=("t", "h", "c"), policy=FoldPolicy(max_growth=None))
    draws = np.random.default_rng(4)
    given = {name: draws.uniform(size=(1, 2, count)) for name, count in (("t", 9), ("h", 12))}
    given |= {
        "x": np.asarray([[3, 8, 0]]),
        "m": np.asarray([[[True], [False], [True]]]),
        "c": np.asarray([[[-1.0, -2.0]]]),
    }
    expected = plica.interpret(program, *(given[var.name] for var in program.arguments))
    np.testing.assert_array_equal(run_folded(folding, given), expected)


MASKS = {
    "entries, not rows": ["e:bool[2,b,3] = greater z 0.5:f64[]", "n:f64[2,b,3] = where e c k"],
    "no constant": ["n:f64[2,b,3] = where m z k"],
    "both are looked up": ["l:f64[2,b,3] = lookup t y", "n:f64[2,b,3] = where m l k"],
}


@pytest.mark.parametrize("name", MASKS)
def test_choices_of_anything_else_are_left(name) -> None:
    folding = _folded(_program(LOOKUP, *MASKS[name], "r:f64[2,b,4] = matmul n w"))
    assert _at_each_call(folding)[-2:] == ["where", "matmul"]


def test_two_masks_are_not_one() -> None:
    program = _program(
        LOOKUP,
        "n:f64[2,b,3] = where m c k",
        "o:f64[2,b,3] = where m k c",
        "r:f64[2,b,3] = multiply n o",
    )
    assert _at_each_call(_folded(program))[-1] == "multiply"


def test_several_readers_have_tables_of_their_own() -> None:
    program = _program(
        LOOKUP, "l:f64[2,b,4] = matmul k w", "n:f64[2,b,3] = multiply k z", "r:f64[2,b,3] = matmul l v", result="r, n"
    )
    folding = _folded(program)
    names = _at_each_call(folding)
    assert names.count("take") == 2
    assert "matmul" not in names
    assert names.count("add") == 1, "the places of rows are found once"


def test_narrow_indices_are_widened_before_they_count_all_tables() -> None:
    text = """{ lambda ; {b:i64[]} x:i8[60,b] t:f64[60,2,9] . let
        r:f64[60,b,2] = lookup t x
      in (r,) }"""
    folding = fold(parse_program(text, OPS), run_time=("t",), policy=FoldPolicy(max_growth=None))
    given = {"x": np.full((60, 3), 8, "int8"), "t": np.arange(60.0 * 2 * 9).reshape(60, 2, 9)}
    (found,) = run_folded(folding, given)
    np.testing.assert_array_equal(found, given["t"][:, None, :, 8].repeat(3, 1))


GATHERED = {
    "rows of the last axis": ("k:f64[b,4] = gather[axes=(1,)] t x", ["gather"]),
    "rows of the first axis": (
        "l:f64[9,4] = permute_dims[axes=(1,0)] t\n k:f64[b,4] = gather[axes=(0,)] l x",
        ["gather"],
    ),
    "taken": (
        "l:f64[4,b] = take[axis=1] t x\n k:f64[b,4] = permute_dims[axes=(1,0)] l",
        ["take", "permute_dims", "matmul"],
    ),
}


@pytest.mark.parametrize("name", GATHERED)
def test_rows_of_one_table_may_be_gathered_from_either_end(name) -> None:
    lines, expected = GATHERED[name]
    text = f"""{{ lambda ; {{b:i64[]}} x:i64[b] t:f64[4,9] w:f64[4,2] . let
        {lines}
        r:f64[b,2] = matmul k w
      in (r,) }}"""
    program = parse_program(text, OPS)
    folding = fold(program, run_time=("t", "w"))
    assert _at_each_call(folding) == expected
    given = {"x": np.asarray([1, 0, 8, 8]), "t": np.arange(36.0).reshape(4, 9), "w": np.arange(8.0).reshape(4, 2)}
    (found,) = run_folded(folding, given)
    np.testing.assert_array_equal(found, given["t"].T[given["x"]] @ given["w"])


def test_indices_below_zero_count_from_the_end_of_any_table() -> None:
    program = plica.trace(
        lambda ids, t, w: pnp.take(t, ids, axis=0) @ w,
        plica.spec(("b",), "int64"),
        plica.spec((9, 4)),
        plica.spec((4, 2)),
    )
    folding = fold(program, run_time=("t", "w"))
    assert _at_each_call(folding) == ["gather"]
    given = {
        "ids": np.asarray([-1, 0, -9]),
        "t": np.arange(36, dtype="float32").reshape(9, 4),
        "w": np.ones((4, 2), "float32"),
    }
    (found,) = run_folded(folding, given)
    np.testing.assert_array_equal(found, given["t"][given["ids"]] @ given["w"])


def test_rows_of_several_axes_are_left() -> None:
    text = """{ lambda ; {b:i64[]} x:i64[b,2] t:f64[9,4] w:f64[4,2] . let
        k:f64[b,2,4] = gather[axes=(0,)] t x
        r:f64[b,2,2] = matmul k w
      in (r,) }"""
    assert _at_each_call(fold(parse_program(text, OPS), run_time=("t", "w"))) == ["gather", "matmul"]
    pairs = """{ lambda ; {b:i64[]} x:i64[b] y:i64[b] t:f64[9,4,3] w:f64[3,2] . let
        k:f64[b,3] = gather[axes=(0,1)] t x y
        r:f64[b,2] = matmul k w
      in (r,) }"""
    assert _at_each_call(fold(parse_program(pairs, OPS), run_time=("t", "w"))) == ["gather", "matmul"]


def _embedding(num_states: int, wide: int):
    text = f"""{{ lambda ; {{b:i64[]}} x:i64[b] t:f64[{num_states},4] w:f64[4,{wide}] . let
        k:f64[b,4] = take[axis=0] t x
        r:f64[b,{wide}] = matmul k w
      in (r,) }}"""
    return parse_program(text, OPS)


@pytest.mark.parametrize(("budget", "is_moved"), [(0, False), (9 * 8 * 8 - 9 * 4 * 8 - 4 * 8 * 8, True), (31, False)])
def test_a_table_is_contracted_where_the_policy_has_room(budget, is_moved) -> None:
    """A table of 9 x 4 numbers and a weight of 4 x 8 become one of 9 x 8: 32 bytes more."""
    folding = fold(_embedding(9, 8), run_time=("t", "w"), policy=FoldPolicy(max_growth=budget))
    assert _at_each_call(folding) == (["take"] if is_moved else ["take", "matmul"])
    assert _growth(folding) <= budget
    if not is_moved:
        assert "limits" in folding.report["k"].why
        assert folding.report["k"].fate is Fate.REFUSED


def test_a_table_that_shrinks_needs_no_room() -> None:
    folding = fold(_embedding(9, 2), run_time=("t", "w"), policy=FoldPolicy(max_growth=0))
    assert _at_each_call(folding) == ["take"]
    assert folding.report.after == 9 * 2 * 8


def test_states_are_first_without_room_for_contracted_tables() -> None:
    text = (
        HEAD.replace("w:f64[2,3,4]", "w:f64[2,3,40]")
        + f"""{LOOKUP}
        r:f64[2,b,40] = matmul k w
      in (r,) }}"""
    )
    parsed = parse_program(text, OPS)
    contracted = 2 * 5 * 40 * 8 - 2 * 3 * 40 * 8 - 2 * 3 * 5 * 8
    place = 2 * 8
    for growth, expected in (
        (contracted + place, ROWS),
        (contracted + place - 1, [*ROWS, "matmul"]),
        (place, [*ROWS, "matmul"]),
        (place - 1, ["lookup", "matmul"]),
    ):
        folding = fold(parsed, run_time=("t", "w"), policy=FoldPolicy(max_growth=growth))
        assert _at_each_call(folding) == expected, growth
        assert _growth(folding) <= growth


def test_a_table_takes_no_room_from_what_saves_more() -> None:
    """There is room for the table or for the product of g and h, which is more work at each call."""
    text = """{ lambda ; {b:i64[]} x:i64[b] z:f64[b,64] t:f64[9,4] w:f64[4,8] g:f64[64,1] h:f64[1,64] . let
        k:f64[b,4] = take[axis=0] t x
        r:f64[b,8] = matmul k w
        u:f64[64,64] = multiply g h
        e:f64[64,64] = exp u
        s:f64[b,64] = matmul z e
      in (r, s) }"""
    room = 64 * 64 * 8 - 2 * 64 * 8
    for extra, expected in ((31, ["take", "matmul", "matmul"]), (32, ["take", "matmul"])):
        policy = FoldPolicy(max_growth=room + extra)
        folding = fold(parse_program(text, OPS), run_time=("t", "w", "g", "h"), policy=policy)
        assert sorted(_at_each_call(folding)) == sorted(expected)


def test_values_that_are_infinite_or_nan_stay_in_their_rows() -> None:
    program = _program(LOOKUP, "r:f64[2,b,4] = log_matmul_exp k v")
    given = _given(5)
    given["x"] = np.arange(10).reshape(2, 5) % 5
    given["t"][0, :, 0], given["t"][1, 1, 2], given["t"][0, 0, 3] = -math.inf, math.nan, math.inf
    folding = fold(program, run_time=CONSTANTS, policy=FoldPolicy(max_growth=None))
    expected = plica.interpret(program, *(given[var.name] for var in program.arguments))
    np.testing.assert_allclose(run_folded(folding, given)[0], expected[0])
