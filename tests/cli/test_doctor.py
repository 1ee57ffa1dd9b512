"""`plica doctor`, and `--verbose` on every command."""

import json
from importlib import metadata

import click
import numpy as np
import pytest
import torch

from plica import compile as compile_circuit
from plica import save
from plica.cli import doctor
from plica.cli.main import main
from plica.logger import LOGGER
from tests.harness.circuits import pixels


def test_it_fits_on_a_screen_and_says_what_is_there(plica) -> None:
    result = plica("doctor")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert len(lines) <= 40
    assert [line.split()[:2] for line in lines[:4:2]] == [["plica", lines[0].split()[1]], ["numpy", np.__version__]]
    assert any(line.split() == ["torch", "torch", metadata.version("torch")] for line in lines)


def test_json_has_the_same(plica) -> None:
    found = json.loads(plica("doctor", "--json").output)
    assert found["versions"]["torch"] == torch.__version__
    assert found["devices"]["cpu"].endswith(f"{torch.get_num_threads()} threads of torch")
    for name, extra in found["extras"].items():
        assert extra["installed"] or extra["missing"], name
        assert all(metadata.version(package) == version for package, version in extra["installed"].items())


def test_what_is_missing_or_broken_is_said(plica, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str):
        if name == "torch":
            raise OSError("libtorch.so: cannot open shared object file")
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(doctor, "import_module", broken)
    monkeypatch.setattr(
        metadata, "requires", lambda _: ["numpy", "no-such-thing>=2; extra == 'draw'", "x; extra == 'all'"]
    )
    lines = plica("doctor").output.splitlines()
    assert "torch       cannot be imported: libtorch.so: cannot open shared object file" in lines
    assert "pyarrow     not installed" in lines
    assert lines[-1] == "  draw        no-such-thing missing; try, in a checkout of Plica: pip install '.[draw]'"


def test_every_command_is_verbose_if_asked(plica) -> None:
    for name, command in main.commands.items():
        assert any("--verbose" in option.opts for option in command.params), name
        assert isinstance(command, click.Command)
    save(compile_circuit(pixels(2, 2)), "a.plica")
    assert "plica: compiled Circuit(" in plica("show", "a.plica", "--stage", "program", "--verbose").stderr
    assert not plica("show", "a.plica", "--stage", "program").stderr
    assert not LOGGER.isEnabledFor(10)
