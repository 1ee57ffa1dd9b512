"""The names of `plica.numpy` for editors and type checkers.

They are found by name when a program runs, which editors cannot see. The text is kept in `plica/eager/names.pyi`,
without the dtype `bool`, which would hide Python's own where the names are imported.
"""

import inspect
from collections.abc import Callable, Iterator
from textwrap import indent
from types import ModuleType
from typing import Any

from plica.ir.dtypes import DType
from plica.tracing import namespace
from plica.tracing.signatures import signature_of

_HEAD = """\
# Made by `python -m tests.harness.generated`: the names of plica.numpy for editors.
from typing import Any

from plica.ir.dtypes import DType
"""


def stub() -> str:
    """The names of the namespace as the text of a stub: functions with their signatures, dtypes and constants."""
    return _HEAD + "".join(text for name in dir(namespace) if name != "bool" for text in _declared(name))


def _declared(name: str) -> Iterator[str]:
    value = getattr(namespace, name)
    if isinstance(value, ModuleType):
        yield f"\nclass {name}:\n"
        for function_name in sorted(value.__all__):
            yield indent(f"\n@staticmethod{_function(function_name, getattr(value, function_name))}", "    ")
    elif inspect.isfunction(value):
        yield _function(name, value)
    else:
        yield f"\n{name}: {'DType' if isinstance(value, DType) else 'float' if value is not None else 'None'}\n"


def _function(name: str, function: Callable[..., Any]) -> str:
    signature = signature_of(function)
    typed = signature.replace(
        parameters=[parameter.replace(annotation=Any) for parameter in signature.parameters.values()],
        return_annotation=Any,
    )
    meaning = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\\", r"\\")
    shown = str(typed).replace("typing.", "")
    return f'\ndef {name}{shown}:\n    """{" ".join(meaning.split())}"""\n'
