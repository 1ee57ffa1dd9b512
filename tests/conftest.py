"""Settings for every test: one thread for each worker, and a seed."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: workers share the cores

import hypothesis
import pytest

hypothesis.settings.register_profile("plica", deadline=None, max_examples=50, derandomize=True)
hypothesis.settings.load_profile("plica")


@pytest.fixture(autouse=True)
def _seed() -> None:
    import torch

    torch.manual_seed(0)
