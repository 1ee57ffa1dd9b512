"""Native files keep trees of arguments and results: a dict goes in, and a dict comes back."""

import json
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner

import plica
import plica.native
import plica.numpy as pnp
from plica.cli.main import main
from plica.errors import InputError, NativeFileError, ShapeError, UnsupportedError
from plica.frontend.native import entry_programs_of
from plica.frontend.native_trees import _node, _paths
from plica.runtime.checks import check_manifest
from plica.runtime.container import read
from plica.runtime.decode import _NODE
from plica.runtime.manifest import Tree
from plica.runtime.trees import leaves, tree_of_results
from plica.tracing.trees import flatten, unflatten
from tests.harness.together import grouped


class Range(NamedTuple):
    low: Any
    high: Any


@dataclass
class Box:
    sides: Any
    scale: Any


@plica.jit(abstracted_axes={0: "n"})
def described(data: Any, pair: Any, shift: Any, box: Any) -> Any:
    x, y = data["x"], data["more"]["y"]
    span = Range(pnp.min(y), [pnp.max(y), None])
    return {"mean": pnp.mean(x) + shift, "span": span, "pair": (pair[0] + x,), "box": Box(box.sides, box.scale * 2)}


X = np.arange(4.0)
GIVEN = ({"x": X, "more": {"y": X * 2}}, [X], 3.0, Box(X, X + 1))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    described(*GIVEN)
    found = tmp_path_factory.mktemp("trees") / "described.plicab"
    plica.native.compile(described, found)
    return found


@pytest.fixture(scope="module")
def module(path: Path) -> Any:
    return plica.native.load(path)


def _as_plain(tree: Any) -> Any:
    """A tree of tuples, lists, dicts and numbers; what has fields is a tuple of its name and a dict of them."""
    if isinstance(tree, dict):
        return {key: _as_plain(one) for key, one in tree.items()}
    if hasattr(tree, "_asdict") or isinstance(tree, Box):
        parts = tree._asdict() if hasattr(tree, "_asdict") else vars(tree)
        return type(tree).__name__, _as_plain(parts)
    if isinstance(tree, tuple | list):
        return type(tree)(map(_as_plain, tree))
    return tree if tree is None else np.asarray(tree).tolist()


def test_results_come_back_as_the_function_returned_them(module: Any) -> None:
    expected = _as_plain(described(*GIVEN))
    assert _as_plain(module(*GIVEN)) == expected
    named = {"data": GIVEN[0], "pair": tuple(GIVEN[1]), "shift": 3.0, "box": {"scale": X + 1, "sides": X}}
    assert _as_plain(module(**named)) == expected
    assert _as_plain(module.main(GIVEN[0], GIVEN[1], 3.0, (X, X + 1))) == expected
    assert list(module(*GIVEN)) == ["mean", "span", "pair", "box"]
    flat = {"data_x": X, "data_more_y": X * 2, "pair_0": X, "box_sides": X, "box_scale": X + 1}
    assert _as_plain(module(shift=3.0, **flat)) == expected  # as `plica run` names them


def test_what_a_file_says_of_itself_shows_trees(module: Any) -> None:
    assert "main(data={'x': data_x: float64[n], 'more': {'y': data_more_y: float64[n]}}, pair=[" in repr(module)
    assert repr(module).endswith(
        "-> {'mean': mean: float64[], 'span': Range(low=span_low: float64[], high=[span_high_0: float64[], None]), "
        "'pair': (pair_0: float64[n],), 'box': Box(sides=box_sides: float64[n], scale=box_scale: float64[n])}>"
    )


