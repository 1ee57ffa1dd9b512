"""`TorchCircuit`: a compiled circuit, an `nn.Module` whose forward pass is a generated function."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol, final

import torch
from torch import Tensor, nn

from plica.arguments import seed as checked_seed
from plica.backend.torch.constants import CircuitConstants
from plica.backend.torch.data import as_tensor
from plica.backend.torch.explain import explain, explain_layer
from plica.backend.torch.given import NOTHING_GIVEN, GivenTensors
from plica.backend.torch.logs import is_abstract
from plica.backend.torch.record import record_call
from plica.backend.torch.scoring import ScoringModule
from plica.backend.torch.sharding import shard
from plica.constants.report import FoldReport
from plica.errors import DTypeError, InputError, UnsupportedError
from plica.graph.listing import Listing
from plica.ir.dtypes import as_dtype
from plica.ir.program import Program
from plica.lower.arrays import CircuitArrays, InitializerRows
from plica.lower.compiled import CompiledCircuit
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.layer_map import CompiledLayer, LayerMap
from plica.lower.leaves import Owners, name_of
from plica.lower.operators import Operator, OperatorMethods
from plica.lower.queries.methods import QueryMethods
from plica.lower.queries.score import Lowered
from plica.lower.registry import CompilationRules
from plica.notebooks import explorer_html
from plica.symbolic.circuit import Circuit, StructuralProperties
from plica.symbolic.layers import Layer
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Semiring
from plica.tracing.scope import current_trace
from plica.tracing.tracer import Tracer

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


class Compiler(Protocol):
    """The part of `TorchCompiler` that compiled circuits use."""

    @property
    def compilation_rules(self) -> CompilationRules:
        """How layers, parameters and initializers are compiled."""

    def apply_operator(self, operator: Operator, *arguments: Any, **settings: Any) -> TorchCircuit:
        """The result of an operator, compiled."""

    def compile_apart(
        self, circuit: Circuit, semiring: Semiring, lower: Callable[[FoldedCircuit, Owners], Lowered]
    ) -> tuple[TorchCircuit, Lowered]:
        """A circuit with the tensors of the compiler, in another number format, and a Program of it."""

    def has_tensors(self, circuit: Circuit) -> bool:
        """Whether all tensors of a described circuit have values here."""

    def described(self, what: str, argument: Any) -> Any:
        """An argument of an operator or a query, with described circuits in place of compiled ones."""


@final
class TorchCircuit(ScoringModule, OperatorMethods, QueryMethods):
    """A compiled circuit with its tensors; made by `TorchCompiler.compile`.

    The operators of `plica.symbolic.functional` are methods: `circuit.integrate()` compiles the integral where this
    circuit was compiled, and the two share tensors. So are the commonest questions of `plica.queries`.

    Args:
        compiled: The circuit as it is computed.
        dtype: The dtype of its real tensors, and of its results.
        drawing: The registry entries of the context for initializers.
        constants: The cache of what eval mode computes once from the tensors.

    Attributes:
        saved_with: Entries of its model file beside the circuit, which the next file repeats.
    """

    def __init__(
        self,
        compiled: CompiledCircuit,
        dtype: torch.dtype,
        drawing: InitializerRows,
        constants: CircuitConstants | None = None,
    ) -> None:
        super().__init__(compiled, dtype, drawing, CircuitConstants() if constants is None else constants)
        self.saved_with: Mapping[str, Any] = {}
        self._needs = bool(self._givable.needed)
        self.queries: dict[Hashable, Any] = {}  # the lowered queries by key; `queries` fills it
        self._compiler: Compiler | None = None
        self._operands: tuple[TorchCircuit, ...] = ()

    is_operand = True
    backend = "torch"  # the library of its arrays; by it `plica.queries` finds the functions that answer
    _forgotten = (*ScoringModule._forgotten, "queries")

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_compiler": None, "_operands": ()}  # a copy has tensors of its own

    def remember_origin(self, compiler: Compiler, operands: tuple[TorchCircuit, ...]) -> None:
        """Remember the compiler, and keep the compiled operands of `symbolic.operation` alive."""
        self._compiler, self._operands = compiler, operands

    def apply_operator(self, operator: Operator, *arguments: Any, **settings: Any) -> TorchCircuit:
        """The result of an operator, compiled as this circuit was: `OperatorMethods.apply_operator` says more.

        Raises:
            UnsupportedError: The circuit is a copy, or another operand was compiled elsewhere.
        """
        result: TorchCircuit = self.compiler(operator.name).apply_operator(operator, *arguments, **settings)
        return result

    def refuse_if_sharded(self, what: str) -> None:
        """Raise if the tensors are divided among processes, so that none has them whole.

        Raises:
            UnsupportedError: They are.
        """
        if self.leaves.is_sharded:
            raise UnsupportedError(
                f"{what}: the tensors of the circuit are divided among processes; save it, and load the file into a "
                "circuit that is not"
            )

    def compiler(self, what: str) -> Compiler:
        """The compiler that compiled it, which has its tensors.

        Args:
            what: The operator or the query that needs it, as the subject of the message.

        Raises:
            UnsupportedError: The circuit is a copy.
        """
        self.refuse_if_sharded(what)
        if self._compiler is None:
            raise UnsupportedError(
                f"{what}: the circuit is a copy, so that no context has its tensors; compile a circuit of "
                "its own, plica.compile(circuit.symbolic), and load_state_dict(circuit.state_dict())"
            )
        return self._compiler

    def shard(self, mesh: DeviceMesh, at_most: int | None, seed: int) -> None:
        """Divide the leaves among processes: `plica.distributed.shard` says more."""
        if self.compiled.opaque:
            raise UnsupportedError(
                "shard: the circuit holds modules of yours, which would be divided with it; train it without shard"
            )
        is_meta = self.leaves.device.type == "meta"
        shard(self, self.leaves, self.program, mesh, at_most)
        self.constants.forget()
        self.forget_functions()
        if is_meta:
            self.reset_parameters(seed)

    @property
    def layer_map(self) -> LayerMap:
        """Where each layer as it was described is computed."""
        return self.compiled.layer_map

    @property
    def scope(self) -> Scope:
        """The variables."""
        return self.symbolic.scope

    @property
    def data_scope(self) -> Scope:
        """The variables that have a column in the data: those of the circuits that this one was made from."""
        return self.symbolic.data_scope

    @property
    def num_variables(self) -> int:
        """The number of variables."""
        return len(self.scope)

    @property
    def properties(self) -> StructuralProperties:
        """The structural properties of the circuit."""
        return self.symbolic.properties

    @property
    def layers(self) -> Listing[FoldedLayer]:
        """The layers as compiled, each after its inputs."""
        return Listing(self.folded.groups)

    @property
    def inputs(self) -> Listing[FoldedLayer]:
        """The layers as compiled that read no other layer, in order."""
        return Listing(group for group in self.folded.groups if group.kind == "input")

    def topological_ordering(self) -> Listing[FoldedLayer]:
        """The layers as compiled, each after its inputs."""
        return self.layers

    def forward(self, x: Tensor | None = None, parameters: Mapping[str, Tensor] | None = None) -> Tensor:
        """The circuit's value for each row of data, computed in its own dtype: under autocast too.

        Args:
            x: `(B, D)`, column v is variable v, up to the last of `data_scope`; columns outside `scope` are ignored.
                Integers, or floats where NaN means missing (the variable is summed out): a tensor, an array, or
                lists. Nothing for a circuit without variables. A function that `plica.jit` traces captures a tensor of
                its own by reference.
            parameters: Tensors that stand for leaves in this call alone, by the keys of the state dict: of the shape
                of the leaf, or `(B, *shape)` with numbers for each row.

        Shapes: (B, outputs, units). Without variables (outputs, units), unless parameters are given for each row.
        Values: In the semiring: logarithms under `lse-sum`, ordinary numbers under `sum-product`.

        Raises:
            InputError: The width is wrong or, on the CPU, an entry is no category of its variable. On other devices
                such a row is NaN (see `check`). Or `parameters` are none of the circuit's, or of other shapes.
            UnsupportedError: On the CPU, a weight is negative and the semiring carries no such numbers. On other
                devices the logarithm of one that is given is NaN.
        """
        trace = None if torch.compiler.is_compiling() else current_trace()
        if trace is not None or isinstance(x, Tracer):
            self.refuse_if_sharded("a function that plica.jit traces")
            captured: Any = x if trace is None or x is None or isinstance(x, Tracer) else trace.capture(x)
            recorded: Tensor = record_call(self.symbolic, self.leaves, self._traced, captured, parameters)
            return recorded
        if self.leaves.is_autocast:  # what weights prove holds in the circuit's own dtype
            with torch.autocast(self.leaves.device.type, enabled=False):
                return self.forward(x, parameters)
        given = NOTHING_GIVEN if parameters is None and not self._needs else self.take_parameters(parameters)
        if x is None or self._data.width == 0:
            return self._constant(x, given)
        x = self.converted(x)
        unknown = is_abstract(x)
        if given.names:
            given.check_rows(len(x))
            unknown = unknown or given.is_abstract
        watch = None if unknown else self.constants.watching(self.leaves, training=self.training)
        if not x.is_cpu or unknown:
            return self._score(self._carrier(given.names), x, watch, given)
        semiring = self._carrier(given.names, some_zero=self._check_weights(watch, given))
        result = self._score(semiring, x, watch, given)
        # A row with an entry that is no state is NaN: looking at the small result costs less than looking at the data.
        if (watch is not None or not is_abstract(result)) and _may_have_nan(result.detach()):
            self.checked(x)
        return result

    def arrays(self) -> CircuitArrays:
        """The circuit with its tensors as they are now, in whose memory the arrays may lie."""
        self.refuse_if_sharded("arrays")
        leaves = [(leaf, tensor.detach().cpu().numpy()) for leaf, tensor in self.leaves.items()]
        return CircuitArrays(self.compiled, leaves, as_dtype(self.dtype), self.saved_with.get("encoding"))

    def take_parameters(self, parameters: Mapping[str, Tensor] | None) -> GivenTensors:
        """The parameters of a call, checked: for this circuit's Programs and for those of its queries.

        Raises:
            InputError: There is no such leaf, one without a value of its own is not given, tensors are for different
                numbers of rows, or one is on another device.
            ShapeError: A tensor has another shape than its leaf.
            DTypeError: A tensor has numbers of another kind, or of more digits than the circuit.
        """
        return self._givable.take({} if parameters is None else parameters, self.dtype, self.leaves.device)

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> TorchCircuit:
        """The circuit with tensors in place of some of its leaves, one set for all rows: what queries are asked of.

        It shares Programs, modules and all other tensors with this one, and gradients reach the given tensors. Ask
        queries of it, but do not train, move or save it. It reads the given tensors as they are now, and so the
        tensors of layers that are folded with them: make another circuit when one of them has changed.

        Args:
            parameters: Tensors by the keys of the state dict, of the shapes of their leaves.

        Raises:
            InputError: As for calls, or a tensor has sets of numbers for each row.
        """
        self.refuse_if_sharded("with_parameters")
        given = self.take_parameters(parameters)
        by_row = [name for name, is_by_row in given.names if is_by_row]
        if by_row:
            raise InputError(
                f"parameters[{by_row[0]!r}] has a set of numbers for each row, and with_parameters takes one set for "
                "all rows; run the query for each row alone, or give them in a call: circuit(x, parameters=...)."
            )
        alone = {name_of(self.compiled.keys[tensor]): leaf for tensor, leaf in self.compiled.leaves_alone.items()}
        circuit = copy(self)
        leaves = self.leaves.with_folds(self._givable.folds(given), alone)
        circuit._modules = {**self._modules, "leaves": leaves}
        circuit._givable, circuit._needs = self._givable.with_all(), False
        circuit._functions, circuit.queries = self._functions, self.queries
        circuit.constants = copy(self.constants)
        return circuit

    def check(self, x: Tensor, parameters: Mapping[str, Tensor] | None = None) -> None:
        """Raise where `x` does not fit the circuit, on any device (this waits for the device).

        Args:
            x: `(B, D)`.
            parameters: Tensors that stand for leaves, as in `forward`.

        Raises:
            InputError: The width is wrong or an entry is no category of its variable; the first one is named.
            UnsupportedError: A learned weight has become negative, and the semiring carries no such numbers.
        """
        x = self.checked(x)
        given = self.take_parameters(parameters)
        given.check_rows(len(x))
        self._check_weights(None, given)

    def converted(self, x: Tensor) -> Tensor:
        """`x`, of any library, as a tensor in a dtype that Programs have, of a shape that fits the circuit."""
        if not isinstance(x, Tensor):
            x = as_tensor(x).to(self.leaves.device)
        x = self._data.take(x)
        if x.is_meta and self.leaves.device.type != "meta":
            raise InputError(
                f"the data is on the meta device, where tensors have no numbers, and the circuit on "
                f"{self.leaves.device}; give the numbers, or move the circuit too: circuit.to('meta')."
            )
        return x

    def checked(self, x: Tensor, semiring: Semiring | None = None) -> Tensor:
        """`x` in a dtype that Programs have; raises as `check` does, of what computes in `semiring` (else its own)."""
        x = self.converted(x)
        self._data.check(x, self.dtype, semiring or self._semiring)
        return x

    def reset_parameters(self, seed: int | None = None) -> None:
        """Fill every tensor anew from its initializer.

        Args:
            seed: Draws depend on it alone; by default it is drawn from torch's global generator, so that
                `torch.manual_seed` decides.
        """
        self._fill(self.leaves.items(), None if seed is None else checked_seed("reset_parameters", seed))

    def hold_modules(self) -> None:
        """Take the modules of a user's own among the leaves.

        Raises:
            DTypeError: A layer holds something else.
        """
        for key, module in self.compiled.opaque.items():
            if not isinstance(module, nn.Module):
                raise DTypeError(f"{key}: a ModuleLayer runs a torch.nn.Module here, found {type(module).__name__}.")
            self.leaves.add_own_module(name_of(key), key, module)

    def get_compiled_layers(self, layer: Layer) -> tuple[CompiledLayer, ...]:
        """Where a layer of the circuit as it was described is computed: `LayerMap.get_compiled_layers` says more."""
        return self.layer_map.get_compiled_layers(layer)

    def get_symbolic_layers(self, group: int, fold: int) -> dict[Layer, tuple[str, ...]]:
        """The layers as they were described that one fold of a group computes, each with its roles in it."""
        return self.layer_map.get_symbolic_layers(group, fold)

    def explain(self, layer: Layer | None = None) -> str:
        """The work of the compiler: groups of layers, rules applied, sizes; or the way of one layer through it.

        Args:
            layer: A layer of the circuit as it was described, which is followed through every stage.
        """
        if layer is not None:
            key = self._key(self._semiring, self.usual_input(), self._givable.usual, complete=False)
            return explain_layer(self.compiled, self._lower(key).program, layer)
        cached, lowered = self.constants.num_bytes, self.lowered(self.usual_input())
        return explain(self.compiled, lowered, self.leaves, self.dtype, cached, self.constant_report())

    def constant_report(self) -> FoldReport:
        """Which values of `program` that depend on tensors alone eval mode caches, and why."""
        return self.constants.report(self._usual_key, self.program)

    def _repr_html_(self) -> str:
        """The explorer of the circuit, for notebooks."""
        return explorer_html(self)

    def extra_repr(self) -> str:
        """One line for `print(circuit)`."""
        return f"{self.symbolic!r}, semiring={self._semiring.name}"

    def _traced(self, input_dtype: torch.dtype | None) -> Program:
        """The Program that traced functions call, for data of a dtype; of None, without data.

        Raises:
            InputError: A leaf has no value of its own.
        """
        self.take_parameters(None)
        return self.prepared(self.usual_input() if input_dtype is None else input_dtype).program

    def _constant(self, x: Tensor | None, given: GivenTensors) -> Tensor:
        if x is not None:
            raise InputError("the circuit has no variables left; call it without an argument: circuit().")
        if self._data.width:
            raise InputError(
                f"the circuit has {self.num_variables} variables; call it with data of shape (B, {self._data.width})."
            )
        unknown = given.is_abstract or is_abstract(self._real)
        watch = None if unknown else self.constants.watching(self.leaves, training=self.training)
        some_zero = not self._real.is_cpu or unknown or self._check_weights(watch, given)
        result = self._of_no_data(self._carrier(given.names, some_zero=some_zero), watch, given)
        rows = given.num_rows  # of leaves that no output depends on, maybe
        return result if rows is None else result.expand(rows, *result.shape[1:]).contiguous()


def _may_have_nan(x: Tensor) -> bool:
    """Whether a number is NaN; maybe also where infinities of both signs are there."""
    total = (x if x.numel() == 1 else x.sum()).item()
    return bool(total != total)
