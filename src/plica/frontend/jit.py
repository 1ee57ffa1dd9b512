"""`jit`: a Python function of arrays, compiled once for all sizes that are declared dynamic.

>>> import plica, plica.numpy as pnp
>>> @plica.jit
... def ramp(n: int):
...     return pnp.cumulative_sum(pnp.ones([n]))
>>> ramp(3).tolist(), ramp(5).tolist(), ramp.num_compilations
([1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0, 5.0], 1)
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, update_wrapper
from itertools import chain, repeat
from operator import attrgetter, is_
from typing import Any
from weakref import ref

from plica.constants.policy import FoldPolicy
from plica.constants.store.cache import FoldCache, checked_cache
from plica.errors import InputError, TraceError
from plica.frontend.arguments import (
    CallArguments,
    annotated_specs,
    check_annotated,
    dynamic_axes,
    fit_annotated,
    leaf_key,
    signature_of,
)
from plica.frontend.compiled_program import CompiledProgram, Consts
from plica.frontend.executors import EXECUTORS, Executor, Runner, from_dlpack, require_backend, result_converter
from plica.frontend.folding import constant_names, folded_executor, marks_of, names_of
from plica.ir.program import Bound, Program
from plica.ir.signature import bind_sizes
from plica.logger import LOGGER
from plica.lower.optimize import DEFAULT_RULES, Rules, check_rules, program_rewriting
from plica.passes.rewriting import Rewriting
from plica.single_flight import SingleFlight
from plica.tracing.call import trace_call
from plica.tracing.control import parameter_names, place_of
from plica.tracing.leaves import dtype_of, shape_of
from plica.tracing.scope import current_trace
from plica.tracing.trace import (
    NUMBERS,
    AbstractedAxes,
    TracedFunction,
    check_axes,
    trace_function,
)
from plica.tracing.tracer import Tracer
from plica.tracing.trees import Structure, flatten, unflatten


@dataclass(frozen=True, slots=True)
class _Compiled:
    """One compilation.

    Args:
        traced: The Program, its captured arrays, and the structure of its results.
        executor: Runs the Program.
        structure: The tree of positional and named arguments.
        names: The names of the positional arguments.
    """

    traced: TracedFunction
    executor: Executor
    structure: Structure
    names: Sequence[str]


def jit(
    fn: Callable[..., Any] | Program | Bound | None = None,
    *,
    abstracted_axes: AbstractedAxes = None,
    static_argnums: int | Sequence[int] = (),
    backend: str = "torch",
    consts: Consts | None = None,
    rules: Rules = DEFAULT_RULES,
    constants: str | int | Sequence[str | int] = (),
    policy: FoldPolicy | None = None,
    cache: FoldCache | None = None,
) -> Any:
    """Compile a function of arrays, or a Program.

    If annotations give the types of all arguments (`int`, `float`, `bool`, `complex`, `plica.spec(...)`, or trees of
    these), the function is compiled when it is decorated. Otherwise a call compiles it for its arguments, if no earlier
    call had their dtypes and sizes. Sizes that have names never cause another compilation.

    A Program (`plica.parse(text)`) is compiled at once, for all sizes that its types name. `consts` gives the arrays
    that it captures, which are the variables before its semicolon.

    While another function is traced, a call is recorded as a nested Program.

    Args:
        fn: The function; without it, `jit` is a decorator. Arguments and results may be tuples, lists, dicts and
            dataclasses of torch tensors, numpy arrays, DLPack objects and Python numbers. Results are of the kind of
            the arguments: numpy if all arrays are, objects of their own library if all are DLPack objects of one
            library, else torch. Arrays that the function closes over are captured by reference. Or a Program, or the
            `bound` of a compiled function, a Program with what it captures: the arguments are its explicit inputs.
        abstracted_axes: Names of axes whose sizes are dynamic; sizes of one name are equal. `{axis: name}` for all
            arrays, or a sequence with one such mapping, a sequence of names, or None for each positional argument.
            Where annotations give the types, these names replace their sizes.
        static_argnums: Indices of arguments that are no arrays, but hashable values; the function is compiled for each
            value. For a method, indices do not count `self`, and it is compiled for each object.
        backend: "torch" runs generated code. "native" runs machine code, which suits loops of small steps, and torch if
            gradients are needed. "interpreter" runs the definition of each operation in numpy.
        consts: The arrays that a Program captures, in the order of its consts or by name. Tensors are captured by
            reference, and gradients flow to them.
        rules: The tables of rewrites, as for circuits; the rules on Programs are applied.
        constants: The names or indices of arguments that have one value for many calls. Values that depend only on
            these and on captured arrays are computed once, and again after a change.
        policy: How much memory such values may take, and how changes are detected.
        cache: The cache of such values; by default the one that functions share.

    Raises:
        TraceError: The function does what cannot be recorded.
        ShapeError: Sizes do not fit.
        DTypeError: Dtypes do not fit.
        InputError: The consts of a Program are missing, or do not fit; or there is a policy or a cache without
            constants.
        VerifyError: A Program breaks a rule.
    """
    check_rules(rules)
    rewriting = program_rewriting(rules)
    constants = marks_of("jit: constants", constants)
    checked_cache("jit", cache)
    for name, option in (("policy", policy), ("cache", cache)):
        if option is not None and not constants:
            raise InputError(
                f"jit: {name} says how constants are folded, but no argument is constant; name some in constants, or "
                f"leave {name} out."
            )
    if isinstance(fn, Program | Bound):
        if abstracted_axes is not None or static_argnums != () or constants:
            raise TraceError(
                "jit: a Program names its sizes and its arguments itself; leave out abstracted_axes and "
                "static_argnums, and fold its constants with plica.fold_constants."
            )
        return CompiledProgram(fn, consts, backend, rewriting)
    if consts is not None:
        raise TraceError(
            "jit: consts belong to a Program, but a function captures its arrays itself; leave consts out."
        )
    if fn is None:
        how: dict[str, Any] = {"static_argnums": static_argnums, "backend": backend, "rules": rules}
        how |= {"constants": constants, "policy": policy, "cache": cache}
        return partial(jit, abstracted_axes=abstracted_axes, **how)
    return CompiledFunction(fn, abstracted_axes, static_argnums, backend, rewriting, constants, policy, cache)


class CompiledFunction:
    """A function and its compilations; made by `jit`.

    Attributes:
        num_compilations: How often it was compiled.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        abstracted_axes: AbstractedAxes = None,
        static_argnums: int | Sequence[int] = (),
        backend: str = "torch",
        rewriting: Rewriting | None = None,
        constants: Sequence[str | int] = (),
        policy: FoldPolicy | None = None,
        cache: FoldCache | None = None,
    ) -> None:
        require_backend(backend)
        update_wrapper(self, fn)
        self._constants, self._policy, self._cache = constants, policy, cache
        self.__name__ = getattr(fn, "__name__", type(fn).__name__)  # a partial function has none
        self.num_compilations = 0
        self._fn = fn
        self._backend = backend
        self._rewriting = rewriting
        self._axes = abstracted_axes
        self._static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        self._compiled: dict[Hashable, _Compiled] = {}
        self._runs: dict[Hashable, Callable[[Sequence[Any]], Any]] = {}
        self._last: _Compiled | None = None
        self._methods: dict[int, tuple[ref[Any], CompiledFunction]] = {}  # by identity: equal objects may differ
        self._flights = SingleFlight()
        self._signature = signature_of(fn)
        self._positional_count = _positional_count(self._signature)
        self._annotated = None if self._static else annotated_specs(fn, abstracted_axes)
        check_axes(fn, abstracted_axes, ())
        self._dynamic = dynamic_axes(abstracted_axes, self._annotated)
        if self._annotated is not None:
            self._compile_annotated()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A function of a module is pickled by its name, as Python's functions are; others with their state."""
        name = getattr(self, "__qualname__", "")
        try:
            function = attrgetter(name)(sys.modules[self.__module__])
        except (AttributeError, KeyError):
            function = None
        return name if function is self else super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        """A copy has no compilations: it compiles anew for its own arrays."""
        return {**self.__dict__, "_compiled": {}, "_runs": {}, "_last": None, "_methods": {}, "num_compilations": 0}

    # Compilations

    @property
    def program(self) -> Program:
        """The traced Program, of the last compilation if there are several."""
        return self._latest().traced.bound.program

    @property
    def bound(self) -> Bound:
        """The Program, and the arrays that it captures."""
        return self._latest().traced.bound

    @property
    def trees(self) -> tuple[dict[str, Any], Any]:
        """The arguments by name, and the results, as trees of indices of the Program's arguments and results."""
        compiled = self._latest()
        positional, keywords = unflatten(compiled.structure, range(compiled.structure.num_leaves))
        results = compiled.traced.structure
        names = [*compiled.names, *(f"argument{index}" for index in range(len(compiled.names), len(positional)))]
        arguments = {**dict(zip(names, positional, strict=False)), **keywords}
        return arguments, unflatten(results, range(results.num_leaves))

    @property
    def code(self) -> str:
        """The code that the backend runs, as text."""
        return self._latest().executor.code

    def _latest(self) -> _Compiled:
        if self._last is None and self._annotated is not None:  # a copy
            self._flights.once("annotated", self._compile_annotated)
        if self._last is None:
            raise InputError(
                f"{self.__name__} was not compiled yet; call it, or annotate its arguments with int, float "
                "or plica.spec(...)."
            )
        return self._last

    __name__: str

    def __repr__(self) -> str:
        return f"<plica.jit {self.__name__}, compiled {self.num_compilations} time(s)>"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The method of one object: compiled for that object, which it closes over."""
        if instance is None:
            return self
        return CompiledMethod(self._for_object(instance), instance)

    def _for_object(self, instance: Any) -> CompiledFunction:
        key = id(instance)
        if key not in self._methods:
            self._flights.once(("method", key), lambda: self._add_method(key, instance))
        return self._methods[key][1]

    def _add_method(self, key: int, instance: Any) -> None:
        if key in self._methods:
            return
        owner = ref(self)

        def forget(_: object) -> None:
            function = owner()
            if function is not None:
                function._methods.pop(key, None)

        try:
            reference = ref(instance, forget)
        except TypeError:
            raise TraceError(
                f"{place_of(self._fn)}: a method can be compiled only for objects that take weak references, found "
                f"{type(instance).__name__}; write a function of arrays, or give the class a slot '__weakref__'."
            ) from None
        folding = self._constants, self._policy, self._cache
        method = CompiledFunction(
            _method_of(self._fn, instance), self._axes, self._static, self._backend, self._rewriting, *folding
        )
        self._methods[key] = reference, method

    # Calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, compiled for such arguments.

        Raises:
            InputError: An argument is of another shape than the function was compiled for.
            DTypeError: An argument is of another dtype than the function was compiled for.
            TraceError: An argument is no array, number or tree of them; or the function cannot be traced.
        """
        if not kwargs:
            run = self._runs.get(self._key(args, self._dynamic))
            if run is not None and current_trace() is None:
                return run(args)
        return self._call(args, kwargs)

    def _key(self, leaves: Sequence[Any], axes: Any, structure: Hashable = None, static: Hashable = ()) -> Hashable:
        """The key of a call: kinds, dtypes and static sizes of leaves; without `structure`, each argument is a leaf."""
        if isinstance(axes, Mapping) or axes is None:
            return (structure, static, *[leaf_key(leaf, axes) for leaf in leaves])
        return (structure, static, *map(leaf_key, leaves, chain(axes, repeat(None))))

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args and isinstance(args[0], type) and self._is_classmethod_of(args[0]):
            return self.__get__(args[0])(*args[1:], **kwargs)  # up to Python 3.12 a classmethod asks `__get__` itself
        args, kwargs = self._positional(args, kwargs)
        call = CallArguments(self._fn, args, kwargs, self._static, from_dlpack)
        if current_trace() is not None or any(isinstance(leaf, Tracer) for leaf in call.leaves):
            leaves = call.leaves if self._annotated is None else fit_annotated(self._annotated, call)
            return trace_call(self._fn, leaves, lambda tracers: self._fn_at(call, tracers), call.names)
        is_flat = not kwargs and not self._static and len(args) == len(call.leaves) and all(map(is_, args, call.leaves))
        if is_flat:
            key = self._key(args, self._dynamic)
        else:
            axes = self._dynamic if self._annotated is not None else call.leaf_axes(self._dynamic)
            key = self._key(call.leaves, axes, call.structure, call.static)
        if key not in self._runs:
            self._flights.once(("run", key), lambda: self._add_run(key, call))
        return self._runs[key](call.leaves)

    def _add_run(self, key: Hashable, call: CallArguments) -> None:
        if key not in self._runs:
            self._runs[key] = self._specialized(call)

    def _is_classmethod_of(self, owner: type) -> bool:
        attributes = (attribute for base in owner.__mro__ for attribute in vars(base).values())
        return any(isinstance(attribute, classmethod) and attribute.__func__ is self for attribute in attributes)

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, positional if Python's rules allow it; with defaults if annotations gave the types."""
        if self._signature is None or (not kwargs and len(args) == self._positional_count):
            return args, kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TraceError(f"{place_of(self._fn)}: {self.__name__}{self._signature}: {error}.") from None
        if self._annotated is not None:
            bound.apply_defaults()
        return bound.args, bound.kwargs

    def _fn_at(self, call: CallArguments, values: Sequence[Any]) -> Any:
        positional, keywords = call.arguments(values)
        return self._fn(*positional, **keywords)

    def _specialized(self, call: CallArguments) -> Runner:
        """The function that runs such calls, compiled for the kinds of the leaves unless it is compiled already."""
        call.check()
        compiled = self._for_call(call)
        run = compiled.executor.specialize(call.leaves)
        structure, convert = compiled.traced.structure, result_converter(call.leaves, self._backend)
        if structure == _LEAF and convert is None:
            return run

        def results(leaves: Sequence[Any]) -> Any:
            result = run(leaves)
            listed = result if isinstance(result, tuple) else (result,)
            return unflatten(structure, listed if convert is None else map(convert, listed))

        return results

    def _for_call(self, call: CallArguments) -> _Compiled:
        if self._annotated is not None:
            compiled = self._latest()
            check_annotated(compiled.traced.bound.program, self._annotated, call)
            return compiled
        specs = call.specs(self._axes)
        key = (call.structure, call.static, specs)
        if key not in self._compiled:
            self._flights.once(("compiled", key), lambda: self._add_compiled(key, specs, call))
        compiled = self._last = self._compiled[key]
        program = compiled.traced.bound.program
        bind_sizes(program, [(shape_of(leaf), dtype_of(leaf).value) for leaf in call.leaves])
        return compiled

    def _add_compiled(self, key: Hashable, specs: Sequence[Any], call: CallArguments) -> None:
        if key not in self._compiled:
            self._compiled[key] = self._compile(specs, call.arguments, call.trees, call.parameters, call.structure)

    def _compile_annotated(self) -> None:
        trees = self._annotated
        if self._last is not None or trees is None:
            return
        leaves, structure = flatten(tuple(trees))
        names, arguments = parameter_names(self._fn), flatten((tuple(trees), {}))[1]
        self._last = self._compile(leaves, lambda values: (unflatten(structure, values), {}), trees, names, arguments)

    def _compile(
        self, specs: Sequence[Any], arguments: Any, trees: Sequence[Any], names: Sequence[str], structure: Structure
    ) -> _Compiled:
        traced = trace_function(self._fn, specs, arguments, trees)
        numbers = frozenset(index for index, spec_ in enumerate(specs) if spec_ in NUMBERS)
        executor: Executor
        if self._constants:
            constants = names_of("jit", self._constants, parameter_names(self._fn))
            constants = constant_names(names, constants, trees, traced.bound.program)
            traced = replace(traced, bound=replace(traced.bound, run_time=tuple(constants)))
            folding = self._policy, self._cache
            executor = folded_executor(traced.bound, constants, self._backend, self._rewriting, *folding)
        else:
            executor = EXECUTORS[self._backend](traced.bound, self.__name__, numbers, self._rewriting)
        self.num_compilations += 1
        LOGGER.info("compiled %s for %s", self.__name__, ", ".join(map(str, traced.bound.program.arguments)))
        return _Compiled(traced, executor, structure, names)


@dataclass(frozen=True, slots=True)
class CompiledMethod:
    """A compiled function of one object, with all attributes of a `CompiledFunction`.

    Args:
        function: The function.
        instance: The object, which the method keeps alive.
    """

    function: CompiledFunction
    instance: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)


def _positional_count(signature: inspect.Signature | None) -> int | None:
    """The number of positional arguments for which binding to the signature can be skipped; None if it never can."""
    kinds = [parameter.kind for parameter in signature.parameters.values()] if signature is not None else [None]
    fixed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return len(kinds) if all(kind in fixed for kind in kinds) else None


def _method_of(fn: Callable[..., Any], instance: Any) -> Callable[..., Any]:
    """A function bound to an object, which it does not keep alive."""
    reference = ref(instance)

    def method(*args: Any, **kwargs: Any) -> Any:
        return fn(reference(), *args, **kwargs)

    wrapped: Any = update_wrapper(method, fn)
    wrapped.__signature__ = signature_of(fn.__get__(instance))
    return method


_LEAF: Structure = flatten(0)[1]
