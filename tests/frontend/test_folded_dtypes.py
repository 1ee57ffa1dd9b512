"""Random functions of all dtypes and small sizes: folded in any way, written to and updated, they stay right."""

from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.backend.torch.functions import from_numpy, to_numpy
from tests.harness.constant_functions import ConstantFunction, draw_function, numbers
from tests.harness.together import grouped

POLICIES = (
    None,
    None,
    plica.FoldPolicy(max_growth=0),
    plica.FoldPolicy(max_growth=50),
    plica.FoldPolicy(max_growth=None),
    plica.FoldPolicy(max_growth=None, max_peak=100),
    plica.FoldPolicy(max_growth=None, widen=True),
    plica.FoldPolicy(check="checksum"),
)
TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "complex64": 2e-4, "float16": 2e-2, "bfloat16": 0.1}


class _Run:
    """One function, its constants, and calls of what was compiled.

    Args:
        seed: By which everything is drawn.
    """

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng([seed, 45])
        self.function: ConstantFunction = draw_function(seed)
        self.backend = ("torch", "torch", "interpreter")[rng.integers(3)]
        self.library = "numpy" if self.backend == "interpreter" else ("numpy", "torch", "both")[rng.integers(3)]
        drawn = self.function.draw(rng)
        traced = plica.jit(self.function.load(), backend="interpreter")
        traced(*drawn)
        self.program, self.captured = traced.program, [np.asarray(one) for one in traced.bound.leaves]
        self.names = [var.name for var in self.program.arguments]
        self.marks = [("varying", "compile", "run", "run")[rng.integers(4)] for _ in self.names]
        self.live = [self.array(one) for one in drawn]
        policy = POLICIES[rng.integers(len(POLICIES))]
        self.folded = plica.fold_constants(
            traced.bound,
            compile_time={name: one for name, one, mark in self._marked() if mark == "compile"},
            run_time=[name for name, _, mark in self._marked() if mark == "run"],
            form=("runtime", "split")[rng.integers(2)],
            policy=policy,
        )
        self._check_limits(policy or plica.FoldPolicy())
        limit = (None, None, 0, 100)[rng.integers(4)]
        self.run = self.folded.compile(self.backend, cache=plica.FoldCache(limit))
        self.given = {name for name, _, mark in self._marked() if mark == "compile"}

    def _marked(self) -> Any:
        return zip(self.names, self.live, self.marks, strict=True)

    def _check_limits(self, policy: plica.FoldPolicy) -> None:
        for one in (self.folded.compiletime_fold, self.folded.runtime_fold, self.folded.entry):
            if one is not None:
                plica.verify(one)
                assert plica.parse(str(one)) == one
        report = self.folded.report()
        assert str(report)
        assert self.folded.marked()
        if report.after is not None and report.before is not None and policy.max_growth is not None:
            assert report.after <= report.before + policy.max_growth

    def array(self, value: Any) -> Any:
        """An array of one of the libraries."""
        is_torch = self.library == "torch" or (self.library == "both" and self.rng.random() < 0.5)
        return from_numpy(value.copy()) if is_torch else value.copy()

    def call(self) -> None:
        """Call, compare, and write to the results."""
        before = [_numpy(one).copy() for one in self.live]
        expected = plica.interpret(self.program, *before, consts=self.captured)
        given = {}
        for name, one, mark in self._marked():
            if mark == "varying" or name not in self.given or (mark == "run" and self.rng.random() < 0.3):
                given[name] = one
                self.given.add(name)
        found = self.run(**given)
        results = found if isinstance(found, tuple) else (found,)
        for one, other in zip(results, expected, strict=True):
            self._compare(_numpy(one), other)
        for one in results:
            _overwrite(one)
        for one, value in zip(self.live, before, strict=True):  # a result may be an argument
            _write(one, value)

    def _compare(self, found: Any, expected: Any) -> None:
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), self.function.source
        if found.dtype.kind in "biu":
            assert np.array_equal(found, expected), self.function.source
            return
        tolerance = max(TOLERANCE.get(dtype, 0.0) for dtype in self.function.dtypes)
        wide = "complex128" if found.dtype.kind == "c" else "float64"
        one, other = found.astype(wide), expected.astype(wide)
        scale = np.abs(other[np.isfinite(other)]).max(initial=1.0)
        np.testing.assert_allclose(one, other, tolerance, tolerance * scale, err_msg=self.function.source)

    def step(self) -> None:
        """Change some arguments, and tell the compiled function where it has to be told."""
        constant = [place for place, mark in enumerate(self.marks) if mark != "varying"]
        action = ("write", "part", "replace", "update", "data")[self.rng.integers(5)] if constant else "vary"
        place = constant[self.rng.integers(len(constant))] if constant else 0
        new = [numbers(self.rng, one) for one in self.function.arguments]
        if action == "write":
            _write(self.live[place], new[place])
        elif action == "part" and self.live[place].ndim and len(self.live[place]):
            _write(self.live[place][:1], new[place][:1])
        elif action == "data" and isinstance(self.live[place], torch.Tensor):
            self.live[place].data = from_numpy(new[place])
        elif action == "replace" and self.marks[place] == "run":
            self.live[place] = self.array(new[place])
            self.given.discard(self.names[place])
        elif action == "update":
            changed = constant if self.rng.random() < 0.5 else [place]
            for one in changed:
                self.live[one] = self.array(new[one])
            self.run.update(**{self.names[one]: self.live[one] for one in changed})
            self.given.update(self.names[one] for one in changed)
        for one, mark in enumerate(self.marks):
            if mark == "varying":
                self.live[one] = self.array(new[one])


def _numpy(array: Any) -> Any:
    return to_numpy(array) if isinstance(array, torch.Tensor) else np.asarray(array)


def _write(array: Any, value: Any) -> None:
    array[...] = from_numpy(value.copy()) if isinstance(array, torch.Tensor) else value


def _overwrite(result: Any) -> None:
    if isinstance(result, torch.Tensor) and all(result.stride()):  # else entries share memory
        result.fill_(1)
    elif isinstance(result, np.ndarray) and result.flags.writeable:
        result[...] = 1


def _stays_right(seed: int) -> None:
    with np.errstate(all="ignore"):
        run = _Run(seed)
        run.call()
        run.call()
        for _ in range(4):
            run.step()
            run.call()


@grouped("seed", range(30))
def test_a_folded_function_stays_right(seed) -> None:
    _stays_right(seed)


@pytest.mark.full
@pytest.mark.parametrize("first", range(30, 2030, 100))
def test_many_folded_functions_stay_right(first) -> None:
    for seed in range(first, first + 100):
        _stays_right(seed)
