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
from plica.frontend.executors import EXECUTORS, Run, require_backend, result_converter, untraced
from plica.ir.program import Bound, Program, Var
from plica.ir.signature import bind_sizes
from plica.ir.sizes import Size
from plica.passes.rewriting import Rewriting
from plica.tracing.leaves import described, shape_of
from plica.tracing.scope import Reference, current_trace
from plica.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """What calls with one version of the constants have in common.

    Args:
        version: The constants.
        leaves: The arguments of `entry`; those that are not constant are put in their places at each call.
        runs: What runs arguments of some kinds, and what its results become.
    """

    version: Version
    leaves: list[Any]
    runs: dict[Hashable, tuple[Run, Any]]


def _planned(names: Sequence[str], version: Version, values: Mapping[str, Any]) -> _Plan:
    """What calls with these constants have in common, given the names of the arguments of `entry`."""
    known = {**version.shown, **values}
    return _Plan(version, [known.get(name) for name in names], {})


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
        cache: Where values are kept; by default where other functions keep theirs too.
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
        self._known = {name: one for name, one in known.items() if name not in released or isinstance(one, Reference)}
        self._executor = self._made(entry, self._known)
        components = Components(
            [Component(one, self._made(one, known)) for one in map(of_arguments, folding.components)],
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
        # torch.compile sees what runs, and nothing of how constants are looked up
        prepared = FoldedFunction._prepared
        self._ready = untraced(prepared) if backend == "torch" else prepared
        self._places = {var.name: place for place, var in enumerate(entry.arguments) if var.name in self._varying()}
        self._runs: dict[Hashable, tuple[Run, Any]] = {}
        self._whole: Any = None
        self._checks = self._size_checks()
        self._dynamic = tuple(
            [
                {axis: str(dim) for axis, dim in enumerate(var.type.shape) if not isinstance(dim, int)}
                for var in one.arguments
            ]
            for one in (self._entry, program)
        )

    def _varying(self) -> dict[str, None]:
        """The names of the arguments that are not constant."""
        return dict.fromkeys(name for name in self._names if name not in self._constants)

    def _made(self, program: Program, known: Mapping[str, Any]) -> Any:
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
        """Copies and pickles have the constants as they are now, which are folded anew."""
        options = (self.backend, self._rewriting, self._cache)
        make = partial(FoldedFunction, release_sources=self._is_releasing)
        return make, (self.program, self.folding, [*self._constants], self._sources.at_hand(), *options)

    def __repr__(self) -> str:
        return f"<folded program of {len(self._entry.equations)} equation(s), folded {self.num_folds} time(s)>"

    @property
    def code(self) -> str:
        """What the backend runs at each call, as text."""
        text: str = self._executor.code
        return text

    @property
    def num_folds(self) -> int:
        """How often a component was folded."""
        return self._sources.num_folds

    @property
    def num_bytes(self) -> int:
        """The bytes that are kept beside the constants, those that other functions share among them."""
        return self._sources.num_bytes

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
        run, leaves, convert = self._ready(self, given)
        made = run(leaves)
        if convert is None:
            return made
        return tuple(map(convert, made)) if isinstance(made, tuple) else convert(made)

    def run(self, given: Mapping[str, Any]) -> Any:
        """The results as the backend makes them, of arguments by name.

        Raises:
            InputError: A shape does not fit.
        """
        run, leaves, _ = self._ready(self, given)
        return run(leaves)

    def _prepared(self, given: Mapping[str, Any]) -> tuple[Run, list[Any], Any]:
        """What runs, at which leaves, and what its results become."""
        constants = {name: value for name, value in given.items() if name in self._constants}
        plan = self._sources.current(constants)
        if plan is None:
            known = {**self._sources.all_sources(constants), **given}
            leaves = [known[name] for name in self._names]
            run, convert = self._running(1, leaves, known)
            return run, leaves, convert
        self._check_sizes(given, plan.version)
        leaves = plan.leaves.copy()
        for name, place in self._places.items():
            leaves[place] = given[name]
        key = tuple([leaf_key(leaves[place], self._dynamic[0][place]) for place in self._places.values()])
        found = plan.runs.get(key)
        if found is None:
            found = plan.runs[key] = self._running(0, leaves, {**plan.version.shown, **given})
        run, convert = found
        return run, leaves, convert

    def _running(self, place: int, leaves: Sequence[Any], known: Mapping[str, Any]) -> tuple[Run, Any]:
        """What runs `entry`, or the whole Program, at leaves like these, and what its results become."""
        arguments = [known[name] for name in self._names]
        key = (place, *map(type, arguments), *map(leaf_key, leaves, self._dynamic[place]))
        found = self._runs.get(key)
        if found is None:
            found = self._runs[key] = self._specialized(place, leaves, arguments)
        return found

    def _check_sizes(self, given: Mapping[str, Any], version: Version) -> None:
        """Check sizes that constants have too, of which `entry` may know nothing any more."""
        for name, axis, size in self._checks:
            found = shape_of(given[name])
            if len(found) > axis and found[axis] != version.sizes[size]:
                raise InputError(
                    f"argument {name} has shape {found}, but the constants were folded for {size.name} = "
                    f"{version.sizes[size]}: axis {axis} is {found[axis]}; give arrays that fit, or update the "
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
            found = [f"{len(args)} by place", *map(repr, kwargs)]
            raise InputError(
                f"the program takes {shown}, of which {', '.join(self._constants) or 'none'} may be left out once "
                f"folded; found {', '.join(found)}."
            )
        return {**given, **kwargs}

    def _specialized(self, place: int, leaves: Sequence[Any], arguments: Sequence[Any]) -> tuple[Run, Any]:
        """What runs leaves of these kinds, which are checked, and what its results become."""
        if place and self._whole is None:
            missing = [name for name in self._captured if name not in self._known]
            if missing:
                raise released_error(missing, "the whole program")
            self._whole = self._made(self.program, self._known)
        bind_sizes(self.program, described(self.program, arguments))
        executor = self._whole if place else self._executor
        return executor.specialize(leaves), result_converter(arguments, self.backend)

    def _recorded(self, given: Mapping[str, Any]) -> Any:
        """A call while another function is traced: the whole Program, which that function may fold."""
        constants = {name: value for name, value in given.items() if name in self._constants}
        known = {**self._sources.all_sources(constants), **given}
        leaves = tuple(self._known.get(name, known[name]) for name in self._captured)
        return CompiledProgram(Bound(self.program, leaves), backend=self.backend, rewriting=self._rewriting)(
            *(known[name] for name in self._names)
        )

    def fold_known(self) -> None:
        """Fold now what is made of constants alone whose values are known."""
        self._sources.fold_known()

    def update(self, **constants: Any) -> None:
        """Fold new values of some constants; calls in flight finish with the old ones, later ones see all new ones.

        Raises:
            InputError: A name is that of no constant, or what is needed beside it was released.
        """
        unknown = [name for name in constants if name not in self._constants]
        if unknown:
            raise InputError(
                f"update: {unknown[0]!r} is no constant; there are {', '.join(self._constants) or 'none'}."
            )
        self._sources.update(constants)
