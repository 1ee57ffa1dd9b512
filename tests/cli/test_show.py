import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import FileFormatError
from plica.files.model import save_model
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import ModuleLayer
from tests.harness.circuits import CIRCUITS
from tests.harness.layer_cases.module import Normals
from tests.harness.model_mutations import ModelParts
from tests.harness.oracle import numbers

Plica = Callable[..., Result]


def saved(name: str = "hadamard", dtype: str = "float32") -> Circuit:
    circuit = CIRCUITS[name]()
    tensors = {key: value.numpy() for key, value in TorchCompiler(dtype=dtype).compile(circuit).state_dict().items()}
    save_model("m.plica", circuit, tensors, {"semiring": "lse-sum", "dtype": dtype})
    return circuit


@pytest.mark.parametrize("name", CIRCUITS)
def test_the_table_has_a_line_for_each_layer(plica: Plica, name: str) -> None:
    circuit = saved(name)
    result = plica("show", "m.plica")
    assert result.exit_code == 0, result.output
    head, *lines = result.stdout.splitlines()
    assert head.split() == ["layer", "kind", "scope", "units", "inputs", "parameters"]
    assert len(lines) == len(circuit.layers)
    for index, (line, layer) in enumerate(zip(lines, circuit.layers, strict=True)):
        kind = type(layer).__name__.removesuffix("Layer")
        assert re.match(rf"\s*{index}\s+{kind}\s+{re.escape(str(circuit.layer_scope(layer)))}\s", line)


def test_the_table_in_full(plica: Plica) -> None:
    saved("kronecker of 2")
    expected = """\
layer  kind         scope   units   inputs  parameters
    0  Categorical  {0}     3               logits (3, 2)
    1  Categorical  {1}     3               logits (3, 2)
    2  Kronecker    {0, 1}  3 -> 9  0 1
    3  Sum          {0, 1}  9 -> 1  2       weight (1, 9)
"""
    assert plica("show", "m.plica", "--stage", "symbolic").stdout == expected


def test_the_optimized_stage_shows_the_layers_and_what_was_done(plica: Plica) -> None:
    saved("kronecker of 2")
    found = plica("show", "m.plica", "--stage", "optimized").stdout
    assert "    2  Tucker       {0, 1}  3 -> 1  0 1     weight (1, 9)\n" in found
    assert "optimized: 4 layers became 3 in 2 step(s); stopped because no rule matched any more\n" in found
    assert "fuse tucker: W (a (x) b (x) ...) -> Tucker(W; a, b, ...): once, saved " in found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_program_and_code_are_those_of_the_compiler(plica: Plica, dtype: str) -> None:
    circuit = saved(dtype=dtype)
    compiled = TorchCompiler(dtype=dtype).compile(circuit)
    assert plica("show", "m.plica", "--stage", "program").stdout.strip() == str(compiled.program).strip()
    assert plica("show", "m.plica", "--stage", "code").stdout.strip() == compiled.code.strip()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nope.plica", None, r"nope\.plica: no such file"),
        ("a.plica", b"", r"a\.plica: the file is empty"),
        ("a.plica", b"text", r"a\.plica: not a readable model file"),
    ],
)
def test_what_is_no_model_is_one_line(plica: Plica, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    result = plica("show", name)
    assert result.exit_code == 2
    assert re.fullmatch(rf"plica: error: {message}.*\n", result.stderr)


@pytest.mark.parametrize(
    "words",
    ["show m.plica", "score m.plica x.npy -o y.csv", "sample m.plica -n 3 -o y.csv", "export m.plica -o m.mlir"],
)
def test_a_model_that_needs_a_module_is_refused_in_one_line(plica: Plica, words: str) -> None:
    layer = ModuleLayer([0], 2, module=Normals(1, 2), normalized=True)
    compiled = TorchCompiler().compile(Circuit([layer], {}, [layer]))
    save_model("m.plica", compiled.symbolic, numbers(compiled), {"semiring": "lse-sum", "dtype": "float32"})
    np.save("x.npy", np.zeros((3, 1)))
    result = plica(*words.split())
    assert result.exit_code == 2
    assert re.fullmatch(
        r"plica: error: m\.plica: circuit\.modules: .* pass them in Python: plica\.load\(\.\.\., modules=.*"
        r"missing: '0\.module', a 'Normals'\n",
        result.stderr,
    )
    assert not Path("y.csv").exists()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("dtype", "int8", "options.dtype: expected float32 or float64, found 'int8'"),
        ("semiring", [], r"options.semiring: expected text, found []"),
        ("semiring", "max", "options.semiring: there is no semiring 'max'"),
    ],
)
def test_options_that_do_not_fit_are_refused(plica: Plica, option: str, value: object, message: str) -> None:
    circuit = CIRCUITS["one input"]()
    tensors = {"0.logits": np.zeros((3, 4))}
    with pytest.raises(FileFormatError, match=re.escape(message)):
        save_model("m.plica", circuit, tensors, {option: value})
    save_model("m.plica", circuit, tensors, {})
    parts = ModelParts.read(Path("m.plica"))
    parts.description["options"][option] = value
    Path("m.plica").write_bytes(parts.content())
    result = plica("show", "m.plica", "--stage", "code")
    assert result.exit_code == 2
    assert f"plica: error: m.plica: {message}" in result.stderr
