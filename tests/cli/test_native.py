import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from plica.cli.native_arrays import write_arrays
from plica.runtime.manifest import ArrayType
from plica.runtime.signature import make_keys
from tests.harness.native_files import ENTRIES, MANIFEST, WEIGHT, code, native_file

Plica = Callable[..., Result]
X = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture
def file(plica: Plica) -> Path:  # noqa: ARG001 - which moves to an empty folder
    np.save("x.npy", X)
    return native_file(Path("m.plicab"))


def _done(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def _refused(result: Result) -> str:
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("plica: error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


class TestRun:
    def test_the_main_entry(self, plica: Plica, file: Path) -> None:
        assert _done(plica("run", file, "--input", "x.npy", "--output", "y.npy")) == ""
        y = np.load("y.npy")
        assert y.dtype == np.float32
        assert np.array_equal(y, X @ WEIGHT)

    def test_an_output_without_an_input(self, plica: Plica, file: Path) -> None:
        message = _refused(plica("run", file, "--output", "y.npy"))
        assert "--input is missing: product takes x: float32[n, 4]" in message
        assert "give a file, as in --input x.npy" in message

    def test_what_is_read_is_never_lost(self, plica: Plica, file: Path) -> None:
        Path("link.npy").symlink_to("x.npy")
        for word, out in (("x.npy", "x.npy"), ("x=x.npy", "./link.npy")):
            assert f"{Path(out)}: the output would overwrite this input" in _refused(
                plica("run", file, "-i", word, "-o", out)
            )
        assert np.array_equal(np.load("x.npy"), X)

    @pytest.mark.parametrize("shape", [(2, 2, 2), (2, 1, 2, 2), (0, 2, 2)])
    def test_images_are_rows(self, plica: Plica, file: Path, shape: tuple[int, ...]) -> None:
        """As `plica sample` writes them, but only of as many pixels as a row has."""
        images = X.ravel()[: np.prod(shape)].reshape(shape)
        np.save("images.npy", images)
        _done(plica("run", file, "-i", "images.npy", "-o", "y.npy"))
        np.testing.assert_array_equal(np.load("y.npy"), images.reshape(len(images), 4) @ WEIGHT)
        np.save("images.npy", images[..., :1])
        assert "expected x: float32[n, 4]" in _refused(plica("run", file, "-i", "images.npy", "-o", "y.npy"))

    @pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
    def test_tables_go_in_and_out(self, plica: Plica, file: Path, ending: str) -> None:
        if ending == ".npz":
            np.savez("x.npz", x=X, unused=X)
        else:
            _done(plica("run", file, "--input", "x.npy", "--output", "y.npy"))
            np.savetxt("x.csv", X, delimiter=",")
            if ending == ".parquet":
                import pyarrow
                import pyarrow.parquet

                pyarrow.parquet.write_table(pyarrow.table([*X.T], names=list("abcd")), "x.parquet")
        _done(plica("run", file, "-i", f"x{ending}", "-o", f"y{ending}"))
        again = f"y{ending}"
        assert Path(again).stat().st_size
        if ending == ".csv":
            assert np.array_equal(np.loadtxt(again, delimiter=",", skiprows=1), X @ WEIGHT)
        elif ending == ".npz":
            assert np.array_equal(np.load(again)["y"], X @ WEIGHT)

    def test_several_arguments_and_results(self, plica: Plica, file: Path) -> None:
        np.savez("all.npz", x=[1, 2], flag=[True, False], z=np.zeros((2, 3), np.float32), s=7)
        _done(plica("run", file, "--entry", "echo", "--input", "all.npz", "--output", "out.npz"))
        found = np.load("out.npz")
        assert sorted(found) == ["flag", "s", "x", "z"]
        assert found["x"].tolist() == [1, 2]
        np.save("a.npy", np.ones((2, 3)))  # float64: every entry stays what it is in float32
        _done(plica("run", file, "--entry", "plus", "-i", "x=a.npy", "-i", "y=a.npy", "-o", "s.npy"))
        assert (np.load("s.npy") == 2).all()

    def test_a_table_of_no_rows_and_one_of_wide_rows(self, plica: Plica, file: Path) -> None:
        np.save("none.npy", X[:0])
        _done(plica("run", file, "-i", "none.npy", "-o", "none.csv"))
        assert Path("none.csv").read_text() == "y_0,y_1,y_2\n"
        entry = replace(ENTRIES[0], results=(ArrayType("y", "float32", ("n", 3, 1)),))
        write_arrays(Path("wide.csv"), entry, ((X @ WEIGHT)[:, :, None],))
        assert np.array_equal(np.loadtxt("wide.csv", delimiter=",", skiprows=1), X @ WEIGHT)

    def test_decimals_of_tables_are_rounded_and_too_large_ones_refused(self, plica: Plica, file: Path) -> None:
        tenths = np.asarray([[0.1, 0.2, -0.3, 1e-3]])
        np.savetxt("x.csv", tenths, delimiter=",")
        for word in ("x.csv", "x=x.csv"):
            _done(plica("run", file, "-i", word, "-o", "y.npy"))
            np.testing.assert_allclose(np.load("y.npy"), tenths @ WEIGHT, rtol=1e-6)
        np.savetxt("x.csv", tenths * 1e300, delimiter=",")
        assert "does not become float32 without loss" in _refused(plica("run", file, "-i", "x.csv", "-o", "y.npy"))

    def test_sizes_and_seeds(self, plica: Plica, file: Path) -> None:
        for name in ("a.npy", "b.npy"):
            _done(plica("run", file, "--entry", "drawn", "--size", "n=5", "--seed", "3", "--output", name))
        assert np.load("a.npy").shape == (5, 3)
        assert np.array_equal(np.load("a.npy"), np.load("b.npy"))

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (
                ("m.plicab", "-i", "x.npy", "-o", "y.txt"),
                "y.txt: expected a file name that ends with one of .npy, .npz, .csv",
            ),
            (("m.plicab", "-i", "x.npy", "-o", "none/y.npy"), "there is no folder"),
            (("none.plicab", "-i", "x.npy", "-o", "y.npy"), "none.plicab: no such file"),
            (("x.npy", "-i", "x.npy", "-o", "y.npy"), "x.npy: is no native file of Plica"),
            (("m.plicab", "-i", "none.npy", "-o", "y.npy"), "none.npy: no such file"),
            (("m.plicab", "-i", "m.plicab", "-o", "y.npy"), "m.plicab: expected a file of one of .npy, .npz, .csv"),
            (("m.plicab", "-i", "bad.npy", "-o", "y.npy"), "bad.npy: not a readable .npy file"),
            (("m.plicab", "-i", "cut.npz", "-o", "y.npy"), "cut.npz: not a readable .npz file"),
            (("m.plicab", "-i", "words.npz", "-o", "y.npy"), "words.npz: 'x' is no array"),
            (("m.plicab", "-i", "keys.npy", "-o", "y.npy"), "keys.npy: not a readable .npy file"),
            (("m.plicab", "-i", "wide.npy", "-o", "y.npy"), "axis 1 of x has size 5, expected 4"),
            (("m.plicab", "-i", "tenth.npy", "-o", "y.npy"), "which does not become float32 without loss"),
            (("m.plicab", "-i", "z=x.npy", "-o", "y.npy"), "--input z=x.npy: z is no argument; product takes x"),
            (("m.plicab", "-i", "x.npy", "-i", "x.npy", "-o", "y.npy"), "--input x.npy: x is given twice"),
            (("m.plicab", "-o", "y.npy"), "--input is missing: product takes x"),
            (("m.plicab", "--entry", "none", "-o", "y.npy"), "no entry 'none'; it has product, score"),
            (
                ("m.plicab", "--entry", "plus", "-i", "x.npy", "-o", "y.npy"),
                "plus takes x, y; write --input NAME=x.npy",
            ),
            (
                ("m.plicab", "--entry", "drawn", "-i", "x.npy", "-o", "y.npy"),
                "--input x.npy: drawn takes nothing; leave --input out",
            ),
            (
                ("m.plicab", "--entry", "drawn", "-i", "x.npz", "-o", "y.npy"),
                "--input x.npz: drawn takes nothing; leave --input out",
            ),
            (
                ("m.plicab", "--entry", "plus", "-i", "other.npz", "-o", "y.npy"),
                "other.npz: holds z; expected one array, or arrays called x, y",
            ),
            (
                ("m.plicab", "--entry", "echo", "-o", "y.npy"),
                "echo gives 4 arrays (x, flag, z, s); write them to a .npz",
            ),
            (("m.plicab", "--entry", "drawn", "--size", "n", "-o", "y.npy"), "--size n: expected a name and a number"),
            (("m.plicab", "--entry", "drawn", "--size", "n=²", "-o", "y.npy"), "--size n=²: expected a name"),
            (("m.plicab", "--entry", "drawn", "--size", "n=" + "9" * 5000, "-o", "y.npy"), "--size n=999"),
            (
                ("m.plicab", "--entry", "drawn", "--size", "n=" + "9" * 18, "-o", "y.npy"),
                "not enough memory for n=999",
            ),
            (("m.plicab", "-i", "x.npy", "--size", "x=3", "-o", "y.npy"), "--size x=3: x is no size"),
            (("m.plicab", "--public-key", "12", "-o", "y.npy"), "--public-key 12: expected 64 hexadecimal digits"),
            (("m.plicab", "--public-key", "12" * 32, "-o", "y.npy"), "m.plicab: is not signed"),
            (("m.plicab", "--target", "abacus", "-o", "y.npy"), "m.plicab: has no target abacus; it has host"),
        ],
    )
    def test_one_line_says_what_is_wrong(self, plica: Plica, file: Path, words: tuple[str, ...], message: str) -> None:
        Path("bad.npy").write_bytes(file.read_bytes())
        Path("cut.npz").write_bytes(b"PK\x03\x04" + bytes(50))
        with zipfile.ZipFile("words.npz", "w") as archive:
            archive.writestr("x", "hello")
        Path("keys.npy").write_bytes(b"\x93NUMPY\x01\x00\x08\x00{[]: 1}\n")
        np.savez("x.npz", x=X)
        np.savez("other.npz", z=X)
        np.save("wide.npy", np.zeros((2, 5), np.float32))
        np.save("tenth.npy", np.full((2, 4), 0.1))
        assert message in _refused(plica("run", *words))
        assert not Path("y.npy").exists()


