"""The ways of other devices, on the CPU."""

import pytest

from plica.backend.torch import directed, exact, kernels
from plica.learn import counted, expectation
from plica.lower import cascade
from plica.symbolic.semirings import Bound


def forbid_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute on the CPU as on another device, which nobody waits for."""
    for module in (exact, directed, kernels, counted, expectation):
        monkeypatch.setattr(module, "may_branch", lambda _: False)
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 10**12)
