"""`PipelineContext`: how circuits are compiled, and the circuits that were compiled so.

    from plica.pipeline import PipelineContext
    with PipelineContext(semiring="lse-sum") as ctx:
        compiled = ctx.compile(circuit)

The functions of this module work in the innermost active context, or in one with the defaults.
"""

from __future__ import annotations

import importlib
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, final

from plica.errors import UnsupportedError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import LayerRow
from plica.symbolic.semirings import Semiring

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit
    from plica.backend.torch.compiler import TorchCompiler

_BACKENDS = {"torch": ("plica.backend.torch.compiler", "TorchCompiler")}
_EXTRAS = {"torch": "torch"}


@final
class PipelineContext:
    """One way to compile circuits; also a context manager.

    Args:
        backend: `"torch"`.
        semiring: A name or a row; logarithms by default.
        fold: Compute alike layers as one.
        optimize: Rewrite circuits and parameters first.
        options: Further options of the backend's compiler, such as `dtype`.

    Raises:
        UnsupportedError: There is no such backend or semiring, or the backend's library is not installed.
    """

    def __init__(
        self,
        backend: str = "torch",
        *,
        semiring: str | Semiring = "lse-sum",
        fold: bool = True,
        optimize: bool = True,
        **options: Any,
    ) -> None:
        compiler = _load_compiler(backend)
        self._compiler: TorchCompiler = compiler(semiring=semiring, fold=fold, optimize=optimize, **options)
        self._tokens: list[Token[PipelineContext | None]] = []

    def __enter__(self) -> PipelineContext:
        self._tokens.append(_ACTIVE.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _ACTIVE.reset(self._tokens.pop())

    def compile(self, circuit: Circuit) -> TorchCircuit:
        """The compiled circuit; compiled once, then the same object."""
        return self._compiler.compile(circuit)

    def add_layer_compilation_rule(self, row: LayerRow) -> None:
        """Compile layers of a class of your own by its row (`plica.symbolic.layers.rows`).

        Parameter operations and initializers of your own need no rule: they bring `evaluate` and `draw`.

        Raises:
            UnsupportedError: The class has a row already.
        """
        self._compiler.add_layer_rule(row)

    def __getitem__(self, circuit: Circuit) -> TorchCircuit:
        return self.get_compiled_circuit(circuit)

    def is_compiled(self, circuit: Circuit) -> bool:
        """Whether `circuit` was compiled here."""
        return self._compiler.is_compiled(circuit)

    def has_symbolic(self, compiled: TorchCircuit) -> bool:
        """Whether `compiled` was compiled here."""
        return self._compiler.has_symbolic(compiled)

    def get_compiled_circuit(self, circuit: Circuit) -> TorchCircuit:
        """The compiled circuit of a symbolic one; KeyError if there is none."""
        return self._compiler.get_compiled_circuit(circuit)

    def get_symbolic_circuit(self, compiled: TorchCircuit) -> Circuit:
        """The symbolic circuit of a compiled one; KeyError if there is none."""
        return self._compiler.get_symbolic_circuit(compiled)


_ACTIVE: ContextVar[PipelineContext | None] = ContextVar("plica_pipeline", default=None)


def compile(circuit: Circuit, ctx: PipelineContext | None = None, **options: Any) -> TorchCircuit:  # noqa: A001
    """Compile `circuit` in `ctx`, else in the active context, else in a new one with `options`.

    Raises:
        UnsupportedError: `options` were given beside a context that has its own.
    """
    context = ctx or _ACTIVE.get()
    if context is not None and options:
        raise UnsupportedError(
            f"the options {', '.join(options)} belong to the context; give them to PipelineContext(...) instead."
        )
    return (context or PipelineContext(**options)).compile(circuit)


def _load_compiler(backend: str) -> type[TorchCompiler]:
    if backend not in _BACKENDS:
        raise UnsupportedError(f"there is no backend {backend!r}; there are {', '.join(_BACKENDS)}.")
    module, name = _BACKENDS[backend]
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "plica":
            raise
        raise UnsupportedError(
            f"the backend {backend!r} needs {error.name}; install it with `pip install plica[{_EXTRAS[backend]}]`."
        ) from None
    compiler: type[TorchCompiler] = getattr(loaded, name)
    return compiler
