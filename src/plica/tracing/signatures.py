"""Signatures of the namespace's functions, as `help` shows them, and the errors for calls with wrong arguments.

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
    """The signature of a function without annotations, which name tracers where users may also pass arrays."""
    signature = inspect.signature(function)
    parameters = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=signature.empty)


def refuse_wrong_signature(
    function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Refuse a call with too many or too few arguments, or with a name that no parameter has.

    Args:
        function: The function of the namespace.
        name: What the user called it.
        args: The positional arguments.
        kwargs: The named arguments.

    Raises:
        TraceError: The arguments do not bind to the signature.
    """
    signature = signature_of(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TraceError(
            f"{user_line()}: {name} is called {name}{signature}: {error}{_hint(signature, args, kwargs)}."
        ) from None


def wrong_value_error(
    function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any], error: Exception
) -> TraceError:
    """The error for a call whose arguments fit the signature, but that failed with `error` on a value; to be raised."""
    given = ", ".join([*map(_shown, args), *(f"{key}={_shown(value)}" for key, value in kwargs.items())])
    return TraceError(
        f"{user_line()}: {name}{signature_of(function)} cannot be called as {name}({given}): {error}. Give arrays or "
        "numbers to compute with, integers for axes and sizes, and True or False for choices."
    )


def _shown(value: Any) -> str:
    """An argument in messages: the type and the shape of an array, else at most 40 characters."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} of shape {tuple(value.shape)}"
    return f"{value!r:.40}"


# from the name of a parameter in another library to its name here
_OTHER_NAMES: Mapping[str, str] = {
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
    """What to try, from "; " on; empty where there is no advice."""
    parameters = signature.parameters
    for wrong in (name for name in kwargs if name not in parameters):
        other = _OTHER_NAMES.get(wrong, "")
        intended = [other] if other in parameters else get_close_matches(wrong, parameters)
        if intended:
            is_positional = parameters[intended[0]].kind is inspect.Parameter.POSITIONAL_ONLY
            return f"; give {intended[0]} by position" if is_positional else f"; write {intended[0]}="
    positional_only = [name for name, parameter in parameters.items() if parameter.kind is parameter.POSITIONAL_ONLY]
    if any(name in positional_only for name in kwargs):
        return f"; give {', '.join(positional_only)} by position, without a name"
    by_name = [f"{parameter.name}=" for parameter in parameters.values() if parameter.kind is parameter.KEYWORD_ONLY]
    positional = [
        parameter
        for parameter in parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return f"; write {' or '.join(by_name)}" if by_name and len(args) > len(positional) else ""


@cache
def _array_parameters(function: Callable[..., Any]) -> frozenset[str]:
    """The names of the parameters that take arrays; the others are settings: axes, sizes, dtypes and flags."""
    return frozenset(
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if "Array" in str(parameter.annotation)
    )


def with_plain_settings(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with settings, such as an axis, as Python numbers where they are scalars of numpy.

    Arguments that do not bind to the signature are returned unchanged: the call then raises the error.
    """
    try:
        bound = signature_of(function).bind(*args, **kwargs)
    except TypeError:
        return tuple(args), dict(kwargs)
    for name, value in bound.arguments.items():
        if name not in _array_parameters(function):
            bound.arguments[name] = _plain(value)
    return bound.args, bound.kwargs


def _plain(value: Any) -> Any:
    """A setting with scalars of numpy, also within lists and tuples, as Python numbers."""
    if isinstance(value, list | tuple):
        return (list if isinstance(value, list) else tuple)(map(_plain, value))
    return value.item() if isinstance(value, np.generic) else value
