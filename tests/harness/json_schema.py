"""Checks values against the part of JSON Schema that Plica's own schemas use."""

from collections.abc import Mapping
from typing import Any

_TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "number": (int, float),
    "integer": int,
    "null": type(None),
}
_IGNORED = {"$schema", "$defs", "title", "description"}


def problems(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any] | None = None, at: str = "$") -> list[str]:
    """The problems of a value, each with its place; none where it fits.

    Raises:
        NotImplementedError: The schema has a keyword that is not checked.
    """
    root = schema if root is None else root
    found: list[str] = []
    for keyword, wanted in schema.items():
        if keyword in _IGNORED or keyword in ("properties", "additionalProperties"):
            continue
        if keyword == "$ref":
            found += problems(value, root["$defs"][wanted.removeprefix("#/$defs/")], root, at)
        elif keyword == "anyOf":
            several: list[list[str]] = [problems(value, option, root, at) for option in wanted]
            found += sorted(several, key=len)[0] if all(several) else []
        elif keyword == "const":
            found += [] if value == wanted else [f"{at}: expected {wanted!r}, found {value!r}"]
        elif keyword == "type":
            is_right = isinstance(value, _TYPES[wanted]) and (wanted == "boolean" or not isinstance(value, bool))
            found += [] if is_right else [f"{at}: expected {wanted}, found {type(value).__name__}"]
        elif keyword == "items":
            found += [line for i, item in enumerate(value) for line in problems(item, wanted, root, f"{at}[{i}]")]
        elif keyword == "required":
            found += [f"{at}: lacks {name!r}" for name in wanted if name not in value]
        else:
            raise NotImplementedError(f"{at}: the keyword {keyword!r} of a schema is not checked")
    if schema.get("type") == "object" and isinstance(value, dict):
        named, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        for name, part in value.items():
            if name in named or others is not False:
                found += problems(part, named.get(name, others), root, f"{at}.{name}")
            else:
                found.append(f"{at}: does not know {name!r}")
    return found
