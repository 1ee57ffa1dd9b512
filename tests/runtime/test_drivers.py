from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plica.runtime.module import NativeModule, load
from tests.harness.native_files import MANIFEST, WEIGHT, native_file


@pytest.fixture
def module(tmp_path: Path) -> NativeModule:
    """The file of the harness, for the driver that runs one call on several threads."""
    [host] = MANIFEST.targets
    return load(native_file(tmp_path / "tasks.plicab", targets=(replace(host, driver="local-task"),)))


def test_a_call_may_run_on_several_threads(module: NativeModule) -> None:
    for count in (0, 1, 300):
        x = np.random.default_rng(count).integers(-9, 10, (count, 4)).astype(np.float32)
        assert np.array_equal(module(x), x @ WEIGHT)


def test_sessions_share_the_threads_of_a_device(module: NativeModule) -> None:
    x = np.random.default_rng(0).integers(-9, 10, (50, 4)).astype(np.float32)
    with ThreadPoolExecutor(4) as pool:
        assert all(np.array_equal(y, x @ WEIGHT) for y in pool.map(module, [x] * 40))
    devices = {id(session._memory.device) for session in module._idle}
    assert len(devices) == 1
