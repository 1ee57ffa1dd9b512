"""Every row of loop nests in a file, at sizes that are not known before: what the interpreter gives."""

import math
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.backend.native.loops.rows import ROWS
from plica.errors import InputError
from plica.ir.program import Program
from plica.ir.sizes import evaluate
from plica.ops import CONTROL, REDUCE, SHAPE
from tests.harness.libraries import LibraryPrograms, assert_interpreted, with_unknown_sizes
from tests.harness.programs import UNIQUE, Array, one_equation
from tests.harness.samples import CASES, COMPLEX, Case, of_some_operations, over

BATCHES = (0, 1, 7)
# the scalar code of each elementwise operation has tests of its own: these are those of the writer around it
_ELEMENTWISE = ("add", "floor_divide", "where", "less", "clip", "astype")
_SCANS = ("cumulative_sum", "cumulative_prod", "rescale")
_INVERTED = ("inv", "slogdet", "solve")
# what the functions of test_programs.py and test_array_rows.py have, at several sizes too
_OF_FUNCTIONS = {
    *("for_loop", "while_loop", "cond", "scan", "add", "where", "floor_divide", "less", "astype"),
    *("argmin", "logsumexp", "max", "mean", "min", "softmax", "sum"),
    *("arange", "broadcast_to", "concat", "expand_dims", "full", "permute_dims", "reshape", "slice"),
}
_OWN = {*(op.name for op in (*SHAPE, *REDUCE, *CONTROL)), *_ELEMENTWISE}.difference(_SCANS, _OF_FUNCTIONS)


_UNREAD = ("gather", "search_cumulative")
"""Where nothing is read, nests check no index, or another one first; the interpreter checks all."""


def _has_nest(case: Case) -> bool:
    """Whether an operation has a row, and no number of a case has four bits."""
    return case.op in ROWS and not any(word in str(case) for word in ("int4", "uint4"))


def _program(case: Case) -> Program:
    return with_unknown_sizes(case) or one_equation(case.op, case.inputs, case.params)


class Rows:
    """The Programs of some cases, of which equal ones are one function."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self._programs = {id(case): _program(case) for case in cases}
        names: dict[Program, str] = {}
        for program in self._programs.values():
            names.setdefault(program, f"f{len(names)}")
        self._names = names
        self._modules = LibraryPrograms({name: program for program, name in names.items()})

    def check(self, case: Case, batches: Sequence[int] = BATCHES) -> None:
        """A case gives what the interpreter gives, as it is and with each of `batches` for its first size."""
        program = self._programs[id(case)]
        name = self._names[program]
        assert_interpreted(self._modules, name, case.inputs, case.op)
        for batch in batches if program.num_implicit_inputs else ():
            assert_interpreted(self._modules, name, _resized(program, case, batch), case.op)


def _resized(program: Program, case: Case, batch: int) -> list[Array]:
    sizes: dict[object, int] = {}
    for var, array in zip(program.arguments, case.inputs, strict=True):
        for dim, size in zip(var.type.shape, array.shape, strict=True):
            sizes.update((var, size) for var in program.inputs[: program.num_implicit_inputs] if str(dim) == var.name)
    sizes[program.inputs[0]] = batch
    fill = _spread if case.op in UNIQUE else np.resize
    found = [
        fill(array, shape) if array.size else np.zeros(shape, array.dtype)
        for array, shape in (
            (array, [evaluate(dim, sizes.__getitem__) for dim in var.type.shape])
            for var, array in zip(program.arguments, case.inputs, strict=True)
        )
    ]
    _relate(case, found)
    return found


def _relate(case: Case, arrays: list[Array]) -> None:
    """Make resized operands what their operation takes for granted: in order, or the logarithms of each other.

    Matrices are made far from singular ones: of rows that repeat, it is for roundings to say whether a pivot is 0.
    """
    if case.op in _INVERTED:
        arrays[0] = (arrays[0] + 10 * np.eye(arrays[0].shape[-1])).astype(arrays[0].dtype)
    if case.op == "searchsorted":
        arrays[0] = np.sort(arrays[0])
    logs = case.params.get("logs")
    if logs is not None and arrays[-1].size:
        weight, given = arrays[-2:]
        if logs == "log_softmax":
            given = given - np.logaddexp.reduce(given, axis=-1, keepdims=True)
        arrays[-2] = np.reshape(np.exp(given), weight.shape).astype(weight.dtype)


def _spread(array: Array, shape: list[int]) -> Array:
    """The entries of an array, then others of them in any order: of rows that repeat, some factors could be any."""
    more = np.random.default_rng(0).integers(0, array.size, math.prod(shape))
    return np.resize(np.concatenate([array.ravel(), array.ravel()[more]]), shape)


def _few(cases: Iterable[Case], most: int) -> list[Case]:
    """The cases of the first Programs of each operation: a module takes a tenth of a second for each function."""
    programs: dict[str, dict[Program, None]] = {}
    found = []
    for case in cases:
        own, program = programs.setdefault(case.op, {}), _program(case)
        if program in own or len(own) < most:
            own[program] = None
            found.append(case)
    return found


NATIVE = tuple(case for case in (*CASES, *COMPLEX) if _has_nest(case))
_OF_COMPLEX = ("multiply", "sum", "einsum", "update", "where")
FEW = (
    *_few((case for case in NATIVE if case.op in _OWN), 1),
    *_few((case for case in NATIVE if case.op in _OF_COMPLEX and "complex" in str(case)), 1),
)


@cache
def _few_rows() -> Rows:
    return Rows(FEW)


@over(FEW)
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:Casting complex values")
def test_native_is_the_interpreter(case: Case) -> None:
    _few_rows().check(case)


@pytest.mark.full
@pytest.mark.parametrize("cases", of_some_operations(NATIVE))
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:Casting complex values")
def test_samples_of_every_row(cases: list[Case]) -> None:
    """Every third of them."""
    some = cases[(len(cases) - 1) % 3 :: 3]
    rows = Rows(some)
    for case in some:
        rows.check(case, BATCHES[1:] if case.op in _UNREAD else BATCHES)


@pytest.mark.full
def test_a_transform_of_no_points_is_refused() -> None:
    modules = LibraryPrograms({"irfft": plica.trace(lambda x: pnp.fft.irfft(x), plica.spec("n", "complex64"))})
    with pytest.raises(InputError, match=r"test_rows_in_files.py:\d+: irfft of no points along an axis has no result"):
        modules("irfft", np.ones(1, "complex64"))
    assert_interpreted(modules, "irfft", [np.asarray([1, 2j, 3], "complex64")])
