"""Queries on compiled circuits: each runs a Program of its own on the circuit's tensors, as they are at each call.

>>> import torch
>>> from plica.backend.torch.compiler import TorchCompiler
>>> from plica.symbolic.circuit import Circuit
>>> from plica.symbolic.layers import CategoricalLayer
>>> layer = CategoricalLayer([0], 1, num_categories=3)
>>> circuit = TorchCompiler().compile(Circuit([layer], {}, [layer]))
>>> samples, choices = SamplingQuery(circuit)(5)
>>> samples.shape, choices
(torch.Size([5, 1]), {})
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple, final

import torch
from torch import Tensor

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.constants import Ready
from plica.backend.torch.emit import emit
from plica.backend.torch.leaves import attribute_of
from plica.errors import InputError, StructuralPropertyError, UnsupportedError
from plica.ir.dtypes import DType, as_dtype
from plica.ir.program import Program
from plica.lower.fold.groups import fold_circuit, single_groups
from plica.lower.leaves import Constant, owners_of
from plica.lower.queries.mpe import MPE
from plica.lower.queries.query import LoweredQuery, Query, lower_query
from plica.lower.queries.sample import SAMPLING
from plica.passes.memory import plan_memory

_BYTES_AT_ONCE = 2**27  # of intermediate results; more rows are computed in parts
_PLANNED_ROWS = 64


class Answer(NamedTuple):
    """What a query's Program returns for some rows.

    Args:
        rows: `(B, D)`.
        terms: `(S, B)`, the chosen term of each sum layer, or -1.
        log_value: `(B,)`, or `(1,)` where nothing is known of any row.
    """

    rows: Tensor
    terms: Tensor
    log_value: Tensor


@final
class TorchQuery:
    """A query of one circuit for data of one dtype, lowered and emitted.

    Numbers are float32 at least: logarithms of float16 do not tell apart what a sum chooses between.

    Args:
        circuit: The circuit.
        query: What is asked.
        input_dtype: The dtype of the data; None where nothing is known of any variable.
    """

    def __init__(self, circuit: TorchCircuit, query: Query, input_dtype: torch.dtype | None) -> None:
        folded = circuit.folded
        described = (fold_circuit if folded.folds else single_groups)(folded.described, rows=folded.rows)
        described = replace(described, rewriting=folded.rewriting)
        real = as_dtype(circuit.dtype)
        known = None if input_dtype is None else as_dtype(input_dtype)
        self._query = query
        self._dtype = DType.FLOAT32 if real == DType.FLOAT16 else real
        self.lowered: LoweredQuery = lower_query(
            query,
            described,
            self._dtype,
            input_dtype=known,
            real_dtype=known if known is not None and known.kind == "float" else real,
            owners=owners_of(leaf for leaf, _ in circuit.leaves.items()),
        )
        self._run = emit(self.lowered.program, query.chooser.column)
        self._key = (query.name, input_dtype, circuit.dtype)

    def rows_at_once(self) -> int:
        """How many rows the memory is enough for."""
        program = self.lowered.program
        more, less = (plan_memory(program, rows).peak for rows in (2 * _PLANNED_ROWS, _PLANNED_ROWS))
        return max(1, _BYTES_AT_ONCE * _PLANNED_ROWS // max(1, more - less))

    def __call__(
        self, circuit: TorchCircuit, size: int, x: Tensor | None, generator: torch.Generator | None = None
    ) -> Answer:
        """The answer for `size` rows.

        Raises:
            StructuralPropertyError: A weight is negative, so that the circuit describes no distribution.
        """
        if circuit.leaves.is_autocast:
            with torch.autocast(circuit.leaves.device.type, enabled=False):
                return self(circuit, size, x, generator)
        arguments = [] if x is None else [x]
        if self._query.chooser.draws:
            arguments.insert(0, self._uniforms(size, circuit.leaves.device, generator))
        ready = None if circuit.training else self._ready(circuit)
        *answer, invalid = self._run(self.leaves(circuit), *arguments) if ready is None else ready(*arguments)
        if bool(invalid):
            raise StructuralPropertyError(
                f"{self._query.name} needs weights that are not negative, but a layer has a negative one (or NaN); "
                "square the circuit or keep its weights positive (softmax, for instance)."
            )
        return Answer(*answer)

    def _ready(self, circuit: TorchCircuit) -> Ready | None:
        """What runs once the circuit's tensors are folded, where they may be."""
        constants, leaves = circuit.constants, circuit.leaves
        watch = constants.watching(leaves, training=False)
        if watch is None:
            return None
        return constants.of(self._key, self.lowered, leaves, watch, partial(self.leaves, circuit))

    def leaves(self, circuit: TorchCircuit) -> SimpleNamespace:
        """The circuit's tensors as they are now, under the names and in the dtypes of this Program's variables."""
        own, device = dict(circuit.leaves.items()), circuit.leaves.device
        found = SimpleNamespace(device=device, **dict(circuit.leaves.named_children()))
        for var, captured in zip(self.lowered.program.consts, self.lowered.captured, strict=True):
            if isinstance(captured, Constant):
                tensor = torch.from_numpy(captured.value)
            else:
                tensor = own[captured].to(getattr(torch, var.type.dtype.value))
            setattr(found, attribute_of(var.name), tensor.to(device))
        return found

    def _uniforms(self, size: int, device: torch.device, generator: torch.Generator | None) -> Tensor:
        """`(U, size)`, above 0 and below 1: the same numbers whether rows are drawn at once or in parts."""
        dtype = getattr(torch, self._dtype.value)
        drawn = torch.rand((size, self.lowered.num_uniforms), dtype=dtype, device=device, generator=generator)
        # 0 stands for all numbers below the next one: their middle is no end of any interval
        return drawn.clamp_(min=torch.finfo(dtype).eps / 4).T.contiguous()


