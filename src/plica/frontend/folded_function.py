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

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from plica.constants.fold import Folding
from plica.constants.store.cache import SHARED, FoldCache
from plica.constants.store.components import Component, Components
from plica.constants.store.named import NamedConstants, Version
from plica.constants.store.released import released_error
from plica.constants.store.shapes import of_arguments
from plica.errors import InputError
from plica.frontend.arguments import leaf_key
from plica.frontend.compiled_program import CompiledProgram
from plica.frontend.executors import EXECUTORS, Runner, require_backend, result_converter, untraced
from plica.ir.program import Bound, Program, Var
from plica.ir.signature import bind_sizes
from plica.ir.sizes import Size
from plica.passes.rewriting import Rewriting
from plica.tracing.leaves import described, shape_of
from plica.tracing.scope import Reference, current_trace
from plica.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """The plan that all calls with one version of the constants share.

    Args:
        version: The constants.
        leaves: The arguments of `entry`; each call fills in those that are not constant.
        runs: For each kind of arguments the function that runs them, and the converter of its results.
    """

    version: Version
    leaves: list[Any]
    runs: dict[Hashable, tuple[Runner, Any]]


def _planned(names: Sequence[str], version: Version, values: Mapping[str, Any]) -> _Plan:
    """The plan of calls with these constants, given the names of the arguments of `entry`."""
    known = {**version.shown, **values}
    return _Plan(version, [known.get(name) for name in names], {})


