"""Numeric tests run as on the CPU, where branches depend on values, and as on other devices, where none may."""

import pytest

from tests.harness.devices import forbid_branches


@pytest.fixture(params=[True, False], ids=["branches", "no branches"])
def may_branch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a branch may depend on values; where none may, as on other devices than the CPU."""
    if not request.param:
        forbid_branches(monkeypatch)
    return bool(request.param)
