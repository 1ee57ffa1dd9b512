"""Copies and pickles of folded functions: they have the constants as they are, and fold them for themselves."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import InputError

COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),
}
PROGRAM = plica.trace(
    lambda x, v, w: x @ pnp.softmax(v) + pnp.exp(w), plica.spec(("b", 3)), plica.spec((3, 3)), plica.spec((3,))
)
X, V = np.arange(6, dtype="float32").reshape(2, 3), np.eye(3, dtype="float32")

copied = pytest.mark.parametrize("how", COPIES.values(), ids=COPIES)


@plica.jit(constants="w")
def scaled(x, w):
    return x * pnp.exp(w)


class Scale:
    def __init__(self, by: float) -> None:
        self.by = by

    @plica.jit(constants="w")
    def annotated(self, x: plica.spec((3,)), w: plica.spec((3,))):
        return x * pnp.exp(w) * self.by


@copied
@pytest.mark.parametrize("make", [np.copy, torch.tensor])
@pytest.mark.parametrize("form", ["runtime", "split"])
@pytest.mark.parametrize("is_called", [True, False])
def test_a_copy_has_the_constants_as_they_are(how, make, form, is_called) -> None:
    v, w = make(V), make(V[0])
    folded = plica.fold_constants(PROGRAM, compile_time={"v": v}, run_time=("w",), form=form)
    run = folded.compile(cache=plica.FoldCache(10**6))
    expected = run(make(X), w=w)
    if is_called:
        v += 1.0
        run.update(w=w + 1.0)
        expected = run(make(X))
    other = how(run)
    assert other.num_folds == 0
    assert np.allclose(other(make(X)), expected)
    v += make(V)
    assert not np.allclose(run(make(X)), expected)
    assert np.allclose(other(make(X)), expected), "its constants are its own"
    assert other._cache is not run._cache
    assert other._cache.max_bytes == 10**6


@copied
def test_a_copy_before_the_first_call_has_to_be_given_the_same(how) -> None:
    run = how(plica.fold_constants(PROGRAM, compile_time={"v": V}, run_time="w").compile("interpreter"))
    with pytest.raises(InputError, match="the constant 'w' was not given yet"):
        run(X)
    assert run(X, w=V[0]).shape == run(X).shape == (2, 3)


def test_functions_that_are_copied_together_share_one_cache_and_those_of_no_cache_share_all() -> None:
    folded = plica.fold_constants(PROGRAM, run_time=("v", "w"))
    cache = plica.FoldCache()
    first, second = copy.deepcopy([folded.compile(cache=cache), folded.compile(cache=cache)])
    assert first._cache is second._cache is not cache
    assert copy.deepcopy(folded.compile())._cache is None


@copied
def test_what_was_released_has_to_be_given_to_a_copy(how) -> None:
    run = plica.fold_constants(PROGRAM, run_time=("v", "w")).compile(release_sources=True)
    expected = run(X, v=V.copy(), w=V[0])
    other = how(run)
    with pytest.raises(InputError, match="the constant 'v' was not given yet"):
        other(X)
    assert np.allclose(other(X, v=V, w=V[0]), expected)


@copied
def test_captured_arrays_are_copied_unless_they_were_released(how) -> None:
    weights = [torch.tensor(V)]
    whole = plica.jit(lambda x: x @ pnp.exp(pnp.asarray(weights[0])))
    expected = whole(X)
    run = plica.fold_constants(whole.bound).compile(release_sources=True)
    assert np.allclose(how(run)(X), expected)
    assert np.allclose(run(X), expected)
    other = how(run)
    del weights[:], whole
    assert np.allclose(other(X), expected)
    with pytest.raises(InputError, match=r"for a copy, the whole program is needed again, but .* was released"):
        how(run)


def test_functions_of_annotated_arguments_are_compiled_anew_too() -> None:
    def function(x: plica.spec((3,)), w: plica.spec((3,))):
        return x * pnp.exp(w)

    other = copy.deepcopy(plica.jit(function, constants="w"))
    assert other.program.results
    assert torch.equal(other(torch.ones(3), torch.zeros(3)), torch.ones(3))


@copied
def test_a_decorated_function_of_a_module_is_itself(how) -> None:
    assert how(scaled) is scaled
    assert how(Scale.annotated) is Scale.annotated


def test_other_decorated_functions_are_compiled_anew_in_a_copy() -> None:
    run = plica.jit(lambda x, w: x * pnp.exp(w), constants="w")
    x, w = torch.ones(3), torch.zeros(3)
    assert torch.equal(run(x, w), x)
    other = copy.deepcopy(run)
    assert other.num_compilations == 0
    assert torch.equal(other(x, w + 1.0), torch.e * x)
    assert torch.equal(run(x, w), x)
    assert run.num_compilations == other.num_compilations == 1


def test_methods_of_a_copied_object_read_the_copy() -> None:
    scale = Scale(2.0)
    x, w = torch.ones(3), torch.zeros(3)
    assert torch.equal(scale.annotated(x, w), 2.0 * x)
    other = copy.deepcopy(scale)
    other.by = 3.0
    assert torch.equal(other.annotated(x, w), 3.0 * x)
    assert torch.equal(pickle.loads(pickle.dumps(other)).annotated(x, w), 3.0 * x)
