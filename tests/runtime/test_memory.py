from pathlib import Path

import numpy as np
import pytest

from plica.runtime import memory
from plica.runtime.module import load
from tests.harness.native_files import SHIFT, WEIGHT, code_of


@pytest.mark.parametrize("count", [0, 1, 250])
def test_devices_with_memory_of_their_own_give_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The copies to and from a device, made on the CPU's, which needs none."""
    monkeypatch.setattr("plica.runtime.sessions.MEMORIES", {})
    monkeypatch.setattr("plica.runtime.pool.MEMORIES", {})
    x = np.random.default_rng(0).integers(0, 20, (count, 4)).astype(np.float32)
    with load(path) as module:
        assert isinstance(code_of(module)._idle["local-sync"][0]._memory, memory.DeviceMemory)
        assert np.array_equal(module(x), x @ WEIGHT)
        score = x[:, 0].astype(np.float64)
        assert np.array_equal(module.score(score), np.where(score < 10, score * score, -score))
        module.update(shift=SHIFT + 1)
        assert np.array_equal(module.shifted(x[:, :3]), x[:, :3] + 2 * (SHIFT + 1))
        found = module.echo([3], [True], np.ones((2, 1), np.float32), 5)
        assert [one.tolist() for one in found] == [[3], [True], [[1.0], [1.0]], 5]
