"""`FoldedFunction`: a folded Program that runs; constants are folded at the first call, and again where they change.

>>> import numpy as np, plica, plica.numpy as pnp
>>> program = plica.trace(lambda x, w: x @ pnp.softmax(w), plica.spec(("b", 3)), plica.spec((3, 3)))
>>> run = plica.fold_constants(program, run_time=("w",)).compile()
>>> x, w = np.ones((2, 3), "float32"), np.zeros((3, 3), "float32")
>>> run(x, w=w).tolist() == run(x).tolist(), run.num_folds
(True, 1)
>>> run.update(w=w + 1)
>>> run(x).shape, run.num_folds
((2, 3), 2)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

from plica.errors import InputError
from plica.frontend.arguments import dtype_of, is_array, leaf_key, shape_of
from plica.frontend.buffers import Buffers, is_same, owned, shared, state_of, wants_gradient
from plica.frontend.compiled_program import CompiledProgram
from plica.frontend.executors import EXECUTORS, Run, require_backend, result_converter, torch_function
from plica.ir.program import Bound, Program, Var
from plica.ir.signature import bind_sizes
from plica.ir.sizes import Size
from plica.ir.types import SCALAR_SIZE
from plica.passes.constants.fold import Folding
from plica.passes.rewriting import Rewriting
from plica.tracing.scope import Reference, current_trace
from plica.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True, eq=False)
class _Epoch:
    """What calls run with until a constant changes; never changed itself, so that a call sees all of one.

    Args:
        sources: The constants by name.
        buffers: What each component keeps.
        values: All that is kept, by name.
        sizes: The values of sizes that constants have.
    """

    sources: Mapping[str, Any]
    buffers: tuple[Buffers, ...]
    values: Mapping[str, Any]
    sizes: Mapping[Var, int]


@dataclass(slots=True)
class _Flight:
    """A fold that is under way, and the threads that wait for it."""

    lock: Lock = field(default_factory=Lock)
    pending: Future[_Epoch] | None = None


class FoldedFunction:
    """A folded Program as a function of its arguments; made by `FoldedProgram.compile`.

    Constants that were given once, or at compile time, need not be given again. One that is given again is compared
    with what was folded. Where gradients are enabled and a constant asks for them, the Program runs unfolded.

    Args:
        program: The Program as it was given.
        folding: What the passes made of it.
        constants: The names of the arguments that are constant.
        known: Constants whose values are known, captured ones among them, by name.
        backend: The name of what runs it.
        rewriting: How Programs are rewritten, where that is not as by default.

    Attributes:
        num_folds: How often a component was folded.
    """

    def __init__(
        self,
        program: Program,
        folding: Folding,
        constants: Sequence[str],
        known: Mapping[str, Any],
        backend: str,
        rewriting: Rewriting | None = None,
    ) -> None:
        require_backend(backend)
        missing = [var.name for var in program.consts if var.name not in known]
        if missing:
            raise InputError(
                f"fold_constants: the program captures {', '.join(missing)}, whose values are not known; give them in "
                "compile_time, or fold the `bound` of a compiled function."
            )
        self.program, self.folding, self.backend = program, folding, backend
        self.num_folds = 0
        self._rewriting = rewriting
        self._known = dict(known)
        self._constants = dict.fromkeys(constants)
        self._captured = [var.name for var in program.consts]
        self._names = [var.name for var in program.arguments]
        self._entry = folding.split.entry
        self._executor = self._made(self._entry)
        self._components = [(one, self._made(one)) for one in folding.components]
        self._runs: dict[Hashable, tuple[Run, Any]] = {}
        self._epoch: _Epoch | None = None
        self._flight = _Flight()
        self._whole: Any = None
        self._checks = self._size_checks()
        self._dynamic = tuple(
            [
                {axis: str(dim) for axis, dim in enumerate(var.type.shape) if not isinstance(dim, int)}
                for var in one.arguments
            ]
            for one in (self._entry, program)
        )

    def _made(self, program: Program) -> Any:
        leaves = tuple(self._known[var.name] for var in program.consts)
        return EXECUTORS[self.backend](Bound(program, leaves), "folded", frozenset(), self._rewriting)

    def _size_checks(self) -> list[tuple[str, int, Var]]:
        """The axes of arguments whose sizes constants have too."""
        program = self.program
        constant = [var for var in program.arguments if var.name in self._constants]
        varying = [var for var in program.arguments if var.name not in self._constants]
        shared = {dim for var in constant for dim in var.type.shape}
        return [
            (var.name, axis, size)
            for size in program.inputs[: program.num_implicit_inputs]
            for var in varying
            for axis, dim in enumerate(var.type.shape)
            if dim == Size.of(size) and dim in shared
        ]

    def __repr__(self) -> str:
        return f"<folded program of {len(self._entry.equations)} equation(s), folded {self.num_folds} time(s)>"

    @property
    def code(self) -> str:
        """What the backend runs at each call, as text."""
        text: str = self._executor.code
        return text

    @property
    def num_bytes(self) -> int:
        """The bytes that are kept beside the constants, those that other functions share among them."""
        epoch = self._epoch
        return 0 if epoch is None else sum(one.nbytes for one in epoch.values.values() if is_array(one))

    # Calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results of the Program.

        Args:
            args: The arguments in the order of the Program.
            kwargs: Those that are given by name.

        Raises:
            InputError: An argument is missing or given twice, or a shape does not fit.
        """
        given = self._named(args, kwargs)
        if current_trace() is not None or any(isinstance(one, Tracer) for one in given.values()):
            return self._recorded(given)
        run, leaves, convert = self._prepared(given)
        made = run(leaves)
        if convert is None:
            return made
        return tuple(map(convert, made)) if isinstance(made, tuple) else convert(made)

    def run(self, given: Mapping[str, Any]) -> Any:
        """The results as the backend makes them, of arguments by name.

        Raises:
            InputError: A shape does not fit.
        """
        run, leaves, _ = self._prepared(given)
        return run(leaves)

    def _prepared(self, given: Mapping[str, Any]) -> tuple[Run, list[Any], Any]:
        """What runs, at which leaves, and what its results become."""
        constants = {name: value for name, value in given.items() if name in self._constants}
        epoch = self._current(constants)
        if epoch is None:
            known = {**self._sources(constants), **given}
            leaves, place = [known[name] for name in self._names], 1
        else:
            self._check_sizes(given, epoch)
            known = {**epoch.sources, **given}
            leaves = [
                epoch.values[var.name] if var.name in epoch.values else known[var.name] for var in self._entry.arguments
            ]
            place = 0
        kinds = tuple([type(known[name]) for name in self._names])
        key = (place, kinds, *map(leaf_key, leaves, self._dynamic[place]))
        found = self._runs.get(key)
        if found is None:
            found = self._runs[key] = self._specialized(place, leaves, [known[name] for name in self._names])
        return found[0], leaves, found[1]

    def _check_sizes(self, given: Mapping[str, Any], epoch: _Epoch) -> None:
        """Check sizes that constants have too, of which `entry` may know nothing any more."""
        for name, axis, size in self._checks:
            found = shape_of(given[name])
            if len(found) > axis and found[axis] != epoch.sizes[size]:
                raise InputError(
                    f"argument {name} has shape {found}, but the constants were folded for {size.name} = "
                    f"{epoch.sizes[size]}: axis {axis} is {found[axis]}; give arrays that fit, or update the constants."
                )

    def _named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(zip(self._names, args, strict=False))
        twice = [name for name in kwargs if name in given]
        unknown = [name for name in kwargs if name not in self._names]
        missing = [
            name for name in self._names if name not in given and name not in kwargs and name not in self._constants
        ]
        if len(args) > len(self._names) or twice or unknown or missing:
            shown = ", ".join(map(repr, self.program.arguments)) or "no arguments"
            found = [f"{len(args)} by place", *map(repr, kwargs)]
            raise InputError(
                f"the program takes {shown}, of which {', '.join(self._constants) or 'none'} may be left out once "
                f"folded; found {', '.join(found)}."
            )
        return {**given, **kwargs}

    def _specialized(self, place: int, leaves: Sequence[Any], arguments: Sequence[Any]) -> tuple[Run, Any]:
        """What runs leaves of these kinds, which are checked, and what its results become."""
        bind_sizes(self.program, _described(self.program, arguments))
        if place and self._whole is None:
            self._whole = self._made(self.program)
        executor = self._whole if place else self._executor
        return executor.specialize(leaves), result_converter(arguments, self.backend)

    def _recorded(self, given: Mapping[str, Any]) -> Any:
        """A call while another function is traced: the whole Program, which that function may fold."""
        leaves = tuple(self._known[name] for name in self._captured)
        known = {**self._known, **({} if self._epoch is None else self._epoch.sources), **given}
        return CompiledProgram(Bound(self.program, leaves), backend=self.backend, rewriting=self._rewriting)(
            *(known[name] for name in self._names)
        )

    # Folding

    def update(self, **constants: Any) -> None:
        """Fold new values of some constants; calls in flight finish with the old ones, later ones see all new ones.

        Raises:
            InputError: A name is that of no constant.
        """
        unknown = [name for name in constants if name not in self._constants]
        if unknown:
            raise InputError(
                f"update: {unknown[0]!r} is no constant; there are {', '.join(self._constants) or 'none'}."
            )
        while True:
            try:
                flight = self._join()
            except Exception:  # of another thread, which is told of it
                continue
            if isinstance(flight, Future):
                self._land(flight, lambda: self._folded(self._sources(constants)))
                return

    def _sources(self, constants: Mapping[str, Any]) -> dict[str, Any]:
        """All constants as they are now.

        Raises:
            InputError: One was never given.
        """
        before = {} if self._epoch is None else self._epoch.sources
        found = {**self._known, **before, **constants}
        missing = [name for name in self._constants if name not in found]
        if missing:
            raise InputError(f"the constant {missing[0]!r} was not given yet; pass {missing[0]}=... at the first call.")
        for name in self._captured:
            leaf = self._known[name]
            found[name] = leaf.read() if isinstance(leaf, Reference) else leaf
        return found

    def _current(self, constants: Mapping[str, Any]) -> _Epoch | None:
        """The epoch to run with; None where gradients of constants are asked for."""
        while True:
            epoch = self._epoch
            if epoch is not None and self._is_current(epoch, constants):
                return None if wants_gradient(epoch.sources.values()) else epoch
            sources = self._sources(constants)
            if wants_gradient(sources.values()):
                return None
            flight = self._join()
            if isinstance(flight, Future):
                self._land(flight, lambda sources=sources: self._folded(sources))  # type: ignore[misc]

    def _join(self) -> Future[_Epoch] | _Epoch:
        """A flight of one's own to fold in; or the epoch of another thread, once that has landed, or its error."""
        with self._flight.lock:
            pending = self._flight.pending
            if pending is None:
                self._flight.pending = Future()
                return self._flight.pending
        return pending.result()

    def _land(self, flight: Future[_Epoch], fold: Callable[[], _Epoch]) -> None:
        """Fold, and let all who wait have the epoch or the error."""
        try:
            epoch = fold()
        except BaseException as error:
            with self._flight.lock:
                self._flight.pending = None
            flight.set_exception(error)
            raise
        with self._flight.lock:
            self._epoch = epoch
            self._flight.pending = None
        flight.set_result(epoch)

    def _is_current(self, epoch: _Epoch, constants: Mapping[str, Any]) -> bool:
        if any(not is_same(epoch.sources[name], value) for name, value in constants.items()):
            return False
        for name in self._captured:
            leaf = self._known[name]
            if isinstance(leaf, Reference) and leaf.read() is not epoch.sources[name]:
                return False
        return all(self._states(one.sources) == one.states for one in epoch.buffers)

    def _states(self, sources: Sequence[Any]) -> tuple[Hashable, ...]:
        return tuple(state_of(one, checksum=self.folding.policy.check == "checksum") for one in sources)

    def _folded(self, sources: Mapping[str, Any]) -> _Epoch:
        """The epoch of these constants; components whose sources are as they were are not folded again."""
        buffers: list[Buffers] = []
        values: dict[str, Any] = {}
        for program, executor in self._components:
            names = [var.name for var in (*program.consts, *program.arguments)]
            own = tuple(sources[name] for name in names)
            states = self._states(own)
            key = (program, self.backend, self._rewriting, tuple(map(id, own)), states)
            found = shared(key, partial(self._run_component, program, executor, own, states))
            buffers.append(found)
            kept = (var.name for var in program.results if isinstance(var, Var))
            values.update(zip(kept, found.values.values(), strict=True))
        return _Epoch(dict(sources), tuple(buffers), values, self._sizes_of(sources))

    def _run_component(
        self, program: Program, executor: Any, own: tuple[Any, ...], states: tuple[Hashable, ...]
    ) -> Buffers:
        arguments = own[len(program.consts) :]
        bind_sizes(program, _described(program, arguments))
        no_grad = torch_function("no_grad")() if self.backend == "torch" else nullcontext()
        with no_grad:
            results = executor.specialize(arguments)(arguments)
        self.num_folds += 1
        listed = results if isinstance(results, tuple) else (results,)
        values = {
            str(place): int(value) if operand.type == SCALAR_SIZE else owned(value, own)
            for place, (operand, value) in enumerate(zip(program.results, listed, strict=True))
        }
        return Buffers(values, own, states)

    def _sizes_of(self, sources: Mapping[str, Any]) -> dict[Var, int]:
        """The sizes that constants have."""
        found: dict[Var, int] = {}
        implicit = {Size.of(var): var for var in self.program.inputs[: self.program.num_implicit_inputs]}
        for var in self.program.arguments:
            if var.name in sources:
                for dim, size in zip(var.type.shape, shape_of(sources[var.name]), strict=False):
                    if isinstance(dim, Size) and dim in implicit:
                        found.setdefault(implicit[dim], size)
        return found


def _described(program: Program, arguments: Sequence[Any]) -> list[tuple[tuple[int, ...], str]]:
    """The shape and the dtype of each argument; a number has the dtype that is declared."""
    return [
        (shape_of(one), dtype_of(one).value if is_array(one) else var.type.dtype.value)
        for var, one in zip(program.arguments, arguments, strict=True)
    ]
