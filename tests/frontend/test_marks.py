"""How constants are marked: by name and by position, by capturing them, and what remembers that."""

import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import InputError
from plica.ir.program import Bound
from plica.tracing.scope import Reference

W = np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3)
X = np.linspace(0, 1, 8, dtype="float32").reshape(2, 4)


def _value(x: Any, w: Any, b: Any) -> Any:
    return x @ np.tanh(w) + np.exp(b)


def _fn(x: Any, w: Any, b: Any) -> Any:
    return x @ pnp.tanh(w) + pnp.exp(b)


B = np.ones(3, "float32")
PROGRAM = plica.trace(_fn, plica.spec(("n", 4)), plica.spec((4, 3)), plica.spec((3,)))


@pytest.mark.parametrize("form", ["runtime", "split"])
@pytest.mark.parametrize("names", [("w", "b"), (1, 2), (1, "b"), ("w", 2)])
def test_arguments_are_marked_by_name_or_by_place(names: Any, form: str) -> None:
    expected = plica.fold_constants(PROGRAM, compile_time={"w": W}, run_time=("b",), form=form)
    folded = plica.fold_constants(PROGRAM, compile_time={names[0]: W}, run_time=names[1], form=form)
    assert (folded.compiletime_fold, folded.runtime_fold, folded.entry) == (
        expected.compiletime_fold,
        expected.runtime_fold,
        expected.entry,
    )
    np.testing.assert_allclose(folded.compile()(X, b=B), _value(X, W, B), rtol=1e-5)
    both = plica.fold_constants(PROGRAM, run_time=names)
    assert both.run_time == ("w", "b")
    np.testing.assert_allclose(both.compile()(X, W, B), _value(X, W, B), rtol=1e-5)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"run_time": 3}, "no argument at position 3; the 3 arguments are x, w, b"),
        ({"run_time": (-1,)}, "no argument at position -1"),
        ({"run_time": True}, "names or positions of arguments"),
        ({"run_time": 1.0}, "names or positions of arguments"),
        ({"run_time": (1, "w")}, "'w' is named twice"),
        ({"compile_time": {5: W}}, "no argument at position 5"),
        ({"compile_time": {1.5: W}}, "compile_time has the key 1.5"),
        ({"compile_time": {1: W, "w": W}}, "'w' is named twice"),
        ({"compile_time": {1: W}, "run_time": "w"}, "'w' is named twice"),
    ],
)
def test_wrong_marks_are_refused(given: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        plica.fold_constants(PROGRAM, **given)


@pytest.mark.parametrize("constants", [("w", "b"), (1, 2), 1, (2,)])
def test_arguments_of_functions_are_marked_by_place_and_remembered(constants: Any) -> None:
    run = plica.jit(_fn, constants=constants, abstracted_axes=(("n",), None, None))
    np.testing.assert_allclose(run(X, W, B), _value(X, W, B), rtol=1e-5)
    names = tuple(
        "xwb"[one] if isinstance(one, int) else one for one in np.atleast_1d(np.array(constants, dtype=object))
    )
    assert run.bound.run_time == names
    folded = plica.fold_constants(run.bound)
    assert folded.run_time == names
    assert folded.entry == plica.fold_constants(run.program, run_time=names).entry
    known = plica.fold_constants(run.bound, compile_time={names[0]: {"w": W, "b": B}[names[0]]})
    assert known.run_time == names[1:]


@pytest.mark.parametrize("constants", [True, 1.5, None, (1, None), [["w"]]])
def test_wrong_marks_of_functions_are_refused(constants: Any) -> None:
    with pytest.raises(InputError, match=r"jit: constants is .*, expected the names or positions of arguments"):
        plica.jit(_fn, constants=constants)


def test_the_first_argument_may_be_marked_by_place() -> None:
    run = plica.jit(lambda w, x: x @ pnp.tanh(w), constants=0, policy=plica.FoldPolicy(max_growth=0))
    np.testing.assert_allclose(run(W, X), X @ np.tanh(W), rtol=1e-5)
    with pytest.raises(plica.errors.TraceError, match=r"fold its constants with plica\.fold_constants"):
        plica.jit(PROGRAM, constants=0)


def test_places_of_functions_count_as_those_that_are_static_do() -> None:
    run = plica.jit(lambda number, x, w: x @ pnp.tanh(w) * number, static_argnums=0, constants=2)
    np.testing.assert_allclose(run(2.0, X, W), X @ np.tanh(W) * 2, rtol=1e-5)
    assert run.bound.run_time == (run.program.arguments[1].name,)
    with pytest.raises(InputError, match="jit: there is no argument at position 3"):
        plica.jit(lambda x: x, constants=3)(X)


class _Model:
    def __init__(self) -> None:
        self.shift = np.ones(3, "float32")

    @plica.jit
    def plain(self, x: Any, w: Any) -> Any:
        return x @ pnp.tanh(w) + self.shift

    marked = plica.jit(plain._fn, constants=1)


def test_places_of_methods_count_without_self() -> None:
    model = _Model()
    np.testing.assert_allclose(model.marked(X, W), X @ np.tanh(W) + 1, rtol=1e-5)
    assert model.marked.bound.run_time == ("w",)


# What is captured


def _closing(module: Any) -> Any:
    return lambda x: x @ pnp.permute_dims(pnp.softmax(module.weight), (1, 0)) + pnp.exp(B)


def _expected(module: Any) -> Any:
    with torch.no_grad():
        return torch.from_numpy(X) @ torch.softmax(module.weight, 1).T + torch.exp(torch.from_numpy(B))


def test_what_is_captured_is_known_when_it_is_compiled_in_the_form_split() -> None:
    module = torch.nn.Linear(4, 3)
    run = plica.jit(_closing(module))
    run(X)
    for source in (run.bound, plica.trace(_closing(module), plica.spec((2, 4)))):
        folded = plica.fold_constants(source, form="split")
        assert folded.compiletime_fold is not None
        assert folded.runtime_fold is None
        made = folded.compile(cache=plica.FoldCache())
        count = made.num_folds
        assert count > 0
        x = torch.from_numpy(X)
        with torch.no_grad():
            torch.testing.assert_close(made(x), _expected(module))
            assert made.num_folds == count, "it was folded by compile"
            module.weight.mul_(2.0)
            torch.testing.assert_close(made(x), _expected(module))
        made(x).sum().backward()
        assert module.weight.grad is not None
        module.weight.grad = None
    assert plica.fold_constants(run.bound).compile().num_folds == 0, "by default all is folded at the first call"


def test_what_a_module_holds_is_read_when_it_is_compiled_and_when_it_is_another_tensor() -> None:
    layer = torch.nn.Linear(4, 3, bias=False)
    program = plica.parse(
        "{ lambda w:f32[3,4] ; x:f32[2,4] . let a:f32[3,4] = softmax[axis=1] w "
        "b:f32[4,3] = permute_dims[axes=(1,0)] a c:f32[2,3] = matmul x b in (c,) }"
    )
    made = plica.fold_constants(Bound(program, (Reference(layer, "weight"),)), form="split").compile()
    x = torch.from_numpy(X)
    with torch.no_grad():
        assert made.num_folds == 1
        torch.testing.assert_close(made(x), x @ torch.softmax(layer.weight, 1).T)
        assert made.num_folds == 1
        layer.weight = torch.nn.Parameter(torch.randn(3, 4))
        torch.testing.assert_close(made(x), x @ torch.softmax(layer.weight, 1).T)
        assert made.num_folds == 2


def test_a_program_that_is_traced_has_what_it_captures() -> None:
    module = torch.nn.Linear(4, 3)
    program = plica.trace(_closing(module), plica.spec((2, 4)))
    x = torch.from_numpy(X)
    torch.testing.assert_close(plica.jit(program)(x).detach(), _expected(module))
    other = pickle.loads(pickle.dumps(program))
    assert other == program
    with pytest.raises(InputError, match="captures"):
        plica.fold_constants(other).compile()
    given = [torch.zeros(3, 4) if var.type.shape == (3, 4) else torch.zeros(3) for var in program.consts]
    torch.testing.assert_close(plica.jit(program, consts=given)(x), x @ torch.full((4, 3), 0.25) + 1)


def test_what_a_program_captures_goes_with_it() -> None:
    holder = [np.ones((4, 3), "float32")]
    program = plica.trace(lambda x: x @ pnp.exp(holder[0]), plica.spec((2, 4)))
    alive = weakref.ref(holder.pop())
    gc.collect()
    assert alive() is not None
    del program
    gc.collect()
    assert alive() is None


# Buffers


@pytest.mark.parametrize("backend", ["torch", "interpreter"])
def test_a_cache_gives_its_buffers(backend: str) -> None:
    cache = plica.FoldCache()
    run = plica.fold_constants(PROGRAM, run_time=("w", "b")).compile(backend, cache=cache)
    run(X, w=W, b=B)
    found = [kept.buffer for group in cache.buffers.values() for kept in group]
    for buffer, expected in zip(found, (np.tanh(W), np.exp(B)), strict=True):
        np.testing.assert_allclose(np.asarray(buffer), expected, rtol=1e-6)
    assert [kept.shape for group in cache.buffers.values() for kept in group] == [(4, 3), (3,)]
    before = np.asarray(run(X, w=W, b=B)).copy()
    for buffer in found:
        buffer += 1
    np.testing.assert_array_equal(np.asarray(run(X, w=W, b=B)), before, err_msg="a buffer was written to")
