"""How functions of `plica.numpy` are called: the signatures of the standard, and what is said of other calls."""

import ast
import inspect
import pickle
import pydoc
import re
from collections.abc import Callable
from functools import reduce
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import TraceError
from plica.ir.dtypes import DType
from plica.tracing.namespace.stub import stub
from tests.harness.standard import NAMES, SIGNATURES


def _found(name: str):
    return reduce(getattr, name.split("."), pnp)


def _functions() -> dict[str, Any]:
    """All functions of the namespace and its extensions."""
    names = [*dir(pnp), *(f"{one}.{name}" for one in ("fft", "linalg", "random") for name in vars(_found(one)))]
    return {name: _found(name) for name in names if inspect.isfunction(_found(name))}


EXTRA = {
    # what a function takes beside the standard's parameters
    "logaddexp": {"others"},
    "take": {"nonnegative"},
    "take_along_axis": {"nonnegative"},
}
BY_PLACE_TOO = {"expand_dims": {"axis"}}  # by name alone in the standard


def test_signatures_are_the_standards() -> None:
    for name in SIGNATURES.keys() - {"__array_namespace_info__"}:
        parameters = dict(inspect.signature(_found(name)).parameters)
        for extra in EXTRA.get(name, ()):
            kind = parameters.pop(extra).kind
            assert kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL), name
        for one in BY_PLACE_TOO.get(name, ()):
            parameters[one] = parameters[one].replace(kind=inspect.Parameter.KEYWORD_ONLY)
        assert list(parameters.values()) == list(SIGNATURES[name].parameters.values()), name


def test_signatures_of_the_standard_are_known_for_all_its_functions() -> None:
    values = {"e", "inf", "nan", "newaxis", "pi", *(dtype.value for dtype in DType)}
    assert set(NAMES) - values == set(SIGNATURES)


def test_functions_show_what_they_take() -> None:
    """To `inspect` and `help`, which shows the name and the signature before the text."""
    for name, function in _functions().items():
        signature = inspect.signature(function)
        assert not any(one.annotation is not one.empty for one in signature.parameters.values()), name
        shown = "".join(pydoc.plain(pydoc.render_doc(function)).split())  # Python 3.13 shows long ones on several lines
        assert f"{name.rpartition('.')[2]}{signature}".replace(" ", "") in shown.replace(",)", ")")
        assert inspect.getdoc(function), name
        assert pickle.loads(pickle.dumps(function)) is function


def test_a_wrong_keyword_is_refused_where_it_is() -> None:
    for name, function in _functions().items():
        _check_keyword(name, function)


def _check_keyword(name: str, function: Callable[..., Any]) -> None:
    x = np.ones(2)
    required = [
        one
        for one in inspect.signature(function).parameters.values()
        if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    signature = re.escape(f"{name}{inspect.signature(function)}")
    for run in (lambda call: call(x), lambda call: plica.trace(call, plica.spec(2))):
        with pytest.raises(TraceError, match=rf"test_signatures.py:\d+: {name} is called {signature}: .*'surprise'"):
            run(lambda one: function(*[one] * len(required), surprise=1))


xnp: Any = pnp  # what follows is wrong on purpose
MISFITS = (
    (lambda x: xnp.sum(x, dim=1), r"'dim'; write axis=\.$"),
    (lambda x: xnp.sum(x, 1), "too many positional arguments; write axis= or dtype= or keepdims="),
    (lambda x: xnp.mean(x, keepdim=True), "'keepdim'; write keepdims="),
    (lambda x: xnp.sort(x, decending=True), "'decending'; write descending="),
    (lambda x: xnp.exp(input=x), "; give x by position"),
    (lambda x: xnp.add(x), r"add\(x1, x2, /\): missing a required argument: 'x2'\.$"),
    (lambda x: xnp.add(x1=x, x2=x), "give x1, x2 by position, without a name"),
    (lambda x: xnp.linalg.solve(x), r"linalg\.solve is called linalg\.solve\(x1, x2, /\)"),
    (lambda x: xnp.random.uniform(pnp.random.key(0), x.shape, low=1), r"random\.uniform\(key, shape=\(\), \*, dtype="),
)


@pytest.mark.parametrize(("call", "message"), MISFITS, ids=range(len(MISFITS)))
def test_a_call_that_does_not_fit_says_what_to_write(call, message: str) -> None:
    for at in (lambda: call(np.ones(2)), lambda: call(torch.ones(2)), lambda: plica.trace(call, plica.spec(2))):
        with pytest.raises(TraceError, match=message) as caught:
            at()
        assert str(caught.value).startswith(__file__)


def test_methods_of_a_tracer_say_what_to_write() -> None:
    with pytest.raises(TraceError, match=r"sum is called sum\(x, /, \*, axis=None, .*'dim'; write axis=\.$"):
        plica.trace(lambda x: x.sum(dim=1), plica.spec(2))


# What editors and type checkers see


def test_the_names_for_editors_have_the_same_signatures() -> None:
    text = stub()
    lines: list[Any] = [line for line in ast.parse(text).body if not isinstance(line, ast.ImportFrom)]
    names = {line.target.id if isinstance(line, ast.AnnAssign) else line.name for line in lines}
    assert set(dir(pnp)) - names == {"bool"}
    assert names <= set(dir(pnp))
    declared: dict[str, Any] = {}
    exec(text, declared)
    for name, function in _functions().items():
        found = reduce(lambda one, part: vars(one)[part], name.split("."), SimpleNamespace(**declared))
        assert _shape(found) == _shape(function), name


def _shape(function: Any) -> list[tuple[str, Any, Any]]:
    """The names, kinds and defaults of parameters."""
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]
