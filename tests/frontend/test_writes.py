"""Every way to write to a constant that torch and numpy have: noticed, or in the table of what is not.

What is not noticed (`docs/constants.md`) is right after `plica.invalidate()`, and where constants are told by entries.
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import relu
from torch.utils.dlpack import from_dlpack

import plica
import plica.numpy as pnp
from plica.backend.torch.compiler import TorchCompiler
from tests.harness.eval_circuits import X, image, unfolded
from tests.harness.together import grouped

N = 136  # more than 64 KiB
pytestmark = pytest.mark.filterwarnings("ignore")  # of methods that are deprecated, and of forks
DOCUMENT = (Path(__file__).parents[2] / "docs" / "constants.md").read_text()


# The methods of tensors that write in place


def _arguments(size: int) -> Iterator[tuple[Any, ...]]:
    """What methods may take, until one of them takes it."""
    t = torch.rand(size, size) + 0.5
    rows, places = torch.zeros(size, dtype=torch.long), torch.zeros(size, size, dtype=torch.long)
    mask = torch.ones(size, size, dtype=torch.bool)
    yield from ((), (2.0,), (2,), (0.3,), (t,), (t, t), (0,), (3,), (0, 1), (0, rows, t), (0, places, t))
    yield from ((0, places, 2.0), (mask, 2.0), (mask, t), (t, t, 2.0), (0.0, 1.0), (0.3, 0.4), (lambda x: x * 2,))
    yield from (
        (t, lambda x, y: y + x),
        (t, t, lambda x, y, z: x + y + z),
        (places[:1, :2] + 1, torch.tensor([[5.0, 6.0]])),
    )
    yield from ((t[0],), ((rows[:2], rows[:2]), t[0, :2]), (0, rows[:2], t[:2]), (0, rows[:2], 2.0), (t[0], t[0]))
    yield from (
        (torch.rand(size * size, 2), t[0, :2]),
        (2, 0, 1.0),
        (0, rows, t, "amax"),
        (0, places, t, "amax"),
        (t[None], t[None]),
        (places + 7,),
        (t, t[0]),
    )


def _bases(size: int) -> Iterator[Tensor]:
    signs = torch.rand(size, size) * 4 - 2
    yield from (torch.rand(size, size) * 0.8 + 0.1, signs, torch.randint(2, 50, (size, size)), signs[None])
    yield from (torch.rand(size * size), signs.log(), signs.double())


METHODS = [name for name in dir(Tensor) if name.endswith("_") and not name.endswith("__")]
QUIET_METHODS = {"apply_", "map_", "map2_"}
# They are about gradients, memory, shapes, sparse or complex tensors, or a generator of keys
OTHERS = {"_coalesced_", "_philox_normal_", "_philox_uniform_", "as_strided_", "conj_physical_", "detach_"} | {
    "requires_grad_",
    "resize_",
    "resize_as_",
    "resize_as_sparse_",
    "share_memory_",
    "sparse_resize_",
    "sparse_resize_and_clear_",
    "squeeze_",
    "unsqueeze_",
}


@cache
def _folded(dtype: str, num_axes: int, check: str = "version") -> Any:
    names = ("l", "n", "m")[-num_axes:]

    def doubled(x: Any, w: Any) -> Any:
        return pnp.flip(w * 2) * x

    program = plica.trace(doubled, plica.spec((), dtype), plica.spec(names, dtype))
    return plica.fold_constants(program, run_time=("w",), policy=plica.FoldPolicy(max_growth=None, check=check))


def _run_of(weight: Any, check: str = "version") -> Any:
    return _folded(str(weight.dtype).removeprefix("torch."), weight.ndim, check).compile()


def _is_right(run: Any, weight: Any) -> bool:
    """Whether what is folded now is made of the entries that there are now."""
    entries = np.array(weight.detach() if isinstance(weight, Tensor) else weight)
    found = run(torch.ones((), dtype=torch.as_tensor(entries).dtype), w=weight)
    return np.array_equal(found.detach(), np.flip(entries * 2), equal_nan=True)


def _written(name: str) -> tuple[Any, Tensor] | None:
    """A function that had folded a large tensor, and the tensor, to which a method has written since."""
    for base, arguments in product(_bases(N), _arguments(N)):
        weight, trial = base.clone(), base.clone()
        try:
            getattr(trial, name)(*arguments)
        except Exception:  # it takes others
            continue
        same_kind = (trial.shape, trial.dtype) == (base.shape, base.dtype)
        if same_kind and not np.array_equal(trial, base, equal_nan=True):
            run = _run_of(weight)
            assert _is_right(run, weight)
            torch.manual_seed(1)
            getattr(weight, name)(*arguments)
            return run, weight
    return None


@grouped("name", [name for name in METHODS if name not in OTHERS])
def test_a_method_that_writes_is_noticed_or_in_the_table(name: str) -> None:
    torch.manual_seed(0)
    written = _written(name)
    assert written is not None, "find its arguments"
    run, weight = written
    if name in QUIET_METHODS:
        assert not _is_right(run, weight), "it is noticed now: take it out of the table"
        assert f"`{name}`" in DOCUMENT
        plica.invalidate()
    assert _is_right(run, weight)


# Other ways to write to tensors


def _through_storage(weight: Tensor) -> None:
    weight.untyped_storage().copy_((weight.detach() * 3).untyped_storage())


def _through_typed_storage(weight: Tensor) -> None:
    weight.detach().storage()[0] = 9.0


def _second_tensor(weight: Any) -> None:
    torch.empty(0).set_(weight.detach()).mul_(3.0)


def _of_storage(weight: Tensor) -> None:
    torch.empty(0).set_(weight.untyped_storage()).mul_(3.0)


def _in_another_process(weight: Tensor) -> None:
    memory = weight.detach().share_memory_().numpy()
    run_in_child(lambda: memory.__imul__(3.0))


def _fused(weight: Any) -> None:
    zeros = [torch.zeros_like(weight)]
    hows: Any = {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "dampening": 0.0, "nesterov": False}
    torch._fused_sgd_([weight.detach()], [zeros[0] + 1], [], **hows, maximize=False, is_first_step=True)


def _keeping_version(weight: Tensor) -> None:
    with torch.autograd._unsafe_preserve_version_counter(weight):  # type: ignore[attr-defined]
        weight.detach().mul_(3.0)


def _at_address(weight: Tensor) -> None:
    (ctypes.c_float * 4).from_address(weight.data_ptr())[2] = 9.0


def _scattered(weight: Tensor) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    try:
        dist.scatter(weight.detach(), [weight.detach() * 3], 0)
    finally:
        dist.destroy_process_group()


def run_in_child(work: Callable[[], object]) -> None:
    """Do something in a process that forks, and wait for it."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


