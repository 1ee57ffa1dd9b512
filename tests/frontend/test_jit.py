"""jit: when a function is compiled, for what, how often, and what it shows of that."""
# ruff: noqa: ARG005, F821 - annotations hold the names of keys, and functions are given what they need not use

import functools
import gc
from dataclasses import dataclass, field
from types import MethodType
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import DTypeError, InputError, ShapeError, TraceError
from plica.ir.types import spec
from plica.tracing.scope import current_trace
from tests.harness.together import grouped

BACKENDS = ("torch", "interpreter")


# Ahead of time


def of_int(n: int):
    return pnp.ones([n]) * n


def of_float(a: float):
    return a * 2


def of_bool(a: bool):
    return pnp.logical_not(a)


def of_complex(a: complex):
    return a * 2


def of_text(n: "int", x: "spec(('k',), 'float64')"):
    return x * n


def of_specs(x: spec(("n", 3)), y: spec((3, "m"))):
    return x @ y


def of_trees(tree: {"a": spec(("n",)), "b": (spec(("n",)), int)}, pair: [float, None]):  # type: ignore[misc,syntax]
    return tree["a"] + tree["b"][0] * tree["b"][1] * pair[0]


def of_defaults(n: int, m: int = 3):
    return n * m


X = torch.tensor([1.0, 2.0])
ANNOTATED: Any = (
    (of_int, (3,), [3.0] * 3),
    (of_int, (0,), []),
    (of_int, (True,), [1.0]),
    (of_int, (torch.tensor(2),), [2.0, 2.0]),
    (of_int, (np.int64(2),), [2.0, 2.0]),
    (of_float, (2.5,), 5.0),
    (of_float, (2,), 4.0),
    (of_float, (np.float64(2.5),), 5.0),
    (of_bool, (True,), False),
    (of_complex, (1j,), 2j),
    (of_complex, (2.5,), 5.0),
    (of_text, (2, X.double()), [2.0, 4.0]),
    (of_specs, (torch.ones(2, 3), torch.ones(3, 1)), [[3.0], [3.0]]),
    (of_specs, (torch.ones(0, 3), torch.ones(3, 2)), []),
    (of_trees, ({"a": X, "b": (X, 3)}, [0.5, None]), [2.5, 5.0]),
    (of_defaults, (2,), 6),
    (of_defaults, (2, 5), 10),
)


@grouped("backend", BACKENDS)
@grouped(("function", "arguments", "expected"), ANNOTATED)
def test_annotations_compile_when_a_function_is_decorated(function, arguments, expected, backend: str) -> None:
    compiled = plica.jit(function, backend=backend)
    assert compiled.num_compilations == 1
    assert compiled(*arguments).tolist() == expected
    assert compiled(*arguments).tolist() == expected
    assert compiled.num_compilations == 1


def test_arguments_may_be_named() -> None:
    compiled = plica.jit(of_defaults)
    assert [int(one) for one in (compiled(n=2), compiled(2, m=5), compiled(m=5, n=3))] == [6, 10, 15]
    assert compiled.num_compilations == 1


MISMATCHES = (
    (of_int, (2.5,), DTypeError, "argument n is annotated as int, found 2.5; convert it"),
    (of_bool, (1,), DTypeError, "argument a is annotated as bool, found 1"),
    (of_float, (1j,), DTypeError, "argument a is annotated as float, found 1j"),
    (of_int, (np.int32(3),), DTypeError, "argument n has dtype int32, but the program was made for int64"),
    (of_int, ("3",), TraceError, "argument n is '3' of type str; pass an array or a number"),
    (of_int, (torch.ones(2, dtype=torch.int64),), InputError, r"argument n has shape \(2,\)"),
    (of_int, (None,), TraceError, "annotated for arguments"),
    (of_int, ([1, 2],), TraceError, r"a list or tuple is a tree of its entries, so pass an array"),
    (of_int, (), TraceError, r"of_int\(n: int\): missing a required argument: 'n'"),
    (of_int, (1, 2), TraceError, "too many positional arguments"),
    (of_specs, (torch.ones(2, 4), torch.ones(3, 1)), InputError, r"x has shape \(2, 4\).* axis 1 is 4, expected 3"),
    (
        of_specs,
        (torch.ones(2), torch.ones(3, 1)),
        InputError,
        r"x has shape \(2,\), but the program expects f32\[n,3\]",
    ),
    (of_specs, (torch.ones(2, 3).double(), torch.ones(3, 1)), DTypeError, "x has dtype float64.*made for float32"),
    (of_specs, (1.0, torch.ones(3, 1)), DTypeError, "x has dtype float64"),
    (of_trees, ({"a": X, "b": (X[:1], 3)}, [0.5, None]), InputError, "is 1, (expected|but) 2"),
    (of_trees, ({"a": X, "c": (X, 3)}, [0.5, None]), TraceError, "annotated for arguments .*'b'.* found .*'c'"),
)


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"), MISMATCHES, ids=[row[3][:40] for row in MISMATCHES]
)
def test_annotations_that_do_not_hold(function, arguments, error, message: str) -> None:
    with pytest.raises(error, match=message):
        plica.jit(function)(*arguments)


