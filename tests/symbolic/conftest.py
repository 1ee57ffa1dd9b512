"""A fixture that computes a rule written against an array namespace."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.run_rule import run_rule as run


@pytest.fixture
def run_rule() -> Callable[..., Any]:
    return run
