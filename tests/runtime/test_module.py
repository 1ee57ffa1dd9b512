import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plica.errors import BoundsError, DTypeError, InputError, NativeFileError, ShapeError, UnsupportedError
from plica.runtime import library_code
from plica.runtime.arrays import numpy_dtype
from plica.runtime.checks import RESERVED
from plica.runtime.manifest import ArrayType
from plica.runtime.module import NativeModule, load
from tests.harness.native_files import ENTRIES, MANIFEST, SHIFT, WEIGHT, code_of, native_file
from tests.harness.together import grouped

BATCHES = (0, 1, 7, 100, 128, 1000)


def _rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, (count, 4)).astype(np.float32)


@pytest.mark.parametrize("count", BATCHES)
def test_one_file_answers_batches_of_any_size(module: NativeModule, count: int) -> None:
    x = _rows(count)
    for y in (module(x), module.product(x), module["product"](x=x)):
        assert y.shape == (count, 3)
        assert y.dtype == np.float32
        assert np.array_equal(y, x @ WEIGHT)


@pytest.mark.parametrize("count", BATCHES)
def test_rows_that_are_not_proven_are_asked_for_again(module: NativeModule, count: int) -> None:
    x = np.random.default_rng(1).uniform(0, 13, count)
    assert np.array_equal(module.score(x), np.where(x < 10, x * x, -x))