def test_sizes_of_one_name_are_compared_at_every_call() -> None:
    compiled = plica.jit(of_trees)
    good, bad = {"a": X, "b": (X, 3)}, {"a": X, "b": (torch.ones(3), 3)}
    compiled(good, [0.5, None])
    with pytest.raises(InputError, match=r"has size 3, but 2 \(n\) is needed: axes of one name have equal sizes"):
        compiled(bad, [0.5, None])
    assert compiled(good, [0.5, None]).tolist() == [2.5, 5.0]


# At the first call


def test_without_annotations_the_first_call_compiles() -> None:
    compiled = plica.jit(lambda x, y=2.0: x * y)
    assert compiled.num_compilations == 0
    assert compiled(X).tolist() == [2.0, 4.0]
    assert compiled.num_compilations == 1


def partly(n: int, x):
    return x * n


def test_annotations_of_some_arguments_alone_are_no_types() -> None:
    compiled = plica.jit(partly)
    assert compiled.num_compilations == 0
    assert compiled(2, X).tolist() == [2.0, 4.0]


def test_a_function_without_arguments() -> None:
    compiled = plica.jit(lambda: pnp.ones(2))
    assert compiled().tolist() == compiled().tolist() == [1.0, 1.0]
    assert compiled.num_compilations == 1


COUNTED: Any = (
    # settings, calls, how often it is compiled
    ({}, [(torch.ones(2), 1), (torch.ones(2), 2), (torch.zeros(2), 3)], 1),
    ({}, [(torch.ones(2), 1), (torch.ones(3), 1), (torch.ones(2), 1)], 2),
    ({}, [(torch.ones(2), 1), (torch.ones(2).double(), 1), (torch.ones(2, dtype=torch.int32), 1)], 3),
    ({}, [(torch.ones(2), 1), (torch.ones(2), 1.0), (torch.ones(2), True), (torch.ones(2), 2)], 3),
    ({}, [(torch.ones(2), 1), (np.ones(2, "float32"), 1)], 1),
    ({}, [(torch.ones(2), torch.ones(2)), (torch.nn.Parameter(torch.ones(2)), torch.ones(2))], 1),
    ({}, [(torch.ones(2), 1), (torch.ones(2, requires_grad=True), 1)], 1),
    ({}, [(torch.ones(()), 1), (torch.ones(1), 1)], 2),
    ({"abstracted_axes": {0: "n"}}, [(torch.ones(size), 1) for size in (2, 3, 0, 1, 7)], 1),
    ({"abstracted_axes": {0: "n"}}, [(torch.ones(2, 3), 1), (torch.ones(3, 3), 1), (torch.ones(3, 4), 1)], 2),
    ({"abstracted_axes": {0: "n"}}, [(torch.ones(2), 1), (torch.ones(2, 2), 1)], 2),
    ({"abstracted_axes": {0: "n"}}, [(torch.ones(2), 1), (torch.ones(3).double(), 1)], 2),
    ({"abstracted_axes": ({0: "n"}, None)}, [(torch.ones(2), torch.ones(1)), (torch.ones(3), torch.ones(1))], 1),
    ({"abstracted_axes": (("n", "m"), None)}, [(torch.ones(2, 3), 1), (torch.ones(3, 2), 1)], 1),
    ({"static_argnums": 1}, [(torch.ones(2), 1), (torch.ones(2), 2), (torch.ones(2), 1)], 2),
    ({"static_argnums": (1,)}, [(torch.ones(2), 1), (torch.ones(2), 1.0), (torch.ones(2), True)], 3),
    ({"static_argnums": -1}, [(torch.ones(2), 1), (torch.ones(2), 2)], 2),
    ({"static_argnums": 1, "abstracted_axes": {0: "n"}}, [(torch.ones(2), 1), (torch.ones(3), 1), (X, 2)], 2),
)