WRONG: tuple[tuple[Callable[[], tuple[tuple[Any, ...], dict[str, Any]]], str], ...] = (
    (lambda: (({"x": X}, *GIVEN[1:]), {}), "main: data: expected a dict of 'x', 'more'; 'more' is missing"),
    (
        lambda: (({**GIVEN[0], "z": X}, *GIVEN[1:]), {}),
        "main: data: expected a dict of 'x', 'more'; 'z' is unknown",
    ),
    (
        lambda: (({"x": X, "more": X}, *GIVEN[1:]), {}),
        "main: data['more']: expected a dict of 'y', found ndarray",
    ),
    (lambda: ((GIVEN[0], [X, X], *GIVEN[2:]), {}), "main: pair: expected a list of 1 part(s), found 2 part(s)"),
    (lambda: ((GIVEN[0], {"a": X}, *GIVEN[2:]), {}), "main: pair: expected a list of 1 part(s), found dict"),
    (lambda: ((*GIVEN, X), {}), "main: takes data, pair, shift, box, found 5 arguments by position"),
    (lambda: (GIVEN, {"box": GIVEN[3]}), "main: box is given twice"),
    (lambda: (GIVEN[:3], {}), "main: expected box=Box(sides=box_sides: float64[n], scale=box_scale: float64[n])"),
    (lambda: (GIVEN, {"other": X}), "unknown"),
)


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_other_trees_are_refused_by_their_place(module: Any, call: Any, message: str) -> None:
    arguments, named = call()
    with pytest.raises(InputError, match=re.escape(message)):
        module(*arguments, **named)


def test_arrays_in_trees_are_checked_like_others(module: Any) -> None:
    with pytest.raises(ShapeError, match="expected data_more_y: float64"):
        module({"x": X, "more": {"y": X[None]}}, *GIVEN[1:])


