"""Compiled circuits in files: `plica.save` and `plica.load`.

>>> import pathlib, tempfile
>>> import plica, torch
>>> from plica.symbolic.layers import CategoricalLayer
>>> layer = CategoricalLayer([0], 1, num_categories=3)
>>> circuit = plica.compile(plica.Circuit([layer], {}, [layer]))
>>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.plica"
>>> save(circuit, path)
>>> torch.equal(load(path).state_dict()["0.logits"], circuit.state_dict()["0.logits"])
True
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from plica.arguments import found
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.divided import is_divided, write_together
from plica.backend.torch.state import load_arrays, state_arrays
from plica.errors import DTypeError, UnsupportedError
from plica.files.model import load_model, save_model
from plica.frontend.contexts import PipelineContext, compile, has_context  # noqa: A004 - the word of the field
from plica.ir.dtypes import DType, as_dtype
from plica.symbolic.parameters import LeafRow
from plica.symbolic.semirings import SEMIRINGS


def save(circuit: TorchCircuit, path: str | os.PathLike[str], *, classes: Iterable[type | LeafRow] = ()) -> None:
    """Write a compiled circuit, whole or not at all: its structure, its tensors, its semiring and its dtype.

    The file holds no code, and the command line takes it (`plica score`, `plica export`). A circuit that was loaded
    from a file keeps the file's further entries, such as the columns of tables. Reals of 16 bits are loaded as float32.
    All processes save a circuit that is divided among them (`plica.distributed.shard`); the first one writes the file,
    and no more than one tensor is whole at a time.

    Args:
        circuit: The result of `plica.compile`.
        path: The path of the file, by convention with the suffix `.plica`.
        classes: Custom layers, parameter nodes and initializers that the circuit uses. For a custom leaf that is no
            `ComposedParameter`, pass the LeafRow of its context.

    Raises:
        DTypeError: `circuit` is no compiled circuit, or `path` is no path.
        FileFormatError: Nothing can be written there.
        UnsupportedError: It holds something that a file cannot name, such as a custom semiring.
    """
    if not isinstance(circuit, TorchCircuit):
        raise DTypeError(f"plica.save takes a compiled circuit, {found(circuit)}; compile it first: plica.compile(...)")
    semiring = circuit.semiring.name
    if SEMIRINGS.get(semiring) is not circuit.semiring:
        raise UnsupportedError(
            f"semiring {semiring!r} is a custom one, which no file can name; save the circuit and its tensors with "
            "plica.files.model.save_model, and pass the semiring to plica.compile after loading"
        )
    dtype = "float64" if as_dtype(circuit.dtype) == DType.FLOAT64 else "float32"
    options = {**circuit.saved_with, "semiring": semiring, "dtype": dtype}
    if circuit.leaves.is_sharded and any(map(is_divided, (state := circuit.state_dict()).values())):
        write_together(state, lambda entries: save_model(path, circuit.symbolic, entries, options, classes=classes))
    else:
        save_model(path, circuit.symbolic, state_arrays(circuit), options, classes=classes)


def load(
    path: str | os.PathLike[str],
    ctx: PipelineContext | None = None,
    *,
    classes: Iterable[type | LeafRow] = (),
    modules: Mapping[str, Any] | None = None,
    max_bytes: int | None = None,
    **options: Any,
) -> TorchCircuit:
    """The compiled circuit of a model file, on the CPU and in training mode, as `plica.compile` makes circuits.

    Move it to a device as a module: `plica.load(path).to("cuda")`.

    Args:
        path: The path of a file that `plica.save` or `plica train` wrote.
        ctx: The context that compiles it; by default the active one, else a new one with the file's semiring and dtype.
        classes: Custom classes that the circuit may use, as for `save`.
        modules: The modules that layers hold, by the prefix of the keys of their tensors: see `load_model`
            (`plica.files.model`), which gives the contents of the file.
        max_bytes: The memory that the sizes declared in the file may take: see `load_model`.
        options: Options of the new context, as for `plica.compile`: `fold=False`, or another `semiring` or `dtype`.

    Raises:
        FileFormatError: The file is missing, damaged, of another kind or version, or the modules do not fit.
        UnsupportedError: `options` were given together with a context, which has its own.
        DTypeError: `path` is no path, or an option is unknown.
    """
    file = load_model(path, classes=classes, modules=modules, max_bytes=max_bytes)
    saved: dict[str, Any] = {name: file.options[name] for name in ("semiring", "dtype") if name in file.options}
    circuit = compile(file.circuit, ctx, **(options if has_context(ctx) else {**saved, **options}))
    load_arrays(circuit, file.tensors)
    circuit.saved_with = {name: value for name, value in file.options.items() if name not in saved}
    return circuit
