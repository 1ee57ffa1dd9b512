"""A circuit that is divided among processes learns what a whole one learns, and its files are those of a whole one."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load

import plica
from plica.distributed import shard
from plica.errors import DTypeError
from tests.distributed.processes import finish, start
from tests.distributed.sharded import rows_of, train, whole


def run(folder: Path, words: Iterable[str], size: int) -> None:
    results = finish(start("tests.distributed.sharded", [folder, *words], size, folder), 300.0)
    assert [status for status, _, _ in results] == [0] * size, results


@pytest.mark.full
@pytest.mark.parametrize(
    ("size", "names", "further"),
    [
        (2, ("image",), ("refused:image",)),
        pytest.param(2, ("odd",), (), marks=pytest.mark.full),
        pytest.param(3, ("image", "odd"), (), marks=pytest.mark.full),
    ],
)
def test_a_divided_circuit_learns_as_a_whole_one(
    tmp_path: Path, size: int, names: Sequence[str], further: Sequence[str]
) -> None:
    run(tmp_path, [*(f"trained:{name}" for name in names), *further], size)
    for name in names:
        expected, rows = whole(name), rows_of(name)
        losses = train(expected, rows)
        found = torch.load(tmp_path / name, weights_only=False)
        close = partial(torch.testing.assert_close, rtol=0.0, atol=1e-10)
        assert found["state"].keys() == expected.state_dict().keys()
        for key, value in expected.state_dict().items():
            close(found["state"][key], value)
            assert torch.equal(found["full"][key], found["state"][key])
        close(found["scores"], expected.eval()(rows).detach())
        assert len(losses) == len(found["losses"])
        of_file = plica.load(tmp_path / f"{name}.plica").state_dict()
        assert all(torch.equal(of_file[key], value) for key, value in found["state"].items())
        own = sum(torch.Size(shape).numel() for shape in found["parts"].values())
        assert own < sum(value.numel() for value in found["state"].values()) * 0.8
        assert found["units"] > (name == "image")
        alone = whole(name)
        alone.reset_parameters(0)
        state = get_model_state_dict(alone)
        load(state, checkpoint_id=tmp_path / f"{name}-checkpoint")
        set_model_state_dict(alone, state)
        assert all(torch.equal(alone.state_dict()[key], value) for key, value in found["state"].items())


@pytest.mark.full
@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)])
def test_a_checkpoint_is_loaded_by_another_number_of_processes(tmp_path: Path, before: int, after: int) -> None:
    names = ("image", "odd")
    run(tmp_path, [f"trained:{name}" for name in names], before)
    run(tmp_path, [f"loaded:{name}" for name in names], after)
    for name in names:
        written, found = (torch.load(tmp_path / file, weights_only=False) for file in (name, f"{name}-loaded"))
        assert all(torch.equal(found[key], value) for key, value in written["state"].items())


@pytest.mark.full
@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)])
def test_moments_of_an_optimizer_fit_another_number_of_processes(tmp_path: Path, before: int, after: int) -> None:
    for size in (before, after):
        run(tmp_path, ["resumed:image", "resumed:odd"], size)
    for name in ("image", "odd"):
        expected = whole(name)
        train(expected, rows_of(name), 4)
        found, names = torch.load(tmp_path / f"{name}-resumed", weights_only=False)
        assert names == [name for name, _ in expected.named_parameters()]
        for key, value in expected.state_dict().items():
            torch.testing.assert_close(found[key], value, rtol=0.0, atol=1e-10)


@pytest.mark.full
@pytest.mark.parametrize("size", [2, 3])
def test_random_circuits_have_the_values_and_gradients_of_whole_ones(tmp_path: Path, size: int) -> None:
    families = ("mild", "missing", "zeros", "logits of 1000", "dead layers", "sums of several", "transposes")
    run(tmp_path, [f"drawn:{family}" for family in families], size)


def test_arguments_are_checked() -> None:
    with pytest.raises(DTypeError, match="takes a compiled circuit"):
        shard(torch.nn.Linear(2, 2), None)  # type: ignore[arg-type]  # no mesh
    with pytest.raises(DTypeError, match="takes a mesh"):
        shard(whole("image"), "cpu")  # type: ignore[arg-type]  # no mesh
