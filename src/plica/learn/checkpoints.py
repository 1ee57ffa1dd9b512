"""Checkpoints: all that a training run needs to go on, in one file that appears whole or not at all.

A file is written by `torch.save` and read with `weights_only=True`, so that it runs no code. It says which model, rows
and settings it belongs to, and a run with others refuses it.

>>> import tempfile
>>> checkpoint = Checkpoint(Path(tempfile.mkdtemp()) / "checkpoint", notes={"command": "train"})
>>> checkpoint.write({"seed": 0}, {"history": []})
>>> checkpoint.read({"seed": 0}), read_notes(checkpoint.path)
({'history': []}, {'command': 'train'})
>>> checkpoint.read({"seed": 1})  # doctest: +ELLIPSIS
Traceback (most recent call last):
plica.errors.InputError: ...checkpoint: belongs to another run: its seed is 0, and here it is 1; ...
"""

import hashlib
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.serialization import get_unsafe_globals_in_checkpoint

from plica.arguments import integer
from plica.errors import DTypeError, FileFormatError, InputError
from plica.paths import as_path, check_can_create, check_is_file, remove_leftovers, replacing
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers.base import held_layers
from plica.symbolic.parameters import TensorParameter, dereferenced
from plica.symbolic.scope import Scope

_FORMAT = "plica checkpoint"
_VERSION = 1
_ENTRIES = frozenset(("format", "version", "identity", "state", "notes"))
_DAMAGED = "is no checkpoint, or is damaged; restore a copy of it, or leave resume out to start anew"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a training run keeps what it needs to go on, and how often within an epoch.

    Args:
        path: The file; its folder is made if missing.
        seconds: A long epoch writes it whenever so many seconds have passed; each epoch writes it at its end.
        notes: Plain values for whoever resumes the run, such as the settings of a script.
        keep: How many of the last ones are kept: the one before is `path.1`, the one before that `path.2`.

    Raises:
        DTypeError, ShapeError: `keep` is no whole number from 1 on.
    """

    path: str | os.PathLike[str]
    seconds: float = 300.0
    notes: Mapping[str, Any] = field(default_factory=dict)
    keep: int = 1

    def __post_init__(self) -> None:
        integer("a checkpoint", "keep", self.keep, least=1)

    def exists(self) -> bool:
        """Whether there is a file."""
        return as_path(self.path).exists()

    def write(self, identity: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Write the state of a run, in place of what is there; the former file stays if this fails.

        Args:
            identity: What the run is, by names as messages say them.
            state: Tensors and plain values.

        Raises:
            FileFormatError: The file cannot be written there.
            WriteError: There is no space left.
            DTypeError: The path is none, or an object is no plain value, so that it could not be read back.
        """
        path = as_path(self.path)
        if not path.parent.is_dir():
            check_can_create(path.parent)
            path.parent.mkdir(parents=True, exist_ok=True)
        contents = {
            "format": _FORMAT,
            "version": _VERSION,
            "identity": dict(identity),
            "state": dict(state),
            "notes": dict(self.notes),
        }
        with replacing(path) as temporary, temporary.open("wb") as file:
            torch.save(_plain(contents), file)
            file.flush()
            os.fsync(file.fileno())
            objects = get_unsafe_globals_in_checkpoint(temporary)
            if objects:
                raise DTypeError(
                    f"{path}: a checkpoint holds tensors and plain values, and here are objects of "
                    f"{', '.join(sorted(objects))}; leave them out of its notes, or of the state of the schedule"
                )
            self._keep_earlier(path)

    def _keep_earlier(self, path: Path) -> None:
        """Give the files that are there the names of earlier ones; the last one has both names until it is replaced."""
        if self.keep == 1 or not path.exists():
            return
        numbered(path, self.keep - 1).unlink(missing_ok=True)
        for number in range(self.keep - 1, 1, -1):
            before = numbered(path, number - 1)
            if before.exists():
                before.replace(numbered(path, number))
        try:
            os.link(path, numbered(path, 1))
        except OSError:  # the file system has no such links
            shutil.copyfile(path, numbered(path, 1))

    def read(self, identity: Mapping[str, Any]) -> dict[str, Any]:
        """The state that was written last.

        Raises:
            FileFormatError: The file is missing or damaged, or is no checkpoint of this version.
            InputError: It belongs to another run.
        """
        contents = _contents(as_path(self.path))
        written = contents["identity"]
        differing = [name for name in dict.fromkeys((*written, *identity)) if written.get(name) != identity.get(name)]
        if differing:
            differences = ", ".join(
                f"its {name} is {written.get(name)}, and here it is {identity.get(name)}" for name in differing
            )
            raise InputError(
                f"{self.path}: belongs to another run: {differences}; pass the same to go on, or leave resume out to "
                "start anew"
            )
        state: dict[str, Any] = contents["state"]
        return state

    def remove_leftovers(self) -> None:
        """Remove temporary files of runs that were killed while they wrote."""
        remove_leftovers(as_path(self.path))


