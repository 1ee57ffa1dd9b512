"""Files of functions hold shared libraries: where they run, what they refuse, and who owns what they give."""

import os
import pickle
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import plica
import plica.numpy as pnp
from plica import native
from plica.backend.native.functions import FunctionSet
from plica.cli.main import main
from plica.errors import BoundsError, InputError, NativeFileError, PlicaError, ZeroDivisorError
from plica.runtime.container import read
from plica.runtime.module import NativeModule
from tests.harness.damaged_files import Json, forged
from tests.harness.forged_files import ask_forgeries
from tests.harness.forged_libraries import ask_libraries
from tests.harness.forks import fate_of_child
from tests.harness.together import grouped

TABLE = np.linspace(-1.0, 1.0, 30).reshape(10, 3)


@plica.jit(abstracted_axes=({0: "n"}, {0: "m"}, None))
def looked_up(x: Any, places: Any, shift: Any) -> Any:
    rows = pnp.take(pnp.asarray(TABLE), places, axis=0) + shift
    return {"rows": rows, "positive": pnp.nonzero(x > 0.0)[0], "sum": pnp.sum(x)}


X, PLACES = np.asarray([1.0, -2.0, 3.0, 0.0]), np.asarray([9, 0])


def _expected(x: Any, places: Any, shift: Any, table: Any = TABLE) -> dict[str, Any]:
    return {"rows": table[places] + shift, "positive": np.nonzero(x > 0)[0], "sum": x.sum()}


def _agrees(found: Any, expected: dict[str, Any]) -> bool:
    return found.keys() == expected.keys() and all(np.allclose(found[name], expected[name]) for name in expected)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    looked_up(X, PLACES, 0.5)
    found = tmp_path_factory.mktemp("libraries") / "looked_up.plicab"
    native.compile(looked_up, found)
    return found


@pytest.fixture
def module(path: Path) -> NativeModule:
    return native.load(path)


def _file_of(folder: Path, function: Callable[..., Any], *arguments: Any, **settings: Any) -> NativeModule:
    """The file of a function that was called with some arguments, loaded."""
    axes = settings.pop("axes", {0: "n"})
    compiled = plica.jit(function, abstracted_axes=axes)
    compiled(*arguments)
    native.compile(compiled, folder / "f.plicab", **settings)
    return native.load(folder / "f.plicab")


def test_a_file_of_a_function_has_a_library_for_its_target(module: NativeModule) -> None:
    assert [target.part for target in module.manifest.targets] == [module.target.part]
    assert module.target.part in read(module.path).parts
    assert _agrees(module(X, PLACES, 0.5), _expected(X, PLACES, 0.5))


ALONE = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"llvmlite", "ziglang", "torch", "optree", "scipy", "click", "tqdm",
                                      "ml_dtypes", "safetensors", "array_api_compat", "cryptography"}:
            raise AssertionError(f"{name} is imported")

sys.meta_path.insert(0, Forbidden())
import numpy as np
import plica.native

module = plica.native.load(sys.argv[1])
found = module(np.asarray([1.0, -1.0]), [9], 0.5)
assert found["rows"].shape == (1, 3) and found["positive"].tolist() == [0] and found["sum"] == 0, found
try:
    module(np.ones(1), [10], 0.5)
except IndexError as error:
    print(error)
