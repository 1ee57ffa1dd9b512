"""`plica.fold_constants`: names and arrays are checked, the map of arguments, both forms, what a Program captures."""

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import DTypeError, InputError


def _scaled(x, w, b):
    return x @ pnp.permute_dims(w, (1, 0)) + b * 2.0


PROGRAM = plica.trace(_scaled, plica.spec(("n", 4)), plica.spec(("m", 4)), plica.spec(("m",)))
W = np.ones((3, 4), "float32")


def test_arguments_are_mapped_by_name() -> None:
    folded = plica.fold_constants(PROGRAM, compile_time={"w": W}, run_time=("b",))
    assert folded.arguments == {"x": "x", "w": None, "b": None}
    assert [var.name for var in folded.entry.arguments] == ["x", *folded.kept]
    assert len(folded.kept) == 2
    assert folded.report().after == 3 * 4 * 4 + 3 * 4, "the array tells the size m"
    assert "w: compile-time" in folded.marked()


def test_the_forms_are_one_or_two_foldings() -> None:
    one = plica.fold_constants(PROGRAM, compile_time={"w": W}, run_time=("b",))
    two = plica.fold_constants(PROGRAM, compile_time={"w": W}, run_time=("b",), form="split")
    assert one.compiletime_fold is None
    assert [var.name for var in two.compiletime_fold.arguments] == ["w"]
    assert [var.name for var in two.runtime_fold.arguments] == ["b"]
    assert one.entry == two.entry


def test_what_a_program_captures_is_constant() -> None:
    weight = torch.randn(3)
    bound = plica.jit(lambda x: x * pnp.softmax(pnp.asarray(weight)), abstracted_axes=(("n",),))
    bound(torch.ones(3))
    folded = plica.fold_constants(bound.bound)
    assert [one.op.name for one in folded.runtime_fold.equations] == ["softmax"]
    assert len(folded.runtime_fold.consts) == 1
    assert not folded.entry.consts


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"run_time": ("v",)}, InputError, "the program has no argument 'v'; it has x, w, b"),
        ({"compile_time": {"w": W}, "run_time": ("w",)}, InputError, "'w' is named twice"),
        ({"compile_time": {"w": W[:, :3]}}, InputError, r"w has shape \(3, 3\), but the program expects w:f32\[m,4\]"),
        ({"compile_time": {"w": W, "b": W[0]}}, InputError, r"b has shape \(4,\), but the program expects b:f32\[m\]"),
        ({"compile_time": {"w": W.astype("float64")}}, DTypeError, "w is float64, but the program expects"),
        ({"form": "three"}, InputError, "the form is 'three'; give 'runtime' or 'split'"),
        (
            {"compile_time": {"w": W.tolist()}},
            InputError,
            "w is of type list, but the program expects w:f32.*; give an",
        ),
        ({"compile_time": {"b": None}}, InputError, "b is of type NoneType, but the program expects b:f32"),
        ({"compile_time": ["w"]}, InputError, "compile_time is list, expected arrays by name"),
        ({"policy": 100}, InputError, "the policy is 100; give a plica.FoldPolicy"),
        ({"form": ["split"]}, InputError, r"the form is \['split'\]; give 'runtime' or 'split'"),
        ({"run_time": None}, InputError, "run_time is None, expected the names or positions of arguments"),
        ({"run_time": (1.5,)}, InputError, r"run_time is \(1.5,\), expected the names or positions of arguments"),
    ],
)
def test_what_does_not_fit_is_refused(options, error, message) -> None:
    with pytest.raises(error, match=message):
        plica.fold_constants(PROGRAM, **options)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_growth": True}, "max_growth is True bytes; give 0 or more, or None for no limit"),
        ({"max_peak": -1}, "max_peak is -1 bytes; give 0 or more"),
        ({"widen": "no"}, "widen is 'no'; give True or False"),
        ({"check": None}, "check is None; give 'version' or 'checksum'"),
    ],
)
def test_what_is_no_policy_is_refused(limits, message) -> None:
    with pytest.raises(InputError, match=message):
        plica.FoldPolicy(**limits)


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected a Program, found <function .*; give the result of plica.trace"):
        plica.fold_constants(lambda x: x)  # type: ignore[arg-type]


def test_one_name_needs_no_tuple() -> None:
    program = plica.trace(lambda x, weight: x * pnp.exp(weight), plica.spec((3,)), plica.spec((3,)))
    assert plica.fold_constants(program, run_time="weight").run_time == ("weight",)


def test_a_loop_that_is_there_for_its_checks_alone_stays() -> None:
    def function(x):
        def grow(index, y, z):
            return pnp.concat([y, pnp.full((1,), 0.5)]), pnp.concat([z, pnp.full((index,), 0.5)])

        plica.for_loop(0, 2, 1, grow, x, x, preserve_dimensions=False)
        return pnp.tanh(x)

    folded = plica.fold_constants(plica.trace(function, plica.spec(("n",), "float64")))
    assert [one.op.name for one in folded.entry.equations] == ["for_loop", "tanh"]
    np.testing.assert_allclose(folded.compile(backend="torch")(np.ones(3)), np.tanh(np.ones(3)))


def _negative(x, n):
    pnp.full((n - 3,), 0.5)
    return x * n


def _unequal(x, n):
    pnp.full((n,), 0.5) + pnp.full((3,), 0.5)
    return x * n


@pytest.mark.parametrize("form", ["runtime", "split"])
@pytest.mark.parametrize(("function", "message"), [(_negative, "the size n-3 = -2"), (_unequal, r"\(3,\) is needed")])
def test_what_is_computed_of_constants_for_a_check_alone_is_checked(function, message, form) -> None:
    program = plica.trace(function, plica.spec((2,), "float64"), int)
    run = plica.fold_constants(program, run_time=("n",), form=form).compile()
    assert run(np.ones(2), 3).tolist() == [3.0, 3.0]
    with pytest.raises(InputError, match=message):
        run(np.ones(2), 1)