@grouped("backend", BACKENDS)
@grouped(("settings", "calls", "count"), COUNTED, ids=range(len(COUNTED)))
def test_what_causes_a_compilation(settings, calls, count: int, backend: str) -> None:
    compiled = plica.jit(lambda x, y: x * y, backend=backend, **settings)
    for x, y in [*calls, *calls]:
        expected = torch.as_tensor(x) * y
        found = torch.as_tensor(compiled(x, y))
        assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())
    assert compiled.num_compilations == count


AXES: Any = (
    ({0: "n"}, ("n", 4), ("n", 1)),
    ({-2: "n"}, ("n", 4), ("n", 1)),
    (({0: "n"}, None), ("n", 4), (3, 1)),
    ((("n",), None), ("n", 4), (3, 1)),
    (("n", None), ("n", 4), (3, 1)),
    ((("n", None), {0: "m"}), ("n", 4), ("m", 1)),
    ([{0: "n", 1: "m"}, {0: "n"}], ("n", "m"), ("n", 1)),
    ((["n", "m"], ["n"]), ("n", "m"), ("n", 1)),
    (({-1: "m"}, {}), (3, "m"), (3, 1)),
)


@pytest.mark.parametrize(("axes", "first", "second"), AXES, ids=[str(row[0]) for row in AXES])
def test_every_form_of_abstracted_axes(axes, first, second) -> None:
    compiled = plica.jit(lambda x, y: (x, y), abstracted_axes=axes)
    compiled(torch.ones(3, 4), torch.ones(3, 1))
    shapes = [tuple(str(dim) for dim in var.type.shape) for var in compiled.program.arguments]
    assert shapes == [tuple(map(str, first)), tuple(map(str, second))]
    if axes == {0: "n"}:
        assert [tuple(one.shape) for one in compiled(torch.ones(0, 4), torch.ones(0, 1))] == [(0, 4), (0, 1)]
        assert compiled.num_compilations == 1


def test_axes_of_trees_and_of_named_arguments() -> None:
    compiled = plica.jit(lambda tree, *, other: tree["a"] + tree["b"][0] + other, abstracted_axes={0: "n"})
    for size in (2, 3, 0):
        one = torch.ones(size)
        assert compiled({"a": one, "b": [one]}, other=one).tolist() == [3.0] * size
    assert compiled.num_compilations == 1


@pytest.mark.parametrize("make", [torch.ones, np.ones])
def test_sizes_of_one_name_that_differ_are_refused(make) -> None:
    compiled = plica.jit(lambda x, y: x + y, abstracted_axes={0: "n"})
    for _ in range(2):  # the first call and the later ones
        with pytest.raises(InputError, match=r"argument y.* (is|has size) 3, (expected 2|but 2) \(n"):
            compiled(make(2), make(3))
        assert compiled(make(2), make(2)).tolist() == [2.0, 2.0]
    assert compiled.num_compilations == 1


AXES_REFUSED = (
    (({0: "n"},), TraceError, r"abstracted_axes has 1 entries for 2 argument\(s\)"),
    ((("n", "m", "k"), None), ShapeError, "names 3 axes .* of an array with 1"),
    (({0: "not a name"}, None), ShapeError, "'not a name' of the shape"),
)


@pytest.mark.parametrize(("axes", "error", "message"), AXES_REFUSED)
def test_axes_that_do_not_fit(axes, error, message: str) -> None:
    with pytest.raises(error, match=message):
        plica.jit(lambda x, y: x, abstracted_axes=axes)(torch.ones(2), torch.ones(2))