print(*sorted(name for name in sys.modules if name.startswith("plica.") and not name.startswith("plica.runtime")))
"""


def test_a_file_of_a_function_runs_with_numpy_alone(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ALONE, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    error, modules = done.stdout.splitlines()
    assert "test_native_libraries.py:" in error
    assert "index 10 does not lie within axis 0 of size 10" in error
    assert modules.split() == ["plica.errors", "plica.extras", "plica.forks", "plica.native", "plica.public"]


def test_a_system_that_loads_nothing_from_memory_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(NativeFileError, match="needs Linux, which loads libraries from memory") as caught:
        native.load(path)
    assert "\n" not in str(caught.value)


def test_a_file_says_what_it_is(path: Path) -> None:
    shown = CliRunner().invoke(main, ["inspect", str(path)]).output
    assert "version 4 of the format" in shown
    assert re.search(r"\n  x86-64\S* +x86_64 +runs here\n|\n  aarch64 +aarch64 +runs here\n", shown)


def test_another_version_of_the_format_is_refused(path: Path, tmp_path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[8] ^= 2
    (tmp_path / "damaged.plicab").write_bytes(data)
    with pytest.raises(NativeFileError, match="has version 6 of the format, expected 4 or 5; export the model again"):
        native.load(tmp_path / "damaged.plicab")


# Manifests that lie


def _entry(described: Json) -> Json:
    return described["manifest"]["entries"][0]


def _set(*steps: str | int, to: Any) -> Callable[[Json], None]:
    def forge(described: Json) -> None:
        owner = _entry(described)
        for step in steps[:-1]:
            owner = owner[step]
        owner[steps[-1]] = to

    return forge


def _swap_sizes(described: Json) -> None:
    entry = _entry(described)
    entry["arguments"][0]["shape"], entry["arguments"][1]["shape"] = ["m"], ["n"]


def _drop(*steps: str | int) -> Callable[[Json], None]:
    def forge(described: Json) -> None:
        owner = _entry(described)
        for step in steps:
            owner = owner[step]
        owner.clear()

    return forge


@grouped(
    ("forge", "message"),
    [
        (_set("arguments", 0, "dtype", to="float32"), "has the types .*, expected float32"),
        (_set("arguments", 0, "shape", to=["n", "n"]), r"expected float64\[n,n\]"),
        (_set("arguments", 0, "shape", to=[4]), r"expected float64\[4\]"),
        (_set("arguments", 2, "dtype", to="complex128"), "has the types"),
        (_swap_sizes, "has the types"),
        (_set("results", 0, "dtype", to="float32"), "has the types"),
        (_set("results", 0, "shape", to=[1, 3]), "has the types"),
        (_set("results", 0, "shape", to=["k", 3]), "has the types"),
        (_set("results", 1, "shape", to=["n"]), "has the types"),
        (_set("constants", to=[]), "has the types"),
        (_set("constants", to=["_w0", "_w0"]), "has the types"),
        (_set("function", to="other"), "its code has no function other"),
        (_set("faults", 0, "error", to="SystemExit"), "unknown error SystemExit"),
        (_set("faults", 0, "message", to=[999]), "reports 2 numbers, expected 1000"),
        (_set("faults", 0, "message", to=[-1]), "expected a number from 0"),
    ],
)
def test_a_manifest_that_does_not_fit_its_code_is_refused(
    path: Path, tmp_path: Path, forge: Callable[[Json], None], message: str
) -> None:
    forged_path = tmp_path / "forged.plicab"
    forged_path.write_bytes(forged(path.read_bytes(), forge))
    with pytest.raises(NativeFileError, match=message) as caught:
        native.load(forged_path)
    assert "\n" not in str(caught.value)


def test_an_error_that_a_manifest_leaves_out_is_one_of_the_file(path: Path, tmp_path: Path) -> None:
    forged_path = tmp_path / "forged.plicab"
    forged_path.write_bytes(forged(path.read_bytes(), _drop("faults")))
    with pytest.raises(NativeFileError, match="its function main returned the unknown status 1"):
        native.load(forged_path)(X, [10], 0.5)


@pytest.mark.parametrize("count", [100, pytest.param(3000, marks=pytest.mark.full)])
def test_a_change_whose_hashes_are_right_ends_no_process(path: Path, count: int) -> None:
    assert 0 < ask_forgeries(path, count) < count


def _code(path: Path, folder: Path) -> Path:
    """The library of a file, as a file of its own."""
    image = read(path)
    (folder / f"{path.stem}.so").write_bytes(image.part(image.manifest.targets[0].part))
    return folder / f"{path.stem}.so"


@pytest.mark.parametrize("count", [60, pytest.param(3000, marks=pytest.mark.full)])
def test_other_code_whose_hashes_are_right_ends_no_process(path: Path, tmp_path: Path, count: int) -> None:
    elsewhere = next(name for name in ("aarch64", "x86-64") if name[:5] != platform.machine()[:5])
    others = []
    for name, function in ("other", lambda x: x + 1.0), (elsewhere, lambda x: x + 1.0):
        native.compile(
            plica.trace(function, plica.spec("n", "float64")),
            tmp_path / f"{name}.plicab",
            targets=elsewhere if name == elsewhere else "host",
        )
        others.append(_code(tmp_path / f"{name}.plicab", tmp_path))
    others.append(Path(np.linalg._umath_linalg.__file__))  # a library of someone else
    assert ask_libraries(path, count, others) < count


# Errors


def _parts(x: Any, start: Any, stop: Any, by: Any) -> Any:
    return x[start:stop] // by, pnp.ones(start - 1), x[by]


@grouped(
    ("arguments", "kind"),
    [
        ((1, 6, 1), BoundsError),
        ((3, 2, 1), BoundsError),
        ((1, 5, 0), ZeroDivisorError),
        ((0, 5, 1), InputError),
        ((1, 5, -6), BoundsError),
    ],
)
def test_errors_are_those_of_code_in_the_process(
    tmp_path_factory: pytest.TempPathFactory, arguments: tuple[int, ...], kind: type[PlicaError]
) -> None:
    axes = ({0: "n"}, None, None, None)
    module = _file_of(tmp_path_factory.mktemp("errors"), _parts, np.arange(5), 1, 4, 2, axes=axes)
    in_process = plica.jit(_parts, abstracted_axes=axes, backend="native")
    messages = []
    for run in (module, in_process):
        assert run(np.arange(5), 1, 4, 2)[0].tolist() == [0, 1, 1]
        with pytest.raises(kind) as caught:
            run(np.arange(5), *arguments)
        assert type(caught.value) is kind
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "test_native_libraries.py:" in messages[0]


def test_a_size_that_divides_by_zero_is_an_error(tmp_path: Path) -> None:
    module = _file_of(
        tmp_path, lambda x, y: pnp.ones(x.shape[0] // y.shape[0]), np.ones(4), np.ones(2), axes=({0: "n"}, {0: "m"})
    )
    assert module(np.ones(5), np.ones(2)).tolist() == [1.0, 1.0]
    with pytest.raises(ZeroDivisorError):
        module(np.ones(5), np.ones(0))


def test_a_size_may_divide_by_one_less_than_another(tmp_path: Path) -> None:
    axes = ({0: "n"}, {0: "m"})
    module = _file_of(
        tmp_path, lambda x, y: pnp.ones(x.shape[0] // (y.shape[0] - 1)), np.ones(4), np.ones(3), axes=axes
    )
    assert module(np.ones(9), np.ones(3)).shape == (4,)
    with pytest.raises(ZeroDivisorError):
        module(np.ones(9), np.ones(1))


def test_sizes_may_be_called_as_functions_of_sizes_are(tmp_path: Path) -> None:
    axes = ({0: "max"}, {0: "mod"})
    module = _file_of(tmp_path, lambda x, y: (pnp.concat([x, y]), x[:-1]), np.ones(4), np.ones(2), axes=axes)
    assert [found.shape for found in module(np.ones(5), np.ones(3))] == [(8,), (4,)]


def test_memory_that_there_is_not_is_a_memory_error(tmp_path: Path) -> None:
    def large(x: Any, far: Any) -> Any:
        return pnp.ones((x.shape[0], 2**47)), pnp.zeros(far)

    module = _file_of(tmp_path, lambda x, far: (x * 2, pnp.zeros(far)), np.ones(3), 2, axes=({0: "n"}, None))
    assert module(np.ones(1), 3)[1].tolist() == [0.0] * 3
    for far in (2**60, 2**62):
        with pytest.raises(MemoryError, match="its function main needs more memory than there is"):
            module(np.ones(1), far)
    program = plica.trace(large, plica.spec("n", "float64"), int)
    native.compile(program, tmp_path / "large.plicab")
    with pytest.raises(MemoryError, match="its function main needs more memory than there is"):
        native.load(tmp_path / "large.plicab")(np.ones(1), 1)


# Arguments and results


def test_arguments_in_any_memory(module: NativeModule) -> None:
    whole = np.random.default_rng(0).normal(size=(8, 2))
    unaligned = np.frombuffer(b"?" + whole.tobytes(), np.uint8)[1:].view(np.float64)
    frozen = whole[:, 0].copy()
    frozen.flags.writeable = False
    others: list[Any] = [whole[:, 0].astype(">f8"), whole[:, 0].astype("f4"), []]
    for x in (whole[:, 1], whole[::-2, 0], unaligned, frozen, *others):
        for places in ([], [1, -1], np.asarray([3], "int8"), np.asarray([[4, 5]])[0, ::-1]):
            given = np.asarray(x, np.float64), np.asarray(places, int)
            assert _agrees(module(x, places, np.float32(2)), _expected(*given, 2.0))


def test_results_belong_to_the_caller(tmp_path: Path) -> None:
    def several(x: Any, y: Any) -> Any:
        table, doubled = pnp.asarray(TABLE), y * 2.0
        far = pnp.nonzero(x > 0.0)[0]
        return x, x, x[1:], y, doubled, doubled, table, table[0], far, far, pnp.asarray(1.5), pnp.broadcast_to(y, (3,))

    x, y = np.asarray([1.0, -2.0, 3.0]), np.asarray(7.0)
    module = _file_of(tmp_path, several, x, y, axes=({0: "n"}, {}))
    found = module(x, y)
    expected = plica.jit(several)(x, y)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    module.close()
    del module
    mapped = [np.frombuffer(memoryview(read(tmp_path / "f.plicab").view), np.uint8)]
    for number, one in enumerate(found):
        assert one.flags.writeable
        others = [*found[:number], *found[number + 1 :], x, y, *mapped]
        assert not any(np.shares_memory(one, other) for other in others)
        one[...] = -1  # which nobody else sees
        assert all(
            np.array_equal(later, wanted)
            for later, wanted in zip(found[number + 1 :], expected[number + 1 :], strict=True)
        )
    assert (x == [1.0, -2.0, 3.0]).all()


def test_results_of_every_dtype_that_only_the_code_knows_the_sizes_of(tmp_path: Path) -> None:
    names = ("bool", "int8", "uint64", "float16", "bfloat16", "float32", "complex64", "complex128")

    def chosen(x: Any) -> Any:
        places = pnp.nonzero(x > 0.0)[0]
        return [pnp.astype(pnp.take(x, places), name) for name in names]

    x = np.asarray([1.0, -2.0, 0.0, 3.0])
    found = _file_of(tmp_path, chosen, x)(x)
    assert [one.dtype.name for one in found] == list(names)
    for one in found:
        np.testing.assert_array_equal(one, np.asarray([1.0, 3.0]).astype(one.dtype))


# Updates, threads, processes


def test_constants_that_change_are_other_pointers(tmp_path: Path) -> None:
    def layer(x: Any, w: Any) -> Any:
        return x @ pnp.softmax(w, axis=0) + pnp.asarray(TABLE)

    w, x = np.linspace(0.0, 1.0, 6).reshape(2, 3), np.ones((10, 2))
    module = _file_of(tmp_path, layer, x, w, axes=({}, {}), updatable={"w": w})

    def expected(w: Any) -> Any:
        return x @ (np.exp(w) / np.exp(w).sum(axis=0)) + TABLE

    assert [fold.function for fold in module.manifest.folds] == ["runtime_fold0"]
    before = module(x)
    np.testing.assert_allclose(before, expected(w), atol=1e-15)
    for other in (w * 5, -w, w):
        module.update(w=other)
        np.testing.assert_allclose(module(x), expected(other), atol=1e-15)
    np.testing.assert_allclose(before, expected(w), atol=1e-15)
    with pytest.raises(PlicaError, match="w"):
        module.update(w=w[:1])
    np.testing.assert_allclose(module(x), expected(w), atol=1e-15)

    def ask(_: int) -> bool:
        found = module(np.zeros((10, 2))) - TABLE
        return bool((found == 0.0).all())

    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(ask, number) for number in range(100)]
        for number in range(20):
            module.update(w=w * number)
        assert all(one.result() for one in asked)


def test_any_number_of_threads_call_at_one_time(module: NativeModule) -> None:
    def ask(seed: int) -> bool:
        generator = np.random.default_rng(seed)
        for size in generator.integers(0, 3000, 20):
            x, places = generator.normal(size=size), generator.integers(0, 10, size // 3)
            if not _agrees(module(x, places, 1.0), _expected(x, places, 1.0)):
                return False
            with pytest.raises(BoundsError, match=f"index {seed + 10} does not lie within axis 0 of size 10"):
                module(x, [seed + 10], 1.0)
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(8)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_goes_on_with_a_module(module: NativeModule) -> None:
    assert fate_of_child(lambda: _agrees(module(X, PLACES, 0.5), _expected(X, PLACES, 0.5))) == "right"
    assert _agrees(module(X, PLACES, 0.5), _expected(X, PLACES, 0.5))


def test_closing_and_pickling(module: NativeModule) -> None:
    again = pickle.loads(pickle.dumps(module))
    found = module(X, PLACES, 0.5)
    module.close()
    assert _agrees(found, _expected(X, PLACES, 0.5))
    with pytest.raises(NativeFileError, match="is closed; load it again"):
        module(X, PLACES, 0.5)
    assert _agrees(again(X, PLACES, 0.5), _expected(X, PLACES, 0.5))


def test_functions_whose_errors_name_other_lines_are_not_alike() -> None:
    functions = FunctionSet()
    specs = plica.spec(("n",), "float64"), plica.spec((), "int64")
    first = plica.trace(lambda x, i: x[i], *specs)
    second = plica.trace(lambda x, i: x[i], *specs)
    keys = [functions.written("read", program, {}).key for program in (first, first, second)]
    assert keys[0] == keys[1] != keys[2]
