"""Rounding to whole numbers on machines without instructions for it, where LLVM would call the C library."""

import re

_NAMES = "(floor|ceil|trunc|rint)"
_DECLARED = re.compile(rf"declare (float|double) @llvm\.{_NAMES}\.(f32|f64)\(\1\)")
_USED = re.compile(rf"@llvm\.{_NAMES}\.(f32|f64)\(")
_WHOLE = {"float": "8388608.0", "double": "4503599627370496.0"}
"""Numbers of this size and above are whole, so that a sum with it is rounded to an even whole number."""
_STEPS = {
    "floor": ("ogt", "%signed", "%x", "-1.0"),
    "ceil": ("olt", "%signed", "%x", "1.0"),
    "trunc": ("ogt", "%even", "%size", "-1.0"),
    "rint": ("false", "%signed", "%x", "0.0"),
}
"""For each function: the comparison of the nearest whole number that holds if that is on the wrong side, and the step
to the right one. For example, `floor` subtracts 1 where the nearest whole number is greater than x."""
_TEXT = """
define internal {type} @plica.{name}.{short}({type} %x) alwaysinline {{
  %size = call {type} @llvm.fabs.{short}({type} %x)
  %high = fadd {type} %size, {whole}
  %near = fsub {type} %high, {whole}
  %small = fcmp olt {type} %size, {whole}
  %even = select i1 %small, {type} %near, {type} %size
  %signed = call {type} @llvm.copysign.{short}({type} %even, {type} %x)
  %beyond = fcmp {compare} {type} {left}, {right}
  %back = fadd {type} {left}, {step}
  %rounded = select i1 %beyond, {type} %back, {type} {left}
  %result = call {type} @llvm.copysign.{short}({type} %rounded, {type} %x)
  ret {type} %result
}}
"""


def with_rounding(text: str) -> str:
    """The text of a module, which defines the rounding functions that it uses instead of calling LLVM's."""
    declarations = []

    def defined(match: re.Match[str]) -> str:
        type_, name, short = match.groups()
        parts = dict(zip(("compare", "left", "right", "step"), _STEPS[name], strict=True))
        declarations.append(f"declare {type_} @llvm.fabs.{short}({type_})")
        declarations.append(f"declare {type_} @llvm.copysign.{short}({type_}, {type_})")
        return _TEXT.format(type=type_, name=name, short=short, whole=_WHOLE[type_], **parts)

    written = _USED.sub(r"@plica.\1.\2(", _DECLARED.sub(defined, text))
    lines = {*text.splitlines()}
    return "\n".join([*(line for line in dict.fromkeys(declarations) if line not in lines), written])
