"""A shared library, loaded from memory and called with numpy arrays: the code of `loops/shared_library.py`."""

import ctypes
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plica.errors import NativeFileError

Array = np.ndarray[Any, np.dtype[Any]]
Release = Callable[[int], object]

_RELEASE = "plica_release"


@dataclass(frozen=True, slots=True)
class Left:
    """A result whose sizes are known when it is there.

    Args:
        rank: How many axes it has.
        dtype: Its dtype.
    """

    rank: int
    dtype: np.dtype[Any]


class Owner:
    """Memory that native code allocated, which goes with the last array that lies in it.

    Args:
        address: Where it is.
        shape: The shape of its array.
        dtype: The dtype of its array.
        release: Gives it back.
    """

    __slots__ = ("__array_interface__", "_address", "_release")

    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], release: Release) -> None:
        self._address, self._release = address, release
        self.__array_interface__ = {"data": (address, False), "shape": shape, "typestr": dtype.str, "version": 3}

    def __del__(self) -> None:
        self._release(self._address)


class Library:
    """A shared library that is loaded as long as the object lives, or an array that it left.

    Several threads may call it at one time, and Python's lock is not held meanwhile.

    Args:
        code: The file, which was checked: it may do whatever the process may.

    Raises:
        NativeFileError: The system does not load it.
    """

    def __init__(self, code: bytes) -> None:
        if not hasattr(os, "memfd_create"):
            raise NativeFileError("shared libraries are loaded from memory, which this system cannot do; use Linux")
        file = os.memfd_create("plica")
        try:
            with os.fdopen(os.dup(file), "wb") as target:
                target.write(code)
            self._library = ctypes.CDLL(f"/proc/self/fd/{file}")
        except OSError as error:
            os.close(file)
            raise NativeFileError(f"the system does not load its code: {error}") from error
        # the file stays open, since another one of its number would be taken for it
        closing = weakref.finalize(self, _close, self._library._handle, file)
        closing.atexit = False  # arrays of it may be released later
        self._functions: dict[str, Any] = {}

    def _function(self, name: str, *arguments: type, result: type | None) -> Any:
        """A function, with its types."""
        if name not in self._functions:
            try:
                function = self._library[name]
            except AttributeError as error:
                raise NativeFileError(f"its code has no function {name}") from error
            function.argtypes, function.restype = arguments, result
            self._functions[name] = function
        return self._functions[name]

    def _release(self, address: int) -> None:
        self._function(_RELEASE, ctypes.c_void_p, result=None)(address)

    def call(
        self,
        name: str,
        arguments: Sequence[Array],
        sizes: Sequence[int],
        results: Sequence[Array],
        left: Sequence[Left] = (),
        numbers: int = 0,
    ) -> tuple[int, list[Array], list[int]]:
        """Run a function once.

        Args:
            name: Its name.
            arguments: What it reads, row-major; numbers as arrays of no dimension.
            sizes: The sizes that it is told.
            results: What it writes, row-major.
            left: The results that it has memory of its own for.
            numbers: How many numbers an error of it tells at most.

        Returns:
            0 or the number of what ended the run, the results that it left, and the numbers of an error.

        Raises:
            NativeFileError: There is no such function.
        """
        function = self._function(name, *[ctypes.c_void_p] * 4, result=ctypes.c_int64)
        info = (ctypes.c_int64 * max(numbers, sum(1 + one.rank for one in left), 1))()
        told = (ctypes.c_int64 * max(len(sizes), 1))(*sizes)
        status: int = function(_pointers(arguments), told, _pointers(results), info)
        if status:
            return status, [], list(info[:numbers])
        arrays, place = [], 0
        for one in left:
            address, *shape = info[place : place + 1 + one.rank]
            arrays.append(np.asarray(Owner(address, tuple(shape), one.dtype, self._release)))
            place += 1 + one.rank
        return 0, arrays, []


def _pointers(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_void_p * max(len(arrays), 1))(*(array.ctypes.data for array in arrays))


def _close(handle: int, file: int) -> None:
    from _ctypes import dlclose  # which only some systems have

    dlclose(handle)
    os.close(file)
