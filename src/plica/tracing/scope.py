"""`Trace`: the scope that records what is done to tracers while a function runs.

Scopes nest: a tracer of an enclosing scope that is used within becomes a captured constant there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from plica.errors import TraceError
from plica.ir.builder import Builder
from plica.ir.dtypes import as_dtype
from plica.ir.program import Operand, Var
from plica.ir.sizes import Size, substitute
from plica.ir.types import array_type
from plica.tracing.locations import user_line
from plica.tracing.tracer import Recorder, Tracer

_CURRENT: ContextVar[Trace | None] = ContextVar("plica_trace", default=None)


@dataclass(frozen=True, slots=True)
class Reference:
    """An array that is read anew at each call: the attribute `name` of `holder`, such as a parameter of a module."""

    holder: Any
    name: str

    def read(self) -> Any:
        """The array as it is now."""
        return getattr(self.holder, self.name)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return tuple(self.read().shape)

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.read().dtype


class Trace:
    """A scope of tracers: the Program that grows while a function runs.

    `leaves` holds the arrays that the outermost scope captures, in the order of its constants.

    Args:
        builder: Receives the equations.
        locate: Whether equations carry the line of the user's code (costs a walk up the stack for each).
        parent: The scope around this one, whose tracers are captured where they are used.
        location: `file:line` of the function.
        constant: Makes a tracer of an array that the function closes over; by default it is captured by reference.
    """

    __slots__ = ("_arrays", "_constant", "builder", "captured", "is_open", "leaves", "locate", "location", "parent")

    def __init__(
        self,
        builder: Builder,
        *,
        locate: bool = False,
        parent: Trace | None = None,
        location: str = "",
        constant: Callable[[Any], Tracer] | None = None,
    ) -> None:
        self.builder = builder
        self.locate = locate
        self.parent = parent
        self.location = location
        self.captured: dict[Var, Var] = {}
        self.is_open = True
        self.leaves: list[Any] = []
        self._arrays: dict[Hashable, Var] = {}
        self._constant = constant

    def apply(self, op: str, *operands: Tracer | Operand, **params: Any) -> tuple[Tracer, ...]:
        """Record `op`; its results."""
        if self.locate:
            self.builder.source = user_line()
        inputs = [self.operand(operand) for operand in operands]
        return tuple(Tracer(output, self) for output in self.builder.add(op, *inputs, **params))

    def operand(self, value: Tracer | Operand) -> Operand:
        """`value` as an operand of an equation of this scope."""
        if not isinstance(value, Tracer):
            return value
        return self.receive(value).operand

    def receive(self, tracer: Tracer) -> Tracer:
        """`tracer` as one of this scope: captured where it comes from an enclosing one.

        Raises:
            TraceError: It comes from a scope that has ended, or from another function.
        """
        if tracer.trace is self:
            return tracer
        if not self._is_within(tracer.trace):
            what = (
                "is used after the function that made it has ended"
                if not tracer.trace.is_open
                else ("belongs to another function that is being traced")
            )
            raise TraceError(
                f"{user_line()}: {tracer!r}, made at {tracer.line}, {what}; return it from that function, "
                "or carry it through the loop as an argument."
            )
        return Tracer(self.lift(tracer.value, tracer.trace), self, weak=tracer.weak)

    def _is_within(self, outer: Recorder) -> bool:
        scope: Trace | None = self
        while scope is not None and scope is not outer:
            scope = scope.parent
        return scope is not None and outer.is_open

    def lift(self, value: Any, owner: Recorder) -> Any:
        """A variable or a size of the enclosing scope `owner` in terms of this scope's constants."""
        if isinstance(value, Var):
            return self._lift_variable(value, owner)
        if isinstance(value, Size):
            return substitute(value, lambda atom: Size.of(self._lift_variable(atom, owner)))  # type: ignore[arg-type]
        return value

    def _lift_variable(self, var: Var, owner: Recorder) -> Var:
        if owner is self:
            return var
        assert self.parent is not None, "the owner encloses this scope"
        outer = self.parent._lift_variable(var, owner)
        if outer not in self.captured:
            dims = [self.lift(dim, self.parent) for dim in outer.type.shape]
            type_ = array_type(dims, outer.type.dtype)
            self.captured[outer] = self.builder.const(outer.name, type_, is_size=outer.is_size)
        return self.captured[outer]

    def capture(self, array: Any, name: str | None = None) -> Tracer:
        """An array that the function closes over, by reference: a constant of the outermost scope."""
        root = self
        while root.parent is not None:
            root = root.parent
        if root._constant is not None:
            return self.receive(root._constant(array))
        key: Hashable = array if isinstance(array, Reference) else id(array)
        if key not in root._arrays:
            type_ = array_type(map(int, array.shape), as_dtype(array.dtype))  # refuses dtypes before anything is kept
            root.leaves.append(array)  # keeps the array alive, so that its id stays its own
            root._arrays[key] = root.builder.const(name, type_)
        return self.receive(Tracer(root._arrays[key], root))

    @contextmanager
    def active(self) -> Iterator[None]:
        """Functions called in the block record here; afterwards the scope is closed."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            self.is_open = False

    @contextmanager
    def reopened(self) -> Iterator[None]:
        """A scope whose function has ended takes more equations in the block."""
        self.is_open = True
        with self.active():
            yield


def current_trace() -> Trace | None:
    """The trace that is being recorded, if any."""
    return _CURRENT.get()


def scope_of(*values: object) -> Trace:
    """Where an operation on `values` is recorded: the current scope, else that of the first tracer.

    Raises:
        TraceError: Nothing is being traced, and no value is a tracer.
    """
    trace = current_trace()
    if trace is not None:
        return trace
    for value in values:
        if isinstance(value, Tracer):
            if not value.trace.is_open:
                raise TraceError(
                    f"{user_line()}: {value!r}, made at {value.line}, is used after its function was traced; "
                    "return it from that function."
                )
            assert isinstance(value.trace, Trace), "tracers are made by traces"
            return value.trace
    raise TraceError(
        f"{user_line()}: no function is being traced here, and no argument is a tracer; call it in a traced function."
    )


def record(op: str, *operands: Tracer | Operand, **params: Any) -> Tracer:
    """Record `op` in the current scope; its one result."""
    (output,) = scope_of(*operands).apply(op, *operands, **params)
    return output


def record_all(op: str, *operands: Tracer | Operand, **params: Any) -> tuple[Tracer, ...]:
    """Record `op` in the current scope; all its results."""
    return scope_of(*operands).apply(op, *operands, **params)
