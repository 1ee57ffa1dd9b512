"""Settings for every test: one thread for each worker, and a seed."""

import gc
import os
from collections import Counter

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: workers share the cores

import hypothesis
import pytest

for _name, _examples in (("default", 6), ("full", 50)):
    hypothesis.settings.register_profile(f"plica {_name}", deadline=None, max_examples=_examples, derandomize=True)

gc.disable()  # what is collected is a million objects that stay: nobody looks through them until they are set apart


def pytest_configure(config: pytest.Config) -> None:
    is_default = config.getoption("markexpr") == "not full and not browser"
    hypothesis.settings.load_profile("plica default" if is_default else "plica full")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Cases that `one_in` leaves out are those of the mark `full`."""
    seen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark is None or item.get_closest_marker("full") is not None:
            continue
        test = item.nodeid.partition("[")[0]
        if seen[test] % mark.args[0]:
            item.add_marker("full")
        seen[test] += 1


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture(autouse=True)
def _seed() -> None:
    import torch

    torch.default_generator.manual_seed(0)  # torch.manual_seed formats a stack for each kind of device, 20,000 times
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(0)
