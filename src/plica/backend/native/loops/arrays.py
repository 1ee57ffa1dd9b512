"""`Array`: an array while a nest is built, a function from indices to entries; some lie in memory, others are computed.

An array that lies in memory without gaps is *solid*. Others are computed where they are read, so that what is read once
is fused into what reads it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from plica.backend.native.loops.nest import Buffer, Copy, Index
from plica.backend.native.loops.writer import Writer
from plica.backend.native.scalars.builder import Scalar
from plica.ir.dtypes import DType

Read = Callable[[Sequence[Index]], Scalar]
CHEAP = 2
"""So much work is rather done again than kept in memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """An array.

    Args:
        dims: Its sizes.
        dtype: Its dtype.
        read: Writes what gives the entry at an index.
        reads: The buffers that it reads, and whether it reads entry i for entry i alone.
        work: About how many instructions an entry takes.
        flat: The same as `read` at a row-major offset, where that is as good.
        buffer: Where it lies, if it is solid.
        start: At which entry of the buffer it begins.
    """

    dims: tuple[Index, ...]
    dtype: DType
    read: Read
    reads: Mapping[Buffer, bool]
    work: int = 0
    flat: Callable[[Index], Scalar] | None = None
    buffer: Buffer | None = None
    start: Index = 0

    @property
    def is_cheap(self) -> bool:
        """Whether its entries may as well be computed more than once."""
        return self.work <= CHEAP


Value = int | Scalar | Array
"""What a variable of a Program stands for; a scalar of 64 bits may be a known number."""


def solid(writer: Writer, buffer: Buffer, dims: Sequence[Index], start: Index = 0) -> Array:
    """The array that lies in a buffer."""
    sizes = tuple(dims)

    def flat(offset: Index) -> Scalar:
        return writer.load(buffer, writer.add(start, offset))

    def read(index: Sequence[Index]) -> Scalar:
        return flat(writer.flat(index, sizes))

    return Array(sizes, buffer.dtype, read, {buffer: start == 0}, flat=flat, buffer=buffer, start=start)


def moved(x: Array, dims: Sequence[Index], index: Callable[[Sequence[Index]], Sequence[Index]], work: int = 0) -> Array:
    """Entries of `x`: that at `index(i)` for i."""
    return Array(
        tuple(dims),
        x.dtype,
        lambda at: x.read(index(at)),
        dict.fromkeys(x.reads, False),
        x.work + work,
    )


def reshaped(writer: Writer, x: Array, dims: Sequence[Index]) -> Array:
    """The same entries in the same order; `x` has a flat form."""
    sizes, flat = tuple(dims), x.flat
    assert flat is not None, "what is reshaped is read at offsets"
    return replace(x, dims=sizes, read=lambda index: flat(writer.flat(index, sizes)))


def fill(writer: Writer, target: Array, x: Array) -> None:
    """Write the entries of `x` to where `target` lies."""
    to = target.buffer
    assert to is not None, "what is written to lies in memory"
    if x.buffer is not None:
        writer.put(Copy(to, target.start, x.buffer, x.start, writer.product(x.dims)))
    elif x.flat is not None:
        with writer.loop(writer.product(x.dims)) as offset:
            writer.store(to, writer.add(target.start, offset), x.flat(offset))
    else:
        with writer.nest(x.dims) as index:
            value = x.read(index)
            writer.store(to, writer.add(target.start, writer.flat(index, target.dims)), value)