def test_many_rows_are_asked_for_in_pieces(module: NativeModule, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    call = library_code.LibraryCode.call

    def counted(self, function, arguments, *rest):
        asked.append((function, len(arguments[0])))
        return call(self, function, arguments, *rest)

    monkeypatch.setattr(library_code.LibraryCode, "call", counted)
    module(_rows(250))
    assert asked == [("product", 100), ("product", 100), ("product", 50)]
    asked.clear()
    x = np.zeros(250)
    x[[3, 99, 100, 249]] = 11
    module.score(x)
    assert asked == [("quick", 100), ("quick", 100), ("quick", 50), ("slow", 4)]


def test_results_are_in_memory_of_their_own(module: NativeModule) -> None:
    """Code may hand out an argument as a result, and kept memory serves the next call."""
    x = np.array([1, 2])
    first = module.echo(x, [True, False], np.zeros((2, 3), np.float32), 5)
    module.echo([7, 8], [False, False], np.ones((2, 3), np.float32), 6)
    assert [one.tolist() for one in first] == [[1, 2], [True, False], [[0.0] * 3] * 2, 5]
    assert [one.dtype for one in first] == [np.int64, np.bool_, np.float32, np.int64]
    first[0][0] = 9
    assert x[0] == 1


def test_dtypes_that_other_libraries_lack(module: NativeModule) -> None:
    values: tuple[list[Any], ...] = ([1.5, -2.0], [0.5, 3.0], [1 + 2j, -3j], [255, 0])
    types = [one.dtype for one in module.kinds.entry.arguments]
    given = [np.asarray(value).astype(numpy_dtype(dtype)) for value, dtype in zip(values, types, strict=True)]
    for arguments in (given, values):
        found = module.kinds(*arguments)
        assert [one.dtype.name for one in found] == types
        assert all(np.array_equal(one, value) for one, value in zip(found, values, strict=True))


@pytest.mark.parametrize(
    "change",
    [
        np.asfortranarray,
        lambda x: np.frombuffer(b"?" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape),  # not aligned
        lambda x: np.concatenate([x, x], axis=1)[:, :4],
        lambda x: x[::-1][::-1],
        lambda x: x.astype(">f4"),
        lambda x: x.astype(np.int8),
        lambda x: x.astype(np.float16),
        lambda x: x.tolist(),
        lambda x: memoryview(x.copy()),
    ],
)
def test_arrays_in_any_memory(module: NativeModule, change) -> None:
    x = _rows(6)
    given = change(x)
    if isinstance(given, np.ndarray):
        given.flags.writeable = False
    if isinstance(given, memoryview):
        given = np.asarray(given)
    assert np.array_equal(module(given), x @ WEIGHT)


def test_arrays_of_other_libraries_go_in_and_out(module: NativeModule) -> None:
    import torch

    x = torch.arange(8.0).reshape(2, 4)
    y = torch.utils.dlpack.from_dlpack(module(x))
    assert torch.equal(y, x @ torch.from_numpy(WEIGHT))
    with pytest.raises(InputError, match=r"product: x: this Tensor gives no array .*detach, copy or convert it"):
        module(x.requires_grad_())
    with pytest.raises(InputError, match=r"product: x: this Tensor gives no array .*meta"):
        module(x.to("meta"))

    class Far:
        def __dlpack__(self, **_):
            raise AssertionError("nothing is asked of an array that lies elsewhere")

        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(InputError, match="product: x: this Far lies on another device; move it to the CPU first"):
        module(Far())


@grouped(
    ("call", "error", "message"),
    [
        (
            lambda m: m(np.zeros(4, "f4")),
            ShapeError,
            r"expected x: float32\[n, 4\], found .*\(4,\); a single row is x\[None\]",
        ),
        (lambda m: m(np.zeros((2, 5), "f4")), ShapeError, "axis 1 of x has size 5, expected 4"),
        (lambda m: m(np.zeros((2, 4))), DTypeError, r"found an array of dtype float64.*x.astype\('float32'\)"),
        (lambda m: m(np.zeros((2, 4), complex)), DTypeError, "dtype complex128, which does not become float32"),
        (lambda m: m("abc"), InputError, "found str 'abc', which is no array"),
        (lambda m: m(np.ma.masked_equal(np.eye(4, dtype="f4"), 0)), InputError, "x: some entries are masked; fill"),
        (lambda m: m([[1], [2, 3]]), InputError, "which is no array"),
        (lambda m: m(), InputError, "takes product.*found 0 argument.*; x missing"),
        (lambda m: m(1, 2), InputError, "found 2 argument"),
        (lambda m: m(np.zeros((1, 4), "f4"), y=1), InputError, "; y unknown"),
        (lambda m: m(np.zeros((1, 4), "f4"), x=1), InputError, "; x twice"),
        (lambda m: m(1, **{f"a{n}{'?' * 99}": 1 for n in range(9)}), InputError, r"a4\?{38} and 4 more unknown$"),
        (lambda m: m(np.zeros((1, 4), "f4"), seed=1), InputError, "takes no seed: it draws nothing"),
        (lambda m: m.drawn(), InputError, "expected n as a number of rows or entries, found nothing; pass n=10"),
        (lambda m: m.drawn(n=-1), InputError, "found -1"),
        (lambda m: m.drawn(n=True), InputError, "found True"),
        (lambda m: m.drawn(n=np.array([1, 2])), InputError, r"found array\(\[1, 2\]\)"),
        (lambda m: m.drawn(n=2**63), InputError, "found 9223372036854775808"),
        (lambda m: m.drawn(n=2**50), InputError, "not enough memory for n=1125899906842624"),
        (lambda m: m.drawn(n=1, seed="a"), InputError, "expected a number or a Generator as seed, found 'a'"),
        (lambda m: m.echo([1.5], [True], [[0], [0]], 1), DTypeError, "dtype float64, which does not become int64"),
        (
            lambda m: m.echo([2**63], [True], [[0], [0]], 1),
            InputError,
            "found the number 9223372036854775808, which int64 does not hold",
        ),
        (
            lambda m: m.echo([np.nan], [True], [[0], [0]], 1),
            DTypeError,
            "found NaN; whole numbers have no missing values",
        ),
        (lambda m: m.echo([1], [2], [[0], [0]], 1), DTypeError, "dtype int64, which does not become bool"),
        (
            lambda m: m.plus(np.zeros((2, 3), "f4"), np.zeros((4, 3), "f4")),
            ShapeError,
            "plus: axis 0 of y has size 4, but n = 2 by axis 0 of x",
        ),
        (
            lambda m: m.echo([1, 2], [True, True], np.zeros((2, 4), "f4"), 1),
            ShapeError,
            r"axis 1 of z has size 4, expected 3 = 2\*n-1",
        ),
        (lambda m: m["none"], InputError, "no entry 'none'; it has product, score, plus"),
        (lambda m: m.none, AttributeError, "no entry 'none'; it has product, score, plus"),
        (lambda m: m.exact, AttributeError, "no entry 'exact'"),
        (lambda m: m["exact"], InputError, "no entry 'exact'"),
    ],
)
def test_wrong_calls_are_explained(module: NativeModule, call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(module)
    assert module(_rows(2)).shape == (2, 3)


def test_checks_of_the_code_raise_errors_of_plica(module: NativeModule) -> None:
    for count in (3, 5):
        with pytest.raises(BoundsError, match=f"^{count} entries are too many; expected less than 3.$"):
            module.echo(np.arange(count), np.ones(count, bool), np.zeros((2, 2 * count - 1), "f4"), 0)
    assert module.echo([4], [True], np.zeros((2, 1), "f4"), 0)[0].tolist() == [4]


def test_draws_come_from_the_seed_and_not_from_the_pieces(module: NativeModule, tmp_path: Path) -> None:
    x = np.zeros((250, 3), np.float32)
    first, second = module.noisy(x, seed=3), module.noisy(x, seed=3)
    assert np.array_equal(first, second)
    assert np.array_equal(first, np.random.default_rng(3).random((250, 3), np.float32))
    assert not np.array_equal(module.noisy(x), module.noisy(x))
    assert np.array_equal(first, module.noisy(x, seed=np.random.default_rng(3)))
    one_by_one = tuple(replace(one, rows=None if one.name == "noisy" else one.rows) for one in ENTRIES)
    with load(native_file(tmp_path / "whole.plicab", entries=one_by_one)) as whole:
        assert np.array_equal(whole.noisy(x, seed=3), first)
    assert module.drawn(n=0, seed=1).shape == (0, 3)
    assert np.array_equal(module.drawn(n=5, seed=1), np.random.default_rng(1).random((5, 4), np.float32) @ WEIGHT)


class TestUpdates:
    ZEROS = np.zeros((2, 3), np.float32)

    def test_what_was_computed_from_a_constant_is_computed_again(self, module: NativeModule) -> None:
        assert np.array_equal(module.shifted(self.ZEROS)[0], 2 * SHIFT)
        given = np.array([5, 6, 7], np.float32)
        module.update(shift=given)
        given[:] = 0
        assert module.shifted(self.ZEROS)[0].tolist() == [10, 12, 14]
        assert module.constants["shift"].tolist() == [5, 6, 7]
        module.update({"shift": SHIFT})
        assert np.array_equal(module.shifted(self.ZEROS)[0], 2 * SHIFT)

    def test_every_session_sees_an_update(self, module: NativeModule) -> None:
        together = threading.Barrier(3)

        def ask(_: int) -> list[float]:
            together.wait()
            return module.shifted(self.ZEROS)[0].tolist()

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(ask, range(3)))
            for value in range(5):
                module.update(shift=np.full(3, value, np.float32))
                assert list(pool.map(ask, range(3))) == [[2.0 * value] * 3] * 3

    def test_a_call_sees_one_update_throughout(self, module: NativeModule) -> None:
        """All rows of a result are of one value, and values do not go back."""
        stop = threading.Event()

        def ask(_: int) -> list[float]:
            seen = []
            while not stop.is_set():
                rows = module.shifted(np.zeros((300, 3), np.float32))
                assert (rows == rows[0, 0]).all()
                seen.append(float(rows[0, 0]))
            return seen

        module.update(shift=np.zeros(3, np.float32))
        with ThreadPoolExecutor(2) as pool:
            asking = [pool.submit(ask, number) for number in range(2)]
            for value in range(100):
                module.update(shift=np.full(3, value, np.float32))
            stop.set()
            for one in asking:
                assert one.result() == sorted(one.result())

    def test_nothing_changes_where_an_update_fails(self, module: NativeModule) -> None:
        for wrong, error in (
            ({"shift": np.zeros(4, np.float32)}, ShapeError),
            ({"shift": np.zeros(3, complex)}, DTypeError),
            ({"weight": WEIGHT}, InputError),
            ({"doubled": SHIFT}, InputError),
            ({"none": SHIFT}, InputError),
            ({"shift": np.zeros(3, np.float32), "weight": WEIGHT}, InputError),
        ):
            with pytest.raises(error):
                module.update(wrong)
            assert np.array_equal(module.shifted(self.ZEROS)[0], 2 * SHIFT)

    def test_constants_are_read_only(self, module: NativeModule) -> None:
        with pytest.raises(ValueError, match="read-only"):
            module.constants["shift"][0] = 1


def test_threads_get_right_answers(module: NativeModule) -> None:
    def ask(seed: int) -> bool:
        x = _rows(300, seed)
        return all(np.array_equal(module(x), x @ WEIGHT) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(8)))


