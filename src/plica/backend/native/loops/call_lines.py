"""Lines of LLVM that call functions written for a processor, and the modules that these functions are in."""

from collections.abc import Callable
from dataclasses import dataclass, field

from plica.backend.native.loops.functions import Registers
from plica.backend.native.loops.lines import Lines
from plica.backend.native.loops.nest import Kernel, Product, WriteKernel
from plica.backend.native.loops.support import CALLED, PRODUCTS
from plica.ir.dtypes import DType

LOOP = "loop."
"""How the names of functions in modules of outlined loops begin."""

WriteProduct = Callable[[DType, set[str], Registers], str]
"""Writes the function of a product of matrices of a dtype, and adds to declarations of intrinsics."""


@dataclass(frozen=True, slots=True)
class Module:
    """A module of outlined loops.

    Args:
        declared: Declarations of intrinsics.
        functions: Functions that they call, by name.
        loops: The functions that the outlined loops became.
    """

    declared: set[str] = field(default_factory=set)
    functions: dict[str, str] = field(default_factory=dict)
    loops: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Its lines, but for metadata."""
        return [*sorted(self.declared), CALLED, *self.functions.values(), *self.loops]


@dataclass(frozen=True, slots=True)
class Outlined:
    """The two modules of outlined loops.

    Args:
        hot: The module of loops with the most work.
        warm: The module of other outlined loops.
        heads: The declarations of their functions.
    """

    hot: Module = field(default_factory=Module)
    warm: Module = field(default_factory=Module)
    heads: list[str] = field(default_factory=list)


class CallLines(Lines):
    """The lines of a function, with calls of functions.

    Args:
        module: Where functions go.
        registers: The vector registers of the processor.
        write_product: Writes the function of a product of matrices.
        is_split: Whether hot loops have a module of their own; then kernels are there too.

    Attributes:
        outlined: The modules of outlined loops.
    """

    def __init__(self, module: Module, registers: Registers, write_product: WriteProduct, *, is_split: bool) -> None:
        super().__init__(module.declared, module.functions)
        self._write_product, self._registers, self._is_split = write_product, registers, is_split
        self._kernels: dict[WriteKernel, str] = {}
        self.outlined = Outlined()

    def _product(self, statement: Product) -> None:
        """A call of the function for products, which each module that has a product defines."""
        dtype = statement.target[0].dtype
        buffers = ", ".join(
            f"ptr {self._address(*part)}" for part in (statement.target, statement.left, statement.right)
        )
        sizes = ", ".join(f"i64 {self._index(size)}" for size in (*statement.sizes, *statement.widths))
        turned = ", ".join(f"i1 {str(flag).lower()}" for flag in statement.turned)
        if PRODUCTS[dtype] not in self.functions:
            self.functions[PRODUCTS[dtype]] = self._write_product(dtype, self.declared, self._registers)
        self._put(f"call void @{PRODUCTS[dtype]}({buffers}, {sizes}, {turned})")

    def _kernel(self, statement: Kernel) -> None:
        """A call of a function, which is in the module of hot loops if there is one."""
        if statement.write not in self._kernels:
            self._kernels[statement.write] = self._kernel_name(statement)
        pointers = [self._address(*part) for part in zip(statement.buffers, statement.starts, strict=True)]
        operands = [
            *(f"ptr {pointer}" for pointer in pointers),
            *(f"i64 {self._index(size)}" for size in statement.sizes),
        ]
        self._put(f"call void @{self._kernels[statement.write]}({', '.join(operands)})")

    def _kernel_name(self, statement: Kernel) -> str:
        """Write the function of a kernel, and return its name."""
        if not self._is_split:
            name = f"kernel{len(self._kernels)}"
            self.functions[name] = statement.write(name, self.declared, self._registers)
            return name
        name, hot = f"{LOOP}{len(self.outlined.heads)}", self.outlined.hot
        text = statement.write(name, hot.declared, self._registers)
        hot.loops.append(text.replace(f"define internal void @{name}(", f"define void @{name}("))
        types = ["ptr"] * len(statement.buffers) + ["i64"] * len(statement.sizes)
        self.outlined.heads.append(f"declare void @{name}({', '.join(types)})")
        return name
