"""`Code`: the text of one function while it is written: operations, constants and sizes.

Sizes are polynomials of the sizes of arguments. Sizes and constants are written once, at the beginning, since regions
of loops and branches read them too.

>>> code = Code()
>>> x = Tensor("%x", (2,), DType.FLOAT32)
>>> code.apply("add", [x, x], x.shape, x.dtype).text
'%1'
>>> code.lines
['%1 = "stablehlo.add"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>']
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import NamedTuple

import numpy as np

from plica.backend.native.stablehlo.types import dense, integers, scalar, tensor_type
from plica.ir.dtypes import DType
from plica.ir.op import Array
from plica.ir.sizes import Dim, Opaque, Size, atoms

Shape = tuple[Dim, ...]


class Tensor(NamedTuple):
    """A value of the text: its name, and its type in terms of the sizes of arguments."""

    text: str
    shape: Shape
    dtype: DType

    @property
    def type(self) -> str:
        """The type as text."""
        return tensor_type(self.shape, self.dtype)


Body = Callable[..., Sequence[Tensor]]


class Code:
    """A function while it is written.

    Attributes:
        first: Lines at the beginning of the function: sizes and constants.
        lines: The lines that follow.
    """

    def __init__(self) -> None:
        self.first: list[str] = []
        self.lines: list[str] = []
        self._count = 0
        self._known: dict[Hashable, Tensor] = {}

    def fresh(self) -> str:
        """A new name."""
        self._count += 1
        return f"%{self._count}"

    def apply(
        self,
        name: str,
        operands: Sequence[Tensor],
        shape: Shape,
        dtype: DType,
        attributes: Mapping[str, str] | None = None,
        regions: Sequence[Sequence[str]] = (),
    ) -> Tensor:
        """The result of an operation with one result."""
        return self.apply_all(name, operands, [(shape, dtype)], attributes, regions)[0]

    def apply_all(
        self,
        name: str,
        operands: Sequence[Tensor],
        results: Sequence[tuple[Shape, DType]],
        attributes: Mapping[str, str] | None = None,
        regions: Sequence[Sequence[str]] = (),
    ) -> tuple[Tensor, ...]:
        """All results of an operation, in the generic form of its text."""
        arguments = ", ".join(operand.text for operand in operands)
        written = ", ".join(f"{key} = {value}" for key, value in (attributes or {}).items())
        types = ", ".join(tensor_type(*result) for result in results)
        head = f'"stablehlo.{name}"({arguments})' + (f" <{{{written}}}>" if written else "")
        tail = f" : ({', '.join(operand.type for operand in operands)}) -> "
        tail += types if len(results) == 1 else f"({types})"
        name_of_results = self.fresh()
        assigned = name_of_results if len(results) == 1 else f"{name_of_results}:{len(results)}"
        if not regions:
            self.lines.append(f"{assigned} = {head}{tail}")
        else:
            self.lines.append(f"{assigned} = {head} ({{")
            for number, region in enumerate(regions):
                self.lines += ["}, {"] if number else []
                self.lines += region
            self.lines.append(f"}}){tail}")
        texts = (
            [name_of_results]
            if len(results) == 1
            else [f"{name_of_results}#{number}" for number in range(len(results))]
        )
        return tuple(Tensor(text, *result) for text, result in zip(texts, results, strict=True))

    def region(self, arguments: Sequence[tuple[Shape, DType]], body: Body) -> list[str]:
        """The lines of a region: those that `body` writes, and the return of its results."""
        parameters = [Tensor(self.fresh(), *argument) for argument in arguments]
        outside, self.lines = self.lines, []
        try:
            results = body(*parameters)
            head = (
                [f"^bb0({', '.join(f'{tensor.text}: {tensor.type}' for tensor in parameters)}):"] if parameters else []
            )
            types = ", ".join(result.type for result in results)
            end = f'"stablehlo.return"({", ".join(result.text for result in results)}) : ({types}) -> ()'
            return [f"  {line}" for line in (*head, *self.lines, end)]
        finally:
            self.lines = outside

    # constants and sizes

    def constant(self, value: complex, dtype: DType, shape: Shape = ()) -> Tensor:
        """A number, or an array filled with it."""
        entry = self._once((repr(value), dtype), f"dense<{scalar(value, dtype)}>", (), dtype)
        return entry if not shape else self.broadcast(entry, shape, ())

    def array(self, array: Array) -> Tensor:
        """An array whose numbers are in the text."""
        dtype = DType(array.dtype.name)
        return self._once((array.shape, array.tobytes(), dtype), dense(array), array.shape, dtype)

    def _once(self, key: Hashable, text: str, shape: tuple[int, ...], dtype: DType) -> Tensor:
        if key not in self._known:
            tensor = self._known[key] = Tensor(self.fresh(), shape, dtype)
            self.first.append(f"{tensor.text} = stablehlo.constant {text} : {tensor.type}")
        return self._known[key]

    @contextmanager
    def _at_first(self) -> Iterator[None]:
        later_lines, self.lines = self.lines, self.first
        try:
            yield
        finally:
            self.lines = later_lines

    def measure(self, atom: Hashable, array: Tensor, axis: int) -> None:
        """Read the size `atom` from an axis of an argument."""
        with self._at_first():
            attributes = {"dimension": f"{axis} : i64"}
            measured = self.apply("get_dimension_size", [array], (), DType.INT32, attributes)
            self._known[Size.of(atom)] = self.apply("convert", [measured], (), DType.INT64)

    def measures(self, dim: Dim) -> bool:
        """Whether all atoms of a size were read from arguments."""
        return all(Size.of(atom) in self._known for atom in atoms(dim))

    def size(self, dim: Dim) -> Tensor:
        """A size as a scalar of 64 bits."""
        if isinstance(dim, int):
            return self.constant(dim, DType.INT64)
        if dim not in self._known:
            with self._at_first():
                self._known[dim] = self._sum(dim)
        return self._known[dim]

    def _sum(self, dim: Size) -> Tensor:
        terms = []
        for powers, factor in dim.ordered:
            factors = [self._atom(atom) for atom, power in powers for _ in range(power)]
            if factor != 1 or not factors:
                factors.append(self.size(factor))
            terms.append(reduce(lambda a, b: self._on_sizes("multiply", a, b), factors))
        return reduce(lambda a, b: self._on_sizes("add", a, b), terms)

    def _atom(self, atom: Hashable) -> Tensor:
        if not isinstance(atom, Opaque):
            return self._known[Size.of(atom)]
        first, second = map(self.size, atom.arguments)
        return _FUNCTIONS[atom.function](self._on_sizes, first, second)

    def _on_sizes(self, name: str, first: Tensor, second: Tensor) -> Tensor:
        return self.apply(name, [first, second], (), DType.INT64)

    def shape(self, shape: Shape) -> Tensor:
        """The sizes of a shape as an array."""
        if all(isinstance(dim, int) for dim in shape):
            return self.array(np.asarray(shape, "int64"))
        if shape not in self._known:
            sizes = [self.size(dim) for dim in shape]
            with self._at_first():
                parts = [self.apply("reshape", [size], (1,), DType.INT64) for size in sizes]
                if len(parts) > 1:
                    joined = {"dimension": "0 : i64"}
                    parts = [self.apply("concatenate", parts, (len(shape),), DType.INT64, joined)]
                self._known[shape] = parts[0]
        return self._known[shape]

    # operations that have two forms, for known and for symbolic sizes

    def broadcast(self, x: Tensor, shape: Shape, axes: Sequence[int]) -> Tensor:
        """`x` broadcast to a shape; its axes are `axes` of the result."""
        if x.shape == shape:
            return x
        attributes = {"broadcast_dimensions": integers(axes)}
        if all(isinstance(dim, int) for dim in shape):
            return self.apply("broadcast_in_dim", [x], shape, x.dtype, attributes)
        return self.apply("dynamic_broadcast_in_dim", [x, self.shape(shape)], shape, x.dtype, attributes)

    def reshape(self, x: Tensor, shape: Shape) -> Tensor:
        """The entries of `x` in their order, in another shape."""
        if x.shape == shape:
            return x
        if all(isinstance(dim, int) for dim in (*x.shape, *shape)):
            return self.apply("reshape", [x], shape, x.dtype)
        return self.apply("dynamic_reshape", [x, self.shape(shape)], shape, x.dtype)

    def iota(self, shape: Shape, axis: int, dtype: DType) -> Tensor:
        """The indices along an axis."""
        attributes = {"iota_dimension": f"{axis} : i64"}
        if all(isinstance(dim, int) for dim in shape):
            return self.apply("iota", [], shape, dtype, attributes)
        return self.apply("dynamic_iota", [self.shape(shape)], shape, dtype, attributes)


def _remainder(on: Callable[..., Tensor], first: Tensor, second: Tensor) -> Tensor:
    # the remainder has the sign of the divisor, which is positive
    return on("remainder", on("add", on("remainder", first, second), second), second)


_FUNCTIONS: Mapping[str, Callable[..., Tensor]] = {
    "mod": _remainder,
    "floordiv": lambda on, a, b: on("divide", on("subtract", a, _remainder(on, a, b)), b),
    "max": lambda on, a, b: on("maximum", a, b),
}
