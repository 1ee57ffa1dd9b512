"""A library that an extra brings and that is not installed is one line that names the extra, wherever one needs it."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import plica
from plica.extras import LIBRARIES, how_to_install, require

# What needs a library: code for each, of which the last line is what a user would write.
NEEDS: Mapping[str, Mapping[str, str]] = {
    "torch": {
        "compile": "plica.compile(circuit)",
        "PipelineContext": "plica.PipelineContext()",
        "load": "plica.load('a.plica')",
        "save": "plica.save(circuit, 'a.plica')",
        "jit": "plica.jit(lambda x: x + 1)(np.ones(2))",
        "jit of a Program": "plica.jit(plica.trace(lambda x: x + 1, plica.spec((2,))))",
        "folded": "plica.jit(lambda x, w: x + w, constants='w')(np.ones(2), np.ones(2))",
        "numbers alone": "import plica.numpy as pnp; pnp.add(1, 2)",
        "new arrays": "import plica.numpy as pnp; pnp.zeros(2)",
        "interpreter": "plica.jit(lambda x: x + 1, backend='interpreter')(1)",
        "fit": "from plica.learn.fit import fit",
        "learn": "import plica.learn",
        "queries": "from plica.backend.torch.queries import IntegrateQuery",
        "compiler": "from plica.backend.torch.compiler import TorchCompiler",
    },
    "matplotlib": {
        "a picture of a circuit": "from plica.draw.circuit import draw_circuit; draw_circuit(circuit, 'a.svg')",
        "curves": "from plica.draw.curves import draw_curves; draw_curves({}, 'a.svg')",
        "samples": "from plica.draw.images import sample_grid; sample_grid(*[np.ones((2, 3))] * 2, 'a.svg')",
        "completions": "from plica.draw.inpainting import inpainting_grid; inpainting_grid({}, np.ones((1, 4)), "
        "np.ones(4, bool), 'a.svg', image_shape=(1, 2, 2))",
    },
    "sklearn": {"digits": "from plica.files.datasets import digits; digits()"},
    "tensorboard": {"figures": "from plica.learn.tensorboard import TensorBoard; TensorBoard('runs')"},
    "ray": {"an engine": "from plica.batch.engines import engine_of; list(engine_of('ray')(str, [0], 1))"},
    "pyspark": {"an engine": "from plica.batch.engines import engine_of; list(engine_of('spark')(str, [0], 1))"},
    "distributed": {"an engine": "from plica.batch.engines import engine_of; list(engine_of('dask')(str, [0], 1))"},
    "pydataset": {"tables": "from plica.bench.sets import _folder; _folder('pydataset')"},
    "statsmodels": {"tables": "from plica.bench.sets import _folder; _folder('statsmodels')"},
    "pysdd": {
        "clauses": "from plica.templates.logic import LogicalCircuit; LogicalCircuit.from_cnf([[1, -2]])",
        "a node": "from plica.templates.logic import LogicalCircuit; LogicalCircuit.from_pysdd(None)",
    },
    "cryptography": {
        "make_keys": "plica.native.make_keys()",
        "a signed file": "from plica.runtime.signature import sign; sign(b'k' * 32, b'head')",
        "who signed": "from plica.runtime.signature import check_signature; check_signature(*[b'k' * 32] * 4)",
    },
    "llvmlite": {
        "jit": "plica.jit(lambda x: x + 1, backend='native')(np.ones(2))",
        "a Program": "plica.jit(plica.trace(lambda x: x + 1, plica.spec((2,))), backend='native')",
    },
    "ziglang": {
        "compile": "plica.native.compile(circuit, 'a.plicab')",
        "compile a Program": "plica.native.compile(plica.trace(lambda x: x + 1, plica.spec((2,))), 'a.plicab')",
        "a library": "from plica.backend.native.loops.link import shared_library; shared_library(b'')",
    },
}
# Without any of the libraries.
WORKS = {
    "trace": "str(plica.trace(lambda x: x + 1, plica.spec((2,))))",
    "interpreter": "plica.jit(lambda x: x + 1, backend='interpreter')(np.ones(2)).tolist()",
    "on numpy's arrays": "import plica.numpy as pnp; pnp.exp(np.zeros(2)).tolist()",
    "stablehlo": "plica.native.stablehlo(plica.trace(lambda x: x + 1, plica.spec((2,))))[0]",
    "names": "[getattr(plica.native, name) for name in plica.native.__all__]",
    "circuit": "circuit.layers",
}
_RUN = """
import json, sys, traceback

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in json.loads(sys.argv[1]):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import numpy as np
import plica, plica.native
from plica.errors import MissingExtraError, PlicaError
from plica.symbolic.layers import GaussianLayer

layer = GaussianLayer([0], 1)
circuit = plica.Circuit([layer], {}, [layer])
found = {}
for name, code in json.loads(sys.argv[2]).items():
    try:
        exec(code, {"plica": plica, "np": np, "circuit": circuit})
    except MissingExtraError as error:
        assert isinstance(error, PlicaError) and isinstance(error, ImportError)
        found[name] = str(error)
    except BaseException:
        found[name] = traceback.format_exc()
    else:
        found[name] = "works"
print(json.dumps(found))
"""


def _run(absent: list[str], codes: Mapping[str, str], folder: Path) -> Any:
    command = [sys.executable, "-c", _RUN, json.dumps(absent), json.dumps(codes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("absent", [["torch"], [name for name in LIBRARIES if name != "torch"]], ids="+".join)
def test_what_needs_a_library_says_how_to_install_it(absent: list[str], tmp_path: Path) -> None:
    codes = {f"{library}: {name}": code for library in absent for name, code in NEEDS[library].items()}
    for what, found in _run(absent, codes, tmp_path).items():
        name, extra = LIBRARIES[what.partition(":")[0]]
        assert found.endswith(f"this needs {name}, which is not installed; {how_to_install(extra)}"), what
        assert len(found.splitlines()) == 1


def test_what_needs_no_library_works_without(tmp_path: Path) -> None:
    assert _run([*LIBRARIES], WORKS, tmp_path) == dict.fromkeys(WORKS, "works")


def test_the_table_has_every_library_and_extras_that_there_are() -> None:
    assert set(NEEDS) == set(LIBRARIES)
    project = tomllib.loads((Path(plica.__file__).parents[2] / "pyproject.toml").read_text())["project"]
    brought = {"PyTorch": "torch"}
    for name, extra in LIBRARIES.values():
        packages = project["optional-dependencies"][extra]
        assert any(one.startswith(brought.get(name, name)) for one in packages), (name, packages)


def test_a_module_that_no_extra_brings_is_python_s_own_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module'"):
        require("no_such_module")
