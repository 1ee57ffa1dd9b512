"""`CompiledProgram`: a Program that runs, as a function of its arguments.

>>> import torch, plica
>>> program = plica.parse("{ lambda w:f32[3] ; {n:i64[]} x:f32[n,3] . let y:f32[n,3] = multiply x w in (y,) }")
>>> scaled = plica.jit(program, consts={"w": torch.tensor([1.0, 2.0, 3.0])})
>>> scaled(torch.ones(2, 3)).tolist()
[[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from plica.errors import DTypeError, InputError
from plica.frontend.arguments import leaf_key
from plica.frontend.executors import EXECUTORS, Runner, from_dlpack, require_backend, result_converter
from plica.ir.program import Bound, Program, Var
from plica.ir.signature import bind_sizes, check_leaf
from plica.ir.types import SCALAR_SIZE
from plica.ir.verify import verify_program
from plica.ops import OPS
from plica.passes.rewriting import Rewriting
from plica.tracing.call import call_program
from plica.tracing.leaves import PYTHON_NUMBERS, described, dtype_of, is_array, is_number_of, shape_of
from plica.tracing.namespace.operands import as_tracer, cast
from plica.tracing.scope import Reference, current_trace
from plica.tracing.trace import captured_values
from plica.tracing.tracer import Tracer

Consts = Sequence[Any] | Mapping[str, Any]


class CompiledProgram:
    """A Program that a backend runs; made by `jit`.

    Args:
        source: The Program, alone or with its captured arrays.
        consts: The captured arrays, in the order of its consts or by name. A tensor is read at each call, so its
            entries may change in place, and gradients flow to it.
        backend: The name of the backend that runs it.
        rewriting: The rewrite rules for it; None for the default ones.

    Attributes:
        bound: The Program with its captured arrays.

    Raises:
        InputError: A const is missing, or has another shape or dtype than the Program declares.
        VerifyError: The Program breaks a rule.
    """

    def __init__(
        self,
        source: Program | Bound,
        consts: Consts | None = None,
        backend: str = "torch",
        rewriting: Rewriting | None = None,
    ) -> None:
        require_backend(backend)
        program = source if isinstance(source, Program) else source.program
        verify_program(program, OPS)
        if consts is None:
            consts = source.leaves if isinstance(source, Bound) else captured_values(program)
        self.bound = Bound(program, _leaves(program, consts))
        self.__name__ = "program"
        self._backend = backend
        self._executor = EXECUTORS[backend](self.bound, self.__name__, frozenset(), rewriting)
        self._dynamic = [
            {axis: str(dim) for axis, dim in enumerate(var.type.shape) if not isinstance(dim, int)}
            for var in program.arguments
        ]
        self._runs: dict[Hashable, Runner] = {}

    @property
    def program(self) -> Program:
        """The Program as it was given."""
        return self.bound.program

    @property
    def code(self) -> str:
        """The code that the backend runs, as text."""
        return self._executor.code

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles have the Program and its captured arrays, and are compiled anew."""
        return CompiledProgram, (self.bound.program, self.bound.leaves, self._backend)

    def __repr__(self) -> str:
        return f"<plica.jit of a program of {len(self.program.equations)} equation(s)>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the Program; returns its result, or a tuple of them, as arrays of the arguments' library.

        Args:
            args: The explicit inputs in order: arrays, and numbers for scalars.
            kwargs: Further explicit inputs by name.

        Raises:
            InputError: There are too few or too many inputs, or a shape does not fit.
            DTypeError: A dtype does not fit.
        """
        leaves = self._in_order(args, kwargs) if kwargs or len(args) != len(self._dynamic) else args
        if current_trace() is not None or any(isinstance(leaf, Tracer) for leaf in leaves):
            return self._recorded(leaves)
        key = tuple(map(leaf_key, leaves, self._dynamic))
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = self._specialized(leaves)
        return run(leaves)

    def _in_order(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        names = [var.name for var in self.program.arguments]
        given = dict(zip(names, args, strict=False))
        if len(args) > len(names) or len({**given, **kwargs}) != len(names) or not given.keys().isdisjoint(kwargs):
            shown = ", ".join(map(repr, self.program.arguments)) or "no arguments"
            arguments = [f"{len(args)} by position", *map(repr, kwargs)]
            raise InputError(f"the program takes {shown}; found {', '.join(arguments)}. Give each one once.")
        unknown = [name for name in kwargs if name not in names]
        if unknown:
            raise InputError(f"the program has no argument {unknown[0]!r}; there are {', '.join(names)}.")
        given.update(kwargs)
        return [given[name] for name in names]

    def _specialized(self, leaves: Sequence[Any]) -> Runner:
        """Check the arguments, and return the function that runs arguments of these kinds."""
        arrays = [_array(leaf) for leaf in leaves]
        bind_sizes(self.program, described(self.program, arrays), _captured_sizes(self.bound))
        run, convert = self._executor.specialize(leaves), result_converter(leaves, self._backend)
        if convert is None:
            return run

        def results(values: Sequence[Any]) -> Any:
            result = run(values)
            return tuple(map(convert, result)) if isinstance(result, tuple) else convert(result)

        return results

    def _recorded(self, leaves: Sequence[Any]) -> Any:
        """Record a call as a nested Program, while another function is traced."""
        tracers = []
        for leaf, var in zip(leaves, self.program.arguments, strict=True):
            tracer = as_tracer(f"argument {var.name}", leaf if isinstance(leaf, Tracer) else _array(leaf))
            if tracer.weak and is_number_of(tracer.dtype.kind, var):
                tracer = cast(tracer, var.type.dtype)
            elif tracer.dtype != var.type.dtype:
                raise DTypeError(_other_dtype(var, tracer.dtype.value))
            tracers.append(tracer)
        outputs = call_program(self.program, self.bound.leaves, tracers, self.__name__)
        results = outputs[self.program.num_implicit_outputs :]
        return results[0] if len(results) == 1 else results


def _array(leaf: Any) -> Any:
    """A tensor of an object that has only the DLPack protocol; arrays and numbers are returned unchanged."""
    if is_array(leaf) or isinstance(leaf, PYTHON_NUMBERS):
        return leaf
    if not hasattr(leaf, "__dlpack__"):
        raise InputError(f"a program takes arrays and numbers, found {leaf!r} of type {type(leaf).__name__}.")
    return from_dlpack(leaf)


def _other_dtype(var: Var, dtype: str) -> str:
    return f"argument {var.name} has dtype {dtype}, but the program was made for {var.type.dtype.value}; use astype."


# Captured arrays


def _leaves(program: Program, consts: Consts) -> tuple[Any, ...]:
    """The values of the consts in order, checked against their types."""
    names = [var.name for var in program.consts]
    if isinstance(consts, Mapping):
        if unknown := [name for name in consts if name not in names]:
            raise InputError(
                f"jit: the program captures no {unknown[0]!r}; it captures {', '.join(names) or 'nothing'}."
            )
        values = [consts[name] for name in names if name in consts]
    else:
        values = list(consts)
    if len(values) != len(names):
        shown = ", ".join(map(repr, program.consts)) or "nothing"
        example = ", ".join(f"{name!r}: ..." for name in names)
        raise InputError(
            f"jit: the program captures {shown}, but {len(values)} of {len(names)} were given; "
            f"write jit(program, consts={{{example}}})."
        )
    sizes: dict[Hashable, int] = {}
    return tuple(_leaf(var, value, sizes) for var, value in zip(program.consts, values, strict=True))


def _leaf(var: Var, value: Any, sizes: dict[Hashable, int]) -> Any:
    """One captured array; numbers become arrays of no dimension."""
    array = _array(value)
    if not is_array(array):
        if not is_number_of(dtype_of(array).kind, var):
            raise InputError(f"leaf {var.name} is {array!r}, but the program expects {var!r}.")
        array = np.asarray(array, var.type.dtype.numpy)
    check_leaf(var, shape_of(array), dtype_of(array).value, sizes)
    if var.type == SCALAR_SIZE:
        sizes[var] = _value(array)
    return array


def _captured_sizes(bound: Bound) -> dict[Var, int]:
    return {
        var: _value(leaf)
        for var, leaf in zip(bound.program.consts, bound.leaves, strict=True)
        if var.type == SCALAR_SIZE
    }


def _value(leaf: Any) -> int:
    return int(leaf.read() if isinstance(leaf, Reference) else leaf)