def query_of(circuit: TorchCircuit, query: Query, input_dtype: torch.dtype | None) -> TorchQuery:
    """The query of a circuit for data of one dtype, made once for each dtype of the circuit."""
    key = (query.name, input_dtype, circuit.dtype)
    if key not in circuit.queries:
        circuit.queries[key] = TorchQuery(circuit, query, input_dtype)
    return circuit.queries[key]


@torch.no_grad()
def answer(
    circuit: TorchCircuit,
    query: Query,
    size: int,
    x: Tensor | None = None,
    *,
    times: int = 1,
    generator: torch.Generator | None = None,
) -> Answer:
    """The answer for `size` rows, computed in parts that the memory is enough for.

    Args:
        circuit: The circuit.
        query: What is asked.
        size: How many rows come out.
        x: Data; row number r belongs to the rows that come out from `r * times` on.
        times: How many rows come out for each row of data.
        generator: Where random numbers come from.

    Raises:
        UnsupportedError: The circuit is on the meta device.
    """
    _device(circuit, query)
    asked = query_of(circuit, query, None if x is None else x.dtype)
    parts = []
    for start, stop in _parts(size, asked.rows_at_once()):
        rows = None if x is None else x[torch.arange(start, stop, device=x.device) // times]
        parts.append(asked(circuit, stop - start, rows, generator))
    if len(parts) == 1:
        return parts[0]
    log_value = parts[0].log_value if x is None else torch.cat([part.log_value for part in parts])
    return Answer(torch.cat([part.rows for part in parts]), torch.cat([part.terms for part in parts], 1), log_value)


def _device(circuit: TorchCircuit, query: Query) -> torch.device:
    """Where a circuit's tensors are, if there are numbers."""
    device = circuit.leaves.device
    if device.type == "meta":
        raise UnsupportedError(
            f"{query.name}: the circuit is on the device meta, where tensors have no numbers; give it some, as "
            "circuit.to_empty(device='cpu') and load_state_dict do."
        )
    return device


def _parts(size: int, at_once: int) -> Iterator[tuple[int, int]]:
    yield from ((start, min(start + at_once, size)) for start in range(0, max(size, 1), at_once))


def sample(circuit: TorchCircuit, n: int, given: Tensor | None, seed: int | None) -> Tensor:
    """See `plica.queries.sample`."""
    number = _count("n", n)
    device = _device(circuit, SAMPLING)
    generator = None if seed is None else torch.Generator(device).manual_seed(seed)
    if given is None:
        found = answer(circuit, SAMPLING, number, generator=generator)
        _check_total(found.log_value)
        return found.rows
    x = _known(circuit, SAMPLING, given)
    found = answer(circuit, SAMPLING, len(x) * number, x, times=number, generator=generator)
    _check_rows(found.log_value, number)
    return found.rows


def mpe(circuit: TorchCircuit, x: Tensor) -> tuple[Tensor, Tensor]:
    """See `plica.queries.mpe`."""
    x = _known(circuit, MPE, x)
    found = answer(circuit, MPE, len(x), x)
    return found.rows, found.log_value


def _known(circuit: TorchCircuit, query: Query, x: Tensor) -> Tensor:
    """What is known of rows, in a dtype that Programs have, checked: an input layer fills in all its variables or none.

    Raises:
        InputError: A row does not fit the circuit, or a layer of several variables has some of them.
    """
    x = circuit.readable(x)
    several = [layer for layer in circuit.symbolic.live.input_layers if layer.num_variables > 1]
    for layer in several if x.is_floating_point() else ():
        missing = x[:, list(layer.scope)].isnan()
        some = (missing.any(1) & missing.logical_not().any(1)).nonzero()
        if len(some):
            raise InputError(
                f"row {int(some[0])}: {query.name} fills in all variables {layer.scope!s} of "
                f"{circuit.symbolic.layer_name(layer)} or none, and the row has some of them; give all of them, or "
                "make all of them missing."
            )
    return x


def _count(name: str, value: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} is {value!r}, expected an integer.") from None
    if number < 0:
        raise InputError(f"{name} is {number}, expected at least 0.")
    return number


def _check_total(log_value: Tensor) -> None:
    if not bool(torch.isfinite(log_value).all()):
        raise InputError(
            f"the logarithm of the circuit's total is {float(log_value)}, so there is nothing to sample from; "
            "check the weights for zeros or NaN."
        )


def _check_rows(log_value: Tensor, times: int) -> None:
    wrong = torch.isfinite(log_value).logical_not().nonzero()
    if len(wrong):
        place = int(wrong[0])
        raise InputError(
            f"row {place // times}: the logarithm of the probability of what is given is {float(log_value[place])}, so "
            "there is nothing to sample from; give values that the circuit can have."
        )


@final
class SamplingQuery:
    """Draws exact, independent samples from the distribution that a circuit describes (normalized or not).

    Args:
        circuit: Smooth and decomposable, with one output of one unit.

    Raises:
        StructuralPropertyError: The circuit is not smooth and decomposable.
        ShapeError: More than one output or unit.
        UnsupportedError: A layer does not say how it is sampled.
    """

    def __init__(self, circuit: TorchCircuit) -> None:
        self._circuit = circuit
        query_of(circuit, SAMPLING, None)

    @property
    def program(self) -> Program:
        """The Program: uniform numbers `(U, N)` in; samples, choices, log-partition and a flag out."""
        return query_of(self._circuit, SAMPLING, None).lowered.program

    def __call__(
        self, num_samples: int = 1, *, generator: torch.Generator | None = None
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """Samples and the choices that led to them.

        Args:
            num_samples: N, at least 0.
            generator: Where the random numbers come from; torch's own for the device by default.

        Returns:
            Samples `(N, D)`, column v is variable v (int64 if every variable has states), and for each sum layer, by
            topological index, the column of its weight that was picked (`(N,)`; the input for a mixing layer), or -1
            where the sample did not come by.

        Raises:
            InputError: `num_samples` is negative, or the circuit's total is zero or not finite.
            StructuralPropertyError: A weight is negative, so that the circuit describes no distribution.
        """
        found = answer(self._circuit, SAMPLING, _count("num_samples", num_samples), generator=generator)
        _check_total(found.log_value)
        sums = query_of(self._circuit, SAMPLING, None).lowered.sums
        return found.rows, dict(zip(sums, found.terms, strict=True))
