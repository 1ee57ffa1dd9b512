"""The walks of docs/architecture.md: their modules are entered in the order of the page."""

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica import native
from plica.templates.data_modalities import image_data

SOURCE = Path(plica.__file__).parent
PAGE = SOURCE.parents[1] / "docs" / "architecture.md"


def walks() -> dict[str, list[str]]:
    """The modules of each walk, by the code in its title."""
    (section,) = re.findall(r"^## Four walks\n(.*?)^## ", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    parts = re.split(r"^\*\*.*?`(.*?)`.*$", section, flags=re.MULTILINE)[1:]
    return {
        title: re.findall(r"^\| `([\w/]+\.py)`", table, re.MULTILINE)
        for title, table in zip(parts[::2], parts[1::2], strict=True)
    }


def entered(run: Callable[[], object]) -> list[str]:
    """The modules of Plica that a call enters, each once, in order."""
    folder, modules = f"{SOURCE}/", dict[str, None]()

    def enter(frame: FrameType, event: str, _argument: Any) -> None:
        is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED  # and no module or class that is imported now
        if event == "call" and is_function and frame.f_code.co_filename.startswith(folder):
            modules.setdefault(frame.f_code.co_filename.removeprefix(folder))

    sys.setprofile(enter)
    try:
        run()
    finally:
        sys.setprofile(None)
    return list(modules)


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, Callable[[], object]]:
    """What each walk runs, by the code in its title."""
    settings: dict[str, Any] = {"input_layer": "categorical", "num_values": 4, "num_input_units": 2, "num_sum_units": 2}
    circuit = image_data((1, 2, 2), "quad-tree-2", sum_product_layer="cp", **settings)
    compiled = plica.compile(image_data((1, 2, 2), "quad-tree-2", sum_product_layer="cp", **settings))
    x = torch.zeros(3, 4, dtype=torch.int64)
    compiled(x)
    return {
        "plica.compile(circuit)": lambda: plica.compile(circuit),
        "circuit(x)": lambda: compiled(x),
        "plica.jit(f)(x)": lambda: plica.jit(lambda a: pnp.exp(a) + 1)(np.ones(3)),
        "plica.native.compile(circuit, path)": lambda: native.compile(
            circuit, tmp_path / "m.plicab", queries="log-likelihood"
        ),
    }


def test_modules_are_entered_in_the_order_of_the_page(runs: dict[str, Callable[[], object]]) -> None:
    written = walks()
    assert written.keys() == runs.keys()
    for title, run in runs.items():
        listed = written[title]
        assert len(listed) > 4
        assert [module for module in entered(run) if module in listed] == listed, title
