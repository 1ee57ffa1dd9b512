"""Loads code and runs it: a `Code` for each loaded file, and a `Session` for each thread that calls it at one time."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from plica.errors import NativeFileError
from plica.forks import ForkSafeLock, at_fork, keep_for_ever
from plica.runtime import ending, faults
from plica.runtime.arrays import Array, numpy_dtype, placed
from plica.runtime.binding import binding, check_version
from plica.runtime.checks import ITEM_SIZES
from plica.runtime.container import Image
from plica.runtime.declared import misfit_of_types
from plica.runtime.manifest import ALIGNMENT, SCOPE, ArrayType, Function, Target
from plica.runtime.memory import MEMORIES, DeviceMemory
from plica.runtime.tensors import NO_TENSORS, Tensors
from plica.runtime.waiting import batch_scheduling

ALONE = "local-sync"  # the driver that runs code on the calling thread; others have their own threads or memory
_MOST_REUSED = 16 * 2**20  # bytes of an argument whose memory is used again in the next call
_STATUSES = (RuntimeError, ValueError, IndexError)  # errors of the binding, one for each kind of status


class Code:
    """The code of a file for one target, and the constants that it reads in the mapped file.

    Args:
        image: The file.
        target: The target whose code is loaded.

    Attributes:
        stale: Whether the code was loaded before this process was forked, so that its threads are gone.

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
            if length and tensor.name not in changeable(image):  # code must not see values that an update replaced
                if tensor.part not in handles:
                    handles[tensor.part] = rt.FileHandle.wrap_memory(image.part(tensor.part))
                self.index.add_from_file_handle(tensor.name, handles[tensor.part], length, offset=tensor.offset)
        at_fork(self)
        self.image = image  # the last: attributes are released in order, and those above use the memory of the file

    def in_child(self) -> None:
        """Become stale and stay alive: destroying the devices would wait for their threads, which are gone."""
        self.stale = True
        keep_for_ever(self)

    def device(self, driver: str) -> Any:
        """The device for a new session: a fresh one of the driver `ALONE`, else one that all sessions share.

        Other drivers start their threads when they are first needed.
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
        function = self.module.lookup_function(name)
        if function is None:
            raise NativeFileError(f"its code has no function {name}; export the model again")
        return function

    def check_function(self, function: Function) -> None:
        """Raise unless the code has a function of these types; with other types it would read beyond its arrays.

        Raises:
            NativeFileError: The code has no function of that name, or one of other types.
        """
        declared = self.function(function.name).reflection.get("iree.abi.declaration", "")
        problem = misfit_of_types(declared, function.inputs, function.results)
        if problem:
            raise NativeFileError(
                f"its code does not fit its manifest: {function.name} {problem}; export the model again"
            )


@dataclass(frozen=True, slots=True)
class _Argument:
    """The memory for one argument of a function, used again from call to call.

    Args:
        memory: Bytes, at least as many as the argument needs.
        array: The copy of the argument in these bytes.
        view: The copy as the runtime takes it; None if the runtime copies it once more.
    """

    memory: Array
    array: Array
    view: Any


class Session:
    """A context of the runtime; one thread uses it at a time, and several threads use several.

    Args:
        code: The code to run.
        driver: The driver that runs it: that of its target, or `ALONE` if both have the same memory.

    Attributes:
        stale: As of `Code`.
        gives_own: Whether results are arrays of the caller.
    """

    gives_own = False

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
        self._waiting = nullcontext if driver == ALONE else batch_scheduling
        self._functions: dict[str, Any] = {}
        self._argument_memory: dict[tuple[str, int], _Argument] = {}
        self._alive: list[Any] = []
        self._constants: tuple[Tensors, dict[str, Any]] = (NO_TENSORS, {})
        at_fork(self)  # every device has threads
        self._code = code  # the last, as in `Code`

    def in_child(self) -> None:
        """Become stale and stay alive, as `Code` does."""
        self.stale = True
        keep_for_ever(self)

    def call(
        self,
        function: str,
        arguments: Sequence[Array],
        results: tuple[ArrayType, ...],
        constants: tuple[str, ...] = (),
        tensors: Tensors = NO_TENSORS,
    ) -> list[Array]:
        """Run a function once.

        Args:
            function: Its name.
            arguments: Arrays of the right dtypes; they are copied.
            results: The types of its results.
            constants: Names of tensors, passed after the arguments.
            tensors: The values of tensors by name.

        Returns:
            Arrays in memory of the code, valid until the next call.
        """
        rt = binding()
        passed = rt.VmVariantList(len(arguments) + len(constants))
        copies = [self._copied((function, index), array) for index, array in enumerate(arguments)]
        self._alive = [copies]  # the binding keeps no reference to memory that it takes or exposes
        for argument in copies:
            passed.push_ref((argument.view or self._memory.view(argument.array)).ref)
        for name in constants:
            passed.push_ref(self._constant(name, tensors).ref)
        outputs = rt.VmVariantList(len(results))
        ending.enter(self)
        try:
            with self._waiting():
                self._context.invoke(self._function(function), passed, outputs)
        except _STATUSES as error:
            raise faults.raised(error, self._fault_values) or _failure(function, error) from None
        finally:
            ending.leave(self)
        if len(outputs) != len(results):
            raise NativeFileError(f"its function {function} gives {len(outputs)} results, expected {len(results)}")
        return [self._result(outputs, index, result, function) for index, result in enumerate(results)]

    def release(self) -> None:
        """Release the arrays of the last call."""
        self._alive = []

    def _function(self, name: str) -> Any:
        if name not in self._functions:
            self._functions[name] = self._code.function(name)
        return self._functions[name]

    def _copied(self, key: tuple[str, int], array: Array) -> "_Argument":
        """A copy of an argument in aligned memory: code may return it as a result; the caller's may be read-only."""
        argument = self._argument_memory.get(key)
        if argument is None or argument.array.shape != array.shape or argument.array.dtype != array.dtype:
            needed = array.nbytes + ALIGNMENT
            memory = (
                np.empty(needed, np.uint8) if argument is None or len(argument.memory) < needed else argument.memory
            )
            copy = placed(memory, array.shape, array.dtype)
            argument = _Argument(memory, copy, self._memory.view(copy) if self._memory.is_shared else None)
            if needed <= _MOST_REUSED:
                self._argument_memory[key] = argument
        np.copyto(argument.array, array)
        return argument

    def _constant(self, name: str, tensors: Tensors) -> Any:
        if self._constants[0] is not tensors:  # an update came between
            self._constants = (tensors, {})
        views = self._constants[1]
        if name not in views:
            views[name] = self._memory.view(tensors[name])
        return views[name]

    def _result(self, outputs: Any, index: int, result: ArrayType, function: str) -> Array:
        rt = binding()
        dtype = numpy_dtype(result.dtype)
        value = outputs.get_variant(index)
        if not isinstance(value, rt.VmRef):
            return np.asarray(value, dtype)
        view = value.deref(rt.HalBufferView)
        shape = tuple(view.shape)
        fits = len(shape) == len(result.shape) and all(
            size == expected for size, expected in zip(shape, result.shape, strict=True) if isinstance(expected, int)
        )
        if not fits or view.byte_length != prod(shape) * dtype.itemsize:
            raise NativeFileError(f"its function {function} gives other results than {result}; export the model again")
        array, owners = self._memory.array(view, shape, dtype)
        self._alive.append(owners)
        return array

    def _fault_values(self) -> list[int]:
        """The numbers in the message of the error that the last call ended with."""
        values = binding().VmVariantList(8)
        self._context.invoke(self._function(faults.VALUES), binding().VmVariantList(0), values)
        return [values.get_variant(index) for index in range(len(values))]


def changeable(image: Image) -> frozenset[str]:
    """The tensors that updates replace: those that callers replace, and those computed from them."""
    updatable = (tensor.name for tensor in image.manifest.tensors if tensor.updatable)
    return frozenset((*updatable, *(name for fold in image.manifest.folds for name in fold.outputs)))


def _failure(function: str, error: Exception) -> Exception:
    """The error for a failure of the runtime that none of the code's own checks raised."""
    if "RESOURCE_EXHAUSTED" in str(error):
        return MemoryError(f"its function {function} needs more memory than there is: {_line(error)}")
    return NativeFileError(f"its function {function} failed: {_line(error)}")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
