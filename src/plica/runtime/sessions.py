"""Code and what runs it: a `Code` for each loaded file, and a `Session` for each thread that asks it at one time."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from plica.errors import NativeFileError
from plica.forks import ForkSafeLock, at_fork, keep_for_ever
from plica.runtime import ending, faults
from plica.runtime.arrays import Array, aligned, numpy_dtype, placed
from plica.runtime.binding import binding, check_version
from plica.runtime.checks import ITEM_SIZES
from plica.runtime.container import Image
from plica.runtime.declared import misfit_of_types
from plica.runtime.manifest import ALIGNMENT, SCOPE, ArrayType, Target
from plica.runtime.memory import MEMORIES, DeviceMemory
from plica.runtime.waiting import patiently

Tensors = Mapping[str, Array]

ALONE = "local-sync"  # the driver that runs code on the thread that calls; others have threads or memory of their own
_MOST_KEPT = 16 * 2**20  # bytes of an argument whose memory is kept for the next call
_STATUSES = (RuntimeError, ValueError, IndexError)  # what the binding raises: it has one for each kind of status


class Code:
    """The code of a file for one target, and the constants that it reads in the mapped file.

    Args:
        image: The file.
        target: Which of its codes.

    Attributes:
        stale: Whether this process forked from the one that made it, and its threads are gone.

    Raises:
        NativeFileError: The runtime is of another version, has no driver for the target, or refuses the code.
    """

    def __init__(self, image: Image, target: Target) -> None:
        check_version(image.manifest.iree)
        rt = binding()
        self.stale = False
        self._devices = ForkSafeLock()
        self._drivers: dict[str, Any] = {}
        self._shared: dict[str, Any] = {}
        try:
            self.instance = rt.VmInstance()
            self.module = rt.VmModule.wrap_buffer(self.instance, image.part(target.part))
        except _STATUSES as error:
            raise NativeFileError(f"the IREE runtime refuses target {target.name}: {_line(error)}") from error
        self.index = rt.ParameterIndex()
        handles: dict[str, Any] = {}
        for tensor in image.manifest.tensors:
            length = prod(tensor.shape) * ITEM_SIZES[tensor.dtype]
            if length and tensor.name not in changeable(image):  # code must not see what updates leave behind
                if tensor.part not in handles:
                    handles[tensor.part] = rt.FileHandle.wrap_memory(image.part(tensor.part))
                self.index.add_from_file_handle(tensor.name, handles[tensor.part], length, offset=tensor.offset)
        at_fork(self)
        self.image = image  # the last: attributes are let go in order, and the memory of all above lies in the file

    def in_child(self) -> None:
        """Be stale, and stay: the end of its devices waits for their threads."""
        self.stale = True
        keep_for_ever(self)

    def device(self, driver: str) -> Any:
        """What runs the code of a new session: a device of its own where that is but a record.

        Threads are started when they are first needed.
        """
        with self._devices:
            if driver not in self._drivers:
                self._drivers[driver] = binding().create_hal_driver(driver)
            if driver == ALONE:
                return self._drivers[driver].create_default_device()
            if driver not in self._shared:
                self._shared[driver] = self._drivers[driver].create_default_device()
            return self._shared[driver]

    def function(self, name: str) -> Any:
        """A function by its name."""
        found = self.module.lookup_function(name)
        if found is None:
            raise NativeFileError(f"its code has no function {name}; export the model again")
        return found

    def check_function(self, name: str, given: Sequence[ArrayType], results: Sequence[ArrayType]) -> None:
        """Raise unless the code has a function of these types: arrays of others would lie beyond what it reads.

        Raises:
            NativeFileError: It has none of that name, or one of other types.
        """
        declared = self.function(name).reflection.get("iree.abi.declaration", "")
        problem = misfit_of_types(declared, given, results)
        if problem:
            raise NativeFileError(f"its code does not fit its manifest: {name} {problem}; export the model again")


@dataclass(frozen=True, slots=True)
class _Argument:
    """Where the argument of a function lies from one call to the next.

    Args:
        memory: Bytes, more than it needs.
        array: Its copy in them.
        view: The copy as the runtime takes it; None where that is a copy once more.
    """

    memory: Array
    array: Array
    view: Any


class Session:
    """One context: whoever has it is alone with it, so several threads run at one time.

    Args:
        code: What runs.
        driver: What runs it: that of its target, or `ALONE` where that has the same memory.

    Attributes:
        stale: As of `Code`.
    """

    def __init__(self, code: Code, driver: str) -> None:
        rt = binding()
        self.stale = False
        try:
            device = code.device(driver)
            modules = [
                rt.create_hal_module(code.instance, device),
                rt.create_io_parameters_module(code.instance, code.index.create_provider(scope=SCOPE)),
                code.module,
            ]
            self._context = rt.VmContext(code.instance, modules)
        except _STATUSES as error:
            raise NativeFileError(f"the IREE runtime cannot start the code: {_line(error)}") from error
        self._memory = MEMORIES.get(driver, DeviceMemory)(device)
        self._waiting = nullcontext if driver == ALONE else patiently
        self._functions: dict[str, Any] = {}
        self._kept: dict[tuple[str, int], _Argument] = {}
        self._alive: list[Any] = []
        self._constants: tuple[Tensors, dict[str, Any]] = (MappingProxyType({}), {})
        at_fork(self)  # every device has threads
        self._code = code  # the last, as in `Code`

    def in_child(self) -> None:
        """Be stale, and stay: the end of its devices waits for their threads."""
        self.stale = True
        keep_for_ever(self)

    def call(
        self,
        function: str,
        arguments: Sequence[Array],
        results: tuple[ArrayType, ...],
        constants: tuple[str, ...] = (),
        tensors: Tensors = MappingProxyType({}),
    ) -> list[Array]:
        """Run a function once.

        Args:
            function: Its name.
            arguments: Arrays of the right dtypes; they are copied.
            results: The types of what it gives.
            constants: Names of tensors, passed after the arguments.
            tensors: Their values.

        Returns:
            Arrays in memory of the code, good until the next call.
        """
        rt = binding()
        passed = rt.VmVariantList(len(arguments) + len(constants))
        copies = [self._copied((function, place), array) for place, array in enumerate(arguments)]
        self._alive = [copies]  # the binding holds none of the memory that it is given, nor what its arrays show
        for one in copies:
            passed.push_ref((one.view or self._memory.view(one.array)).ref)
        for name in constants:
            passed.push_ref(self._constant(name, tensors).ref)
        given = rt.VmVariantList(len(results))
        ending.begins(self)
        try:
            with self._waiting():
                self._context.invoke(self._function(function), passed, given)
        except _STATUSES as error:
            raise faults.raised(error, self._fault_values) or _failure(function, error) from None
        finally:
            ending.ends(self)
        if len(given) != len(results):
            raise NativeFileError(f"its function {function} gives {len(given)} results, expected {len(results)}")
        return [self._result(given, place, one, function) for place, one in enumerate(results)]

    def release(self) -> None:
        """Let go of what the last call gave."""
        self._alive = []

    def _function(self, name: str) -> Any:
        if name not in self._functions:
            self._functions[name] = self._code.function(name)
        return self._functions[name]

    def _copied(self, key: tuple[str, int], array: Array) -> "_Argument":
        """An argument in aligned memory: code may hand it out as a result, and the caller's may be read-only."""
        kept = self._kept.get(key)
        if kept is None or kept.array.shape != array.shape or kept.array.dtype != array.dtype:
            needed = array.nbytes + ALIGNMENT
            memory = np.empty(needed, np.uint8) if kept is None or len(kept.memory) < needed else kept.memory
            copy = placed(memory, array.shape, array.dtype)
            kept = _Argument(memory, copy, self._memory.view(copy) if self._memory.is_shared else None)
            if needed <= _MOST_KEPT:
                self._kept[key] = kept
        np.copyto(kept.array, array)
        return kept

    def _constant(self, name: str, tensors: Tensors) -> Any:
        if self._constants[0] is not tensors:  # an update came between
            self._constants = (tensors, {})
        views = self._constants[1]
        if name not in views:
            views[name] = self._memory.view(tensors[name])
        return views[name]

    def _result(self, given: Any, place: int, one: ArrayType, function: str) -> Array:
        rt = binding()
        dtype = numpy_dtype(one.dtype)
        value = given.get_variant(place)
        if not isinstance(value, rt.VmRef):
            return np.asarray(value, dtype)
        view = value.deref(rt.HalBufferView)
        shape = tuple(view.shape)
        fits = len(shape) == len(one.shape) and all(
            size == expected for size, expected in zip(shape, one.shape, strict=True) if isinstance(expected, int)
        )
        if not fits or view.byte_length != prod(shape) * dtype.itemsize:
            raise NativeFileError(f"its function {function} gives other results than {one}; export the model again")
        array, held = self._memory.array(view, shape, dtype)
        self._alive.append(held)
        return array

    def _fault_values(self) -> list[int]:
        """The numbers in the message of the error that the last call ended with."""
        given = binding().VmVariantList(8)
        self._context.invoke(self._function(faults.VALUES), binding().VmVariantList(0), given)
        return [given.get_variant(place) for place in range(len(given))]