# Static arguments


def test_static_arguments_are_python_values() -> None:
    compiled = plica.jit(lambda x, how, n: x + n if how == "up" else x - n, static_argnums=(1, 2))
    assert compiled(X, "up", 1).tolist() == [2.0, 3.0]
    assert compiled(X, "down", 1).tolist() == [0.0, 1.0]
    assert compiled(X, how="up", n=1).tolist() == [2.0, 3.0]
    assert compiled.num_compilations == 2


def test_static_values_of_two_types_are_two() -> None:
    compiled = plica.jit(lambda x, k: x * k[0], static_argnums=1)
    x = torch.ones(2, dtype=torch.int64)
    assert [compiled(x, (one,)).dtype for one in (2, 2.0)] == [torch.int64, torch.float64]


def test_static_zeros_of_two_signs_are_two() -> None:
    compiled = plica.jit(lambda x, k: x * max(k), static_argnums=1)
    for number in (0.0, -0.0, 0.0):
        for static in ((number,), frozenset([number])):
            assert torch.signbit(compiled(X, static)).tolist() == [str(number)[0] == "-"] * 2
    assert compiled.num_compilations == 4


def test_static_arguments_and_axes_beside_each_other() -> None:
    compiled = plica.jit(lambda k, x: x * k, static_argnums=0, abstracted_axes=(None, {0: "n"}))
    for k, size in ((3, 1), (3, 2), (4, 3), (3, 5)):
        assert compiled(k, torch.ones(size)).tolist() == [float(k)] * size
    assert compiled.num_compilations == 2


def test_static_arguments_must_be_hashable() -> None:
    with pytest.raises(TraceError, match=r"test_jit.py:\d+: static arguments must be hashable, found \(\[1\],\)"):
        plica.jit(lambda x, k: x, static_argnums=1)(X, [1])


# What it shows


def test_what_was_compiled_is_shown() -> None:
    def double(x):
        """Twice."""
        return x * 2

    compiled = plica.jit(double, abstracted_axes={0: "n"})
    assert (compiled.__name__, compiled.__doc__, repr(compiled)) == (
        "double",
        "Twice.",
        "<plica.jit double, compiled 0 time(s)>",
    )
    compiled(X)
    assert repr(compiled) == "<plica.jit double, compiled 1 time(s)>"
    assert str(compiled.program) == (
        "{ lambda ; {n:i64[]} x:f32[n] . let\n    a:f32[n] = multiply x 2.0:f32[]\n  in (a,) }"
    )
    assert compiled.bound.program is compiled.program
    assert compiled.code.startswith("def double(leaves, x):\n")
    compiled(X.double())
    assert "f64[n]" in str(compiled.program), "that of the last compilation"


def test_the_interpreter_shows_the_program() -> None:
    compiled = plica.jit(lambda x: x * 2, backend="interpreter")
    compiled(X)
    assert compiled.code == str(compiled.program)


@pytest.mark.parametrize("name", ["program", "bound", "code"])
def test_before_a_compilation_there_is_nothing_to_show(name: str) -> None:
    with pytest.raises(InputError, match="was not compiled yet; call it, or annotate its arguments"):
        getattr(plica.jit(lambda x: x), name)


def test_a_backend_that_does_not_exist() -> None:
    with pytest.raises(InputError, match="there is no backend 'cuda'; there are 'torch', 'interpreter'"):
        plica.jit(lambda x: x, backend="cuda")


@pytest.mark.parametrize("name", ["torch", "kernels", "leaves", "device", "range", "x", "größe"])
def test_functions_may_be_called_anything(name: str) -> None:
    scope: dict = {"plica": plica}
    exec(f"def {name}(x):\n    return plica.for_loop(0, x.shape[0], 1, lambda i, a: a + i, x)", scope)
    assert plica.jit(scope[name])(X).tolist() == [2.0, 3.0]


class _Adds:
    def __call__(self, x):
        return x + 1


CALLABLES = (functools.partial(lambda a, x: a + x, 1), _Adds(), lambda x: x + 1, plica.jit(lambda x: x + 1))


