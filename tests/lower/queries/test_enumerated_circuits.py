"""Every query on small random circuits, before and after their tensors change, against a table of all assignments."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import plica
from plica import queries
from plica.pipeline import PipelineContext
from tests.harness.enumerated_circuits import EnumeratedCircuit, Joint

Array = Any
LEVELS = np.array([0.05, 0.3, 0.5, 0.77, 0.999])
DRAWN = 400


class _Asked:
    """A compiled circuit, asked about rows, and what the table says.

    Args:
        compiled: The compiled circuit.
        joint: The table.
        rows: Rows of data `(B, D)`.
    """

    def __init__(self, compiled: Any, joint: Joint, rows: Array) -> None:
        self.compiled, self.joint = compiled, joint
        self.mass = joint.mass(rows)
        self.rows, self.possible = rows, rows[self.mass > 0]
        self.limit = 1e-9 if compiled.dtype == torch.float64 else 3e-4

    def tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self.compiled.dtype)

    def close(self, found: Any, expected: Array, times: float = 1.0) -> None:
        limit = times * self.limit
        np.testing.assert_allclose(found.detach().numpy().astype(float), expected, rtol=limit, atol=limit)


def _scores(asked: _Asked, rng: Any) -> None:
    x, given = asked.tensor(asked.rows), rng.random(asked.rows.shape) < 0.5
    asked.close(asked.compiled(x)[:, 0, 0], np.log(asked.mass))
    asked.close(queries.log_likelihood(asked.compiled, x), asked.joint.log_likelihood(asked.rows))
    found = queries.conditional_log_likelihood(asked.compiled, x, torch.from_numpy(given))
    asked.close(found, asked.joint.conditional(asked.rows, given))


def _boxes(asked: _Asked, rng: Any) -> None:
    low, high = (rng.integers(-1, 4, asked.rows.shape).astype(float) for _ in range(2))
    for ends in (low, high):
        ends[rng.random(ends.shape) < 0.4] = np.nan
    expected = asked.joint.box(np.full_like(high, np.nan), high)
    asked.close(queries.cdf(asked.compiled, asked.tensor(high)), expected)
    found = queries.probability(asked.compiled, asked.tensor(low), asked.tensor(high))
    asked.close(found, asked.joint.box(low, high))


def _expectations(asked: _Asked, _: Any) -> None:
    x, joint, rows = asked.tensor(asked.possible), asked.joint, asked.possible
    asked.close(queries.mean(asked.compiled, x), joint.mean(rows))
    asked.close(queries.variance(asked.compiled, x), joint.variance(rows), 10)
    asked.close(queries.covariance(asked.compiled, range(rows.shape[1]), x), joint.covariance(rows), 10)
    asked.close(queries.posterior(asked.compiled, x).probabilities, joint.posterior(rows))


def _explanations(asked: _Asked, _: Any) -> None:
    rows, joint, x = asked.possible, asked.joint, asked.tensor(asked.possible)
    together, alone = joint.best(rows)
    completed, values = queries.mpe(asked.compiled, x)
    asked.close(values, np.log(together))
    found = completed.numpy().astype(float)
    assert (np.isnan(rows) | (found == rows)).all()
    np.testing.assert_allclose(joint.agrees(found) @ joint.largest, together, rtol=10 * asked.limit)
    bounds = queries.mpe_bounds(asked.compiled, x)
    asked.close(bounds.found, np.log(joint.mass(bounds.rows.numpy().astype(float))), 10)
    assert (bounds.found.numpy() <= np.log(alone) + 10 * asked.limit).all()
    assert (bounds.upper.numpy() >= np.log(alone) - 10 * asked.limit).all()
    if bounds.is_exact:
        asked.close(bounds.found, np.log(alone), 10)


def _quantiles(asked: _Asked, _: Any) -> None:
    for variable, count in enumerate(asked.joint.drawn.num_states):
        hidden = np.array(asked.rows)
        hidden[:, variable] = np.nan
        rows = asked.rows[asked.joint.mass(hidden) > 0]
        found = queries.quantile(asked.compiled, variable, LEVELS, asked.tensor(rows)).numpy()
        assert found.shape == (len(rows), len(LEVELS))
        up_to = asked.joint.at_most(rows, variable, np.arange(-1, count))
        assert (np.take_along_axis(up_to, found + 1, 1) >= LEVELS - 5 * asked.limit).all()
        assert (np.take_along_axis(up_to, found, 1) < LEVELS + 5 * asked.limit).all()


def _samples(asked: _Asked, _: Any) -> None:
    rows = asked.possible[:2]
    drawn = queries.sample(asked.compiled, DRAWN, given=asked.tensor(rows), seed=3).numpy().astype(float)
    counts = asked.joint.agrees(drawn).reshape(len(rows), DRAWN, asked.joint.worth.size).mean(axis=1)
    expected = asked.joint.share(rows)
    assert (np.abs(counts - expected) < 2.5 / np.sqrt(DRAWN)).all()  # five deviations
    assert not counts[expected == 0].any()


def _latents(asked: _Asked, _: Any) -> None:
    """Terms of the sum at the output are those of the table; those of each other sum add up to a probability."""
    circuit = asked.joint.drawn.circuit
    found = queries.latent_posterior(asked.compiled, asked.tensor(asked.possible))
    for terms in found.values():
        total = terms.numpy().sum(axis=1)
        assert ((total > -asked.limit) & (total < 1 + asked.limit)).all()
    root = found[circuit.layers.index(circuit.outputs[0])].numpy()
    np.testing.assert_allclose(root.sum(axis=1), 1.0, rtol=asked.limit)


CHECKS = (_scores, _boxes, _expectations, _explanations, _quantiles, _samples, _latents)


def _write(compiled: Any, _: Path) -> Any:
    with torch.no_grad():
        for tensor in compiled.parameters():
            tensor.mul_(torch.linspace(0.3, 1.9, tensor.numel()).reshape(tensor.shape))
    return compiled


def _write_zeros(compiled: Any, _: Path) -> Any:
    with torch.no_grad():
        for tensor in compiled.parameters():
            tensor.flatten()[1::3] = 0.0
            tensor[..., :1] += 0.1
    return compiled


def _load(compiled: Any, _: Path) -> Any:
    compiled.load_state_dict({key: 1.7 * tensor for key, tensor in compiled.state_dict().items()})
    return compiled


def _replace(compiled: Any, _: Path) -> Any:
    for tensor in compiled.parameters():
        tensor.data = tensor.data * 0.5
    return compiled


def _save(compiled: Any, folder: Path) -> Any:
    plica.save(compiled, folder / "model.plica")
    return plica.load(folder / "model.plica").to(compiled.dtype)


STEPS: tuple[Callable[[Any, Path], Any], ...] = (
    _write,
    _write_zeros,
    _load,
    _replace,
    _save,
    lambda compiled, _: copy.deepcopy(compiled),
    lambda compiled, _: pickle.loads(pickle.dumps(compiled)),
    lambda compiled, _: compiled.eval(),
    lambda compiled, _: compiled.train(),
)


def _check(drawn: EnumeratedCircuit, compiled: Any, rng: Any, checks: Any = CHECKS) -> None:
    joint = drawn.joint(compiled.state_dict())
    if not joint.worth.any():
        return
    for count in (0, 1, 5):
        asked = _Asked(compiled, joint, drawn.rows(count, 0.45))
        for check in checks:
            with np.errstate(divide="ignore"), torch.set_grad_enabled(bool(rng.integers(2))):
                check(asked, rng)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", [1, 8, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(20, 80))])
def test_answers_are_those_of_the_table(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    drawn = EnumeratedCircuit(seed, zeros=(0.0, 0.2, 0.6)[seed % 3])
    fold, optimize = (bool(rng.integers(4)) for _ in range(2))
    context = PipelineContext(fold=fold, optimize=optimize, dtype="float64" if seed % 4 else "float32")
    compiled = context.compile(drawn.circuit).eval()
    _check(drawn, compiled, rng)
    for step in rng.permutation(len(STEPS))[: 4 if seed >= 20 else 2]:
        compiled = STEPS[step](compiled, tmp_path)
        _check(drawn, compiled, rng, [CHECKS[one] for one in rng.permutation(len(CHECKS))[:3]])