def test_python_runs_while_code_does(module: NativeModule, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = threading.Barrier(2)
    call = library_code.LibraryCode.call

    def waiting(self, *arguments):
        inside.wait(timeout=20)  # which the second thread never reached if calls took turns
        return call(self, *arguments)

    monkeypatch.setattr(library_code.LibraryCode, "call", waiting)
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(module, [_rows(3), _rows(3)]))
    assert np.array_equal(answers[0], answers[1])


def test_closing(path: Path) -> None:
    with load(path) as module:
        ask = module.product
        assert "for host" in repr(module)
    assert "closed" in repr(module)
    for call in (lambda: module(_rows(1)), lambda: ask(_rows(1)), lambda: module.update(shift=SHIFT)):
        with pytest.raises(NativeFileError, match="is closed; load it again"):
            call()
    module.close()
    with pytest.raises(NativeFileError, match="is closed"):
        _ = module.constants


def test_a_call_that_runs_while_the_module_closes_finishes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(path)
    call = library_code.LibraryCode.call

    def closing(self, *arguments):
        module.close()
        return call(self, *arguments)

    monkeypatch.setattr(library_code.LibraryCode, "call", closing)
    assert np.array_equal(module(_rows(3)), _rows(3) @ WEIGHT)


def test_pickling_is_by_path(tmp_path: Path) -> None:
    own = native_file(tmp_path / "own.plicab")
    module = load(own)
    data = pickle.dumps(module)
    assert len(data) < 1000
    for again in (pickle.loads(data), copy.deepcopy(module)):
        assert np.array_equal(again(_rows(3)), module(_rows(3)))
    native_file(own, provenance={"source": "another"})
    with pytest.raises(NativeFileError, match="is another file than the one that was pickled"):
        pickle.loads(data)
    module.update(shift=SHIFT)
    with pytest.raises(UnsupportedError, match="whose constants were updated cannot be pickled"):
        pickle.dumps(module)


