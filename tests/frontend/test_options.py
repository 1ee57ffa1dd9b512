"""Every option of `jit` and of what compiles Programs is obeyed by every backend, or refused by its name."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plica
import plica.native
import plica.numpy as pnp
from plica.errors import PlicaError
from plica.frontend.compiled_program import CompiledProgram
from plica.frontend.executors import EXECUTORS
from plica.frontend.folding import FoldedProgram
from plica.graph.optimize import ORDINARY, Rule
from plica.lower.optimize import DEFAULT_RULES
from plica.pipeline import PipelineContext
from plica.rules.view import made
from plica.runtime.container import beside
from plica.templates.pgms import fully_factorized
from tests.harness.own_rules import TIMES_ITSELF

X, V = np.asarray([1.0, 2.0]), plica.spec(("n",), "float64")
# Another result, so that one sees whether the rule was applied.
EXP = Rule("exp", "x * x -> exp(x)", TIMES_ITSELF, lambda match: made(match, "exp", "x"), laws=ORDINARY)
RULES = DEFAULT_RULES.adding(programs=[EXP])
PROGRAM = plica.trace(lambda x: x * x, V)
CAPTURING = plica.jit(lambda x: x * X, abstracted_axes={0: "n"})


def _abstracted_axes(backend: str) -> None:
    run = plica.jit(lambda x: x + 1, abstracted_axes={0: "n"}, backend=backend)
    assert run(np.ones(2)).tolist() + run(np.ones(1)).tolist() == [2.0] * 3
    assert run.num_compilations == 1


def _static_argnums(backend: str) -> None:
    run = plica.jit(lambda x, kind: x + (1 if kind == "one" else 2), static_argnums=1, backend=backend)
    assert [run(X, kind).tolist() for kind in ("one", "two")] == [[2.0, 3.0], [3.0, 4.0]]


def _consts(backend: str) -> None:
    CAPTURING(X)
    program = CAPTURING.program
    assert plica.jit(program, consts=[X * 10], backend=backend)(X).tolist() == [10.0, 40.0]
    with pytest.raises(PlicaError, match="consts"):
        plica.jit(lambda x: x, consts=[X], backend=backend)


def _rules(backend: str) -> None:
    expected = np.exp(X).tolist()
    assert plica.jit(lambda x: x * x, rules=RULES, backend=backend)(X).tolist() == pytest.approx(expected)
    assert plica.jit(PROGRAM, rules=RULES, backend=backend)(X).tolist() == pytest.approx(expected)
    folded = plica.jit(lambda x, w: x * x + w, rules=RULES, constants="w", backend=backend)
    assert folded(X, X).tolist() == pytest.approx((np.exp(X) + X).tolist())


def _constants(backend: str) -> None:
    run = plica.jit(lambda x, w: x + pnp.exp(w), constants="w", backend=backend)
    assert run(X, X).tolist() == pytest.approx((X + np.exp(X)).tolist())
    assert "exp" not in run.code
    with pytest.raises(PlicaError, match="constants"):
        plica.jit(PROGRAM, constants="x", backend=backend)


def _policy(backend: str) -> None:
    def wide(x: Any, w: Any) -> Any:
        return x[0] + pnp.exp(w)[:, None] * w[None, :]

    run, small = (
        plica.jit(wide, constants="w", policy=policy, backend=backend)
        for policy in (plica.FoldPolicy(max_growth=None), plica.FoldPolicy(max_growth=0))
    )
    np.testing.assert_allclose(run(X, X), small(X, X))
    assert run.code != small.code
    for source in (lambda x: x, PROGRAM):
        with pytest.raises(PlicaError, match="policy"):
            plica.jit(source, policy=plica.FoldPolicy(), backend=backend)


def _cache(backend: str) -> None:
    cache = plica.FoldCache()
    run = plica.jit(lambda x, w: x * pnp.exp(w), constants="w", cache=cache, backend=backend)
    np.testing.assert_allclose(run(X, X), X * np.exp(X), rtol=1e-6)
    assert cache.num_bytes == X.nbytes
    for source in (lambda x: x, PROGRAM):
        with pytest.raises(PlicaError, match="cache"):
            plica.jit(source, cache=cache, backend=backend)


JIT: Mapping[str, Callable[[str], None]] = {
    "abstracted_axes": _abstracted_axes,
    "static_argnums": _static_argnums,
    "consts": _consts,
    "rules": _rules,
    "constants": _constants,
    "policy": _policy,
    "cache": _cache,
}


def test_every_option_of_jit_is_in_the_table() -> None:
    assert set(inspect.signature(plica.jit).parameters) == {"fn", "backend", *JIT}


@pytest.mark.parametrize("backend", EXECUTORS)
@pytest.mark.parametrize("option", JIT)
def test_an_option_of_jit(option: str, backend: str) -> None:
    JIT[option](backend)


@pytest.mark.parametrize("option", ["abstracted_axes", "static_argnums"])
def test_what_a_program_says_itself_is_refused_by_name(option: str) -> None:
    given: dict[str, Any] = {option: {0: "n"} if option == "abstracted_axes" else 1}
    for backend in EXECUTORS:
        with pytest.raises(PlicaError, match=option):
            plica.jit(PROGRAM, backend=backend, **given)


# Programs in contexts, and folded ones


@pytest.mark.parametrize("backend", EXECUTORS)
def test_a_program_takes_the_rules_of_its_context_on_every_backend(backend: str) -> None:
    assert plica.compile(PROGRAM, PipelineContext(rules=RULES), backend=backend)(X).tolist() == pytest.approx(np.exp(X))
    assert plica.compile(PROGRAM, PipelineContext(rules=RULES, max_steps=0), backend=backend)(X).tolist() == [1.0, 4.0]
    assert plica.compile(PROGRAM, PipelineContext(rules=RULES, optimize=False), backend=backend)(X).tolist() == [
        1.0,
        4.0,
    ]


@pytest.mark.parametrize("backend", EXECUTORS)
def test_options_of_circuits_are_refused_for_programs(backend: str) -> None:
    known = set(inspect.signature(CompiledProgram).parameters)
    options = {*inspect.signature(PipelineContext).parameters, "dtype", "policy", *known} - {
        "options",
        "backend",
        "consts",
    }
    for option in sorted(options):
        given: dict[str, Any] = {"backend": backend, option: True}
        with pytest.raises(PlicaError, match=option):
            plica.compile(PROGRAM, None, **given)


@pytest.mark.parametrize("backend", EXECUTORS)
def test_options_of_folded_programs(backend: str) -> None:
    assert set(inspect.signature(FoldedProgram.compile).parameters) == {
        "self", "backend", "rewriting", "cache", "release_sources"
    }  # fmt: skip
    program = plica.trace(lambda x, w: x * x + pnp.exp(w), plica.spec((2,), "float64"), plica.spec((2,), "float64"))
    folded, cache = plica.fold_constants(program, run_time="w"), plica.FoldCache()
    rewriting = PipelineContext(rules=RULES).rewriting
    run = folded.compile(backend, rewriting, cache=cache)
    assert run(X, X).tolist() == pytest.approx(2 * np.exp(X))
    assert cache.num_bytes == X.nbytes


# Files and StableHLO


def _programs() -> dict[str, Any]:
    CAPTURING(X)
    return {"Program": PROGRAM, "Bound": CAPTURING.bound, "function": CAPTURING}


@pytest.mark.parametrize("kind", ["Program", "Bound", "function"])
def test_queries_are_refused_by_name_where_there_is_no_circuit(kind: str, tmp_path: Path) -> None:
    model = _programs()[kind]
    with pytest.raises(PlicaError, match="queries are asked of circuits"):
        plica.native.compile(model, tmp_path / "a.plicab", queries="sample")
    with pytest.raises(PlicaError, match="queries are asked of circuits"):
        plica.native.stablehlo(model, "sample")


WRONG: Mapping[str, Any] = {
    "targets": "abacus", "queries": "weather", "updatable": "weather", "driver": "horse", "key": b"short",
}  # fmt: skip


@pytest.mark.parametrize("option", [*WRONG, "embedded"])
def test_every_option_of_files_is_obeyed_or_refused(option: str, tmp_path: Path) -> None:
    names = set(inspect.signature(plica.native.compile).parameters)
    assert names == {"model", "path", "embedded", *WRONG}
    circuit = plica.compile(fully_factorized(2, "bernoulli"))
    models = {"Program": PROGRAM} if option == "key" else {"Program": PROGRAM, "circuit": circuit}
    for name, model in models.items():
        path = tmp_path / f"{name}.plicab"
        if option == "embedded":
            plica.native.compile(model, path, embedded=False)
            assert bool(beside(path)) == (name != "Program")
            continue
        with pytest.raises(PlicaError):
            plica.native.compile(model, path, **{option: WRONG[option]})
        assert not path.exists()
