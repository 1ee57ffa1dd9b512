"""The logger `plica` says what is slow or surprising, and nothing on its own."""

import logging

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.logger import LOGGER
from tests.harness.circuits import pixels
from tests.harness.messages import messages


def test_nothing_is_shown_unasked(capfd: pytest.CaptureFixture[str]) -> None:
    LOGGER.error("a message")
    assert capfd.readouterr() == ("", "")
    assert any(isinstance(handler, logging.NullHandler) for handler in LOGGER.handlers)


def test_compilations_are_told() -> None:
    circuit = pixels(2, 2)
    with messages() as lines:
        plica.compile(circuit)
        plica.jit(lambda x: x + 1)(torch.ones(3))
    assert len(lines) == 2
    assert lines[0].startswith(f"compiled {circuit!r} in ")
    assert lines[1] == "compiled <lambda> for x:f32[3]"


def test_rows_whose_bound_fails_are_counted() -> None:
    model = plica.compile(pixels(8, 4))
    with torch.no_grad():
        for leaf in model.parameters():
            leaf.copy_(torch.where(torch.rand_like(leaf) < 0.5, -1e4, 0.0))
        x = torch.randint(3, (64, 64))
        with messages(logging.DEBUG) as lines:
            model(x)
    assert any("of 64 rows fails; lse-sum computes them" in line for line in lines)


def test_evictions_are_told() -> None:
    function = plica.jit(lambda x, w: x + pnp.exp(w), constants="w", cache=plica.FoldCache(max_bytes=8))
    with messages(logging.DEBUG) as lines:
        function(np.ones(4), np.ones(4))
    assert lines[-2:] == ["folded constants of 32 bytes", "evicted constants of 32 bytes: max_bytes is 8"]


def test_native_code_that_torch_must_run_is_told() -> None:
    function = plica.jit(lambda x: x + 1, backend="native")
    with messages() as lines:
        function(torch.ones(3, requires_grad=True))
    assert lines[-1].startswith("torch runs a native function")
