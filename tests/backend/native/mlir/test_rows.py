"""Rows of MLIR against the interpreter: the samples of operations at sizes that are not known before they run."""

import math
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica.backend.native.mlir.decomposed import decomposed
from plica.backend.native.mlir.emit import emit
from plica.backend.native.mlir.rows import ROWS
from plica.errors import InputError, UnsupportedError
from plica.ir.program import Program
from plica.ir.sizes import evaluate
from plica.ops import CONTROL, REDUCE, SHAPE
from tests.harness.libraries import LibraryPrograms
from tests.harness.native import NativePrograms, assert_interpreted, with_unknown_sizes
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


def is_native(op: str) -> bool:
    """Whether an operation has native code."""
    return op in ROWS or decomposed(op) is not None


def _program(case: Case) -> Program:
    return with_unknown_sizes(case) or one_equation(case.op, case.inputs, case.params)


class Rows:
    """The Programs of some cases, of which equal ones are one function."""

    def __init__(self, cases: Iterable[Case], kind: type[NativePrograms | LibraryPrograms] = NativePrograms) -> None:
        self._programs = {id(case): _program(case) for case in cases}
        names: dict[Program, str] = {}
        for program in self._programs.values():
            names.setdefault(program, f"f{len(names)}")
        self._names = names
        self._modules = kind({name: program for program, name in names.items()})

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


NATIVE = tuple(case for case in (*CASES, *COMPLEX) if is_native(case.op))
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
        rows.check(case)


def test_what_has_no_native_code_is_refused_by_name(monkeypatch) -> None:
    monkeypatch.setattr("plica.backend.native.mlir.emit.ROWS", {})
    program = plica.trace(lambda x: pnp.tanh(x), plica.spec("n"))
    with pytest.raises(
        UnsupportedError, match=r"test_rows.py:\d+: tanh has no native code, neither a row nor a decomp"
    ):
        emit(program)


@pytest.mark.full
def test_a_transform_of_no_points_is_refused() -> None:
    modules = NativePrograms({"irfft": plica.trace(lambda x: pnp.fft.irfft(x), plica.spec("n", "complex64"))})
    with pytest.raises(InputError, match=r"test_rows.py:\d+: irfft of no points along an axis has no result"):
        modules("irfft", np.ones(1, "complex64"))
    assert_interpreted(modules, "irfft", [np.asarray([1, 2j, 3], "complex64")])


def test_a_divisor_that_is_a_number_is_not_checked() -> None:
    def checks(divide) -> int:
        return emit(plica.trace(divide, plica.spec("n", "int32"))).text.count("cf.assert")

    assert checks(lambda x: x // 3 + x % -7) == 0
    assert checks(lambda x: x // 0) == 1
    assert checks(lambda x: 7 // x) == 1
