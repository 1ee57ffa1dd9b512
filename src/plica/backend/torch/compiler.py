"""`TorchCompiler`: circuits, layers, parameters and initializers compiled, and the maps from each to what it became."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from typing import Any, Self, TypeAlias, TypeVar, final
from weakref import WeakSet, WeakValueDictionary

import torch
from torch import Tensor

from plica.arguments import found
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.constants import CircuitConstants
from plica.backend.torch.garbage import without_collection
from plica.backend.torch.leaves import LeafStore
from plica.backend.torch.parts import TorchInitializer, TorchInputLayer, TorchLayer, TorchParameter
from plica.backend.torch.program_module import ProgramModule
from plica.backend.torch.reals import real_dtype
from plica.constants.policy import FoldPolicy
from plica.constants.store.cache import FoldCache, checked_cache
from plica.errors import DTypeError, UnsupportedError
from plica.forks import ForkSafeLock
from plica.graph.limits import MAX_STEPS
from plica.graph.order import topological_order
from plica.graph.strategy import OptMatchStrategy, Strategy
from plica.ir.dtypes import as_dtype
from plica.logger import LOGGER
from plica.lower.arrays import InitializerRows
from plica.lower.checks import check_semiring, operands_of
from plica.lower.compiled import CircuitCompiler
from plica.lower.fold.groups import FoldedCircuit
from plica.lower.layer_map import CompiledLayer
from plica.lower.leaves import Leaf, Owners, Pointer, leaf_keys
from plica.lower.operators import Operator, OperatorMethods
from plica.lower.optimize import DEFAULT_RULES, Rules, program_rewriting
from plica.lower.parts import LayerPart, ParameterPart
from plica.lower.programs import Programs
from plica.lower.queries.score import Lowered
from plica.lower.registry import CompilationRules
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import Initializer
from plica.symbolic.layers import InnerLayer, InputLayer, Layer, LayerRow
from plica.symbolic.parameters import Parameter, ParameterInput, ParameterLike, TensorParameter
from plica.symbolic.semirings import Semiring

Part = TypeVar("Part", TorchLayer, TorchParameter)


@final
class CompiledCircuitsMap:
    """Symbolic and compiled circuits, each found from the other, by identity; and the layers of all of them.

    It keeps no compiled circuit alive.
    """

    def __init__(self) -> None:
        self._compiled: WeakValueDictionary[Circuit, TorchCircuit] = WeakValueDictionary()
        self._postponed: WeakSet[Circuit] = WeakSet()

    def add(self, circuit: Circuit, compiled: TorchCircuit) -> None:
        """Remember a pair."""
        self._compiled[circuit] = compiled
        self._postponed.discard(circuit)

    def postpone(self, circuit: Circuit) -> None:
        """Remember an operand that is compiled when it is asked for: all its tensors are there already."""
        self._postponed.add(circuit)

    def is_postponed(self, circuit: Circuit) -> bool:
        """Whether a circuit is still to be compiled."""
        return circuit in self._postponed

    def find(self, circuit: Circuit) -> TorchCircuit | None:
        """The compiled circuit of a symbolic one; None if there is none."""
        return self._compiled.get(circuit)

    def is_compiled(self, circuit: Circuit) -> bool:
        """Whether `circuit` was compiled, or is as soon as it is asked for."""
        return circuit in self._compiled or circuit in self._postponed

    def get_compiled_circuit(self, circuit: Circuit) -> TorchCircuit:
        """The compiled circuit of a symbolic one; KeyError if there is none."""
        return self._compiled[circuit]

    def has_symbolic(self, compiled: TorchCircuit) -> bool:
        """Whether `compiled` is in the map."""
        return self._compiled.get(compiled.symbolic) is compiled

    def get_symbolic_circuit(self, compiled: TorchCircuit) -> Circuit:
        """The symbolic circuit of a compiled one; KeyError if there is none."""
        if not self.has_symbolic(compiled):
            raise KeyError(compiled)
        return compiled.symbolic

    def get_compiled_layers(self, layer: Layer) -> dict[TorchCircuit, tuple[CompiledLayer, ...]]:
        """Where a symbolic layer is computed in each circuit that has it; KeyError if there is none."""
        having = [circuit for circuit in self._compiled.values() if circuit.layer_map.has(layer)]
        if not having:
            raise KeyError(layer)
        return {compiled: compiled.get_compiled_layers(layer) for compiled in having}


Lower: TypeAlias = Callable[[FoldedCircuit, Owners], Lowered]
"""Lowers a circuit, with the leaves that exist already."""


@final
class TorchCompiler(OperatorMethods):
    """Compiles circuits, and those that they were made from; they share the tensors of the leaves that they share.

    Args:
        semiring: A name or a row.
        fold: Compute alike layers as one.
        optimize: Rewrite circuits and parameters first.
        dtype: The dtype of real parameters; torch's default dtype at the time of compilation if None.
        rules: The four tables of rewrites; `DEFAULT_RULES.adding(...)` puts custom ones in front.
        strategy: Which of the matches of rules that overlap is applied.
        max_steps: How many times to go through the tables at most, and over a Program.
        compilation_rules: Registry entries for layers, parameters and initializers; Plica's own by default.
        policy: The budget of constant folding in eval mode; by default, for each Program, as much as its tensors, and
            one MiB.
        cache: The fold cache; by default that of all functions and circuits, which has no limit.

    Raises:
        UnsupportedError: There is no such semiring, or `dtype` is not floating.
        InputError: `cache` is no `FoldCache`.
        DTypeError: `rules` are no tables, `strategy` is no function, or `max_steps` no number of steps.
    """

    def __init__(
        self,
        semiring: str | Semiring = "lse-sum",
        fold: bool = True,
        optimize: bool = True,
        *,
        dtype: torch.dtype | str | None = None,
        rules: Rules = DEFAULT_RULES,
        strategy: Strategy = OptMatchStrategy.LARGEST_MATCH,
        max_steps: int = MAX_STEPS,
        compilation_rules: CompilationRules | None = None,
        policy: FoldPolicy | None = None,
        cache: FoldCache | None = None,
    ) -> None:
        self._compiler = CircuitCompiler(
            semiring,
            fold,
            optimize,
            rules=rules,
            strategy=strategy,
            max_steps=max_steps,
            compilation_rules=compilation_rules,
        )
        self.policy, self.cache = policy, checked_cache("TorchCompiler", cache)
        self.circuits = CompiledCircuitsMap()
        self._kept: dict[TorchCircuit, None] | None = {}
        self._compiling = ForkSafeLock()  # circuits that are compiled at one time would not share tensors
        self._dtype = None if dtype is None else getattr(torch, real_dtype(dtype).value)
        self._owners: dict[TensorParameter, Leaf] = {}
        self._store = LeafStore()
        self._layers: dict[Layer, TorchLayer | TorchInputLayer] = {}
        self._parameters: dict[ParameterLike, TorchParameter] = {}

    def compile(self, circuit: Circuit) -> TorchCircuit:
        """The compiled circuit, with its parameters initialized; the same object when called again.

        The circuits that it was made from (`circuit.operation`) are compiled before it; one without tensors of its own
        when it is asked for.

        Raises:
            UnsupportedError: The semiring cannot carry the circuit's numbers.
            StructuralPropertyError: Missing data is asked for and the circuit cannot sum it out.
        """
        if not isinstance(circuit, Circuit):
            advice = "make one by a template or plica.Circuit(...)"
            if isinstance(circuit, TorchCircuit):
                advice = "it is compiled already"
            elif callable(circuit):
                advice = "compile a function of arrays by plica.jit"
            raise DTypeError(f"compile takes a circuit, {found(circuit)}; {advice}.")
        compiled = self.circuits.find(circuit)
        if compiled is None:
            with self._compiling:
                *operands, _ = topological_order([circuit], operands_of)
                made = [self._added(operand) for operand in operands if not self._can_wait(operand)]
                compiled = self._added(circuit)
                compiled.remember_origin(self._keeping_none(), tuple(made))
        if self._kept is not None:
            self._kept[compiled] = None
        return compiled

    def _can_wait(self, operand: Circuit) -> bool:
        """Whether an operand need not be compiled now: it was made from others, which have all its tensors."""
        if operand.operation is None or self.circuits.find(operand) is not None:
            return False
        if not self.circuits.is_postponed(operand):
            if not self.has_tensors(operand):
                return False
            self.circuits.postpone(operand)
        return True

    def _added(self, circuit: Circuit) -> TorchCircuit:
        """The compiled circuit of one whose operands are compiled, or can be without new tensors."""
        compiled = self.circuits.find(circuit)
        if compiled is None:
            with (
                torch.inference_mode(False),
                without_collection(),
            ):  # the circuit may be trained outside of inference mode
                begin = time.perf_counter()
                compiled = self._compile(circuit)
                LOGGER.info("compiled %r in %.2f s", circuit, time.perf_counter() - begin)
            self.circuits.add(circuit, compiled)
        return compiled

    def get_compiled_circuit(self, circuit: Circuit) -> TorchCircuit:
        """The compiled circuit of a symbolic one; KeyError if there is none."""
        return (
            self.compile(circuit)
            if self.circuits.is_postponed(circuit)
            else self.circuits.get_compiled_circuit(circuit)
        )

    def _keeping_none(self) -> Self:
        """This compiler, but that it keeps no circuit alive; so circuits may refer to it without a cycle."""
        compiler = copy(self)
        compiler._kept = None
        compiler._layers, compiler._parameters = {}, {}
        return compiler

    def apply_operator(self, operator: Operator, *arguments: Any, **settings: Any) -> TorchCircuit:
        """The result of an operator, compiled: `OperatorMethods.apply_operator` says more."""
        given = [self.described(operator.name, argument) for argument in arguments]
        named = {name: self.described(operator.name, argument) for name, argument in settings.items()}
        return self.compile(operator.function(*given, **named, registry=self.compilation_rules.operators))

    def compile_apart(self, circuit: Circuit, semiring: Semiring, lower: Lower) -> tuple[TorchCircuit, Lowered]:
        """A circuit with the tensors of this compiler, in another number format, and a Program of it.

        It is compiled anew at each call. The circuits that it was made from are not compiled, and this compiler does
        not find it.
        """
        other = copy(self)
        other._compiler = copy(self._compiler)
        other._compiler.semiring = semiring
        with self._compiling, torch.inference_mode(False), without_collection():
            compiled, lowered = other._lowered(circuit, lower)
        assert lowered is not None, "there is a function that lowers"
        return compiled, lowered

    def has_tensors(self, circuit: Circuit) -> bool:
        """Whether all tensors of a described circuit have values here."""
        return all(tensor in self._owners for tensor in leaf_keys(self._compiler.resolver.circuit(circuit)))

    def described(self, what: str, argument: Any) -> Any:
        """An argument of an operator or a query, with described circuits in place of compiled ones.

        Raises:
            UnsupportedError: A compiled circuit was compiled elsewhere.
        """
        if isinstance(argument, list | tuple) and any(isinstance(item, TorchCircuit) for item in argument):
            return [self.described(what, item) for item in argument]
        if not isinstance(argument, TorchCircuit):
            return argument
        if not self.circuits.has_symbolic(argument):
            raise UnsupportedError(
                f"{what}: {argument.symbolic!r} was compiled in another context, or is a copy, so that the "
                "result would not have its tensors; give the context that compiled it, or compile it in this one: "
                "ctx.compile(circuit.symbolic)"
            )
        return argument.symbolic

    @property
    def semiring(self) -> Semiring:
        """How numbers are carried."""
        return self._compiler.semiring

    @property
    def compilation_rules(self) -> CompilationRules:
        """How layers, parameters and initializers are compiled."""
        return self._compiler.compilation_rules

    def _compile(self, circuit: Circuit) -> TorchCircuit:
        return self._lowered(circuit)[0]

    def _lowered(self, circuit: Circuit, lower: Lower | None = None) -> tuple[TorchCircuit, Lowered | None]:
        """The compiled circuit, and a Program whose leaves it has taken; without one, those of its scores."""
        resolved = self._compiler.resolver.circuit(circuit)
        shared = self._shared(leaf_keys(resolved))
        real = self._real(shared)
        owners = self._owners_of(leaf_keys(resolved))
        compiled = self._compiler.compile(circuit, as_dtype(real), self._device(shared), owners, resolved)
        module = TorchCircuit(compiled, real, self.compilation_rules.initializers.own, self._constants())
        lowered = None if lower is None else lower(compiled.folded, owners)
        self._adopt(module, shared, lowered)
        module.hold_modules()
        return module, lowered

    def _device(self, shared: list[Tensor]) -> str:
        return str(shared[0].device if shared else torch.get_default_device())

    def _shared(self, tensors: Iterable[TensorParameter]) -> list[Tensor]:
        """The folded tensors that hold some symbolic ones already."""
        return [self._store.tensors[leaf] for leaf in self._owners_of(tensors).values()]

    def _owners_of(self, tensors: Iterable[TensorParameter]) -> dict[TensorParameter, Leaf]:
        """The leaves of those symbolic tensors that have one."""
        return {tensor: self._owners[tensor] for tensor in tensors if tensor in self._owners}

    def _real(self, shared: list[Tensor]) -> torch.dtype:
        """The dtype of real tensors: that of the tensors that are shared, else that of the compiler."""
        default = self._dtype or torch.get_default_dtype()
        return next((tensor.dtype for tensor in shared if tensor.is_floating_point()), default)

    def _adopt(self, module: ProgramModule, shared: list[Tensor], lowered: Lowered | None = None) -> None:
        """Give a module its tensors, on the device of those that it shares."""
        if shared:
            module.to(shared[0].device)
        self._owners.update(module.adopt(self._store, lowered))

    def compile_layer(self, layer: Layer) -> TorchLayer | TorchInputLayer:
        """One layer alone, by the rule for its class; it shares its tensors with the circuits of the compiler.

        Raises:
            DTypeError: `layer` is no layer.
            UnsupportedError: There is no rule for its class, or the semiring cannot carry its numbers.
        """
        if not isinstance(layer, InputLayer | InnerLayer):
            raise DTypeError(f"compile_layer takes a layer, found {layer!r}; compile a circuit with `compile`.")
        with self._compiling, torch.inference_mode(False):  # as in `compile`
            if layer not in self._layers:
                self._layers[layer] = self._compile_layer(layer)
        return self._layers[layer]

    def _compile_layer(self, layer: InputLayer | InnerLayer) -> TorchLayer | TorchInputLayer:
        if isinstance(layer, InputLayer):
            return TorchInputLayer(self._compile(Circuit([layer], {}, [layer])))
        resolved = self._compiler.resolver.layer(layer)
        part = LayerPart.of(resolved, self.semiring, self.compilation_rules.layers.own)
        check_semiring(part.folded.described, self.semiring, part.folded.rows)
        return self._part(TorchLayer, part)

    def compile_parameter(self, parameter: ParameterLike) -> TorchParameter:
        """One parameter alone, node by node by their rules; it shares its tensors with the circuits of the compiler.

        Raises:
            DTypeError: `parameter` is no parameter.
            UnsupportedError: Nothing says what one of its leaves has.
        """
        graph = Parameter.from_input(parameter)
        with self._compiling, torch.inference_mode(False):  # as in `compile`
            if parameter not in self._parameters:
                part = ParameterPart.of(self._compiler.resolver.parameter(graph))
                self._parameters[parameter] = self._part(TorchParameter, part)
        return self._parameters[parameter]

    def _constants(self) -> CircuitConstants:
        return CircuitConstants(self.policy, self.cache)

    def _part(
        self,
        kind: Callable[[Any, torch.dtype, InitializerRows, CircuitConstants], Part],
        part: LayerPart | ParameterPart,
    ) -> Part:
        shared = self._shared(part.keys)
        part = replace(part, programs=Programs(self._owners_of(part.keys)))
        if self._compiler.optimize:
            how = self._compiler
            context = how.context(as_dtype(self._real(shared)), self._device(shared))
            rewriting = program_rewriting(how.rules, how.strategy, how.max_steps, context)
            part = replace(part, folded=replace(part.folded, rewriting=rewriting))
        compiled = kind(part, self._real(shared), self.compilation_rules.initializers.own, self._constants())
        self._adopt(compiled, shared)
        return compiled

    def compile_initializer(self, initializer: Initializer) -> TorchInitializer:
        """A function that fills a tensor in place, by the rule for the initializer's class.

        Raises:
            DTypeError: `initializer` is no initializer.
        """
        if not isinstance(initializer, Initializer):
            raise DTypeError(
                f"compile_initializer takes an initializer, found {initializer!r}; derive a custom class from "
                "plica.symbolic.initializers.Initializer, with a method `draw`."
            )
        return TorchInitializer(initializer, self.compilation_rules.initializers.own)

    def add_layer_rule(self, row: LayerRow, *, override: bool = False) -> None:
        """Compile layers of one more class: `compilation_rules.layers.add` says more."""
        self.compilation_rules.layers.add(row, override=override)

    def tensor_of(self, parameter: ParameterInput) -> tuple[Tensor, int]:
        """The folded tensor that holds a symbolic one, and its fold; KeyError if no compiled circuit has it."""
        tensor = self._compiler.resolver.tensor(parameter)
        if not isinstance(tensor, TensorParameter):
            raise KeyError(parameter)
        leaf = self._owners[tensor]
        return self._store.tensors[leaf], leaf.members.index(tensor)

    def view_of(self, *parameters: TensorParameter) -> Tensor:
        """The folds that hold symbolic tensors, `(len(parameters), *shape)`: a view where they are evenly spaced.

        Raises:
            GraphError: No compiled circuit has one of them, or they are folds of several tensors.
        """
        pointer = Pointer.to(parameters, self._owners)
        view: Tensor = pointer.view(self._store.tensors[pointer.leaf])
        return view

    def parameters_of(self, tensor: Tensor) -> tuple[TensorParameter, ...]:
        """The symbolic tensors of the folds of a tensor; KeyError if the tensor is none of this compiler's."""
        for leaf, folded in self._store.tensors.items():
            if folded is tensor:
                return leaf.members
        raise KeyError(
            "the tensor holds no parameters of circuits that this compiler compiled; pass one of their parameters"
        )