NOTICED: dict[str, Callable[[Any], object]] = {
    "out": lambda weight: torch.mul(weight.detach(), 3.0, out=weight.detach()),
    "out of a view": lambda weight: torch.mul(weight.detach()[:2], 3.0, out=weight.detach()[:2]),
    "setitem": lambda weight: weight.detach().__setitem__((0, slice(None)), 9.0),
    "operator": lambda weight: weight.detach().__imul__(3.0),
    "in place relu": lambda weight: relu(weight.detach(), inplace=True),
    "init": torch.nn.init.normal_,
    "foreach": lambda weight: torch._foreach_mul_([weight.detach()], 3.0),
    "vector": lambda weight: torch.nn.utils.vector_to_parameters(weight.detach().flatten() * 3, [weight]),
    "unbind": lambda weight: weight.detach().unbind()[0].mul_(3.0),
    "as_strided": lambda weight: weight.detach().as_strided((N,), (N + 1,)).mul_(3.0),
    "view of real numbers": lambda weight: torch.view_as_complex(weight.detach().view(-1, 2)).mul_(3.0),
    "another dtype": lambda weight: weight.detach().view(torch.int32).zero_(),
    "real": lambda weight: weight.detach().real.mul_(3.0),
    "transposed": lambda weight: weight.detach().T.mul_(3.0),
    "resized": lambda weight: weight.requires_grad_(False).resize_(N // 2, N),
    "set_": lambda weight: weight.requires_grad_(False).set_(torch.ones(N, N)),
    "data": lambda weight: setattr(weight, "data", weight.data * 3),
    "index_put": lambda weight: torch.ops.aten.index_put_(weight.detach(), [torch.tensor([0])], torch.tensor(9.0)),
}
# By the words that the table of the document has for them
QUIET: dict[str, tuple[str, Callable[[Any], object]]] = {
    "data": ("`.data`", lambda weight: weight.data.mul_(3.0)),
    "numpy": ("`.numpy()`", lambda weight: weight.detach().numpy().__imul__(3.0)),
    "asarray": ("`.numpy()`", lambda weight: np.asarray(weight.detach()).fill(3.0)),
    "ufunc": ("`.numpy()`", lambda weight: np.negative(weight.detach().numpy(), out=weight.detach().numpy())),
    "from_dlpack": ("`from_dlpack`", lambda weight: from_dlpack(weight.detach()).mul_(3.0)),
    "dlpack of numpy": ("`from_dlpack`", lambda weight: from_dlpack(np.from_dlpack(weight.detach())).mul_(3.0)),
    "from_numpy": ("`from_numpy`", lambda weight: torch.from_numpy(weight.detach().numpy()).mul_(3.0)),
    "frombuffer": (
        "`frombuffer`",
        lambda weight: torch.frombuffer(memoryview(weight.detach().numpy()).cast("B"), dtype=torch.float32).mul_(3.0),
    ),
    "storage": ("`untyped_storage()`", _through_storage),
    "fill of storage": ("`untyped_storage()`", lambda weight: weight.untyped_storage().fill_(1)),
    "entry of storage": ("`untyped_storage()`", lambda weight: weight.untyped_storage().__setitem__(0, 99)),
    "typed storage": ("storage", _through_typed_storage),
    "set_ of a second tensor": ("`set_` of a second tensor", _second_tensor),
    "set_ of the storage": ("`set_` of a second tensor", _of_storage),
    "another process": ("another process", _in_another_process),
    "fused": ("a fused step without an optimizer", _fused),
    "collective": ("`scatter`", _scattered),
    "kept version": ("`torch.autograd._unsafe_preserve_version_counter`", _keeping_version),
    "address": ("its address", _at_address),
}


def _large() -> Tensor:
    return torch.nn.Parameter(torch.randn(N, N))


@pytest.mark.parametrize("name", NOTICED)
def test_what_torch_counts_is_noticed(name: str) -> None:
    weight = _large()
    run, before = _run_of(weight), weight.detach().clone()
    with torch.no_grad():
        assert _is_right(run, weight)
        NOTICED[name](weight)
        assert not torch.equal(weight, before)
        assert _is_right(run, weight)


@pytest.mark.parametrize("name", QUIET)
def test_what_nobody_counts_is_in_the_table_and_right_once_it_is_told(name: str) -> None:
    words, write = QUIET[name]
    weight = _large()
    run, reading, other = _run_of(weight), _run_of(weight, "checksum"), _run_of(weight)
    unchanged = _large()
    untouched = _run_of(unchanged)
    with torch.no_grad():
        assert all(_is_right(one, weight) for one in (run, reading, other))
        assert _is_right(untouched, unchanged)
        before = weight.detach().clone()
        write(weight)
        assert not torch.equal(weight, before)
        is_noticed = name == "another process"  # which moves the tensor to memory that can be shared, before
        assert _is_right(run, weight) == is_noticed, "it is noticed now: take it out of the table"
        assert words in DOCUMENT
        assert _is_right(reading, weight)
        plica.invalidate()
        assert _is_right(run, weight)
        assert _is_right(other, weight)
        assert _is_right(untouched, unchanged)
    assert untouched.num_folds == 1, "its entries are as they were"


@pytest.mark.parametrize("name", [name for name in QUIET if name != "another process"])
def test_all_ways_to_write_to_small_tensors_are_noticed(name: str) -> None:
    weight = torch.nn.Parameter(torch.randn(4, 4))
    run = _run_of(weight)
    with torch.no_grad():
        assert _is_right(run, weight)
        QUIET[name][1](weight)
        assert _is_right(run, weight)


def test_memory_that_another_process_writes_to_is_read_once_it_is_told() -> None:
    weight = _large().detach().share_memory_()
    run, memory = _run_of(weight), weight.numpy()
    assert _is_right(run, weight)
    run_in_child(lambda: memory.__imul__(3.0))
    assert not _is_right(run, weight)
    plica.invalidate()
    assert _is_right(run, weight)


@pytest.mark.parametrize("name", ["from_dlpack", "storage", "set_ of a second tensor", "data", "fused"])
def test_circuits_are_right_once_they_are_told(name: str) -> None:
    torch.manual_seed(0)
    circuit = TorchCompiler().compile(image(units=40)).eval()
    with torch.no_grad():
        circuit(X)
        for one in circuit.parameters():
            QUIET[name][1](one)
        plica.invalidate()
        torch.testing.assert_close(circuit(X), unfolded(circuit), rtol=1e-5, atol=1e-5)


# Arrays of numpy


def _of_file(array: Any) -> None:
    np.memmap(array.filename, array.dtype, "r+", shape=array.shape)[0] = 9.0


ARRAYS: dict[str, Callable[[Any], object]] = {
    "entry": lambda array: array.__setitem__((0, 0), 9.0),
    "operator": lambda array: array.__imul__(3.0),
    "out": lambda array: np.negative(array, out=array),
    "copyto": lambda array: np.copyto(array, 3.0),
    "put": lambda array: np.put(array, [0], 9.0),
    "putmask": lambda array: np.putmask(array, array < 0, 9.0),
    "place": lambda array: np.place(array, array < 0, [9.0]),
    "fill_diagonal": lambda array: np.fill_diagonal(array, 9.0),
    "sort": lambda array: array.sort(),
    "partition": lambda array: array.partition(3),
    "byteswap": lambda array: array.byteswap(inplace=True),
    "setfield": lambda array: array.setfield(9.0, "float32"),
    "real": lambda array: setattr(array, "real", 9.0),
    "flat": lambda array: setattr(array, "flat", 9.0),
    "view": lambda array: array[3:].view("int32").fill(5),
    "at": lambda array: np.add.at(array, (0, 0), 9.0),
    "memory": lambda array: memoryview(array).cast("B").__setitem__(2, 77),
    "frombuffer": lambda array: np.frombuffer(array.data, "float32").__imul__(3.0),
    "tensor": lambda array: torch.from_numpy(array).mul_(3.0),
    "dlpack": lambda array: from_dlpack(array).mul_(3.0),
    "shuffle": lambda array: np.random.default_rng(0).shuffle(array),
    "random": lambda array: np.random.default_rng(0).random(out=array, dtype="float32"),
    "file": _of_file,
    "another process": lambda array: run_in_child(lambda: array.__imul__(3.0)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_writes_to_arrays_are_noticed_where_these_are_small_and_once_it_is_told(name: str, tmp_path: Path) -> None:
    for size in (4, N):
        array: Any = np.memmap(tmp_path / f"{size}", "float32", "w+", shape=(size, size))
        array[:] = np.random.default_rng(0).standard_normal((size, size))
        if name not in ("file", "another process"):
            array = np.array(array)
        run, reading, before = _run_of(array), _run_of(array, "checksum"), np.array(array)
        assert _is_right(run, array)
        assert _is_right(reading, array)
        ARRAYS[name](array)
        assert not np.array_equal(array, before, equal_nan=True)
        assert _is_right(run, array) == (size == 4)
        assert _is_right(reading, array)
        plica.invalidate()
        assert _is_right(run, array)
