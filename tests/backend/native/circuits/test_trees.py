"""A walk through a tree of layers gives what the layers give: by the interpreter, and as native code."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.backend.native.circuits.operations import TREE_OF_SUMS
from plica.backend.native.circuits.scores import with_joined_trees
from plica.backend.native.circuits.trees import join_trees
from plica.errors import ShapeError
from plica.frontend.native import entry_programs_of
from plica.ir.dtypes import DType
from plica.ir.types import ShapedArray
from plica.runtime import entries
from plica.runtime.manifest import Rows
from plica.runtime.threads import share
from plica.templates.data_modalities import image_data
from tests.harness.native_circuits import compiled

_SIDE = 6


def _image(side: int = _SIDE, graph: str = "quad-tree-2", layer: str = "cp", units: int = 5, **settings: Any) -> Any:
    settings = {"num_input_units": units, "num_sum_units": units, "sum_product_layer": layer, **settings}
    return image_data((1, side, side), graph, input_layer="categorical", num_values=4, **settings)


def _pixels(count: int, side: int = _SIDE) -> Any:
    return np.random.default_rng(count).integers(0, 4, (count, side * side))


_IMAGES: dict[str, dict[str, Any]] = {
    "cp": {},
    "cp, four": {"graph": "quad-tree-4"},
    "inputs": {"num_input_units": 3},
    "shared": {"graph": "quad-graph", "layer": "cp-t"},
    "tucker": {"layer": "tucker", "units": 3},
}


@pytest.mark.parametrize("name", _IMAGES)
def test_walks_give_what_layers_give(name: str) -> None:
    """For all questions of a circuit, whatever the folds of the root."""
    model = compiled(_image(**_IMAGES[name]))
    for entry_program in entry_programs_of(model, ["log-likelihood", "marginal"]):
        x = _pixels(7).astype(entry_program.body.program.arguments[-1].type.dtype.numpy)
        after = join_trees(entry_program.body)
        for one, other in zip(after(x), entry_program.body(x), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-6)


def test_trees_are_walked() -> None:
    """All layers but the last, whose width is another, become one."""
    closed = entry_programs_of(compiled(_image(side=8)), ["log-likelihood"])[0].body
    names = [one.op.name for one in join_trees(closed).program.equations]
    assert names.count("tree_of_sums") == 1
    assert names.count("sum_of_products") == 1
    assert names.count("rescale") == 0


def test_several_trees_whose_exponents_are_added_up_together() -> None:
    """The folds below are read twice, so the layers above are a tree of their own."""
    units: dict[str, Any] = {"num_input_units": 2, "num_sum_units": 2, "num_values": 4}
    model = compiled(image_data((2, 5, 2), "quad-tree-2", input_layer="categorical", sum_product_layer="cp", **units))
    closed = entry_programs_of(model, ["log-likelihood"])[0].body
    after = join_trees(closed)
    assert [one.op.name for one in after.program.equations].count("tree_of_sums") == 2
    x = np.random.default_rng(0).integers(0, 4, (5, 20))
    np.testing.assert_allclose(after(x)[0], closed(x)[0], rtol=2e-6)


def test_tree_of_sums_refused() -> None:
    """Steps that are too short for their forms are refused."""
    one = next(iter(TREE_OF_SUMS.samples()))
    types = [ShapedArray(x.shape, DType(x.dtype.name)) for x in one.inputs]
    with pytest.raises(ShapeError, match=r"takes steps \(S, 5\) and starts of roots"):
        TREE_OF_SUMS.types([ShapedArray((3, 4), DType.INT64), *types[1:]], one.params)


def test_native_walks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Native code gives what torch gives, however many rows; threads share many alone."""
    model = compiled(_image())
    entry_program = with_joined_trees(entry_programs_of(model, ["log-likelihood"])[0])
    assert entry_program.alone == 3 * 2**23 // (34 * 25 + 5 + 16 * 185)  # weights, and entries of other operations
    plica.native.compile(model, tmp_path / "walked.plicab", queries="log-likelihood")
    module = plica.native.load(tmp_path / "walked.plicab")
    shared: list[int] = []

    def share_of(run: Any, pieces: Any, threads: int) -> Any:
        shared.append(threads)
        return share(run, pieces, threads)

    monkeypatch.setattr(entries, "share", share_of)
    monkeypatch.setattr(entries, "num_threads", lambda: 2)
    for count in (0, 1, 3, 8, 21, 130, entry_program.alone, entry_program.alone + 1):
        shared.clear()
        with torch.no_grad():
            expected = model(torch.from_numpy(_pixels(count))).numpy()
        np.testing.assert_allclose(module(_pixels(count)), expected, rtol=1e-5)
        assert (2 in shared) == (count > entry_program.alone)


@pytest.mark.full
@pytest.mark.parametrize("name", _IMAGES)
def test_native_walks_updated(name: str, tmp_path: Path) -> None:
    """Whoever runs it, and after updates."""
    dtype = (torch.float32, torch.float64)[list(_IMAGES).index(name) % 2]
    model = compiled(_image(**_IMAGES[name]), dtype=dtype)
    plica.native.compile(model, tmp_path / "walked.plicab", queries="log-likelihood", updatable=True)
    module, threads = (plica.native.load(tmp_path / "walked.plicab") for _ in range(2))
    entry = threads._entries["log_likelihood"]
    threads._entries["log_likelihood"] = replace(entry, rows=Rows("b", 100, 0))
    state = {key: tensor.numpy() * 0.5 for key, tensor in model.state_dict().items()}
    for scale in (1.0, 0.5):
        if scale < 1.0:
            module.update(state)
            threads.update(state)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(scale)
            for count in (0, 1, 21, 130):
                x = _pixels(count)
                expected = model(torch.from_numpy(x)).numpy()
                for one in (module, threads):
                    np.testing.assert_allclose(one(x), expected, rtol=1e-5)


def test_large_walks_are_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what is left in places would not fit the stack, layers stay layers."""
    closed = entry_programs_of(compiled(_image()), ["log-likelihood"])[0].body
    monkeypatch.setattr("plica.backend.native.circuits.trees._MAX_BYTES", 2 * 5 * 8 * 4 - 1)
    assert join_trees(closed) is closed
