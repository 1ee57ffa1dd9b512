"""Native files for several machines: constants stand in them once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plica
import plica.numpy as pnp
from plica import native
from plica.backend.native.targets import target_of
from plica.errors import InputError, NativeFileError
from plica.runtime.container import read
from plica.runtime.machine import architecture
from plica.symbolic.layers import CategoricalLayer, HadamardLayer
from tests.harness.circuits import product_then_sum
from tests.harness.native_circuits import compiled

_ALL = ("log-likelihood", "marginal", "sample", "conditional-sample", "mpe")
_TABLE = np.linspace(-1.0, 1.0, 3000, dtype="float32").reshape(30, 100)
_OTHER = "aarch64" if architecture() == "x86_64" else "x86-64"
"""A machine that this one is not."""


def _looked_up() -> Any:
    found = plica.jit(lambda x: pnp.take(_TABLE, x, axis=0, nonnegative=True) * 2, abstracted_axes=({0: "b"},))
    found(np.zeros(1, int))
    return found


def _circuit() -> Any:
    inputs = [CategoricalLayer([v], 3, num_categories=3) for v in range(3)]
    return compiled(product_then_sum(HadamardLayer(3, 3), inputs))


def test_one_file_for_several_machines(tmp_path: Path) -> None:
    path, host = tmp_path / "f.plicab", target_of("host").name
    native.compile(_looked_up(), path, targets=(_OTHER, "host", _OTHER, host))
    with native.load(path) as module:
        assert [one.name for one in module.manifest.targets] == [_OTHER, host]
        assert [one.shape for one in module.manifest.tensors] == [_TABLE.shape]
        assert module.target.name == host
        x = np.asarray([0, 29, 7])
        assert np.array_equal(module(x), _TABLE[x] * 2)
    with pytest.raises(NativeFileError, match=f"{_OTHER} needs .*, and this machine is") as caught:
        native.load(path, target=_OTHER)
    assert "\n" not in str(caught.value)


@pytest.mark.full
def test_circuits_compile_for_every_machine(tmp_path: Path) -> None:
    targets = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")
    native.compile(_circuit(), tmp_path / "c.plicab", targets=targets, queries=_ALL, updatable=True)
    assert tuple(found.name for found in read(tmp_path / "c.plicab").manifest.targets) == targets


def test_graphics_processors_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no target 'cuda'; there are host, x86-64"):
        native.compile(_circuit(), tmp_path / "x.plicab", targets=("host", "cuda"))