class TestInspect:
    def test_the_report_in_full(self, plica: Plica, file: Path) -> None:
        shown = _done(plica("inspect", file))
        hashes = [line.split()[-1] for line in shown.splitlines()[-2:]]
        for one in hashes:
            assert len(one) == 64
            shown = shown.replace(one, "SHA256")
        length = f"{len(code()):,}"
        size = f"{file.stat().st_size:,}"
        architecture = MANIFEST.targets[0].architecture
        assert (
            shown
            == f"""\
  file    m.plicab, {size} bytes, version 4 of the format
  signed  no
  source  written by hand

entries
  product(x: float32[n, 4]) -> y: float32[n, 3]
      The product of each row with the weight.
      main entry: runs when the loaded file is called
      100 rows of n at a time
  score(x: float64[n]) -> score: float64[n]
      100 rows of n at a time
      rows whose bound fails are computed by exact
  exact(x: float64[n]) -> score: float64[n]
      called by other entries alone
      7 rows of n at a time
  plus(x: float32[n, 3], y: float32[n, 3]) -> s: float32[n, 3]
  noisy(x: float32[n, 3]) -> s: float32[n, 3]
      100 rows of n at a time
      draws u: float32[n, 3]; takes seed
  drawn() -> y: float32[n, 3]
      draws u: float32[n, 4]; takes seed, n
  shifted(x: float32[n, 3]) -> s: float32[n, 3]
      takes the constants doubled
  echo(x: int64[n], flag: bool[n], z: float32[2, 2*n-1], s: int64[]) -> \
x: int64[n], flag: bool[n], z: float32[2, 2*n-1], s: int64[]
  kinds(a: bfloat16[n], b: float16[n], c: complex128[n], d: uint8[n]) -> \
a: bfloat16[n], b: float16[n], c: complex128[n], d: uint8[n]

targets
  host  {architecture}  runs here

constants
  weight: float32[4, 3]
  shift: float32[3]      can be updated
  doubled: float32[3]    computed by fold

parts
  tensors    192 bytes{" " * (len(length) - 3)}  SHA256
  code/host  {length} bytes  SHA256
"""
        )

    def test_as_json(self, plica: Plica, file: Path) -> None:
        shown = json.loads(_done(plica("inspect", file, "--json")))
        assert [entry["name"] for entry in shown["entries"]] == [entry.name for entry in ENTRIES]
        assert shown["entries"][0]["arguments"] == [{"name": "x", "dtype": "float32", "shape": ["n", 4]}]
        assert [part["name"] for part in shown["parts"]] == ["tensors", "code/host"]

    def test_who_signed(self, plica: Plica) -> None:
        public, private = make_keys()
        native_file(Path("s.plicab"), private)
        assert f"signed  by {public.hex()} (not checked; pass --public-key to check it)\n" in _done(
            plica("inspect", "s.plicab")
        )
        checked = _done(plica("inspect", "s.plicab", "--public-key", public.hex()))
        assert f"signed  by {public.hex()}\n" in checked
        other, _ = make_keys()
        assert "is signed with the key" in _refused(plica("inspect", "s.plicab", "--public-key", other.hex()))

    def test_what_does_not_run_here_is_shown(self, plica: Plica) -> None:
        [host] = MANIFEST.targets
        targets = (replace(host, name="far", architecture="riscv64"), host)
        native_file(Path("t.plicab"), targets=targets, provenance={"source": "a\x1b[31mred\nline"})
        shown = _done(plica("inspect", "t.plicab"))
        assert "far   riscv64  does not run here: needs riscv64, and this machine is" in shown
        assert r"source  a\x1b[31mred\nline" in shown

    def test_damage_is_said_in_one_line(self, plica: Plica, file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
        assert "m.plicab: the file is damaged: the hash of its part code/host is not" in _refused(
            plica("inspect", file)
        )


def test_commands_need_no_torch(tmp_path: Path) -> None:
    native_file(tmp_path / "m.plicab")
    np.save(tmp_path / "x.npy", X)
    code = f"""
import sys
sys.modules["torch"] = sys.modules["matplotlib"] = None
sys.argv = ["plica", "run", {str(tmp_path / "m.plicab")!r}, "--input", {str(tmp_path / "x.npy")!r}, "--output",
            {str(tmp_path / "y.npy")!r}]
from plica.cli.entry import main
main()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert np.array_equal(np.load(tmp_path / "y.npy"), X @ WEIGHT)
