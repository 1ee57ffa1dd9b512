"""`TorchCompiler`: symbolic circuits to compiled ones, the stages in order, and the map between the two."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.leaves import LeafStore
from plica.errors import UnsupportedError
from plica.ir.dtypes import DType, as_dtype
from plica.lower.checks import check_semiring
from plica.lower.fold.groups import fold_circuit, single_groups
from plica.lower.leaves import Leaf, Pointer, leaf_keys, owners_of
from plica.lower.optimize import DEFAULT_RULES, Rules, optimize_circuit
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import LAYER_ROWS, Layer, LayerRow
from plica.symbolic.parameters import TensorParameter
from plica.symbolic.semirings import Semiring


@final
class CompiledCircuitsMap:
    """Symbolic and compiled circuits, each found from the other, by identity."""

    def __init__(self) -> None:
        self._compiled: dict[Circuit, TorchCircuit] = {}

    def add(self, circuit: Circuit, compiled: TorchCircuit) -> None:
        """Remember a pair."""
        self._compiled[circuit] = compiled

    def is_compiled(self, circuit: Circuit) -> bool:
        """Whether `circuit` was compiled."""
        return circuit in self._compiled

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


@final
class TorchCompiler:
    """Compiles circuits; those of one compiler share the tensors of the leaves that they share.

    Args:
        semiring: A name or a row.
        fold: Compute alike layers as one.
        optimize: Rewrite circuits and parameters first.
        dtype: The dtype of real parameters; torch's default dtype at the time of compilation if None.
        rules: The tables of rewrites; `DEFAULT_RULES.adding(...)` has one's own in front.

    Raises:
        UnsupportedError: There is no such semiring, or `dtype` is not floating.
    """

    def __init__(
        self,
        semiring: str | Semiring = "lse-sum",
        fold: bool = True,
        optimize: bool = True,
        *,
        dtype: torch.dtype | str | None = None,
        rules: Rules = DEFAULT_RULES,
    ) -> None:
        self.semiring = Semiring.from_name(semiring) if isinstance(semiring, str) else semiring
        self.fold = fold
        self.optimize = optimize
        self.rules = rules
        self.circuits = CompiledCircuitsMap()
        self._dtype = None if dtype is None else _real_dtype(dtype)
        self._owners: dict[TensorParameter, Leaf] = {}
        self._store = LeafStore()
        self.layer_rows: dict[type[Layer], LayerRow] = {}

    def compile(self, circuit: Circuit) -> TorchCircuit:
        """The compiled circuit, with its parameters initialised; the same object when called again.

        Raises:
            UnsupportedError: The semiring cannot carry the circuit's numbers.
            StructuralPropertyError: Missing data is asked for and the circuit cannot sum it out.
        """
        if self.circuits.is_compiled(circuit):
            return self.circuits.get_compiled_circuit(circuit)
        with torch.inference_mode(False):  # whoever compiles there may train the circuit elsewhere
            compiled = self._compile(circuit)
        self.circuits.add(circuit, compiled)
        return compiled

    def _compile(self, circuit: Circuit) -> TorchCircuit:
        check_semiring(circuit, self.semiring)
        optimized = optimize_circuit(circuit, self.rules, semiring=self.semiring) if self.optimize else None
        lowered_form = circuit if optimized is None else optimized.circuit
        folded = (fold_circuit if self.fold else single_groups)(lowered_form, circuit, dict(self.layer_rows))
        shared = [self._store.tensors[self._owners[one]] for one in leaf_keys(circuit) if one in self._owners]
        real = next((one.dtype for one in shared if one.is_floating_point()), self._dtype or torch.get_default_dtype())
        compiled = TorchCircuit(folded, self.semiring, real, None if optimized is None else optimized.report)
        if shared:
            compiled.to(shared[0].device)
        lowered = compiled.lowered(compiled.usual_input(), self._owners)
        compiled.adopt(lowered, self._store)
        self._owners.update(owners_of(lowered.captured))
        return compiled

    def is_compiled(self, circuit: Circuit) -> bool:
        """Whether `circuit` was compiled here."""
        return self.circuits.is_compiled(circuit)

    def get_compiled_circuit(self, circuit: Circuit) -> TorchCircuit:
        """The compiled circuit of a symbolic one; KeyError if there is none."""
        return self.circuits.get_compiled_circuit(circuit)

    def has_symbolic(self, compiled: TorchCircuit) -> bool:
        """Whether `compiled` was compiled here."""
        return self.circuits.has_symbolic(compiled)

    def get_symbolic_circuit(self, compiled: TorchCircuit) -> Circuit:
        """The symbolic circuit of a compiled one; KeyError if there is none."""
        return self.circuits.get_symbolic_circuit(compiled)

    def add_layer_rule(self, row: LayerRow) -> None:
        """Compile layers of one more class.

        Raises:
            UnsupportedError: The class has a row already.
        """
        if row.layer in LAYER_ROWS or row.layer in self.layer_rows:
            raise UnsupportedError(f"{row.layer.__name__} has a row already; give your layer a class of its own.")
        self.layer_rows[row.layer] = row

    def tensor_of(self, parameter: TensorParameter) -> tuple[Tensor, int]:
        """The folded tensor that holds a symbolic one, and its fold; KeyError if no compiled circuit has it."""
        leaf = self._owners[parameter]
        return self._store.tensors[leaf], leaf.members.index(parameter)

    def view_of(self, *parameters: TensorParameter) -> Tensor:
        """The folds that hold symbolic tensors, `(len(parameters), *shape)`: a view where they are evenly spaced.

        Raises:
            GraphError: No compiled circuit has one of them, or they are folds of several tensors.
        """
        pointer = Pointer.to(parameters, self._owners)
        view: Tensor = pointer.view(self._store.tensors[pointer.leaf])
        return view

    def parameters_of(self, tensor: Tensor) -> tuple[TensorParameter, ...]:
        """The symbolic tensors of the folds of a folded one; KeyError if it is none of this compiler's."""
        for leaf, held in self._store.tensors.items():
            if held is tensor:
                return leaf.members
        raise KeyError("the tensor holds no parameters of the circuits of this compiler")


def _real_dtype(dtype: torch.dtype | str) -> torch.dtype:
    name = as_dtype(dtype)
    if name not in (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64):
        raise UnsupportedError(f"circuits compute in float32 or float64 (or float16), not in {dtype}.")
    return getattr(torch, name.value)  # type: ignore[no-any-return]
