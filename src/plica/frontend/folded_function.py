"""`FoldedFunction`: a folded Program as a function. It folds its constants at the first call, and when one changes.

Folding split the Program into *components*, which compute values of constants alone, and `entry`, which each call runs
on those values and on its other arguments.

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
    """What calls share while no constant changes.

    Args:
        version: The constants.
        leaves: The arguments of `entry`, None where a call passes them.
        runs: The function to run and the converter of its results, for each combination of kinds, dtypes and shapes.
    """

    version: Version
    leaves: list[Any]
    runs: dict[Hashable, tuple[Runner, Any]]


def _make_plan(names: Sequence[str], version: Version, values: Mapping[str, Any]) -> _Plan:
    """The plan of calls with these constants and folded values; `names` are the arguments of `entry`."""
    known = {**version.with_placeholders, **values}
    return _Plan(version, [known.get(name) for name in names], {})


class FoldedFunction:
    """A folded Program as a function of its arguments; made by `FoldedProgram.compile`.

    A call may leave out constants that an earlier call, or the compilation, was given. If it passes one, that is
    compared with the folded one, and a change folds anew. If a gradient by a constant is needed, the unfolded Program
    runs.

    Args:
        program: The Program before folding.
        folding: The Program after folding.
        constants: The names of the arguments that are constant.
        known: The constants whose values are known by now, by name. Captured arrays are among them.
        backend: The name of the backend that runs it.
        rewriting: The rewrite rules for its Programs; None for the default ones.
        cache: The cache of folded values; None for the cache that all functions share.
        release_sources: Whether folding drops the references to constants that `entry` does not read.
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
            prepare=partial(_make_plan, [var.name for var in entry.arguments]),
        )
        # torch.compile traces the backend's function, and not the look-up of constants
        prepare_call = FoldedFunction._prepare_call
        self._prepare = untraced(prepare_call) if backend == "torch" else prepare_call
        varying = self._varying()
        self._positions = {var.name: index for index, var in enumerate(entry.arguments) if var.name in varying}
        self._runs: dict[Hashable, tuple[Runner, Any]] = {}
        self._unfolded: Any = None
        self._checks = self._size_checks()
        self._symbolic_axes = tuple(  # of each argument of `entry`, and of the whole Program
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
        """Axes `(argument, axis, size)` of arguments that are not constant and share a size with a constant."""
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
        """A copy or a pickle has the current constants, and folds them anew."""
        options = (self.backend, self._rewriting, self._cache)
        make = partial(FoldedFunction, release_sources=self._is_releasing)
        return make, (self.program, self.folding, [*self._constants], self._sources.unreleased(), *options)

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
        """The bytes of the folded values, including values that other functions share."""
        return self._sources.num_bytes

    # Calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the Program, and return its results.

        Args:
            args: Arguments by position, in the order of the Program.
            kwargs: Arguments by name.

        Raises:
            InputError: An argument is missing or given twice, or a shape does not fit.
        """
        given = self._named(args, kwargs)
        if current_trace() is not None or any(isinstance(value, Tracer) for value in given.values()):
            return self._recorded(given)
        run, leaves, convert = self._prepare(self, given)
        results = run(leaves)
        if convert is None:
            return results
        return tuple(map(convert, results)) if isinstance(results, tuple) else convert(results)

    def run(self, given: Mapping[str, Any]) -> Any:
        """Run the Program on arguments by name. Results are arrays of the backend's library.

        Raises:
            InputError: A shape does not fit.
        """
        run, leaves, _ = self._prepare(self, given)
        return run(leaves)

    def _prepare_call(self, given: Mapping[str, Any]) -> tuple[Runner, list[Any], Any]:
        """The function to run, its arguments, and the converter of its results."""
        constants = {name: value for name, value in given.items() if name in self._constants}
        plan = self._sources.current(constants)
        if plan is None:  # a gradient by a constant is needed
            known = {**self._sources.all_sources(constants), **given}
            leaves = [known[name] for name in self._names]
            run, convert = self._runner(leaves, known, is_unfolded=True)
            return run, leaves, convert
        self._check_sizes(given, plan.version)
        leaves = plan.leaves.copy()
        for name, index in self._positions.items():
            leaves[index] = given[name]
        key = tuple([leaf_key(leaves[index], self._symbolic_axes[0][index]) for index in self._positions.values()])
        run_and_converter = plan.runs.get(key)
        if run_and_converter is None:
            known = {**plan.version.with_placeholders, **given}
            run_and_converter = plan.runs[key] = self._runner(leaves, known, is_unfolded=False)
        run, convert = run_and_converter
        return run, leaves, convert

    def _runner(self, leaves: Sequence[Any], known: Mapping[str, Any], *, is_unfolded: bool) -> tuple[Runner, Any]:
        """The function that runs `entry`, or the unfolded Program, on such leaves; and the converter of its results."""
        arguments = [known[name] for name in self._names]
        key = (is_unfolded, *map(type, arguments), *map(leaf_key, leaves, self._symbolic_axes[is_unfolded]))
        run_and_converter = self._runs.get(key)
        if run_and_converter is None:
            run_and_converter = self._runs[key] = self._specialized(leaves, arguments, is_unfolded=is_unfolded)
        return run_and_converter

    def _check_sizes(self, given: Mapping[str, Any], version: Version) -> None:
        """Check the sizes that arguments share with constants: `entry` may not read such a constant any more."""
        for name, axis, size in self._checks:
            shape = shape_of(given[name])
            if len(shape) > axis and shape[axis] != version.sizes[size]:
                raise InputError(
                    f"argument {name} has shape {shape}, but the constants were folded for {size.name} = "
                    f"{version.sizes[size]}: axis {axis} is {shape[axis]}; give arrays that fit, or update the "
                    "constants."
                )

    def _named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name.

        Raises:
            InputError: One is missing, unknown or given twice.
        """
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

    def _specialized(self, leaves: Sequence[Any], arguments: Sequence[Any], *, is_unfolded: bool) -> tuple[Runner, Any]:
        """Check the arguments, and make the function that runs such leaves and the converter of its results."""
        if is_unfolded and self._unfolded is None:
            missing = [name for name in self._captured if name not in self._known]
            if missing:
                raise released_error(missing, "the whole program")
            self._unfolded = self._executor_of(self.program, self._known)
        bind_sizes(self.program, described(self.program, arguments))
        executor = self._unfolded if is_unfolded else self._executor
        return executor.specialize(leaves), result_converter(arguments, self.backend)

    def _recorded(self, given: Mapping[str, Any]) -> Any:
        """Record the unfolded Program while another function is traced, which may fold it as part of its own."""
        constants = {name: value for name, value in given.items() if name in self._constants}
        known = {**self._sources.all_sources(constants), **given}
        leaves = tuple(self._known.get(name, known[name]) for name in self._captured)
        return CompiledProgram(Bound(self.program, leaves), backend=self.backend, rewriting=self._rewriting)(
            *(known[name] for name in self._names)
        )

    def fold_known(self) -> None:
        """Fold now, before the first call, the values that depend only on constants whose values are known."""
        self._sources.fold_known()

    def update(self, **constants: Any) -> None:
        """Fold new values of some constants. Running calls finish with the old values; later calls see all new ones.

        Raises:
            InputError: There is no constant of a name, or a released constant is needed again.
        """
        unknown = [name for name in constants if name not in self._constants]
        if unknown:
            raise InputError(
                f"update: {unknown[0]!r} is no constant; there are {', '.join(self._constants) or 'none'}."
            )
        self._sources.update(constants)
