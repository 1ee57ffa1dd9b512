"""jit: `abstracted_axes` beside annotations, which say the types of all arguments."""

from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import AxisError, InputError, ShapeError, TraceError
from plica.frontend.executors import EXECUTORS

NAMED = (
    # abstracted_axes, the types of the arguments
    (None, ["f32[2,3]", "f32[n]", "f64[]"]),
    ({0: "n"}, ["f32[n,3]", "f32[n]", "f64[]"]),
    ({1: "m"}, ["f32[2,m]", "f32[n]", "f64[]"]),
    (({0: "n", 1: "m"}, None, None), ["f32[n,m]", "f32[n]", "f64[]"]),
    ((("k",), ("n",), {5: "m"}), ["f32[k,3]", "f32[n]", "f64[]"]),
)


@pytest.mark.parametrize("backend", ["torch", "interpreter"])
@pytest.mark.parametrize(("axes", "types"), NAMED, ids=str)
def test_axes_of_annotated_arguments_are_named(axes, types, backend: str) -> None:
    @plica.jit(abstracted_axes=axes, backend=backend)
    def function(x: plica.spec((2, 3)), y: plica.spec(("n",)), k: float):
        return x * k, y

    assert [str(var.type) for var in function.program.arguments] == types
    for rows, columns in ((2, 3), (5, 3), (2, 4), (0, 1)):
        arrays = np.ones((rows, columns), "float32"), np.ones(rows, "float32")
        sizes = zip(types[0][4:-1].split(","), (str(rows), str(columns)), strict=True)
        fits = all(wanted == found or wanted.isalpha() for wanted, found in sizes)
        for convert in (np.asarray, torch.from_numpy):
            if fits:
                assert function(*map(convert, arrays), 2.0)[0].shape == (rows, columns)
            else:
                with pytest.raises(InputError, match="argument x has shape"):
                    function(*map(convert, arrays), 2.0)
    assert function.num_compilations == 1


TREE: Any = {"a": plica.spec((2,)), "b": [plica.spec((2, 3))]}


def test_axes_of_annotated_trees_and_of_nested_functions() -> None:
    @plica.jit(abstracted_axes={0: "n"})
    def total(parts: TREE):
        return pnp.sum(parts["a"]) + pnp.sum(parts["b"][0])

    assert float(total({"a": torch.ones(4), "b": [torch.ones(4, 3)]})) == 16.0
    program = plica.trace(lambda x: total({"a": x, "b": [pnp.ones((5, 3), dtype=x.dtype)]}), plica.spec(5))
    assert float(plica.interpret(program, np.ones(5, "float32"))[0]) == 20.0


REFUSED = (
    ({0: "m"}, ShapeError, r"axis 0 of an array of shape \('n', 2\) is called 'n' there and 'm' in abstracted_axes"),
    (({0: "n"},), TraceError, r"abstracted_axes has 1 entries for 2 argument\(s\)"),
    ((("n", "m", "k"), None), ShapeError, r"names 3 axes \('n', 'm', 'k'\) of an array with 2"),
)


@pytest.mark.parametrize(("axes", "error", "message"), REFUSED, ids=str)
def test_axes_that_contradict_annotations_are_refused(axes, error, message: str) -> None:
    def function(x: plica.spec(("n", 2)), y: plica.spec(3)):
        return x, y

    with pytest.raises(error, match=message):
        plica.jit(function, abstracted_axes=axes)


def test_a_traced_size_has_one_name() -> None:
    with pytest.raises(ShapeError, match=r"test_jit_axes.py:\d+: axis 0 .* is called 'n' there and 'm'"):
        plica.trace(lambda x: x, plica.spec(("n",)), abstracted_axes={0: "m"})
    program = plica.trace(lambda x: x, plica.spec(("n",)), abstracted_axes={0: "n"})
    assert str(program.results[0].type) == "f32[n]"


ABSENT: dict[str, tuple[Any, str]] = {
    "of all": ({5: "n"}, "axis 5 .'n'. of every argument, which has 2 axes; give an axis from -2 to 1"),
    "of one": ((None, {1: "n"}), "axis 1 .'n'. of argument 'y', which has 1 axes; give an axis from -1 to 0"),
    "before the first": (({-3: "n"}, None), "axis -3 .'n'. of argument 'x', which has 2 axes"),
    "in one tree": ((None, {2: "n"}), "axis 2 .'n'. of argument 'y'"),
}


@pytest.mark.parametrize("backend", EXECUTORS)
@pytest.mark.parametrize(("axes", "message"), ABSENT.values(), ids=ABSENT)
def test_an_axis_that_no_array_has_is_refused(axes: Any, message: str, backend: str) -> None:
    def function(x: Any, y: Any) -> Any:
        return x + y

    def annotated(x: plica.spec((2, 3)), y: plica.spec((3,))) -> Any:
        return x + y

    place = r"test_jit_axes.py:\d+: abstracted_axes names "
    x, y = np.ones((2, 3), "float32"), np.ones(3, "float32")
    with pytest.raises(AxisError, match=place + message):
        plica.jit(function, abstracted_axes=axes, backend=backend)(x, y)
    with pytest.raises(AxisError, match=place + message):
        plica.jit(annotated, abstracted_axes=axes, backend=backend)
    with pytest.raises(AxisError, match=place + message):
        plica.trace(function, plica.spec((2, 3)), plica.spec((3,)), abstracted_axes=axes)


@pytest.mark.parametrize("axes", [7, "n", {"a": "n"}, {True: "n"}, {0: 5}], ids=str)
def test_what_names_no_axis_is_refused(axes: Any) -> None:
    def function(x: Any) -> Any:
        return x

    with pytest.raises(TraceError, match=r"test_jit_axes.py:\d+: abstracted_axes .*expected"):
        plica.jit(function, abstracted_axes=axes)(np.ones(2))


def test_all_arguments_share_a_mapping_of_which_each_has_some_axes() -> None:
    run = plica.jit(lambda x, y: x + y, abstracted_axes={0: "n", 1: "m"})
    assert run(np.ones((2, 2)), np.ones(2)).shape == (2, 2)
    assert run(np.ones((3, 3)), np.ones(3)).shape == (3, 3)
    assert run.num_compilations == 1