def changeable(image: Image) -> frozenset[str]:
    """The tensors that updates replace, given by callers or computed from those."""
    updatable = (tensor.name for tensor in image.manifest.tensors if tensor.updatable)
    return frozenset((*updatable, *(name for fold in image.manifest.folds for name in fold.outputs)))


def first_values(image: Image) -> Tensors:
    """The tensors of a file where they are mapped."""
    values = {}
    for tensor in image.manifest.tensors:
        dtype = numpy_dtype(tensor.dtype)
        length = prod(tensor.shape) * dtype.itemsize
        view = image.part(tensor.part)[tensor.offset : tensor.offset + length]
        values[tensor.name] = np.asarray(view, np.uint8).view(dtype).reshape(tensor.shape)
    return MappingProxyType(values)


def kept_value(array: Array) -> Array:
    """A copy in aligned memory, which outlives the call that gave the array."""
    copy = aligned(array.shape, array.dtype)
    np.copyto(copy, array)
    return copy


def _failure(function: str, error: Exception) -> Exception:
    """An error of the runtime that no check of ours stands behind."""
    if "RESOURCE_EXHAUSTED" in str(error):
        return MemoryError(f"its function {function} needs more memory than there is: {_line(error)}")
    return NativeFileError(f"its function {function} failed: {_line(error)}")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
