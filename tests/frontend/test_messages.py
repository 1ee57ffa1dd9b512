"""What is said of axes without entries, of reshapes, of Python on traced arrays, of StableHLO's sizes, and of seeds."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plica
import plica.native
import plica.numpy as pnp
from plica.errors import InputError, ShapeError, TraceError, UnsupportedError
from plica.frontend.executors import EXECUTORS


@pytest.mark.parametrize("backend", EXECUTORS)
@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "min"])
def test_an_axis_that_turns_out_to_have_no_entries_has_no_largest(name: str, backend: str) -> None:
    """Also where all axes are reduced, within a loop, and of arrays from outside."""
    reduce = getattr(pnp, name)
    functions: list[Any] = [
        lambda x: reduce(x, axis=0),
        reduce,
        lambda x: plica.for_loop(0, 2, 1, lambda _, total: total + pnp.sum(reduce(x, axis=0)) * 1.0, 0.0),
        lambda x: plica.cond(pnp.sum(x) == 0, lambda: reduce(x, axis=0), lambda: reduce(x, axis=0)),
    ]
    for function in functions:
        run = plica.jit(function, abstracted_axes={0: "n"}, backend=backend)
        run(np.ones((1, 2)))
        with pytest.raises(
            InputError, match=r"test_messages.py:\d+: an axis of size 0 has no largest .* element; give it entries"
        ):
            run(np.ones((0, 2)))


def test_rescaling_no_entries_is_nothing() -> None:
    for backend in EXECUTORS:
        run = plica.jit(pnp.rescale, abstracted_axes={1: "n"}, backend=backend)
        scaled, scale = run(np.ones((2, 0)))
        assert scaled.shape == (2, 0)
        assert scale.tolist() == [[1.0], [1.0]]


def test_a_reshape_that_leaves_a_rest_shows_the_shapes_and_the_rest() -> None:
    message = r"test_messages.py:\d+: .*\(3\) cannot become \(2, -1\): 3 elements are no multiple of 2; give -1"
    with pytest.raises(ShapeError, match=message):
        plica.jit(lambda x: pnp.reshape(x, (2, -1)))(np.ones(3))
    with pytest.raises(ShapeError, match=message):
        pnp.reshape(np.ones(3), (2, -1))
    for backend in EXECUTORS:
        run = plica.jit(lambda x: pnp.reshape(x, (2, -1)), abstracted_axes={0: "n"}, backend=backend)
        assert run(np.ones(4)).shape == (2, 2)
        with pytest.raises(InputError, match=r"test_messages.py:\d+: an array has shape \(3,\), but \(2,\) is needed"):
            run(np.ones(3))


PYTHON: dict[str, Any] = {
    "f'{x:.2f}'": (lambda x: f"{x:.2f}", "formats it as '.2f'. Use the result of the function"),
    "round": (lambda x: round(x, 1), "rounds it. Use plica.numpy.round"),
    "floor": (lambda x: math.floor(x), "rounds it. Use plica.numpy.floor"),
    "ceil": (lambda x: math.ceil(x), "rounds it. Use plica.numpy.ceil"),
    "trunc": (lambda x: math.trunc(x), "rounds it. Use plica.numpy.trunc"),
    "divmod": (lambda x: divmod(x, 2), "remainder. Use .x // y, x % y."),
    "divmod by it": (lambda x: divmod(2, x), "remainder. Use .x // y, x % y."),
    "del": (lambda x: x.__delitem__(0), "cannot be removed. Use plica.numpy.concat"),
    "in": (lambda x: 1.0 in x, "looks for a value in it. Use plica.numpy.any.x == value."),
}


@pytest.mark.parametrize(("function", "message"), PYTHON.values(), ids=PYTHON)
def test_what_python_asks_of_elements_is_refused_with_the_line(function: Any, message: str) -> None:
    with pytest.raises(TraceError, match=rf"test_messages.py:\d+:(.|\n)*{message}") as refused:
        plica.jit(function)(np.ones(3))
    assert str(refused.value).endswith("instead.")


def test_a_traced_array_without_a_format_is_shown() -> None:
    shown = []
    plica.trace(lambda x: (shown.append(f"{x}"), x)[1], plica.spec((2,)))
    assert shown == ["Tracer(x:f32[2])"]


@pytest.mark.parametrize("index", [lambda x, k: x[k // 2 : k // 2 + 3], lambda x, k: x[(k * k) % 3 :][:k]])
def test_a_size_that_stablehlo_has_not_names_the_line(index: Any) -> None:
    program = plica.trace(index, plica.spec(("n",)), int)
    with pytest.raises(UnsupportedError, match=r"test_messages.py:\d+: .*size .* depends on .*, or export with --to"):
        plica.native.stablehlo(program)


def test_an_argument_of_a_file_may_be_called_seed(tmp_path: Path) -> None:
    def draw(seed: Any) -> Any:
        return pnp.random.normal(pnp.random.key(seed), (3,))

    plica.native.compile(plica.trace(draw, int), tmp_path / "draw.plicab")
    module = plica.native.load(tmp_path / "draw.plicab")
    expected = plica.jit(draw, backend="interpreter")(np.asarray(3))
    for found in (module(3), module(seed=3)):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(InputError, match=r"takes main.seed"):
        module(3, seed=3)
