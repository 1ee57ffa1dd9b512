"""Random functions with loops, branches and calls stay the same folded, whichever arguments are constant."""

from collections.abc import Mapping, Sequence

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
@settings(max_examples=1000, deadline=None)
@given(functions(), SIZES, SEEDS, OPTIONS)
def test_folded_functions_stay_the_same_on_many(function, drawn, seed, options) -> None:
    _stays_the_same(function, drawn, seed, options)
