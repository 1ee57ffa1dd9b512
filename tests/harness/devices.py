"""The ways of other devices, on the CPU."""

import pytest

from plica.backend.torch import circuits, directed, exact, kernels


def forbid_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute on the CPU as on another device, which nobody waits for."""
    for module in (exact, directed, kernels):
        monkeypatch.setattr(module, "may_branch", lambda _: False)
    monkeypatch.setattr(circuits, "_SCALED_FROM", 10**12)
