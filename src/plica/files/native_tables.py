"""The table of a native file: its encoding, and the domains of its variables, as JSON.

A model file has the domains in its layers. A native file has code in their place, so it states them here: cells are
refused by row and column, and rounded, as the model does it.

>>> encoding = Encoding((TableColumn("pet", "categorical", ("cat", "dog")), TableColumn("age", "count")))
>>> stored = table_as_json(encoding.as_json(), (finite(2), COUNTS))
>>> stored["domains"]
[None, 'counts']
>>> table_of_json(stored) == (encoding, (finite(2), COUNTS))
True
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypedDict

from plica.errors import DTypeError, FileFormatError, InputError, NativeFileError
from plica.files.encoding import Encoding, StoredEncoding
from plica.files.kinds import KINDS, TableColumn
from plica.files.schema import check
from plica.symbolic.domains import (
    ANGLES,
    COUNTS,
    INTEGERS,
    NONNEGATIVE_REALS,
    POSITIVE_REALS,
    REALS,
    UNIT_INTERVAL,
    Domain,
    finite,
)


class StoredDomain(TypedDict):
    """A domain that is none of `_NAMED`; a bound is null where there is none."""

    name: str
    refusal: str
    advice: str
    least: float | None
    most: float | None
    whole: bool
    above: bool


class StoredTable(StoredEncoding):
    """An encoding with the domain of each modelled column: null for the states of the column's categories."""

    domains: list[str | StoredDomain | None]


_NAMED: Mapping[str, Domain] = {
    domain.name: domain
    for domain in (REALS, COUNTS, INTEGERS, NONNEGATIVE_REALS, POSITIVE_REALS, UNIT_INTERVAL, ANGLES)
}


def table_as_json(encoding: Mapping[str, Any], domains: Sequence[Domain]) -> dict[str, Any]:
    """The table of a native file.

    Args:
        encoding: As a model file has it.
        domains: Those of the circuit's columns.
    """
    stored: Any = encoding
    closed = [KINDS[column.kind].closed for column in Encoding.of_json(stored).modelled]
    return {**encoding, "domains": [*map(_domain_as_json, domains, closed)]}


def table_of_json(stored: Any) -> tuple[Encoding, tuple[Domain, ...]]:
    """The encoding and the domains of a table.

    Raises:
        NativeFileError: They are damaged.
    """
    try:
        check(stored, StoredTable, "encoding")
        encoding = Encoding.of_json({"columns": stored["columns"], "missing": stored["missing"]})
        names = [column.name for column in encoding.modelled]
        if len(set(names)) < len(names):
            raise InputError("two columns have one name")
        if len(stored["domains"]) != len(names):
            raise InputError(f"{len(names)} columns have {len(stored['domains'])} domains")
        domains = tuple(map(_domain_of_json, stored["domains"], encoding.modelled))
        encoding.check_domains(domains)
    except (FileFormatError, InputError, DTypeError) as error:
        raise NativeFileError(f"the columns of its table are damaged: {error}; export the model again") from error
    return encoding, domains


def _domain_as_json(domain: Domain, closed: bool) -> str | dict[str, Any] | None:
    if closed:
        return None
    record = {field.name: getattr(domain, field.name) for field in fields(Domain)}
    named = _NAMED.get(domain.name)
    if named == domain and (named.refusal, named.advice) == (domain.refusal, domain.advice):
        return domain.name
    bounds = {end: None if math.isinf(record[end]) else record[end] for end in ("least", "most")}
    return record | bounds


def _domain_of_json(stored: Any, column: TableColumn) -> Domain:
    if stored is None:
        return finite(max(1, len(column.categories))) if KINDS[column.kind].closed else REALS
    if not isinstance(stored, str):
        least, most = stored["least"], stored["most"]
        bounds = {"least": -math.inf if least is None else least, "most": math.inf if most is None else most}
        return Domain(**stored | bounds)
    if stored not in _NAMED:
        raise InputError(f"column {column.name!r}: there is no domain {stored!r:.60}")
    return _NAMED[stored]
