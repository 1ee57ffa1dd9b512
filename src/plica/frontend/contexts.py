"""`PipelineContext`: the options that circuits are compiled with, and the compiled circuits.

    from plica.pipeline import PipelineContext
    with PipelineContext(semiring="lse-sum") as ctx:
        compiled = ctx.compile(circuit)

The functions of this module work in the innermost active context, or in one with the defaults.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from contextvars import ContextVar
from inspect import signature
from typing import TYPE_CHECKING, Any, final, overload

from plica.arguments import found, known, shown
from plica.errors import DTypeError, UnsupportedError
from plica.frontend.compiled_program import CompiledProgram
from plica.graph.limits import MAX_STEPS
from plica.graph.strategy import OptMatchStrategy, Strategy
from plica.ir.program import Bound, Program
from plica.lower.layer_map import CompiledLayer
from plica.lower.operators import Operator, OperatorMethods
from plica.lower.optimize import DEFAULT_RULES, Rules, program_rewriting
from plica.lower.queries.query import Query
from plica.lower.registry import CompilationRules
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import Initializer, InitializerRow
from plica.symbolic.layers import Layer, LayerRow, OperatorRow
from plica.symbolic.operators.registry import ACTIVE_REGISTRY
from plica.symbolic.parameters import ParameterLike, ParameterRow
from plica.symbolic.semirings import Semiring

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit
    from plica.backend.torch.compiler import TorchCompiler
    from plica.backend.torch.parts import TorchInitializer, TorchInputLayer, TorchLayer, TorchParameter

_BACKENDS = {"torch": ("plica.backend.torch.compiler", "TorchCompiler")}
_OF_PROGRAMS = ("consts", "backend")


@final
class PipelineContext(OperatorMethods):
    """Options and rules that compile circuits; also a context manager.

    The operators of `plica.symbolic.functional` are methods, which take compiled circuits of this context, or described
    ones, and give a compiled one.

    Args:
        backend: `"torch"`.
        semiring: A name or a row; logarithms by default.
        fold: Whether alike layers are computed as one batched layer.
        optimize: Whether circuits and parameters are rewritten first.
        rules: The four tables of rewrites; `DEFAULT_RULES.adding(...)` puts your own in front. By default the built-in
            ones.
        strategy: Which match is applied if matches of rules overlap.
        max_steps: The most times that the tables are applied to a circuit, or to a Program.
        options: Further options of the backend's compiler, such as `dtype`, and `policy` and `cache` for the values
            that eval mode keeps.

    Raises:
        UnsupportedError: There is no such backend or semiring, or the backend's library is not installed.
    """

    def __init__(
        self,
        backend: str = "torch",
        semiring: str | Semiring = "lse-sum",
        fold: bool = True,
        optimize: bool = True,
        *,
        rules: Rules = DEFAULT_RULES,
        strategy: Strategy = OptMatchStrategy.LARGEST_MATCH,
        max_steps: int = MAX_STEPS,
        **options: Any,
    ) -> None:
        compiler = _load_compiler(backend)
        if options:
            _check_known(compiler, options)
        self._rules = CompilationRules()
        how: dict[str, Any] = {"rules": rules, "strategy": strategy, "max_steps": max_steps}
        self._compiler: TorchCompiler = compiler(
            semiring=semiring, fold=fold, optimize=optimize, compilation_rules=self._rules, **how, **options
        )
        self.rewriting = program_rewriting(**how) if optimize else None  # of Programs that are compiled as such

    @staticmethod
    def from_default_backend() -> PipelineContext:
        """A context with all defaults."""
        return PipelineContext()

    def __enter__(self) -> PipelineContext:
        _activate((*_ACTIVE.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _activate(_ACTIVE.get()[:-1])

    def compile(self, circuit: Circuit) -> TorchCircuit:
        """Compile a circuit, and before it those that it was made from; a second call returns the same object."""
        return self._compiler.compile(circuit)

    def apply_operator(self, operator: Operator, *arguments: Any, **settings: Any) -> TorchCircuit:
        """The result of an operator, compiled: `OperatorMethods.apply_operator` says more."""
        return self._compiler.apply_operator(operator, *arguments, **settings)

    def compile_layer(self, layer: Layer) -> TorchLayer | TorchInputLayer:
        """Compile one layer alone: from the units of its inputs, or from data, to its units, each with a fold axis."""
        return self._compiler.compile_layer(layer)

    def compile_parameter(self, parameter: ParameterLike) -> TorchParameter:
        """Compile one parameter alone, to a module without inputs that returns its value, or a tuple of outputs."""
        return self._compiler.compile_parameter(parameter)

    def compile_initializer(self, initializer: Initializer) -> TorchInitializer:
        """Compile an initializer to a function that fills a tensor in place."""
        return self._compiler.compile_initializer(initializer)

    def add_layer_compilation_rule(self, row: LayerRow, *, override: bool = False) -> None:
        """Let this context compile the layers of a class by a row (`plica.symbolic.layers.rows`).

        Args:
            row: The row.
            override: Whether the row may replace another one, also a built-in one. Then optimizer rules for such layers
                no longer apply to them.

        Raises:
            DTypeError: `row` is no row of a layer, or is of another kind than the class needs.
            UnsupportedError: The class has a row already, and `override` is false.
        """
        self._rules.layers.add(row, override=override)

    def add_parameter_compilation_rule(self, row: ParameterRow, *, override: bool = False) -> None:
        """Evaluate an operation of parameters, or expand a leaf, by a row, in this context.

        Custom operations need no rule: they define `evaluate`. Nor do leaves under `ComposedParameter`.

        Args:
            row: An `OperationRow` or a `LeafRow`.
            override: Whether it may replace a row, or the definition of a built-in class.

        Raises:
            DTypeError: `row` is no `ParameterRow`.
            UnsupportedError: There is a row, or the class is a built-in one, and `override` is false.
        """
        self._rules.parameters.add(row, override=override)

    def add_initializer_compilation_rule(self, row: InitializerRow, *, override: bool = False) -> None:
        """Draw initial values by a row, in this context. Custom initializers need none: they define `draw`.

        Args:
            row: The row.
            override: Whether it may replace a row, or the definition of a built-in class.

        Raises:
            DTypeError: `row` is no `InitializerRow`.
            UnsupportedError: There is a row, or the class is a built-in one, and `override` is false.
        """
        self._rules.initializers.add(row, override=override)

    def add_operator_rule(self, row: OperatorRow, *, override: bool = False) -> None:
        """Apply an operator on circuits to layers of given classes by a row, in this context.

        Args:
            row: The row.
            override: Whether it may replace a row for the same operator and classes.

        Raises:
            DTypeError: `row` is no `OperatorRow`.
            UnsupportedError: There is a row already, and `override` is false.
        """
        self._rules.operators.add(row, override=override)

    def add_query_rule(self, query: Query[Any], *, override: bool = False) -> None:
        """Answer a query by its row (`plica.lower.queries.query`), in circuits that this context compiles from now on.

        Args:
            query: The row; `plica.queries.ask`, native files and the query's own function know it by its name.
            override: Whether it may replace a query of this name, also a built-in one.

        Raises:
            DTypeError: `query` is no `Query`, or an attribute of it has the wrong type.
            UnsupportedError: There is a query of this name, and `override` is false.
        """
        self._rules.queries.add(query, override=override)

    def get_operator_rule(self, operator: str, *layers: type[Layer]) -> OperatorRow:
        """The row of an operator for layers of given classes; KeyError if the context has none."""
        row = self._rules.operators.find((operator, layers))
        if row is None:
            raise KeyError((operator, layers))
        return row

    def get_compiled_layers(self, layer: Layer) -> dict[TorchCircuit, tuple[CompiledLayer, ...]]:
        """The folds that compute a symbolic layer, in each circuit compiled here that has it; KeyError if none has.

        The inverse is `get_symbolic_layers(group, fold)` of a compiled circuit.
        """
        return self._compiler.circuits.get_compiled_layers(layer)

    def __getitem__(self, circuit: Circuit) -> TorchCircuit:
        return self.get_compiled_circuit(circuit)

    def is_compiled(self, circuit: Circuit) -> bool:
        """Whether `circuit` was compiled here."""
        return self._compiler.circuits.is_compiled(circuit)

    def has_symbolic(self, compiled: TorchCircuit) -> bool:
        """Whether `compiled` was compiled here."""
        return self._compiler.circuits.has_symbolic(compiled)

    def get_compiled_circuit(self, circuit: Circuit) -> TorchCircuit:
        """The compiled circuit of a symbolic one; KeyError if there is none."""
        return self._compiler.get_compiled_circuit(circuit)

    def get_symbolic_circuit(self, compiled: TorchCircuit) -> Circuit:
        """The symbolic circuit of a compiled one; KeyError if there is none."""
        return self._compiler.circuits.get_symbolic_circuit(compiled)


_ACTIVE: ContextVar[tuple[PipelineContext, ...]] = ContextVar("plica_pipeline", default=())
"""The contexts that a thread, or a task, is in; the innermost one last."""


def _activate(contexts: tuple[PipelineContext, ...]) -> None:
    """Make some contexts the active ones; operators on circuits use the rules of the innermost one."""
    _ACTIVE.set(contexts)
    ACTIVE_REGISTRY.set(contexts[-1]._rules.operators if contexts else None)


@overload
def compile(circuit: Circuit, ctx: PipelineContext | None = None, **options: Any) -> TorchCircuit: ...  # noqa: A001


@overload
def compile(circuit: Program | Bound, ctx: PipelineContext | None = None, **options: Any) -> CompiledProgram: ...  # noqa: A001


def compile(circuit: Any, ctx: PipelineContext | None = None, **options: Any) -> Any:  # noqa: A001
    """Compile a circuit in `ctx`, else in the active context, else in a new one with `options`.

    A Program is compiled as by `plica.jit`, and `options` are those of `jit`: `consts` and `backend`. The context
    provides the rules on Programs, their strategy and the number of steps.

    Raises:
        UnsupportedError: `options` were given together with a context, which has its own.
        DTypeError: There is no such option.
    """
    if isinstance(circuit, Program | Bound):
        context = given_context(ctx)
        unknown = [name for name in options if name not in _OF_PROGRAMS]
        if unknown:
            raise DTypeError(
                f"compile: a Program takes {' and '.join(_OF_PROGRAMS)}, found {', '.join(unknown)}; give rules to a "
                "PipelineContext, and leave out options of circuits."
            )
        return CompiledProgram(circuit, rewriting=None if context is None else context.rewriting, **options)
    return _context(ctx, options).compile(circuit)


def compile_layer(layer: Layer, ctx: PipelineContext | None = None, **options: Any) -> TorchLayer | TorchInputLayer:
    """`PipelineContext.compile_layer` in `ctx`, else in the active context, else in a new one with `options`."""
    return _context(ctx, options).compile_layer(layer)


def compile_parameter(parameter: ParameterLike, ctx: PipelineContext | None = None, **options: Any) -> TorchParameter:
    """`PipelineContext.compile_parameter` in `ctx`, else in the active context, else in a new one with `options`."""
    return _context(ctx, options).compile_parameter(parameter)


def compile_initializer(
    initializer: Initializer, ctx: PipelineContext | None = None, **options: Any
) -> TorchInitializer:
    """`PipelineContext.compile_initializer` in `ctx`, else in the active context, else in a new one with `options`."""
    return _context(ctx, options).compile_initializer(initializer)


def _check_known(compiler: type, options: Iterable[str]) -> None:
    names = [name for name in signature(compiler).parameters if name != "compilation_rules"]
    unknown = [name for name in options if name not in names]
    if unknown:
        raise DTypeError(
            f"PipelineContext: there is no option {unknown[0]!r}; there are backend, {', '.join(names)}. To move a "
            'compiled circuit, use circuit.to("cuda")'
        )


def _context(ctx: PipelineContext | None, options: dict[str, Any]) -> PipelineContext:
    """The context that a function works in.

    Raises:
        UnsupportedError: `options` were given together with a context, which has its own.
    """
    context = given_context(ctx)
    if context is not None and options:
        raise UnsupportedError(
            f"the options {', '.join(options)} belong to the context; give them to PipelineContext(...) instead."
        )
    return context or PipelineContext(**options)


def given_context(ctx: PipelineContext | None) -> PipelineContext | None:
    """The context that was given, else the active one."""
    if not isinstance(ctx, PipelineContext | None):
        raise DTypeError(f"ctx must be a PipelineContext, {found(ctx)}")
    return (_ACTIVE.get() or (None,))[-1] if ctx is None else ctx


def has_context(ctx: PipelineContext | None) -> bool:
    """Whether there is a context: the one that was given, or an active one."""
    return given_context(ctx) is not None


def _load_compiler(backend: str) -> type[TorchCompiler]:
    if not known(backend, _BACKENDS):
        raise UnsupportedError(f"there is no backend {shown(backend)}; there are {', '.join(_BACKENDS)}.")
    module, name = _BACKENDS[backend]
    compiler: type[TorchCompiler] = getattr(importlib.import_module(module), name)
    return compiler
