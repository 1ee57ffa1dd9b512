"""What is kept is shared, evicted by cost above a limit, and folded again when it is needed."""

from functools import partial

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.constants.changes.states import is_same, state_of
from plica.constants.store.cache import SHARED, CachedBuffer, CacheEntry
from plica.eager.packed import PackedArray
from plica.errors import InputError
from plica.ir.dtypes import DType

PROGRAM = plica.trace(
    lambda x, v, w: x @ pnp.softmax(v) + x @ pnp.tanh(w), plica.spec(("b", 4)), plica.spec((4, 4)), plica.spec((4, 4))
)
SIZE = 4 * 4 * 4


def _arrays():
    draw = np.random.default_rng(0)
    return [torch.from_numpy(draw.normal(size=(4, 4)).astype("float32")) for _ in range(3)]


def _value(x, v, w):
    return x @ torch.softmax(v, 1) + x @ torch.tanh(w)


def _folded(cache):
    return plica.fold_constants(PROGRAM, run_time=("v", "w")).compile(cache=cache)


def _itself(one):
    return one


def _kept(work, num_bytes):
    return CacheEntry((np.zeros(num_bytes, "uint8"),), (), work)


def test_what_saves_the_least_work_for_each_byte_is_evicted_first() -> None:
    cache = plica.FoldCache(100)
    made = [_kept(work, num_bytes) for work, num_bytes in ((1000, 50), (10, 30), (400, 40))]
    for place, one in enumerate(made):
        cache.get(place, partial(_itself, one))
    assert [one.values is None for one in made] == [False, True, False]
    assert cache.num_bytes == 90
    assert cache.num_evictions == 1
    assert len(cache) == 2


def test_kept_arrays_are_listed_with_shapes_and_strides() -> None:
    cache = plica.FoldCache()
    values = (np.zeros((2, 3), "float32").T, torch.zeros(2, 3, dtype=torch.bfloat16).mT, 3)
    packed = PackedArray.of(np.zeros((2, 3), DType.INT4.numpy))
    one, other = CacheEntry(values, (), 1), CacheEntry((packed,), (), 1)
    cache.get("one", lambda: one)
    cache.get("other", lambda: other)
    assert cache.buffers == {
        one.index: (
            CachedBuffer((3, 2), (1, 3), "float32", 24),
            CachedBuffer((3, 2), (1, 3), "bfloat16", 12),
            CachedBuffer((), (), "int", 0),
        ),
        other.index: (CachedBuffer((2, 3), (3, 1), "int4", packed.nbytes),),
    }
    one.values = None
    assert list(cache.buffers) == [other.index]


def test_what_was_not_used_for_the_longest_goes_in_the_end_whatever_it_cost() -> None:
    cache = plica.FoldCache(100)
    dear = _kept(200, 50)
    cache.get("dear", lambda: dear)
    rows = [_kept(100, 50) for _ in range(6)]
    for place, one in enumerate(rows):
        cache.get(place, partial(_itself, one))
    assert dear.values is None


def test_evicted_values_are_admitted_again_by_one_fold() -> None:
    x, v, w = _arrays()
    cache = plica.FoldCache(2 * SIZE)
    first, second = _folded(cache), _folded(cache)
    first(x, v=v, w=w)
    assert (first.num_folds, cache.num_bytes, first.num_bytes) == (2, 2 * SIZE, 2 * SIZE)
    other = v + 1.0, w + 1.0
    second(x, v=other[0], w=other[1])
    assert (second.num_folds, cache.num_evictions, cache.num_bytes) == (2, 2, 2 * SIZE)
    assert first.num_bytes + second.num_bytes == 2 * SIZE
    for _ in range(4):
        before = first.num_folds + second.num_folds, cache.num_evictions
        assert torch.allclose(first(x), _value(x, v, w))
        assert torch.allclose(second(x), _value(x, *other))
        assert first.num_folds + second.num_folds - before[0] == cache.num_evictions - before[1]
        assert cache.num_bytes == 2 * SIZE


def test_a_limit_that_is_too_small_costs_folds_and_nothing_else() -> None:
    x, v, w = _arrays()
    run = _folded(plica.FoldCache(0))
    for count in (2, 4):
        assert torch.allclose(run(x, v=v, w=w), _value(x, v, w))
        assert run.num_folds == count
    assert run.num_bytes == 0


def test_a_cache_of_ones_own_shares_with_none() -> None:
    x, v, w = _arrays()
    runs = [_folded(None), _folded(None), _folded(plica.FoldCache())]
    for run in runs:
        run(x, v=v, w=w)
    assert [run.num_folds for run in runs] == [2, 0, 2]


def test_a_cache_holds_nothing_that_no_function_uses() -> None:
    x, v, w = _arrays()
    cache = plica.FoldCache(10**6)
    run = _folded(cache)
    run(x, v=v, w=w)
    run.update(v=v + 1.0)
    assert cache.num_bytes == 2 * SIZE
    del run
    assert cache.num_bytes == 0
    assert cache is not SHARED


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(InputError, match=r"the cache is 100; give a plica.FoldCache\(max_bytes"):
        _folded(100)
    with pytest.raises(InputError, match="FoldCache: max_bytes is '1MB' bytes; give 0 or more"):
        plica.FoldCache("1MB")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="FoldCache: max_bytes is -1 bytes; give 0 or more"):
        plica.FoldCache(-1)


def test_the_state_of_small_arrays_and_numbers_is_what_they_hold() -> None:
    array = np.zeros(3)
    before = state_of(array, checksum=False)
    assert state_of(array.copy(), checksum=False) == before
    array[1] = 1.0
    assert state_of(array, checksum=False) != before
    assert is_same(float("nan"), float("nan"))
    assert not is_same(0.0, -0.0)
    assert not is_same(1, True)
