"""Random Programs of small arrays that are joined, split, written to and multiplied: many updates happen in place."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from plica.ir.builder import Builder
from plica.ir.dtypes import DType
from plica.ir.program import Program, Var
from plica.ir.types import ShapedArray
from plica.ops import OPS
from tests.harness.libraries import LibraryPrograms
from tests.harness.programs import Array, run_region

_UNITS = 4
_STEPS = ("split", "split", "concat", "concat", "concat", "multiply", "add", "scale", "matmul", "update")


class Writer:
    """Writes a Program of arrays of one to three folds, `(F, rows, 4)`."""

    def __init__(self, seed: int, *, is_known: bool = True) -> None:
        self.random, self.builder = np.random.default_rng(seed), Builder(OPS)
        count = int(self.random.choice([1, 2, 5]))
        rows = count if is_known else "n"
        self.arrays: dict[int, list[Any]] = {1: [], 2: [], 3: []}
        for folds in (2, 2, 1, 3):
            self.arrays[folds].append(self.builder.argument(None, (folds, rows, _UNITS), DType.FLOAT64))
        self.scales = {folds: self.builder.argument(None, (folds, rows, 1), DType.FLOAT64) for folds in self.arrays}

    def program(self) -> Program:
        """Up to 25 steps; some arrays and the last of each number of folds are results."""
        for _ in range(self.random.integers(6, 26)):
            self.step(str(self.random.choice(_STEPS)))
        results = [self.one(self.folds()) for _ in range(self.random.integers(1, 4))]
        return self.builder.build([*results, *(some[-1] for some in self.arrays.values())])

    def step(self, kind: str) -> None:
        """One more operation."""
        add, folds = self.builder.add, self.folds()
        several = max(2, folds)
        match kind:
            case "split":
                self.arrays[1] += add("split", self.one(several), axis=0, sizes=(1,) * several)
            case "concat" if folds == 3:
                parts = [self.one(1), self.one(2)][:: int(self.random.choice([1, -1]))]
                self.arrays[3] += add("concat", *parts, axis=0)
            case "concat":
                self.arrays[several] += add("concat", *(self.one(1) for _ in range(several)), axis=0)
            case "multiply" | "add":
                self.arrays[folds] += add(kind, self.one(folds), self.one(folds))
            case "scale":
                self.arrays[folds] += add("multiply", self.one(folds), self.scales[folds])
            case "matmul":
                weight = self.builder.const(None, ShapedArray((folds, _UNITS, _UNITS), DType.FLOAT64))
                self.arrays[folds] += add("matmul", self.one(folds), weight)
            case "update":
                at = int(self.random.integers(several))
                index = ((at, at + 1, 1), None, None)
                self.arrays[several] += add("update", self.one(several), self.one(1), mode="set", index=index)

    def folds(self) -> int:
        """A number of folds."""
        return int(self.random.integers(1, 4))

    def one(self, folds: int) -> Any:
        """An array of so many folds."""
        return self.arrays[folds][self.random.integers(len(self.arrays[folds]))]


def _drawn(variables: Sequence[Var], seed: int) -> list[Array]:
    random = np.random.default_rng(seed)
    return [random.random(one.type.shape) for one in variables]


SEEDS = [(13, 0, 1)]


@pytest.mark.parametrize(
    "seeds", [*SEEDS, *(pytest.param(range(k, k + 20), marks=pytest.mark.full) for k in range(2, 122, 20))], ids=str
)
def test_a_file_is_the_interpreter(seeds: Sequence[int]) -> None:
    programs = {f"p{seed}": Writer(seed).program() for seed in seeds}
    consts = {var: one for p in programs.values() for var, one in zip(p.consts, _drawn(p.consts, 1), strict=True)}
    modules = LibraryPrograms(programs, consts=consts)
    for name, program in programs.items():
        given = _drawn(program.inputs, 0)
        expected = run_region(program, [consts[one] for one in program.consts], given)
        for one, wanted in zip(modules(name, *given), expected, strict=True):
            np.testing.assert_allclose(one, wanted, rtol=1e-11, err_msg=name)


@pytest.mark.parametrize(
    "seeds",
    [(2014, 3590), *(pytest.param(range(k, k + 20), marks=pytest.mark.full) for k in (3000, 3020, 3040))],
    ids=str,
)
def test_rows_of_any_number(seeds: Sequence[int]) -> None:
    programs = {f"p{seed}": Writer(seed, is_known=False).program() for seed in seeds}
    consts = {var: one for p in programs.values() for var, one in zip(p.consts, _drawn(p.consts, 1), strict=True)}
    modules, random = LibraryPrograms(programs, consts=consts), np.random.default_rng(0)
    for name, program in programs.items():
        for rows in (1, 3):
            given = [
                random.random([rows if n == 1 else one for n, one in enumerate(a.type.shape)])
                for a in program.arguments
            ]
            expected = run_region(program, [consts[one] for one in program.consts], [np.asarray(rows), *given])
            for one, wanted in zip(modules(name, *given), expected, strict=True):
                np.testing.assert_allclose(one, wanted, rtol=1e-11, err_msg=name)
