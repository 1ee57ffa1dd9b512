"""Random functions with loops, branches and calls stay the same folded, whichever arguments are constant."""

from collections.abc import Mapping, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import Phase, given, settings

import plica
from tests.harness.function_runs import TOLERANCE, assert_same, compiled
from tests.harness.random_functions import Function, functions
from tests.tracing.test_random_functions import SEEDS, SIZES

MARKS = st.lists(st.sampled_from(("varying", "compile", "run", "run")), min_size=5, max_size=5)
POLICIES = st.sampled_from((None, plica.FoldPolicy(max_growth=None), plica.FoldPolicy(max_growth=0, max_peak=200)))
LIMITS = st.sampled_from((None, 0, 100))
OPTIONS = st.tuples(MARKS, POLICIES, st.sampled_from(("runtime", "split")), st.sampled_from(("torch", "interpreter")))


def _stays_the_same(
    function: Function, drawn: Sequence[Mapping[str, int]], seed: int, options: tuple[list[str], object, str, str]
) -> None:
    marks, policy, form, backend = options
    whole = compiled(function, "interpreter")
    tolerance = max(TOLERANCE[dtype] for dtype in function.floats)
    with np.errstate(all="ignore"):
        for sizes in drawn:
            arguments = function.draw(sizes, seed)
            whole(*arguments)
            program = whole.program
            names = [var.name for var in program.arguments]
            marked = list(zip(names, marks[: len(names)], arguments, strict=True))
            folded = plica.fold_constants(
                program,
                compile_time={name: one for name, mark, one in marked if mark == "compile"},
                run_time=[name for name, mark, _ in marked if mark == "run"],
                form=form,
                policy=policy,  # type: ignore[arg-type]
            )
            for one in (folded.compiletime_fold, folded.runtime_fold, folded.entry, *folded.folding.components):
                if one is not None:
                    plica.verify(one)
                    assert plica.parse(str(one)) == one
            report, limit = folded.report(), plica.FoldPolicy().max_growth if policy is None else policy.max_growth  # type: ignore[attr-defined]
            if limit is not None and report.after is not None and report.before is not None:
                assert report.after <= report.before + limit
            expected = plica.interpret(program, *arguments)
            run = folded.compile(backend)
            given_ = {name: one for name, mark, one in marked if mark != "compile"}
            for _ in range(2):
                found = run(**given_)
                assert_same(found if isinstance(found, tuple) else (found,), expected, tolerance, f"folded at {sizes}")


@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(functions(), SIZES, SEEDS, OPTIONS)
def test_folded_functions_stay_the_same(function, drawn, seed, options) -> None:
    _stays_the_same(function, drawn, seed, options)


@pytest.mark.full
@settings(max_examples=600, deadline=None)
@given(functions(), SIZES, SEEDS, OPTIONS)
def test_folded_functions_stay_the_same_on_many(function, drawn, seed, options) -> None:
    _stays_the_same(function, drawn, seed, options)


# One compiled function: constants of other sizes, written to, given again, left out; callers that write to results

ACTIONS = st.lists(
    st.tuples(st.sampled_from(("write", "other sizes", "leave", "update")), st.integers(0, 4), SEEDS), max_size=4
)


def _lives(
    function: Function,
    drawn: Sequence[Mapping[str, int]],
    seed: int,
    options: tuple[list[str], object, str, str],
    actions: Sequence[tuple[str, int, int]],
    limit: int | None,
) -> None:
    marks, policy, form, backend = options
    whole = compiled(function, "interpreter")
    tolerance = max(TOLERANCE[dtype] for dtype in function.floats)
    arguments = function.draw(drawn[0], seed)
    with np.errstate(all="ignore"):
        whole(*arguments)
        names = [var.name for var in whole.program.arguments]
        constant = [place for place, mark in enumerate(marks[: len(names)]) if mark != "varying"]
        folded = plica.fold_constants(
            whole.program,
            run_time=[names[place] for place in constant],
            form=form,
            policy=policy,  # type: ignore[arg-type]
        )
        run = folded.compile(backend, cache=plica.FoldCache(limit))
        left_out: Sequence[int] = ()
        for action, place, other in (("give", 0, seed), *actions):
            if action == "other sizes":
                arguments, left_out = function.draw(drawn[place % len(drawn)], other), ()
            elif action in ("write", "update") and constant:
                _write(arguments, constant[place % len(constant)], action == "update", other)
            if action == "update":
                run.update(**{names[one]: arguments[one] for one in constant})
            found = run(**{name: arguments[at] for at, name in enumerate(names) if at not in left_out})
            results = found if isinstance(found, tuple) else (found,)
            expected = plica.interpret(whole.program, *arguments)
            assert_same(results, expected, tolerance, f"after {action}")
            for one in results:
                is_own = not any(np.may_share_memory(one, each) for each in arguments)
                if isinstance(one, np.ndarray) and one.flags.writeable and is_own:  # NumPy's broadcast_to is read-only
                    one[...] = 1
            left_out = constant if action in ("leave", "update") else ()


def _write(arguments: list[Any], place: int, is_new: bool, seed: int) -> None:
    """Other numbers in an argument, or in a new one of its size."""
    if not isinstance(arguments[place], np.ndarray):
        return
    if is_new:
        arguments[place] = arguments[place].copy()
    order = np.random.default_rng(seed).permutation(arguments[place].size)
    arguments[place][...] = arguments[place].reshape(-1)[order].reshape(arguments[place].shape)


@settings(max_examples=15, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(functions(), SIZES, SEEDS, OPTIONS, ACTIONS, LIMITS)
def test_a_folded_function_follows_its_constants(function, drawn, seed, options, actions, limit) -> None:
    _lives(function, drawn, seed, options, actions, limit)


@pytest.mark.full
@settings(max_examples=600, deadline=None)
@given(functions(), SIZES, SEEDS, OPTIONS, ACTIONS, LIMITS)
def test_a_folded_function_follows_its_constants_on_many(function, drawn, seed, options, actions, limit) -> None:
    _lives(function, drawn, seed, options, actions, limit)
