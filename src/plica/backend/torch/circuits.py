"""`TorchCircuit`: a compiled circuit, an `nn.Module` whose forward pass is a generated function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, final

import torch
from torch import Tensor, nn

from plica.backend.torch.emit import emit, source
from plica.backend.torch.leaves import Leaves, initialize, new_tensor
from plica.backend.torch.logs import is_abstract
from plica.errors import DTypeError, InputError
from plica.ir.dtypes import as_dtype
from plica.ir.program import Program
from plica.lower.fold.explain import explain_folds
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.leaves import Constant, Leaf, Owners, leaf_keys, owners_of
from plica.lower.optimise import Report
from plica.lower.score import Lowered, input_width, lower_score, state_limits
from plica.passes.memory import plan_memory
from plica.symbolic.circuit import Circuit, StructuralProperties
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Semiring
from plica.tracing.call import call_program
from plica.tracing.places import user_line
from plica.tracing.scope import Reference
from plica.tracing.tracer import Tracer

Key = tuple[str, torch.dtype, torch.dtype]  # semiring, data, parameters
_FOLDED = "leaves."
_EXPLAINED_ROWS = 128
_SCALED_FROM = 2**17  # activations (of all rows): below, scaled numbers cost more calls than they save work
_INPUTS = ("bool", "int", "float")


@final
class TorchCircuit(nn.Module):
    """A compiled circuit; made by `TorchCompiler.compile`.

    Args:
        folded: The folded circuit.
        semiring: How its numbers are carried.
        dtype: The dtype of its real tensors, and of its results.
        report: What optimising did, if it was asked for.
    """

    def __init__(self, folded: FoldedCircuit, semiring: Semiring, dtype: torch.dtype, report: Report | None) -> None:
        super().__init__()
        self.leaves = Leaves()
        self._folded = folded
        self._semiring = semiring
        self.register_buffer("_real", torch.empty(0, dtype=dtype), persistent=False)  # follows .to(device or dtype)
        self._report = report
        self._width = input_width(folded.described)
        self._num_activations = sum(group.num_folds * group.representative.num_output_units for group in folded.groups)
        self._limits = _limit_tensor(folded.described)
        self._lowered: dict[Key, Lowered] = {}
        self._runs: dict[Key, Callable[..., Any]] = {}
        self.register_state_dict_post_hook(_unfold_state)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_fold_state)  # type: ignore[no-untyped-call]

    _real: Tensor

    @property
    def symbolic(self) -> Circuit:
        """The circuit that was compiled."""
        return self._folded.described

    @property
    def folded(self) -> FoldedCircuit:
        """The groups of layers that are computed as one."""
        return self._folded

    @property
    def semiring(self) -> Semiring:
        """How numbers are carried."""
        return self._semiring

    @property
    def scope(self) -> Scope:
        """The variables."""
        return self.symbolic.scope

    @property
    def num_variables(self) -> int:
        """The number of variables."""
        return len(self.scope)

    @property
    def properties(self) -> StructuralProperties:
        """The structural properties of the circuit."""
        return self.symbolic.properties

    @property
    def layers(self) -> tuple[FoldedLayer, ...]:
        """The layers as compiled."""
        return self._folded.groups

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of real tensors."""
        for leaf, tensor in self.leaves.items():
            if leaf.kind.name == "REAL":
                return tensor.dtype
        return self._real.dtype

    @property
    def program(self) -> Program:
        """The Program for data of the usual dtype: int64 if a variable has states, else the circuit's own."""
        return self.lowered(self.usual_input()).program

    @property
    def code(self) -> str:
        """The generated Python of `program`."""
        return source(self.program)

    def forward(self, x: Tensor | None = None) -> Tensor:
        """The circuit's value for each row of data.

        Args:
            x: `(B, D)`, column v is variable v. Integers, or floats where NaN means missing (the variable is summed
                out). Nothing for a circuit without variables.

        Shapes: (B, outputs, units).
        Values: In the semiring: logarithms under `lse-sum`, ordinary numbers under `sum-product`.

        Raises:
            InputError: The width is wrong or, on the CPU, an entry is no category of its variable. On other devices
                such a row is NaN (see `check`).
        """
        if isinstance(x, Tracer):
            return self._record(x)
        if x is None or self._width == 0:
            return self._constant(x)
        self._check_shape(x)
        result = self._score(x)
        # A row with an entry that is no state is NaN: looking at the small result costs less than looking at the data.
        if x.device.type == "cpu" and not is_abstract(result) and bool(result.isnan().any()):
            self._check_states(x)
        return result

    def _record(self, x: Tracer) -> Any:
        """A call while a function is traced: a nested Program, whose parameters are captured by reference.

        Entries that are no category make a row NaN; nothing raises.
        """
        if x.ndim != 2 or x.dims[1] != self._width:
            raise InputError(f"{user_line()}: the circuit expects data of shape (B, {self._width}), found {x.aval}.")
        key = (self._semiring.name, getattr(torch, x.dtype.value), self.dtype)
        self._specialise(key)
        program = self._lower(key).program
        (result,) = call_program(program, [Reference(self.leaves, var.name) for var in program.consts], [x], "circuit")
        return result

    def _score(self, x: Tensor) -> Tensor:
        """The exact Program's result; on the CPU, from scaled numbers wherever their error bound allows it."""
        if not self._may_scale(x):
            return self._exact(x)
        result: Tensor
        assert self._semiring.attempt is not None, "there is a carrier to try first"
        result, trusted = self._run(self._semiring.attempt.carrier, x)
        if is_abstract(trusted):
            return self._exact(x)
        if bool(trusted.all()):
            return result
        rows = trusted.logical_not().nonzero().squeeze(1)
        if not bool((result.detach()[rows] < torch.inf).all()):
            return self._exact(x)  # what has overflowed, or is NaN, would send NaN to the gradients of all rows
        return result.index_copy(0, rows, self._exact(x[rows]))

    def _may_scale(self, x: Tensor) -> bool:
        """Whether another carrier comes first: the semiring names one for this device, and there is enough data."""
        attempt = self._semiring.attempt
        if attempt is None or x.device.type not in attempt.devices or is_abstract(x):
            return False
        return len(x) * self._num_activations >= _SCALED_FROM

    def _exact(self, *x: Tensor) -> Tensor:
        """The result of `program`."""
        result: Tensor = self._run(self._semiring, *x)
        return result

    def _run(self, semiring: Semiring, *x: Tensor) -> Any:
        key = (semiring.name, x[0].dtype if x else self.dtype, self.dtype)
        self._specialise(key)
        return self._runs[key](self.leaves, *x)

    def check(self, x: Tensor) -> None:
        """Raise where `x` does not fit the circuit, on any device (this waits for the device).

        Raises:
            InputError: The width is wrong or an entry is no category of its variable; the first one is named.
        """
        self._check_shape(x)
        self._check_states(x)

    def reset_parameters(self, seed: int | None = None) -> None:
        """Fill every tensor anew from its initializer.

        Args:
            seed: Draws depend on it alone; by default it is drawn from torch's global generator, so that
                `torch.manual_seed` decides.
        """
        self._fill(self.leaves.items(), seed)

    def _fill(self, leaves: Iterable[tuple[Leaf, Tensor]], seed: int | None = None) -> None:
        numbers = {tensor: number for number, tensor in enumerate(leaf_keys(self.symbolic))}
        initialize(leaves, numbers, int(torch.randint(2**62, (), device="cpu")) if seed is None else seed)

    def adopt(self, lowered: Lowered, tensors: dict[Leaf, Tensor]) -> None:
        """Take the leaves of the first Program: those in `tensors` as they are, new ones filled and added there."""
        keys, new = leaf_keys(self.symbolic), []
        for var, captured in zip(lowered.program.consts, lowered.captured, strict=True):
            if isinstance(captured, Leaf):
                if captured not in tensors:
                    tensors[captured] = new_tensor(captured, self.dtype, self.leaves.device)
                    new.append((captured, tensors[captured]))
                self.leaves.own(var.name, captured, tensors[captured], keys)
        self._fill(new)

    def explain(self) -> str:
        """What the compiler did: groups of layers, rules applied, sizes."""
        tensors = [tensor for _, tensor in self.leaves.items()]
        numbers = sum(tensor.numel() for tensor in tensors)
        head = (
            f"{self.symbolic!r}\n"
            f"semiring {self._semiring.name}, {self.dtype}, {len(self.layers)} groups of {len(self.symbolic.layers)} "
            f"layers, {numbers:,} numbers in {len(tensors)} tensors, {len(self.program.equations)} equations"
        )
        report = "not optimised" if self._report is None else self._report.text()
        plan = plan_memory(self.program, _EXPLAINED_ROWS)
        memory = (
            f"memory for {_EXPLAINED_ROWS} rows: {plan.peak:,} bytes at the peak without gradients, at most "
            f"{plan.total:,} with them; {plan.copied:,} bytes copied to bring folds together"
        )
        return "\n".join([head, report, explain_folds(self._folded), memory])

    def extra_repr(self) -> str:
        """One line for `print(circuit)`."""
        return f"{self.symbolic!r}, semiring={self._semiring.name}"

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "_runs": {},
            "_lowered": {},
        }  # generated functions are made again where they are needed

    def usual_input(self) -> torch.dtype:
        """The dtype of data that `program` is for."""
        return torch.int64 if self._limits is not None else self.dtype

    def lowered(self, input_dtype: torch.dtype, owners: Owners | None = None) -> Lowered:
        """The Program for data of one dtype, made once, with what stands behind its captured variables.

        Args:
            input_dtype: The dtype of the data.
            owners: Leaves that exist already; the circuit's own by default.
        """
        return self._lower((self._semiring.name, input_dtype, self.dtype), owners)

    def _lower(self, key: Key, owners: Owners | None = None) -> Lowered:
        if key not in self._lowered:
            name, kind, real = key[0], as_dtype(key[1]), as_dtype(key[2])
            if kind.kind not in _INPUTS:
                raise DTypeError(f"a circuit takes integers or floats, found {kind.value}; take real numbers.")
            found = owners_of(leaf for leaf, _ in self.leaves.items()) if owners is None else owners
            attempt = self._semiring.attempt
            semiring = self._semiring if attempt is None or name == self._semiring.name else attempt.carrier
            self._lowered[key] = lower_score(self._folded, semiring, real, kind, found)
        return self._lowered[key]

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def _specialise(self, key: Key) -> None:
        """Make the function of one semiring, dtype of data and dtype of parameters; no work after the first call."""
        if key in self._runs:
            return
        lowered = self._lower(key)
        for var, captured in zip(lowered.program.consts, lowered.captured, strict=True):
            if isinstance(captured, Constant):
                self.leaves.keep(var.name, captured)
        self._runs[key] = emit(lowered.program)

    def _constant(self, x: Tensor | None) -> Tensor:
        if x is not None:
            raise InputError("the circuit has no variables left; call it without an argument.")
        if self._width:
            raise InputError(
                f"the circuit has {self.num_variables} variables; call it with data of shape (B, {self._width})."
            )
        return self._exact()

    def _check_shape(self, x: Tensor) -> None:
        if not isinstance(x, Tensor):
            raise DTypeError(f"a circuit takes a torch tensor, found {type(x).__name__}; try torch.as_tensor(x).")
        if x.is_complex():
            raise DTypeError(f"a circuit takes integers or floats, found {x.dtype}; take real numbers.")
        if x.ndim != 2 or x.shape[1] != self._width:
            raise InputError(
                f"the circuit expects data of shape (B, {self._width}), one column for each variable up to "
                f"{self._width - 1}, found {tuple(x.shape)}; reshape or select columns."
            )

    def _check_states(self, x: Tensor) -> None:
        wrong = self._wrong_entries(x)
        if wrong is None or not bool(wrong.any()):
            return
        row, column = (int(place) for place in wrong.nonzero()[0])
        value = x[row, column].item()
        if isinstance(value, float) and value != value:
            self.symbolic.check_smooth_and_decomposable("a missing value (NaN)")
        assert self._limits is not None, "only states can be wrong"
        raise InputError(
            f"row {row}, variable {column}: the value {value:g} is none of the {int(self._limits[column])} states "
            f"0 to {int(self._limits[column]) - 1}; encode the data as these integers"
            f"{', or NaN where it is missing' if isinstance(value, float) else ''}."
        )

    def _wrong_entries(self, x: Tensor) -> Tensor | None:
        limits = self._limits
        properties = self.properties
        missing = torch.isnan(x) if x.is_floating_point() else None
        wrong = None
        if limits is not None:
            x = x.byte() if x.dtype == torch.bool else x
            limits = limits.to(x.device)
            state = limits.isfinite()
            wrong = state & ((x < 0) | (x >= limits) | (x != x.floor() if x.is_floating_point() else False))
            wrong = wrong if missing is None else wrong & ~missing
        if missing is not None and not (properties.smooth and properties.decomposable):
            wrong = missing if wrong is None else wrong | missing
        return wrong


def _limit_tensor(circuit: Circuit) -> Tensor | None:
    limits = torch.from_numpy(state_limits(circuit))
    return limits if bool(limits.isfinite().any()) else None


def _unfold_state(module: nn.Module, state: dict[str, Any], prefix: str, _: object) -> None:
    assert isinstance(module, TorchCircuit), "registered by TorchCircuit"
    module.leaves.unfold(state, prefix, f"{prefix}{_FOLDED}")


def _fold_state(
    module: nn.Module,
    state: dict[str, Any],
    prefix: str,
    _local: object,
    _strict: bool,
    missing: list[str],
    _unexpected: list[str],
    errors: list[str],
) -> None:
    assert isinstance(module, TorchCircuit), "registered by TorchCircuit"
    problems = module.leaves.fold(state, prefix, f"{prefix}{_FOLDED}")
    missing.extend(problems.missing)
    errors.extend(problems.shapes)