def test_names(module: NativeModule) -> None:
    assert module.entries == ("product", "score", "plus", "noisy", "drawn", "shifted", "echo", "kinds")
    assert set(module.entries) < set(dir(module))
    assert module.product.__doc__ == "The product of each row with the weight."
    assert repr(module.product) == f"<entry product(x: float32[n, 4]) -> y: float32[n, 3] of {module.path}>"
    assert repr(module.score).startswith("<entry score(x: float64[n]) -> score: float64[n] of ")
    public = {name for name in dir(NativeModule) if not name.startswith("_")}
    assert set(RESERVED) == public | {"manifest", "path", "signer", "target"}


def test_code_that_does_not_fit_the_manifest_is_refused(tmp_path: Path) -> None:
    """Arrays of other types would be read beyond their ends."""
    entry = replace(ENTRIES[0], arguments=(ArrayType("x", "float32", ("n", 3)),))
    path = native_file(tmp_path / "x.plicab", entries=(entry, *ENTRIES[1:]))
    with pytest.raises(NativeFileError, match=r"product has the types float32\[n,4\] .*expected float32\[n,3\]"):
        load(path)


def test_constants_that_are_missing_or_short_are_refused(tmp_path: Path) -> None:
    weight, *others = MANIFEST.tensors
    with pytest.raises(NativeFileError, match="entry product: there is no tensor weight"):
        native_file(tmp_path / "x.plicab", tensors=(replace(weight, name="other"), *others))
    path = native_file(tmp_path / "x.plicab", tensors=(replace(weight, shape=(1,)), *others))
    with pytest.raises(NativeFileError, match=r"product has the types .*expected float32\[n,4\] float32\[1\]"):
        load(path)


def test_modules_are_let_go_in_any_order(path: Path) -> None:
    """Code and constants lie in the mapped file, which goes last."""
    for held in (
        lambda module: code_of(module),
        lambda module: code_of(module)._library,
        lambda module: module.constants,
        lambda module: module.product,
    ):
        module = load(path)
        module(_rows(2))
        kept = held(module)
        module.close()
        del module
        assert kept is not None
        del kept
