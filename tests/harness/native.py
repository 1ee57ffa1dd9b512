"""Programs as functions of one native module, and what they compute: compiled once, run at any sizes."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from plica.backend.native.build import compile_text
from plica.backend.native.mlir.emit import emit, module_text
from plica.errors import PlicaError
from plica.frontend.programs import interpret
from plica.ir.builder import Builder
from plica.ir.dtypes import as_dtype
from plica.ir.program import Program, Var
from plica.ir.sizes import Size
from plica.ops import OPS
from plica.runtime import faults
from plica.runtime.arrays import aligned
from plica.runtime.binding import binding
from plica.runtime.memory import HostMemory
from tests.harness.libraries import LibraryPrograms
from tests.harness.programs import Array, assert_same, unique
from tests.harness.samples import Case


class NativePrograms:
    """Programs by name, in one module of operations on tensors, its driver, and what stands behind their consts."""

    def __init__(
        self,
        programs: Mapping[str, Program],
        driver: str = "local-sync",
        consts: Mapping[Var, Array] | None = None,
    ) -> None:
        self.programs = programs
        rt = binding()
        names = {var: f"c{place}" for place, var in enumerate(consts or {})}
        arrays = {names[var]: array for var, array in (consts or {}).items()}
        own = {name: {var: names[var] for var in one.consts if var in names} for name, one in programs.items()}
        functions = [emit(program, name, own[name]) for name, program in programs.items()]
        text = module_text(functions, arrays)
        self._code = compile_text(text)
        instance = rt.VmInstance()
        device = rt.get_cached_hal_driver(driver).create_default_device()
        self._memory = HostMemory(device)
        self._module = rt.VmModule.copy_buffer(instance, self._code)
        self._context = rt.VmContext(instance, [rt.create_hal_module(instance, device), self._module])

    def __call__(self, name: str, *arguments: Any) -> tuple[Array, ...]:
        """The results of one Program."""
        rt = binding()
        results = self.programs[name].results
        arrays = [_aligned(np.asarray(one)) for one in arguments]
        given = self._invoked(name, [self._memory.view(one).ref for one in arrays], len(results))
        found = []
        for place, one in enumerate(results):
            view = given.get_variant(place).deref(rt.HalBufferView)
            dtype = one.type.dtype
            array, _held = self._memory.array(view, tuple(view.shape), dtype.carrier.numpy)
            found.append(array.astype(dtype.numpy))
        return tuple(found)

    def _invoked(self, name: str, operands: Sequence[Any], count: int) -> Any:
        rt = binding()
        given, found = rt.VmVariantList(len(operands)), rt.VmVariantList(count)
        for one in operands:
            given.push_ref(one)
        try:
            self._context.invoke(self._module.lookup_function(name), given, found)
        except RuntimeError as error:
            raise faults.raised(error, self._values) or error from None
        return found

    def _values(self) -> list[int]:
        found = self._invoked(faults.VALUES, [], 8)
        return [found.get_variant(place) for place in range(len(found))]


def _aligned(array: Array) -> Array:
    found = aligned(array.shape, as_dtype(array.dtype).carrier.numpy)  # four bits are bytes there
    np.copyto(found, array)
    return found


def assert_interpreted(
    modules: NativePrograms | LibraryPrograms, name: str, arguments: Sequence[Any], op: str = "", scale: float = 1.0
) -> None:
    """Check that a Program gives what the interpreter gives, or raises what it raises."""
    scale = OPS[op].tolerance if op else scale
    expected: tuple[Array, ...] | PlicaError
    try:
        expected = interpret(modules.programs[name], *arguments)
    except PlicaError as error:
        expected = error
    except ValueError:  # numpy's own, of arrays without entries: only that nothing ends the process
        with suppress(PlicaError):
            modules(name, *arguments)
        return
    if isinstance(expected, PlicaError):
        with pytest.raises(type(expected)) as raised:
            modules(name, *arguments)
        assert without_names(raised.value) == without_names(expected)
        return
    found = modules(name, *arguments)
    for one, other in zip(unique(op, found), unique(op, expected), strict=True):
        assert_same(one, other, scale)


def without_names(error: Exception) -> str:
    """What an error says, but for the names of a negative size, which tensors and nests call otherwise."""
    return re.sub(r"size (\S+ = )?(-\d+)( of \w+)? is", r"size \2 is", str(error))


def with_unknown_sizes(case: Case) -> Program | None:
    """The Program of a case with a name for each size of its operands but 1; None where that is no Program."""
    names: dict[int, str] = {}
    builder = Builder(OPS)
    operands = []
    for array in case.inputs:
        shape = [1 if size == 1 else names.setdefault(size, f"n{len(names)}") for size in array.shape]
        operands.append(builder.argument(None, shape, as_dtype(array.dtype)))
    sizes = {size: builder.size(name) for size, name in names.items()}
    params = {
        key: _named(value, sizes) if key in ("shape", "sizes", "stop", "size", "length") else value
        for key, value in case.params.items()
    }
    try:
        return builder.build(builder.add(case.op, *operands, **params))
    except Exception:
        return None


def _named(value: Any, sizes: Mapping[int, Size]) -> Any:
    if isinstance(value, tuple):
        return tuple(_named(one, sizes) for one in value)
    return sizes.get(value, value) if isinstance(value, int) else value
