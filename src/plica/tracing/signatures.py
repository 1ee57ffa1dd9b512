"""Signatures of the namespace's functions, as `help` shows them, and the errors for calls that do not fit.

>>> from plica.tracing.namespace import sum
>>> signature_of(sum)
<Signature (x, /, *, axis=None, dtype=None, keepdims=False)>
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

import numpy as np

from plica.errors import TraceError
from plica.tracing.locations import user_line


@cache
def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The names, kinds and defaults of the parameters: annotations speak of tracers, users give arrays too."""
    signature = inspect.signature(function)
    parameters = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=signature.empty)


def refuse_misfit(function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse arguments that are too many, too few or called something else than the parameters.

    Raises:
        TraceError: They are.
    """
    signature = signature_of(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TraceError(
            f"{user_line()}: {name} is called {name}{signature}: {error}{_hint(signature, args, kwargs)}."
        ) from None


def unfit(
    function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any], error: Exception
) -> TraceError:
    """The error for a call with a value that the function cannot compute with."""
    given = ", ".join([*map(_shown, args), *(f"{key}={_shown(value)}" for key, value in kwargs.items())])
    return TraceError(
        f"{user_line()}: {name}{signature_of(function)} cannot be called as {name}({given}): {error}. Give arrays or "
        "numbers to compute with, integers for axes and sizes, and True or False for choices."
    )


def _shown(value: Any) -> str:
    """An argument in few characters: of arrays the type and the shape."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} of shape {tuple(value.shape)}"
    return f"{value!r:.40}"


# Names that other libraries have for parameters, and ours.
_ELSEWHERE: Mapping[str, str] = {
    "a": "x",
    "a_max": "max",
    "a_min": "min",
    "ddof": "correction",
    "dim": "axis",
    "dims": "axes",
    "input": "x",
    "keepdim": "keepdims",
    "other": "x2",
    "size": "shape",
    "unbiased": "correction",
}


def _hint(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """One thing to try."""
    parameters = signature.parameters
    for wrong in (name for name in kwargs if name not in parameters):
        meant = [_ELSEWHERE[wrong]] if _ELSEWHERE.get(wrong) in parameters else get_close_matches(wrong, parameters)
        if meant:
            by_place = parameters[meant[0]].kind is inspect.Parameter.POSITIONAL_ONLY
            return f"; give {meant[0]} by its place" if by_place else f"; write {meant[0]}="
    nameless = [parameter.name for parameter in parameters.values() if parameter.kind is parameter.POSITIONAL_ONLY]
    if any(name in nameless for name in kwargs):
        return f"; give {', '.join(nameless)} by place, without a name"
    by_name = [f"{parameter.name}=" for parameter in parameters.values() if parameter.kind is parameter.KEYWORD_ONLY]
    positional = [
        parameter
        for parameter in parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return f"; write {' or '.join(by_name)}" if by_name and len(args) > len(positional) else ""


@cache
def _operands(function: Callable[..., Any]) -> frozenset[str]:
    """The parameters that take arrays; the others are axes, sizes, dtypes and choices."""
    return frozenset(
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if "Array" in str(parameter.annotation)
    )


def with_plain_settings(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with Python numbers in the place of numpy's, where these are no operands: axes, sizes and so on."""
    try:
        bound = signature_of(function).bind(*args, **kwargs)
    except TypeError:  # the call says what is wrong with it
        return tuple(args), dict(kwargs)
    for name, value in bound.arguments.items():
        if name not in _operands(function):
            bound.arguments[name] = _plain(value)
    return bound.args, bound.kwargs


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return (list if isinstance(value, list) else tuple)(map(_plain, value))
    return value.item() if isinstance(value, np.generic) else value
