"""Training from a stream: the batches of one seed, and runs that go on in the middle of an epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

from plica.backend.torch.compiler import TorchCompiler
from plica.data import NumberRows, Rows
from plica.distributed.ranks import ALONE, Ranks
from plica.errors import InputError
from plica.learn import Adam, FullEM, fit, mean_log_likelihood
from plica.learn.sources import Batches, HeldRows, Source, StreamedRows
from plica.learn.widening import widen_covariances
from plica.templates.normal_mixtures import normal_mixtures
from tests.learn.test_checkpoints import Noisy, assert_same, run

LIKE = torch.zeros(1)
STATES = np.random.default_rng(0).integers(0, 3, (500, 2)).astype(np.float64)


def stream_of(values: Any, path: Path, group: int = 64) -> NumberRows:
    """Rows of numbers of a file of Parquet."""
    pq.write_table(pa.table({str(at): column for at, column in enumerate(values.T)}), path, row_group_size=group)
    return NumberRows(Rows(path))


@pytest.fixture
def numbered(tmp_path: Path) -> NumberRows:
    return stream_of(np.arange(500.0)[:, None], tmp_path / "numbered.parquet")


def rows_of(batches: Batches) -> list[list[int]]:
    return [share[:, 0].int().tolist() for share, _ in batches]


def shuffled(source: Source, seed: int = 0, **options: Any) -> list[list[int]]:
    return rows_of(source.shuffled(torch.Generator().manual_seed(seed), 70, **options))


@pytest.mark.parametrize("kind", ["held", "streamed"])
def test_batches_follow_from_the_generator(numbered: NumberRows, kind: str) -> None:
    held = HeldRows(torch.arange(500.0)[:, None])
    source: Source = held if kind == "held" else StreamedRows(numbered, LIKE)
    assert (len(source), source.row_shape) == (500, (1,))
    whole = shuffled(source)
    assert [len(rows) for rows in whole] == [70] * 7 + [10]
    assert sorted(row for rows in whole for row in rows) == list(range(500))
    assert shuffled(source) == whole != shuffled(source, seed=1)
    assert shuffled(source, skip=3) == whole[3:]
    assert rows_of(source.in_order(70)) == [list(range(start, min(start + 70, 500))) for start in range(0, 500, 70)]
    generators = [torch.Generator().manual_seed(0) for _ in range(2)]
    for generator, skip in zip(generators, (0, 7), strict=True):
        list(source.shuffled(generator, 70, skip=skip))
    assert generators[0].get_state().equal(generators[1].get_state())


def test_processes_share_every_batch(numbered: NumberRows) -> None:
    source = StreamedRows(numbered, LIKE)
    whole, *shares = (shuffled(source, ranks=ranks) for ranks in (ALONE, Ranks(0, 2), Ranks(1, 2)))
    assert [first + second for first, second in zip(*shares, strict=True)] == whole


def test_streams_are_scored_and_split_like_arrays(tmp_path: Path) -> None:
    stream, model = stream_of(STATES, tmp_path / "states.parquet"), States()
    expected = mean_log_likelihood(model, STATES, 100)
    assert mean_log_likelihood(model, stream, 100) == pytest.approx(expected, abs=1e-7)
    held_out, others = StreamedRows(stream, LIKE).split(0.2, seed=0)
    assert len(held_out) + len(others) == 500
    result = fit(model, stream, 0.2, learner=Adam(rate=0.1), epochs=3)
    assert result.history[-1].valid > result.history[0].valid
    of_none = next(seed for seed in range(20) if not len(stream.split(0.002, seed)[0]))
    for valid, seed in ((1e-9, 0), (0.002, of_none)):
        with pytest.raises(InputError, match="at least one row on either side"):
            fit(model, stream, valid, epochs=1, seed=seed)
    with pytest.raises(InputError, match=r"valid has rows of shape \(3,\), expected \(2,\) as in rows"):
        fit(model, stream, np.zeros((4, 3)))


class States(Noisy):
    """Two columns of three states, which are floats in the rows."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.long())


def test_a_resumed_run_on_a_stream_ends_like_one_without_a_break(tmp_path: Path) -> None:
    stream, steps = stream_of(STATES, tmp_path / "states.parquet"), 0
    whole = run(tmp_path / "whole", States(), stream, batch=64)

    def stop(_rows: int) -> None:
        nonlocal steps
        steps += 1
        if steps == 16:  # in the middle of an epoch
            raise KeyboardInterrupt

    path = tmp_path / "broken"
    broken = run(path, States(), stream, batch=64, on_batch=stop)
    assert broken.interrupted
    assert len(broken.history) < len(whole.history)
    assert_same(run(path, States(), stream, batch=64, resume=True), whole)
    other = stream_of(STATES[::-1], tmp_path / "other.parquet")
    with pytest.raises(InputError, match="belongs to another run: its data is"):
        run(path, States(), other, batch=64, resume=True)


def test_full_em_on_a_stream_is_that_on_an_array(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(300, 2))
    rows[::7, 1] = np.nan
    stream, tensors = stream_of(rows, tmp_path / "normal.parquet"), []
    for source in (rows, stream):
        model = TorchCompiler(semiring="lse-sum", dtype=torch.float64).compile(normal_mixtures(rows, [0, 1]))
        result = fit(model, source, learner=FullEM(), epochs=4, batch=32)
        widen_covariances(model, source)
        tensors.append((result.history[-1].valid, *model.state_dict().values()))
    for held, streamed in zip(*tensors, strict=True):
        np.testing.assert_allclose(np.asarray(streamed), np.asarray(held), rtol=1e-9)