@pytest.mark.parametrize("function", CALLABLES, ids=range(len(CALLABLES)))
def test_anything_that_is_called_is_compiled(function) -> None:
    compiled = plica.jit(function)
    assert compiled(X).tolist() == [2.0, 3.0]
    assert repr(compiled).startswith("<plica.jit ")


# Methods


class Scale:
    """Methods of all kinds."""

    offset = 1

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.bound = plica.jit(self.plain)

    def plain(self, x):
        return x * self.factor

    @plica.jit
    def method(self, x):
        return x * self.factor

    @plica.jit
    def annotated(self, n: int):
        return n * self.factor

    @staticmethod
    @plica.jit
    def static(x):
        return x + 1

    @classmethod
    @plica.jit
    def of_class(cls, x):
        return x + cls.offset


def test_methods() -> None:
    one, two = Scale(2.0), Scale(3.0)
    assert [found.method(X).tolist() for found in (one, two, one)] == [[2.0, 4.0], [3.0, 6.0], [2.0, 4.0]]
    assert (one.method.num_compilations, two.method.num_compilations) == (1, 1)
    assert one.bound(X).tolist() == [2.0, 4.0]
    assert (float(one.annotated(4)), one.annotated.num_compilations) == (8.0, 1)
    assert Scale.static(X).tolist() == one.static(X).tolist() == [2.0, 3.0]
    assert Scale.of_class(X).tolist() == [2.0, 3.0]


def test_equal_objects_have_methods_of_their_own() -> None:
    @dataclass(frozen=True)
    class Layer:
        name: str
        weight: torch.Tensor = field(compare=False)

        @plica.jit
        def scaled(self, x):
            return x * self.weight

    @dataclass  # without a hash
    class Plain:
        weight: float

        scaled = Layer.scaled

    kinds: list[Any] = [lambda number: Layer("a", torch.tensor(number)), Plain]
    for kind in kinds:
        one, two, same = kind(2.0), kind(3.0), kind(2.0)
        assert [found.scaled(X).tolist() for found in (one, two, same)] == [[2.0, 4.0], [3.0, 6.0], [2.0, 4.0]]
        del one
        gc.collect()
        assert kind(5.0).scaled(X).tolist() == [5.0, 10.0]
        assert two.scaled(X).tolist() == [3.0, 6.0]


def test_class_methods_whichever_way_python_calls_them() -> None:
    """Up to 3.12 it asks the compiled function for the class, from 3.13 it calls it with the class."""
    found = vars(Scale)["of_class"].__func__
    for call in (MethodType(found, Scale), found.__get__(Scale)):
        assert call(X).tolist() == [2.0, 3.0]
    with pytest.raises(TraceError, match="argument cls is <class 'int'> of type type"):
        found(int, X)


def test_compiled_methods_keep_no_object_alive() -> None:
    import weakref

    one = Scale(2.0)
    one.method(X)
    del one.bound
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None


# Errors leave everything usable


def test_an_error_of_the_function_leaves_jit_usable() -> None:
    fails = True

    def function(x):
        if fails:
            raise RuntimeError("no")
        return plica.for_loop(0, 3, 1, lambda i, a: a + 1, x)

    compiled = plica.jit(function)
    with pytest.raises(RuntimeError, match="no"):
        compiled(X)
    assert (compiled.num_compilations, current_trace()) == (0, None)
    fails = False
    assert compiled(X).tolist() == [4.0, 5.0]
    assert compiled.num_compilations == 1


def test_an_error_at_run_time_leaves_jit_usable() -> None:
    compiled = plica.jit(lambda x, k: x[k])
    with pytest.raises(InputError, match=r"test_jit.py:\d+: index 2 does not lie within axis 0 of size 2"):
        compiled(X, 2)
    assert compiled(X, 1) == 2.0
    assert compiled.num_compilations == 1


@pytest.mark.parametrize("argument", ["abc", object(), int, ["a"], {"k": "v"}], ids=lambda one: type(one).__name__)
def test_arguments_that_are_no_arrays_are_refused(argument) -> None:
    compiled = plica.jit(lambda x: x)
    with pytest.raises(
        TraceError, match=r"test_jit.py:\d+: argument x.* of type \w+; pass an array or a number, or list"
    ):
        compiled(argument)
