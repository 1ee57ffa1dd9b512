"""The part of the emitter that nests and checks call: the emitter itself imports both."""

from collections.abc import Sequence
from typing import Protocol

from plica.backend.native.mlir.code import Code
from plica.backend.native.mlir.types import Value
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim


class ValueWriter(Protocol):
    """Writes sizes, numbers and arrays as lines of one function; implemented by `Emitter`.

    Attributes:
        code: The lines.
    """

    code: Code

    def size(self, dim: Dim) -> str:
        """A size, as a value of type `index`."""
        ...

    def size_text(self, dim: Dim) -> str:
        """A size where MLIR takes numbers too."""
        ...

    def size_value(self, dim: Dim) -> Value:
        """A size, as a scalar of the host."""
        ...

    def constant(self, value: complex, dtype: DType) -> Value:
        """A number, as a scalar."""
        ...

    def empty(self, shape: Sequence[Dim], dtype: DType) -> Value:
        """An array whose entries are all written later."""
        ...

    def tensor(self, value: Value) -> Value:
        """A value as a tensor: a scalar becomes one of no dimension."""
        ...

    def scalar(self, value: Value) -> Value:
        """A value of no dimension as a scalar of the host, which waits for it where it is a tensor."""
        ...
