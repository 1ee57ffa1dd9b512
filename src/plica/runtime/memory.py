"""Arrays where code reads and writes them: in the host's memory, or copied to and from that of a device.

The binding keeps no reference to memory that it takes or exposes: its caller must keep the arrays alive.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from plica.runtime.arrays import Array
from plica.runtime.binding import binding
from plica.runtime.checks import ITEM_SIZES

_KINDS = {"float": "FLOAT", "complex": "COMPLEX", "int": "INT", "uint": "INT"}  # code knows integers without sign
_ELEMENTS = {"bool": "BOOL_8", "bfloat16": "BFLOAT_16"} | {
    f"{kind}{bits}": f"{named}_{bits}"
    for kind, named in _KINDS.items()
    for bits in (8, 16, 32, 64, 128)
    if f"{kind}{bits}" in ITEM_SIZES
}
# dtypes that the buffer protocol does not have
_STORED: Mapping[str, np.dtype[Any]] = {"bool": np.dtype("uint8"), "bfloat16": np.dtype("uint16")}


class Memory(ABC):
    """The memory of a device.

    Args:
        device: A device of the IREE runtime.

    Attributes:
        is_shared: Whether a view of an array shows later writes to the array.
    """

    is_shared: ClassVar[bool] = False

    def __init__(self, device: Any) -> None:
        self.rt = binding()
        self.device = device
        self.allocator = device.allocator
        self.usage = self.rt.BufferUsage.DEFAULT | self.rt.BufferUsage.MAPPING
        self._elements: dict[np.dtype[Any], tuple[Any, np.dtype[Any]]] = {}

    def view(self, array: Array) -> Any:
        """An aligned array as the runtime takes it; the array must outlive it."""
        element, stored = self._elements.get(array.dtype) or self._element(array.dtype)
        return self.given(array if stored is array.dtype else array.view(stored), array.shape, element)

    def array(self, view: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, Any]:
        """A buffer view of the runtime as an array, and the objects that must outlive the array."""
        _, stored = self._elements.get(dtype) or self._element(dtype)
        buffer = self.readable(view)
        mapped = buffer.map()
        stored_array: Array = mapped.asarray(shape, stored)
        return stored_array.view(dtype), (buffer, mapped)

    @abstractmethod
    def given(self, array: Array, shape: tuple[int, ...], element: Any) -> Any:
        """A buffer view of an array."""

    @abstractmethod
    def readable(self, view: Any) -> Any:
        """A buffer with the contents of a buffer view, in memory that the host can map."""

    def _element(self, dtype: np.dtype[Any]) -> tuple[Any, np.dtype[Any]]:
        element = getattr(self.rt.HalElementType, _ELEMENTS[dtype.name]), _STORED.get(dtype.name, dtype)
        self._elements[dtype] = element
        return element


class HostMemory(Memory):
    """The memory of devices that compute in the memory of the process: nothing is copied."""

    is_shared = True

    def __init__(self, device: Any) -> None:
        super().__init__(device)
        self._kind = self.rt.MemoryType.HOST_LOCAL | self.rt.MemoryType.DEVICE_VISIBLE

    def given(self, array: Array, shape: tuple[int, ...], element: Any) -> Any:
        """The array itself."""
        buffer = self.allocator.import_host_allocation(array, self._kind, self.usage)
        return self.rt.HalBufferView(buffer, shape, element)

    def readable(self, view: Any) -> Any:
        """The view itself."""
        return view


class DeviceMemory(Memory):
    """The memory of devices with separate memory: arguments and results are copied."""

    def given(self, array: Array, shape: tuple[int, ...], element: Any) -> Any:
        """A copy on the device."""
        if not array.size:  # there is nothing to copy, and no buffer of nothing
            buffer = self.allocator.allocate_buffer(
                self.rt.MemoryType.DEVICE_LOCAL, self.rt.BufferUsage.DEFAULT, array.itemsize
            )
            return self.rt.HalBufferView(buffer, shape, element)
        return self.allocator.allocate_buffer_copy(
            memory_type=self.rt.MemoryType.DEVICE_LOCAL,
            allowed_usage=self.rt.BufferUsage.DEFAULT,
            device=self.device,
            buffer=array,
            element_type=element,
        )

    def readable(self, view: Any) -> Any:
        """A copy on the host, once the device has made it."""
        source = view.get_buffer()
        room = self.allocator.allocate_buffer(
            memory_type=self.rt.MemoryType.HOST_LOCAL | self.rt.MemoryType.DEVICE_VISIBLE,
            allowed_usage=self.rt.BufferUsage.TRANSFER_TARGET | self.rt.BufferUsage.MAPPING_SCOPED,
            allocation_size=max(source.byte_length(), 1),
        )
        if source.byte_length():
            done = self.device.create_semaphore(0)
            before, after = (self.rt.HalFence.create_at(done, step) for step in (0, 1))
            self.device.queue_copy(source, room, wait_semaphores=before, signal_semaphores=after)
            after.wait()
        return room


MEMORIES: Mapping[str, type[Memory]] = {"local-sync": HostMemory, "local-task": HostMemory}
"""The memory of each driver's devices; drivers that are not listed have `DeviceMemory`."""
