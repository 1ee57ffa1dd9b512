"""The data of a page: a record with a version, which `schema.json` describes.

>>> import json
>>> from plica.symbolic.circuit import Circuit
>>> from plica.symbolic.layers import CategoricalLayer
>>> leaf = CategoricalLayer([0], 4, num_categories=2)
>>> record = explore_record(Circuit([leaf], {}, [leaf]))
>>> record["format"], record["version"], record["subject"], len(json.dumps(record)) < 1000
('plica-explorer', 1, 'circuit', True)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plica.arguments import found, is_count, listed
from plica.errors import DTypeError, InputError
from plica.explore.circuits import circuit_record, compiled_record, tensors_of
from plica.explore.programs import program_record
from plica.explore.rows import Texts, row_records
from plica.ir.program import Program
from plica.lower.data import column_domains, input_width
from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import outside

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit

FORMAT, VERSION = "plica-explorer", 1


def schema() -> dict[str, Any]:
    """The JSON Schema of records."""
    text = files("plica.explore").joinpath("schema.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def explore_record(
    subject: Any,
    *,
    title: str | None = None,
    names: Sequence[str] | None = None,
    image_shape: Sequence[int] | None = None,
    rows: Any = None,
    texts: Texts | None = None,
    seconds: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """The data of the page for a circuit or a function.

    Args:
        subject: A `Circuit`, a compiled circuit, a `Program`, or what has one: a function of `plica.jit` or
            `plica.trace`, or the result of `plica.fold_constants`.
        title: The heading.
        names: The names of the variables, by column of the data.
        image_shape: (channels, height, width) if variable v is entry v of an image.
        rows: `(B, D)` rows of data to show in a compiled circuit; NaN where a value is missing.
        texts: Gives rows `(B, D)` of numbers, none of which is missing, as a table has them: a text for each entry.
        seconds: The time of each part of a compiled circuit, as `profile` gives it.

    Raises:
        DTypeError: `subject` is nothing that a page shows; rows are no numbers.
        InputError: Rows for something else than a compiled circuit; a row does not fit; names or an image of another
            number of variables.
    """
    record = {
        "format": FORMAT,
        "version": VERSION,
        "title": str(title or _title(subject)),
        **_content(subject, seconds),
    }
    if record["subject"] == "circuit":
        record["variables"] |= _variables(record["variables"]["count"], names, image_shape)
    if rows is not None:
        record |= _rows(subject, rows, texts)
    return record


def _content(subject: Any, seconds: Mapping[str, float] | None) -> dict[str, Any]:
    if isinstance(subject, Circuit):
        return circuit_record(subject)
    if _is_compiled(subject):
        return compiled_record(subject, seconds)
    report = getattr(subject, "report", None)
    kept = {} if report is None else {value.name: f"{value.fate.value}: {value.why}" for value in report().values}
    program = subject if isinstance(subject, Program) else getattr(subject, "program", None)
    if not isinstance(program, Program):
        raise DTypeError(
            "explore: expected a circuit, a compiled circuit, a Program, or a function that was compiled, "
            f"{found(subject)}; compile it first: plica.compile(circuit) or plica.trace(function, ...)"
        )
    return program_record(program, kept)


def _is_compiled(subject: Any) -> bool:
    return not isinstance(subject, type) and hasattr(subject, "layer_map") and hasattr(subject, "state_dict")


def _title(subject: Any) -> str:
    if isinstance(subject, Circuit):
        return "Circuit"
    return "Compiled circuit" if _is_compiled(subject) else "Program"


def _variables(count: int, names: Sequence[str] | None, image_shape: Sequence[int] | None) -> dict[str, Any]:
    known: dict[str, Any] = {}
    if names is not None:
        known_names = () if isinstance(names, str) else listed(names)
        if not known_names and count:
            raise DTypeError(f"explore: names must be a list of names, {found(names)}")
        if len(known_names) < count:
            raise InputError(f"explore: expected a name for each of {count} variables, found {len(known_names)} names")
        known["names"] = list(map(str, known_names[:count]))
    if image_shape is not None:
        sizes = tuple(map(int, listed(image_shape))) if all(map(is_count, listed(image_shape))) else ()
        if len(sizes) != 3:
            raise InputError(
                f"explore: expected image_shape (channels, height, width), found {image_shape!r}; such as (1, 28, 28)"
            )
        channels, height, width = sizes
        if channels * height * width != count:
            raise InputError(
                f"explore: image_shape {sizes} has {channels * height * width} entries, but the circuit "
                f"has {count} variables; leave image_shape out if rows are no images"
            )
        known["image"] = [channels, height, width]
    return known


def _rows(subject: TorchCircuit, rows: Any, texts: Texts | None) -> dict[str, Any]:
    if not _is_compiled(subject):
        raise InputError("explore: rows are shown in compiled circuits alone; pass plica.compile(circuit)")
    try:
        x = np.asarray(rows.detach().cpu() if hasattr(rows, "detach") else rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"explore: rows must be an array of numbers, {found(rows)} ({error}); plica explore reads tables"
        ) from error
    width = input_width(subject.symbolic)
    if x.ndim != 2 or x.shape[1] != width:
        raise InputError(f"explore: expected rows of shape (B, {width}), found {x.shape}")
    _check_rows(subject.symbolic, x)
    records, why = row_records(subject, tensors_of(subject), x, texts)
    return {"rows": records, **({"rows_note": why} if why else {})}


def _check_rows(circuit: Circuit, x: NDArray[np.float64]) -> None:
    """Refuse rows with a value that its variable does not take."""
    domains = column_domains(circuit)
    wrong = outside(np, x.T, domains)
    for column, row in [] if wrong is None else np.argwhere(wrong)[:1].tolist():
        raise InputError(
            f"explore: row {row}, column {column}: {x[row, column]} is {domains[column].refusal}; "
            f"{domains[column].advice}, or NaN where the value is missing"
        )
