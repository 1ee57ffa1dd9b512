"""Every Program of a circuit's file as one loop nest, in the process and as a library: beside float64."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.native.circuits.updatable import UpdatableFold
from plica.backend.native.circuits.with_constants import ProgramWithConstants
from plica.backend.native.entry_programs import EntryProgram
from plica.backend.native.loops.calls import compile_jit
from plica.errors import ShapeError, StructuralPropertyError, UnsupportedError
from plica.frontend.native import _with_joined_trees, entry_programs_of
from plica.symbolic.semirings import SEMIRINGS
from plica.templates.data_modalities import image_data
from tests.harness.circuits import CIRCUITS, data
from tests.harness.libraries import compile_library
from tests.harness.native_circuits import compiled

Array = Any
_COUNTS = (0, 1, 7, 40)
_TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-10}


_REFUSED = (ShapeError, StructuralPropertyError, UnsupportedError)
"""Errors of circuits that have no such answer."""


def _image(layer: str, **settings: Any) -> Any:
    given: dict[str, Any] = {"num_values": 4, "num_input_units": 4, "num_sum_units": 4, "sum_product_layer": layer}
    return image_data((1, 4, 4), settings.pop("graph", "quad-tree-2"), input_layer="categorical", **given, **settings)


_IMAGES: dict[str, Callable[[], Any]] = {
    "image, cp": lambda: _image("cp"),
    "image, cp of a graph": lambda: _image("cp-t", graph="quad-graph"),
    "image, tucker": lambda: _image("tucker"),
}


def _entry_programs(model: Any, updatable: bool, names: Collection[str]) -> Iterator[EntryProgram]:
    """The entry points that a file of a circuit may have, with trees joined and with layers as they are."""
    for query in model.compiled.queries.values():
        for entry in query.entries:
            if names and entry.name not in names:
                continue
            try:
                some = entry_programs_of(model, [entry.name], updatable)
            except _REFUSED:
                continue
            yield from some
            yield from (
                one for one, other in zip(_with_joined_trees(some), some, strict=True) if one.body is not other.body
            )


def _passed(arrays: Iterable[Array]) -> list[Any]:
    """Arrays as code in the process takes them: those without axes are numbers."""
    return [array if array.ndim else array.item() for array in arrays]


def _check(
    body: ProgramWithConstants, arguments: list[Callable[[int], Array]], compile_: Callable[..., Any], tolerance: float
) -> None:
    run = compile_(body.program)
    captured = _passed(body.constants[var] for var in body.program.consts)
    updatable = _passed(constant.array for constant in body.updatable.values())
    for count in _COUNTS:
        given = [x(count) for x in arguments]
        expected = body(*given, precise=True)
        found = run(*captured, *given, *updatable)
        assert len(found) == len(expected)
        for one, other, var in zip(found, expected, body.program.results, strict=True):
            assert one.shape == other.shape
            assert one.dtype == var.type.dtype.numpy
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def _arguments(entry_program: EntryProgram, x: Array) -> list[Callable[[int], Array]]:
    """Rows of data, with missing entries where a float may be one, and uniform numbers; for any number of rows."""
    body = entry_program.body
    variables = [var for var in body.program.arguments if var not in body.updatable]

    def drawn(var: Any) -> Callable[[int], Array]:
        def numbers(count: int) -> Array:
            shape = [dim if isinstance(dim, int) else count for dim in var.type.shape]
            return np.random.default_rng(count).random(shape).astype(var.type.dtype.numpy)

        return numbers

    def data_of(var: Any) -> Callable[[int], Array]:
        rows = x.astype(var.type.dtype.numpy)
        if rows.dtype.kind == "f" and x.dtype.kind == "i":
            rows[np.random.default_rng(0).random(rows.shape) < 0.3] = np.nan
        return lambda count: rows[:count]

    first = len(variables) - entry_program.draws
    return [*map(data_of, variables[:first]), *map(drawn, variables[first:])]


def _check_circuit(
    circuit: Any, semiring: str, dtype: torch.dtype, *, updatable: bool, library: bool, names: Collection[str] = ()
) -> int:
    """Check entry points, by default all, and the functions that compute constants again; returns how many."""
    model = compiled(circuit, semiring, dtype)
    x = data(circuit, 40) if circuit.scope else np.zeros((40, 0), np.int64)
    compile_ = compile_library if library else compile_jit
    count = 0
    folds: dict[UpdatableFold, None] = {}
    for entry_program in _entry_programs(model, updatable, names):
        _check(entry_program.body, _arguments(entry_program, x), compile_, _TOLERANCE[dtype])
        count += 1
        for constant in (*entry_program.body.updatable.values(), *entry_program.updatable):
            if constant.fold is not None:
                folds[constant.fold] = None
    for fold in folds:
        arrays = (*fold.constants.values(), *(constant.array for constant in fold.updatable))
        found = compile_(fold.program)(*_passed(arrays))
        for one, other in zip(found, fold.first, strict=True):
            np.testing.assert_allclose(one, other, rtol=_TOLERANCE[dtype], atol=_TOLERANCE[dtype])
    return count + len(folds)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "names", "updatable", "library"),
    [
        ("image, cp", ("log-likelihood", "mpe"), False, True),
        ("image, tucker", ("marginal",), True, False),
        *(
            pytest.param(name, (), bool(place % 3), place % 4 == 0, marks=pytest.mark.full)
            for place, name in enumerate([*CIRCUITS, *_IMAGES])
        ),
    ],
)
def test_entry_points_are_nests(name: str, names: Collection[str], updatable: bool, library: bool) -> None:
    dtype = torch.float64 if updatable else torch.float32
    circuit = (_IMAGES | CIRCUITS)[name]()
    assert _check_circuit(circuit, "lse-sum", dtype, updatable=updatable, library=library, names=names) >= 2


@pytest.mark.full
@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_entry_points_of_every_semiring_are_nests(semiring: str) -> None:
    checked = 0
    for place, name in enumerate(("hadamard", "kronecker of 2", "sum of 3", "random tree, cp")):
        dtype = (torch.float32, torch.float64)[place % 2]
        checked += _check_circuit(CIRCUITS[name](), semiring, dtype, updatable=place == 3, library=place == 1)
    assert checked >= 4
