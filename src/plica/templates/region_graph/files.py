"""Writes and reads a region graph as JSON: its nodes in topological order, each with its kind, and inputs or variables.

{"format": "plica-region-graph", "version": 2, "outputs": [3],
 "nodes": [{"kind": "region", "scope": [0], "inputs": []}, {"kind": "region", "scope": [1], "inputs": []},
           {"kind": "partition", "inputs": [0, 1]}, {"kind": "region", "inputs": [2]}]}

It also reads the form of other libraries, which names regions and lists partitions by the region that each splits:

{"regions": {"0": {"scope": [0]}, "1": {"scope": [1]}, "2": {"scope": [0, 1]}}, "roots": ["2"],
 "graph": [{"output": 2, "inputs": [0, 1]}]}

A node with inputs has the variables of its inputs. So the text of a chain of regions, each of one variable more, grows
with the length of the chain and not with its square. In version 1 every node lists its variables; it is read as well.
"""

import json
import os
from pathlib import Path
from typing import IO, Any, Literal, NotRequired, TypeAlias, TypedDict

from plica.arguments import found
from plica.errors import DTypeError, FileFormatError

File: TypeAlias = str | os.PathLike[str] | IO[Any]  # a path, or an open file of text or bytes

FORMAT = "plica-region-graph"
VERSION = 2
_READ = (1, VERSION)


class NodeRecord(TypedDict):
    """One node; `inputs` are positions of other nodes. A node without `scope` has the variables of its inputs."""

    kind: Literal["region", "partition"]
    scope: NotRequired[list[int]]
    inputs: list[int]


def write(file: File, records: list[NodeRecord], outputs: list[int]) -> None:
    """Write the nodes and the positions of the outputs."""
    document = {"format": FORMAT, "version": VERSION, "nodes": records, "outputs": outputs}
    text = json.dumps(document) + "\n"
    _check(file, "write", "dump")
    if isinstance(file, str | os.PathLike):
        try:
            Path(file).write_text(text, encoding="utf-8")
        except (OSError, ValueError) as error:  # a null byte in the name, for one
            why = error.strerror if isinstance(error, OSError) else error
            raise FileFormatError(f"{file}: the file cannot be written ({why}); check the path") from error
        return
    try:
        file.write(text)
    except TypeError:  # a file of bytes
        file.write(text.encode())


def _check(file: File, method: str, caller: str) -> None:
    if not isinstance(file, str | os.PathLike) and not callable(getattr(file, method, None)):
        raise DTypeError(f"RegionGraph.{caller}: expected a path or an open file, {found(file)}")


def named(file: File) -> str:
    """The name of a file in messages."""
    return str(file if isinstance(file, str | os.PathLike) else getattr(file, "name", "the open file"))


def read(file: File) -> tuple[list[NodeRecord], list[int]]:
    """The nodes and the positions of the outputs.

    Raises:
        FileFormatError: The file is missing, empty, damaged, or not a region graph of this version.
    """
    _check(file, "read", "load")
    path = named(file)
    document = _json(file, path)
    if isinstance(document, dict) and document.keys() >= {"regions", "roots", "graph"}:
        document = _of_named_regions(path, document)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileFormatError(f"{path}: expected a file of format {FORMAT!r}; write one with RegionGraph.dump")
    if document.get("version") not in _READ:
        raise FileFormatError(
            f"{path}: expected version {' or '.join(map(str, _READ))} of {FORMAT}, found {document.get('version')!r}; "
            "load it with the release of plica that wrote it"
        )
    nodes, outputs = document.get("nodes"), document.get("outputs")
    if not isinstance(nodes, list) or not isinstance(outputs, list) or not _positions(outputs, nodes):
        raise FileFormatError(f"{path}: expected lists `nodes` and `outputs`; the file is damaged, write it again")
    for number, record in enumerate(nodes):
        if not _is_node(record, nodes):
            raise FileFormatError(
                f"{path}: node {number} is damaged, found {str(record)[:80]}; "
                "expected its kind, its variables and the positions of its inputs"
            )
    return nodes, list(outputs)


def _of_named_regions(path: str, document: dict[str, Any]) -> dict[str, Any]:
    """A document of another library, as a document of the latest version."""
    try:
        positions = {name: number for number, name in enumerate(document["regions"])}
        nodes = [{"kind": "region", "scope": record["scope"], "inputs": []} for record in document["regions"].values()]
        for record in document["graph"]:
            nodes[positions[str(record["output"])]]["inputs"].append(len(nodes))
            nodes.append({"kind": "partition", "inputs": [positions[str(part)] for part in record["inputs"]]})
        outputs = [positions[str(root)] for root in document["roots"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(
            f"{path}: the regions, roots and graph of the file do not fit together ({type(error).__name__}: {error}); "
            "write it again"
        ) from error
    return {"format": FORMAT, "version": VERSION, "nodes": nodes, "outputs": outputs}


def _json(file: File, path: str) -> Any:
    try:
        read = Path(file).read_bytes() if isinstance(file, str | os.PathLike) else file.read()
        text = read.decode() if isinstance(read, bytes) else read
    except (OSError, ValueError) as error:  # a null byte in the name, for one
        raise FileFormatError(f"{path}: the file cannot be read ({error}); check the path") from error
    if not text.strip():
        raise FileFormatError(f"{path}: the file is empty; write it with RegionGraph.dump")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: numbers of thousands of digits too
        raise FileFormatError(f"{path}: the file is not JSON ({error}); write it with RegionGraph.dump") from error


def _is_node(record: object, nodes: list[object]) -> bool:
    return (
        isinstance(record, dict)
        and record.get("kind") in ("region", "partition")
        and (_integers(record.get("scope")) or ("scope" not in record and bool(record.get("inputs"))))
        and _positions(record.get("inputs"), nodes)
    )


def _positions(values: object, nodes: list[object]) -> bool:
    return isinstance(values, list) and _integers(values) and all(value < len(nodes) for value in values)


def _integers(values: object) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)