class FoldedFunction:
    """A folded Program as a function of its arguments; made by `FoldedProgram.compile`.

    Constants that were given once, or at compile time, need not be given again. One that is given again is compared
    with the folded one. Where gradients are enabled and a constant requires one, the Program runs unfolded.

    Args:
        program: The Program as it was given.
        folding: The Program split by folding.
        constants: The names of the arguments that are constant.
        known: Constants whose values are known, captured ones among them, by name.
        backend: The name of the backend that runs it.
        rewriting: How Programs are rewritten, where that is not as by default.
        cache: The cache of values; by default the one that functions share.
        release_sources: Whether constants that `entry` does not read are let go once they were folded.
    """

    def __init__(
        self,
        program: Program,
        folding: Folding,
        constants: Sequence[str],
        known: Mapping[str, Any],
        backend: str,
        rewriting: Rewriting | None = None,
        cache: FoldCache | None = None,
        *,
        release_sources: bool = False,
    ) -> None:
        require_backend(backend)
        missing = [var.name for var in program.consts if var.name not in known]
        if missing:
            raise InputError(
                f"fold_constants: the program captures {', '.join(missing)}, whose values are not known; give them in "
                "compile_time, or fold the `bound` of a compiled function."
            )
        self.program, self.folding, self.backend = program, folding, backend
        self._rewriting, self._cache, self._is_releasing = rewriting, cache, release_sources
        self._constants = dict.fromkeys(constants)
        self._captured = [var.name for var in program.consts]
        self._names = [var.name for var in program.arguments]
        self._entry = entry = folding.split.entry
        read = dict.fromkeys(var.name for var in (*entry.consts, *entry.arguments))
        released = [name for name in (*constants, *self._captured) if release_sources and name not in read]
        self._known = {
            name: value for name, value in known.items() if name not in released or isinstance(value, Reference)
        }
        self._executor = self._executor_of(entry, self._known)
        components = Components(
            [
                Component(component, self._executor_of(component, known))
                for component in map(of_arguments, folding.components)
            ],
            [var.name for var in folding.split.kept],
            SHARED if cache is None else cache,
            (backend, rewriting),
            released,
        )
        self._sources = NamedConstants(
            program,
            components,
            constants,
            known,
            is_torch=backend == "torch",
            checksum=folding.policy.check == "checksum",
            released=released,
            prepare=partial(_planned, [var.name for var in entry.arguments]),
        )
        # torch.compile traces the backend's function, and not the look-up of constants
        prepared = FoldedFunction._prepared
        self._ready = untraced(prepared) if backend == "torch" else prepared
        self._places = {var.name: index for index, var in enumerate(entry.arguments) if var.name in self._varying()}
        self._runs: dict[Hashable, tuple[Runner, Any]] = {}
        self._unfolded: Any = None
        self._checks = self._size_checks()
        self._dynamic = tuple(
            [
                {axis: str(dim) for axis, dim in enumerate(var.type.shape) if not isinstance(dim, int)}
                for var in program.arguments
            ]
            for program in (self._entry, program)
        )

    def _varying(self) -> dict[str, None]:
        """The names of the arguments that are not constant."""
        return dict.fromkeys(name for name in self._names if name not in self._constants)

    def _executor_of(self, program: Program, known: Mapping[str, Any]) -> Any:
        leaves = tuple(known[var.name] for var in program.consts)
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

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles have the constants as they are now, and fold them anew."""
        options = (self.backend, self._rewriting, self._cache)
        make = partial(FoldedFunction, release_sources=self._is_releasing)
        return make, (self.program, self.folding, [*self._constants], self._sources.at_hand(), *options)

    def __repr__(self) -> str:
        return f"<folded program of {len(self._entry.equations)} equation(s), folded {self.num_folds} time(s)>"

    @property
    def code(self) -> str:
        """The code that the backend runs at each call, as text."""
        text: str = self._executor.code
        return text

    @property
    def num_folds(self) -> int:
        """How often a component was folded."""
        return self._sources.num_folds

    @property
    def num_bytes(self) -> int:
        """The bytes that are kept besides the constants, also those that other functions share."""
        return self._sources.num_bytes

    # Calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the Program, and return its results.

        Args:
            args: The arguments in the order of the Program.
            kwargs: Those that are given by name.

        Raises:
            InputError: An argument is missing or given twice, or a shape does not fit.
        """
        given = self._named(args, kwargs)
        if current_trace() is not None or any(isinstance(value, Tracer) for value in given.values()):
            return self._recorded(given)
        run, leaves, convert = self._ready(self, given)
        results = run(leaves)
        if convert is None:
            return results
        return tuple(map(convert, results)) if isinstance(results, tuple) else convert(results)

    def run(self, given: Mapping[str, Any]) -> Any:
        """Run the Program on arguments by name; results are of the backend's kind.

        Raises:
            InputError: A shape does not fit.
        """
        run, leaves, _ = self._ready(self, given)
        return run(leaves)

    def _prepared(self, given: Mapping[str, Any]) -> tuple[Runner, list[Any], Any]:
        """The function to run, its leaves, and the converter of its results."""
        constants = {name: value for name, value in given.items() if name in self._constants}
        plan = self._sources.current(constants)
        if plan is None:
            known = {**self._sources.all_sources(constants), **given}
            leaves = [known[name] for name in self._names]
            run, convert = self._running(1, leaves, known)
            return run, leaves, convert
        self._check_sizes(given, plan.version)
        leaves = plan.leaves.copy()
        for name, index in self._places.items():
            leaves[index] = given[name]
        key = tuple([leaf_key(leaves[index], self._dynamic[0][index]) for index in self._places.values()])
        run_and_converter = plan.runs.get(key)
        if run_and_converter is None:
            run_and_converter = plan.runs[key] = self._running(0, leaves, {**plan.version.shown, **given})
        run, convert = run_and_converter
        return run, leaves, convert

    def _running(self, program_index: int, leaves: Sequence[Any], known: Mapping[str, Any]) -> tuple[Runner, Any]:
        """The function that runs `entry` (0) or the whole Program (1) on such leaves, and the converter of results."""
        arguments = [known[name] for name in self._names]
        key = (program_index, *map(type, arguments), *map(leaf_key, leaves, self._dynamic[program_index]))
        run_and_converter = self._runs.get(key)
        if run_and_converter is None:
            run_and_converter = self._runs[key] = self._specialized(program_index, leaves, arguments)
        return run_and_converter

    def _check_sizes(self, given: Mapping[str, Any], version: Version) -> None:
        """Check sizes that constants have too: `entry` may no longer have such a constant."""
        for name, axis, size in self._checks:
            shape = shape_of(given[name])
            if len(shape) > axis and shape[axis] != version.sizes[size]:
                raise InputError(
                    f"argument {name} has shape {shape}, but the constants were folded for {size.name} = "
                    f"{version.sizes[size]}: axis {axis} is {shape[axis]}; give arrays that fit, or update the "
                    "constants."
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
            given_arguments = [f"{len(args)} by position", *map(repr, kwargs)]
            raise InputError(
                f"the program takes {shown}, of which {', '.join(self._constants) or 'none'} may be left out once "
                f"folded; found {', '.join(given_arguments)}."
            )
        return {**given, **kwargs}

    def _specialized(self, program_index: int, leaves: Sequence[Any], arguments: Sequence[Any]) -> tuple[Runner, Any]:
        """Check the arguments; returns the function that runs such leaves, and the converter of its results."""
        if program_index and self._unfolded is None:
            missing = [name for name in self._captured if name not in self._known]
            if missing:
                raise released_error(missing, "the whole program")
            self._unfolded = self._executor_of(self.program, self._known)
        bind_sizes(self.program, described(self.program, arguments))
        executor = self._unfolded if program_index else self._executor
        return executor.specialize(leaves), result_converter(arguments, self.backend)

    def _recorded(self, given: Mapping[str, Any]) -> Any:
        """Record a call while another function is traced: the whole Program, which that function may fold."""
        constants = {name: value for name, value in given.items() if name in self._constants}
        known = {**self._sources.all_sources(constants), **given}
        leaves = tuple(self._known.get(name, known[name]) for name in self._captured)
        return CompiledProgram(Bound(self.program, leaves), backend=self.backend, rewriting=self._rewriting)(
            *(known[name] for name in self._names)
        )

    def fold_known(self) -> None:
        """Fold now the values that depend only on constants whose values are known."""
        self._sources.fold_known()

    def update(self, **constants: Any) -> None:
        """Fold new values of some constants; calls in flight finish with the old ones, later ones see all new ones.

        Raises:
            InputError: A name is that of no constant, or another constant that is needed was released.
        """
        unknown = [name for name in constants if name not in self._constants]
        if unknown:
            raise InputError(
                f"update: {unknown[0]!r} is no constant; there are {', '.join(self._constants) or 'none'}."
            )
        self._sources.update(constants)