def numbered(path: Path, number: int) -> Path:
    """The file of a checkpoint that so many later ones have replaced.

    >>> numbered(Path("runs/checkpoint"), 2).name
    'checkpoint.2'
    """
    return path.with_name(f"{path.name}.{number}")


def _plain(value: Any) -> Any:
    """A value with numbers of Python in place of those of NumPy, such as a schedule's rate."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is dict:
        return {_plain(key): _plain(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return value


def read_notes(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The notes of a checkpoint.

    Raises:
        FileFormatError: The file is missing or damaged, or is no checkpoint of this version.
    """
    notes: dict[str, Any] = _contents(Path(path))["notes"]
    return notes


def _contents(path: Path) -> dict[str, Any]:
    """The contents of a file, whose checksums hold."""
    check_is_file(path)
    try:
        with zipfile.ZipFile(path) as archive:  # torch reads tensors without a look at their checksums
            damaged = archive.testzip()
        contents = None if damaged else torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of many kinds, as bytes are damaged
        raise FileFormatError(f"{path}: {_DAMAGED}") from error
    if damaged:
        raise FileFormatError(f"{path}: {_DAMAGED}")
    if not isinstance(contents, dict) or contents.get("format") != _FORMAT:
        raise FileFormatError(f"{path}: is no checkpoint of a training run; pass the file that `fit` wrote")
    if contents.get("version") != _VERSION or contents.keys() != _ENTRIES:
        raise FileFormatError(
            f"{path}: is a checkpoint of version {contents.get('version')}, expected {_VERSION}; resume with the Plica "
            "that wrote it, or start anew"
        )
    return contents


def describe_model(model: nn.Module) -> str:
    """The kind of a model and a digest of its structure: layers, parameters, and names and shapes of tensors."""
    lines = [f"{name} {tuple(value.shape)}" for name, value in model.state_dict().items()]
    lines += [f"{name} is fixed" for name, parameter in model.named_parameters() if not parameter.requires_grad]
    circuit = getattr(model, "symbolic", None)
    if isinstance(circuit, Circuit):
        lines += _described_layers(circuit)
        lines.append(str(getattr(getattr(model, "semiring", None), "name", None)))
    return f"{type(model).__name__} of {sum(p.numel() for p in model.parameters()):,} parameters ({_digest(lines)})"


def _described_layers(circuit: Circuit) -> Iterator[str]:
    """A line for each layer, and for each node of its parameters."""
    places = {layer: place for place, layer in enumerate(circuit.layers)}
    tensors: dict[object, int] = {}
    for layer in circuit.layers:
        yield f"{circuit.layer_name(layer)} of {[places[operand] for operand in circuit.layer_inputs(layer)]}"
        for prefix, holder in held_layers(layer):
            yield f"{prefix}{type(holder).__name__} {_described_setting(holder.config)}"
            for name, parameter in holder.params.items():
                nodes = {node: number for number, node in enumerate(parameter.nodes)}
                for node in nodes:
                    target = dereferenced(node)
                    if isinstance(target, TensorParameter):
                        settings = f"{tensors.setdefault(target, len(tensors))} {target.shape}"
                    else:
                        settings = _described_setting(getattr(target, "config", {}))
                    inputs = [nodes[child] for child in parameter.node_inputs(node)]
                    yield f"{prefix}{name} {type(target).__name__} {settings} of {inputs}"


def _described_setting(value: Any) -> str:
    """A text that is equal for equal settings, in another process too; of an array, its digest."""
    if isinstance(value, Mapping):
        return str([f"{key}: {_described_setting(item)}" for key, item in value.items()])
    if isinstance(value, tuple | list):
        return str([_described_setting(item) for item in value])
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return f"{value.dtype.str} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if value is None or isinstance(value, str | int | float | complex | np.generic | Enum | Scope):
        return repr(value)
    return type(value).__qualname__


def describe_rows(rows: Tensor) -> str:
    """The size of rows and a digest of their values."""
    contents = rows.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    return f"{' x '.join(map(str, rows.shape))} ({hashlib.sha256(contents.data).hexdigest()[:16]})"


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def random_state(device: torch.device) -> dict[str, Tensor]:
    """The states of torch's global generators that a model on a device draws from."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def set_random_state(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Put such states back, where the device is of the same kind."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