def test_commands_name_the_arrays_of_trees(path: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", data_x=X, data_more_y=X * 2, pair_0=X, shift=3.0, box_sides=X, box_scale=X + 1)
    out = tmp_path / "out.npz"
    done = CliRunner().invoke(main, ["run", str(path), "--input", str(tmp_path / "in.npz"), "--output", str(out)])
    assert done.exit_code == 0, done.output
    found = np.load(out)
    assert len(found.files) == 6
    assert CliRunner().invoke(main, ["inspect", str(path)]).output.count("data={'x': data_x: float64[n]") == 1


def _manifest(function: Any, **settings: Any) -> Any:
    """The manifest of a function's file, without its code."""
    (entry_program,) = entry_programs_of(function, None, settings.get("updatable", ()))
    return entry_program.entry(tuple(constant.name for constant in entry_program.updatable))


DAMAGED = (
    ({"takes": None}, None),
    ({"takes": Tree("dict", (0, 1), ("a", "b"))}, "expected a tree of 6 arrays, found those at [0, 1]"),
    ({"takes": Tree("dict", (0, 1, 2, 3, 4, 4), (*"abcdef",))}, "expected a tree of 6 arrays"),
    ({"takes": Tree("tuple", (*range(6),))}, "its arguments have no names"),
    ({"takes": Tree("dict", (*range(6),), ("seed", *"bcdef"))}, "its arguments have no names"),
    ({"takes": Tree("dict", (*range(6),), (1, *"bcdef"))}, "its arguments have no names"),
    ({"gives": Tree("list", (*range(5), Tree("dict", (5,), ("a", "b"))))}, "a dict of wrong keys"),
    ({"gives": Tree("list", (*range(4), Tree("dict", (4, 5), ("a", "a"))))}, "a dict of wrong keys"),
    ({"gives": Tree("named", (*range(6),), (*"abcde", "f-g"), "Box")}, "is no named tuple"),
    ({"gives": Tree("bag", (*range(6),))}, "unknown kind of tree bag"),
)


@pytest.mark.parametrize(("changes", "message"), DAMAGED, ids=[str(message) for _, message in DAMAGED])
def test_trees_that_do_not_fit_are_refused(path: Path, changes: Any, message: str | None) -> None:
    manifest = read(path, None).manifest
    damaged = replace(manifest, entries=(replace(manifest.entries[0], **changes),))
    parts = dict.fromkeys((one.part for one in manifest.targets), 2**30)
    if message is None:
        check_manifest(damaged, parts)
        return
    with pytest.raises(NativeFileError, match=re.escape(message)):
        check_manifest(damaged, parts)


def test_functions_of_arrays_have_no_trees() -> None:
    """Their files are those of before."""
    for function, given in ((lambda x, y: (x + y, x), (X, X)), (lambda x: x * 2, (X,))):
        run = plica.jit(function)
        run(*given)
        entry = _manifest(run)
        assert (entry.takes, entry.gives) == (None, None)
        assert [one.name for one in entry.arguments] == ["x", "y"][: len(given)]
    single = plica.jit(lambda x: (x * 2,))
    single(X)
    assert _manifest(single).gives == Tree("tuple", (0,))
    assert _manifest(plica.jit(single.bound)).gives is None
    assert _manifest(plica.trace(lambda x: {"a": x * 2}, plica.spec(3))).gives is None  # a Program has no trees


def test_arguments_that_may_be_replaced_leave_their_trees() -> None:
    run = plica.jit(lambda x, w: {"y": x @ w["a"] + w["b"]})
    run(np.ones((2, 3)), {"a": np.ones((3, 3)), "b": np.ones(3)})
    names = [var.name for var in run.program.arguments]
    entry = _manifest(run, updatable={names[1]: np.ones((3, 3))})
    assert entry.takes == Tree("dict", (0, Tree("dict", (None, 1), ("a", "b"))), ("x", "w"))
    whole = _manifest(run, updatable={names[1]: np.ones((3, 3)), names[2]: np.ones(3)})
    assert [one.name for one in whole.arguments] == ["x"]


def test_keys_and_trees_that_no_file_keeps_are_refused() -> None:
    run = plica.jit(lambda x: {(1, 2): x})
    run(X)
    with pytest.raises(UnsupportedError, match=r"a dict has the key \(1, 2\)"):
        _manifest(run)
    with pytest.raises(UnsupportedError, match="found set"):
        _node({1, 2}, {})


def _drawn(random: Random, count: list[int], depth: int = 3) -> Any:
    """A tree of numbers, 0, 1, 2, ... in order."""
    kind = random.choice(["leaf", "leaf", "none", "tuple", "list", "dict", "range", "box", "ordered"])
    if depth == 0 or kind in ("leaf", "none"):
        if kind == "none":
            return None
        count[0] += 1
        return count[0] - 1
    parts = [_drawn(random, count, depth - 1) for _ in range(2 if kind in ("range", "box") else random.randint(0, 3))]
    match kind:
        case "range":
            return Range(*parts)
        case "box":
            return Box(*parts)
        case "dict" | "ordered":
            keys = random.sample(["a", "b c", "\n", 0, 12, "result"], len(parts))
            return (dict if kind == "dict" else OrderedDict)(zip(keys, parts, strict=True))
        case _:
            return (tuple if kind == "tuple" else list)(parts)


@grouped("seed", range(40))
def test_random_trees_come_back(seed: int) -> None:
    """Through JSON, and with the leaves where optree has them."""
    random, count = Random(seed), [0]
    tree = _drawn(random, count)
    drawn, structure = flatten(tree)
    numbered = unflatten(structure, range(len(drawn)))
    node = _node(numbered, {place: place for place in range(len(drawn))})
    assert sorted(leaves(node)) == list(range(len(drawn)))
    assert len(dict(_paths(node, "x"))) == len(drawn)
    if isinstance(node, Tree):
        assert _NODE(json.loads(json.dumps(asdict(node))), "tree") == node
    arrays = [np.full(2, place) for place in range(len(drawn))]
    assert _as_plain(tree_of_results(node, arrays)) == _as_plain(_ordered(unflatten(structure, arrays)))


def _ordered(tree: Any) -> Any:
    """Dicts in place of their kinds."""
    if isinstance(tree, dict):
        return {key: _ordered(one) for key, one in tree.items()}
    if isinstance(tree, Range | Box):
        fields = tree._asdict() if isinstance(tree, Range) else vars(tree)
        return type(tree)(**{key: _ordered(one) for key, one in fields.items()})
    return type(tree)(map(_ordered, tree)) if isinstance(tree, tuple | list) else tree
